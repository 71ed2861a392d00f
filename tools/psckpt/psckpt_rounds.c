/* SPDX-License-Identifier: Apache-2.0 */
/* rounds: who counted in the rounds that the journal still has. A model that went wrong while a
 * worker was away is explained by this list, long after the servers' logs are gone. Only the
 * journal is read, from its first record on: rounds that a checkpoint has taken the place of, and
 * whose segments were swept, are not there any more. */
#include "tools/psckpt/psckpt_commands.h"

#include "base/buffer.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_round.h"
#include "checkpoint/journal_segments.h"
#include "tools/json_document.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>

/* Every other worker of the largest round, each with a blank in front. */
enum { RANKS_BYTES_MAX = PS_ROUND_WORKERS_MAX * 5 };

/* The workers of one round, as ranks in words. */
struct told {
    struct ps_buffer counted, slower, evicted;
};

/* The state of printing while folders are gone through. The document is made in the order of the
 * table, and printed only when every folder was read. */
struct listing {
    const struct psckpt *tool;
    struct json_document document;
    size_t rows;
};

static enum ps_status list_folder(struct listing *listing, const char *folder,
                                  struct ps_error *error);
static enum ps_status list_records(struct listing *listing, const char *folder,
                                   struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status list_round(struct listing *listing, const char *folder,
                                 const struct ps_record *record, struct ps_error *error);

/* The heading comes with the first row: of a journal without rounds that is said instead. */
enum ps_status psckpt_rounds(const struct psckpt *tool, struct ps_error *error)
{
    struct listing listing = {.tool = tool};
    struct shard_folders folders = {0};
    json_document_init(&listing.document);
    ps_json_begin_array(&listing.document.json, NULL);
    enum ps_status status = shard_folders_init(&folders, &tool->box, tool->arguments[0], error);
    for (size_t i = 0; i < folders.count && status == PS_OK; i++)
        status = list_folder(&listing, folders.rows[i].path, error);
    /* Rows of the table went out as they were found, which whoever looks at a large journal is glad
     * of. A damaged journal ends the list, and what was found before it stands in the table. */
    ps_json_end_array(&listing.document.json);
    if (tool->json && status == PS_OK)
        json_document_print(&listing.document);
    else if (!tool->json && status == PS_OK && listing.rows == 0)
        (void)puts("no round ended in what the journal has");
    json_document_fini(&listing.document);
    shard_folders_fini(&folders);
    return status;
}

/* The lowest first position of all epochs: the reader follows the epochs that are current from
 * there on. A folder without a journal has no rounds to tell of. */
static enum ps_status list_folder(struct listing *listing, const char *folder,
                                  struct ps_error *error)
{
    const struct toolbox *box = &listing->tool->box;
    struct ps_journal_segments segments;
    struct ps_journal_reader *reader = NULL;
    PS_TRY(ps_journal_segments_init(&segments, box->files, folder, UINT64_MAX, box->memory, error));
    /* Not the first row, which is of the lowest epoch: after a repair a higher epoch may begin at a
     * lower position than what is left of the former one. */
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < segments.count; i++)
        first = segments.entries[i].first < first ? segments.entries[i].first : first;
    ps_journal_segments_fini(&segments);
    if (first == UINT64_MAX)
        return PS_OK;
    /* The reader is told what it goes on from, which is the position before its first record; of a
     * shard's first journal there is none. */
    PS_TRY(ps_journal_reader_open(box->files, folder, first > 0 ? first - 1 : 0, UINT64_MAX,
                                  box->memory, &reader, error));
    enum ps_status status = list_records(listing, folder, reader, error);
    ps_journal_reader_close(reader);
    return status;
}

/* All records are read and verified, though few are of rounds: damage between two rounds may hide a
 * third, and a list with a hole would be believed. */
static enum ps_status list_records(struct listing *listing, const char *folder,
                                   struct ps_journal_reader *reader, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    while (status == PS_OK) {
        /* Gradients pass through here as well: one at a time is held, and given back at once. */
        struct ps_journal_row row = {0};
        uint64_t cut;
        status = ps_journal_next(reader, &row, &cut, NULL, error);
        if (status == PS_OK && row.record.type == PS_RECORD_ROUND)
            status = list_round(listing, folder, &row.record, error);
        ps_journal_row_release(&row);
    }
    /* The end, clean or torn, is what a reader comes to when nothing is wrong. */
    return status == PS_ERR_NOT_FOUND ? PS_OK : status;
}

/* Which of a set, in words: runs of ranks are put together, since in most rounds nearly all of many
 * workers are in the same set. With a second set: who is in neither. */
static void name_ranks(struct ps_buffer *text, uint32_t workers, const uint8_t *one,
                       const uint8_t *other)
{
    for (uint32_t rank = 0; rank < workers; rank++) {
        uint32_t begin = rank;
        while (rank < workers &&
               (other == NULL ? ps_round_set_has(one, rank)
                              : !ps_round_set_has(one, rank) && !ps_round_set_has(other, rank)))
            rank++;
        /* The run ends before `rank`, which the next turn need not look at again. */
        if (rank == begin)
            continue;
        ps_buffer_append_format(text, "%s%" PRIu32, text->size > 0 ? " " : "", begin);
        if (rank - begin > 1)
            ps_buffer_append_format(text, "-%" PRIu32, rank - 1);
    }
}

/* A set without anybody has a mark of its own, so that each row has as many columns. */
static const char *column_of(const struct ps_buffer *text)
{
    return text->size > 0 ? text->text : "-";
}

/* The name comes last, as in the other tables: it has any length. */
static void round_row(struct listing *listing, const struct ps_record *record,
                      const struct told *told)
{
    if (listing->rows++ == 0)
        (void)printf("%12s %12s %-24s %-16s %-16s %s\n", "ROUND", "POSITION", "COUNTED", "SLOWER",
                     "EVICTED", "PARAMETER");
    (void)printf("%12" PRIu64 " %12" PRIu64 " %-24s %-16s %-16s ", record->version,
                 record->position, column_of(&told->counted), column_of(&told->slower),
                 column_of(&told->evicted));
    (void)psckpt_print_text(record->name);
    (void)puts("");
}

/* Nothing was appended to the text of an empty set, which has no end then: its size counts. */
static struct ps_bytes bytes_of(const struct ps_buffer *text)
{
    return (struct ps_bytes){(const uint8_t *)text->text, text->size};
}

/* In the document nobody is the empty text, and a shard is told by its folder. */
static void round_json(struct listing *listing, const char *folder, const struct ps_record *record,
                       uint32_t workers, const struct told *told)
{
    struct ps_json_writer *json = &listing->document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "folder", folder);
    ps_json_text(json, "parameter", record->name);
    ps_json_uint(json, "round", record->version);
    ps_json_uint(json, "position", record->position);
    ps_json_uint(json, "workers", workers);
    ps_json_text(json, "counted", bytes_of(&told->counted));
    ps_json_text(json, "slower", bytes_of(&told->slower));
    ps_json_text(json, "evicted", bytes_of(&told->evicted));
    ps_json_end_object(json);
}

/* Whoever is in neither set was only slower than the quorum. The record's own sums were checked by
 * the reader; a content that cannot be is damage all the same. */
static enum ps_status list_round(struct listing *listing, const char *folder,
                                 const struct ps_record *record, struct ps_error *error)
{
    struct ps_round_record round;
    struct told told;
    char room[3][RANKS_BYTES_MAX];
    const struct ps_bytes content =
        record->content.piece_count == 1 ? record->content.pieces[0] : (struct ps_bytes){0};
    PS_TRY(ps_round_record_read(content, &round, error));
    ps_buffer_init_fixed(&told.counted, room[0], sizeof room[0]);
    ps_buffer_init_fixed(&told.slower, room[1], sizeof room[1]);
    ps_buffer_init_fixed(&told.evicted, room[2], sizeof room[2]);
    name_ranks(&told.counted, round.workers, round.counted, NULL);
    name_ranks(&told.slower, round.workers, round.counted, round.evicted);
    name_ranks(&told.evicted, round.workers, round.evicted, NULL);
    if (listing->tool->json)
        round_json(listing, folder, record, round.workers, &told);
    else
        round_row(listing, record, &told);
    return PS_OK;
}
