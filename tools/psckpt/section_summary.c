/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one name stand together, the one that says who is evicted or what is set first: a row
 * is begun when another name comes. Every content goes through its codec, since a file may come
 * from anywhere; what a codec refuses ends the summary, because a half of it would be taken
 * for all. */
#include "tools/psckpt/section_summary.h"

#include "base/assert.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_candidates.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum ps_status add_round(struct section_summary *summary, const struct ps_record *record,
                                struct ps_error *error);
static void add_rank(struct round_row *row, uint32_t rank);
/* Settings first, then the workers: a clock that comes before its settings belongs to none. The
 * minimum begins as high as there is, so that the first worker sets it. */
static enum ps_status add_clock(struct section_summary *summary, const struct ps_record *record,
                                struct ps_error *error);
static enum ps_status add_candidates(struct section_summary *summary,
                                     const struct ps_record *record, struct ps_error *error);
static void count_clock(struct clocks_row *row, const struct ps_clock_record *clock);
static void end_clocks(struct clocks_row *row);

/* One pass over each section. Where one is not in order, a name would show in two rows; no server
 * writes such a section, and nothing worse follows from it here. */
enum ps_status section_summary_make(struct section_summary *summary, struct shard_state *state,
                                    struct ps_error *error)
{
    const struct ps_checkpoint_records *rounds = &state->facts.sections[PS_CHECKPOINT_ROUNDS];
    const struct ps_checkpoint_records *clocks = &state->facts.sections[PS_CHECKPOINT_CLOCKS];
    const struct ps_checkpoint_records *counted = &state->facts.sections[PS_CHECKPOINT_CANDIDATES];
    struct ps_record record = {0};
    *summary = (struct section_summary){0};
    /* No more rows than records. */
    summary->rounds = shard_state_room(state, rounds->count, sizeof *summary->rounds, error);
    summary->clocks = shard_state_room(state, clocks->count, sizeof *summary->clocks, error);
    summary->candidates =
        shard_state_room(state, counted->count, sizeof *summary->candidates, error);
    if (summary->rounds == NULL || summary->clocks == NULL || summary->candidates == NULL)
        return PS_ERR_NO_MEMORY;
    for (size_t i = 0; i < rounds->count; i++) {
        rounds->give(rounds->self, i, &record);
        PS_TRY(add_round(summary, &record, error));
    }
    for (size_t i = 0; i < clocks->count; i++) {
        clocks->give(clocks->self, i, &record);
        PS_TRY(add_clock(summary, &record, error));
    }
    for (size_t i = 0; i < summary->clocks_count; i++)
        end_clocks(&summary->clocks[i]);
    /* Last, as in the file. A file of before there were any has none of them, and no row shows. */
    for (size_t i = 0; i < counted->count; i++) {
        counted->give(counted->self, i, &record);
        PS_TRY(add_candidates(summary, &record, error));
    }
    return PS_OK;
}

/* Contributions of a parameter stand behind the record that says who is evicted, where there is
 * one. The round that is open makes the version behind that of the record. */
static enum ps_status add_round(struct section_summary *summary, const struct ps_record *record,
                                struct ps_error *error)
{
    struct ps_bytes content = {0};
    struct ps_round_record round;
    struct ps_held_head held;
    struct ps_bytes gradient;
    /* A record without content is refused by its codec, as one that is cut. */
    if (record->content.piece_count == 1)
        content = record->content.pieces[0];
    size_t at = summary->round_count;
    if (at == 0 || !ps_bytes_equal(summary->rounds[at - 1].name, record->name)) {
        summary->rounds[at] =
            (struct round_row){.name = record->name, .round = record->version + 1};
        at = ++summary->round_count;
    }
    struct round_row *row = &summary->rounds[at - 1];
    /* Who is counted says nothing here: of an open round nobody is yet. */
    if (record->type == PS_RECORD_ROUND) {
        PS_TRY(ps_round_record_read(content, &round, error));
        row->evicted = ps_round_set_count(round.evicted, round.workers);
        return PS_OK;
    }
    PS_TRY(ps_held_head_read(content, &held, &gradient, error));
    /* The gradient is counted and not decoded: its type and encoding stand in the record's head. */
    row->held++;
    row->held_bytes += gradient.size;
    add_rank(row, held.worker);
    return PS_OK;
}

/* Cut where there is no room for one more and what says that there are more. */
static void add_rank(struct round_row *row, uint32_t rank)
{
    size_t size = strlen(row->ranks);
    char text[16];
    int length = snprintf(text, sizeof text, "%s%" PRIu32, size > 0 ? " " : "", rank);
    PS_ASSERT(length > 0 && (size_t)length < sizeof text);
    /* The dots are there once: all later ranks are behind them. */
    bool is_cut = size >= 4 && strcmp(row->ranks + size - 4, " ...") == 0;
    if (is_cut)
        return;
    if (size + (size_t)length + sizeof " ..." > sizeof row->ranks)
        memcpy(text, " ...", sizeof " ...");
    memcpy(row->ranks + size, text, strlen(text) + 1);
}

static enum ps_status add_clock(struct section_summary *summary, const struct ps_record *record,
                                struct ps_error *error)
{
    struct ps_bytes content = {0};
    struct ps_clock_record clock;
    if (record->content.piece_count == 1)
        content = record->content.pieces[0];
    /* Counted up only with its settings in place, so that each row has some. */
    size_t at = summary->clocks_count;
    if (record->type == PS_RECORD_CLOCKS) {
        struct clocks_row *row = &summary->clocks[at];
        *row = (struct clocks_row){.name = record->name, .minimum = UINT64_MAX};
        summary->clocks_count++;
        return ps_clocks_record_read_kept(content, &row->settings, error);
    }
    PS_TRY(ps_clock_record_read(content, &clock, error));
    if (at == 0 || !ps_bytes_equal(summary->clocks[at - 1].name, record->name))
        return ps_fail(error, PS_ERR_CORRUPT, "a clock of clocks that nobody has set");
    count_clock(&summary->clocks[at - 1], &clock);
    return PS_OK;
}

/* A table has as many records as it needs, which stand together. */
static enum ps_status add_candidates(struct section_summary *summary,
                                     const struct ps_record *record, struct ps_error *error)
{
    struct ps_bytes content = {0};
    size_t count;
    if (record->content.piece_count == 1)
        content = record->content.pieces[0];
    PS_TRY(ps_candidates_record_read(content, &count, error));
    /* Counted and not looked at: whether a count is one that a table lets be is asked by whoever
     * loads it, with the table's settings at hand. */
    size_t at = summary->candidates_count;
    if (at == 0 || !ps_bytes_equal(summary->candidates[at - 1].name, record->name)) {
        summary->candidates[at] = (struct candidates_row){.name = record->name};
        at = ++summary->candidates_count;
    }
    summary->candidates[at - 1].keys += count;
    return PS_OK;
}

/* Who takes no part in the task has no record, and holds nobody up. */
static void pass_absent(struct clocks_row *row)
{
    while (row->untold < row->settings.workers &&
           !ps_clocks_record_has(&row->settings, row->untold))
        row->untold++;
}

/* Who is evicted holds nobody up. */
static void count_clock(struct clocks_row *row, const struct ps_clock_record *clock)
{
    /* In the order of the ranks, as servers write them. */
    pass_absent(row);
    row->untold += clock->worker == row->untold;
    row->evicted += clock->evicted;
    if (clock->evicted || clock->clock >= row->minimum)
        return;
    row->minimum = clock->clock;
    row->slowest = clock->worker;
}

/* A worker that has not counted up yet has no record: it is where the task began, and waited
 * for. */
static void end_clocks(struct clocks_row *row)
{
    pass_absent(row);
    if (row->untold >= row->settings.workers || row->minimum <= row->settings.clock)
        return;
    row->minimum = row->settings.clock;
    row->slowest = row->untold;
}

/* In the words of `psctl`, small as all its words are. The codec has held the number to its
 * bound. */
const char *section_consistency_name(uint32_t consistency)
{
    static const char *names[] = {"asp", "ssp", "bsp", "sparse-ssp"};
    PS_ASSERT(consistency <= PS_CLOCKS_CONSISTENCY_MAX);
    return names[consistency];
}
