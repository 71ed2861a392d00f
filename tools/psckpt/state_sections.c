/* SPDX-License-Identifier: Apache-2.0 */
/* Records are kept as the file has them, so that what is read and written again is the same bytes.
 * Only resharding looks into clocks, and nothing here into gradients.
 *
 * A contribution that was acknowledged is a promise: its worker will not send it again, and waits
 * for the round. So a command keeps it, refuses, or says that it is lost. */
#include "tools/psckpt/state_sections.h"

#include "base/assert.h"
#include "checkpoint/journal_clocks.h"
#include "checkpoint/journal_round.h"
#include "tools/psckpt/candidate_shards.h"

#include <inttypes.h>
#include <stdlib.h>

/* One record, and the piece that its content is. */
struct entry {
    struct ps_record record;
    struct ps_bytes content; /* in a room of the state, which is written to only here */
};

/* A section of a state: what `give` is asked for. */
struct rows {
    struct entry *entries;
    size_t room;
};

static enum ps_status count_records(const struct shard_state *state,
                                    struct ps_checkpoint_reader *reader,
                                    enum ps_checkpoint_section section,
                                    struct section_choice *choice, size_t *count,
                                    struct ps_error *error);
static enum ps_status read_records(struct shard_state *state, struct ps_checkpoint_reader *reader,
                                   enum ps_checkpoint_section section,
                                   const struct section_choice *choice, size_t room,
                                   struct ps_error *error);
static enum ps_status grow(struct shard_state *state, enum ps_checkpoint_section section,
                           size_t count, struct ps_error *error);
static void give(void *self, size_t i, struct ps_record *record);
/* One after the other: few parameters have an open round, and this is asked once. */
static size_t file_of(const struct shard_state *state, const struct section_choice *choice,
                      struct ps_bytes name);
static bool is_chosen(const struct shard_state *state, const struct section_choice *choice,
                      enum ps_checkpoint_section section, const struct ps_record *record);
static void count_left_out(const struct shard_state *state, struct section_choice *choice,
                           const struct ps_record *record);
static enum ps_status check_rounds(const struct shard_state *state, size_t *evicted,
                                   struct ps_error *error);
/* Every shard gets copies of its own: a state may be written and released before another. There are
 * some thousands of clocks at most, of sixteen bytes each. */
static enum ps_status gather_clocks(const struct shard_state *states, size_t state_count,
                                    struct shard_state *to, struct ps_error *error);
static enum ps_status add_clock(struct shard_state *to, const struct ps_record *record,
                                struct ps_error *error);
static void join_clocks(struct shard_state *to);
static void join(struct entry *kept, const struct entry *more);
static int compare_entries(const void *a, const void *b);

enum ps_status state_sections_read(struct shard_state *state, struct ps_checkpoint_reader *reader,
                                   struct ps_error *error)
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        PS_TRY(state_sections_read_chosen(state, reader, i, NULL, error));
    return PS_OK;
}

/* Twice over the section, which is small beside the state: the first time to know how many there
 * are, and that all are whole, so that damage changes nothing of the state. */
enum ps_status state_sections_read_chosen(struct shard_state *state,
                                          struct ps_checkpoint_reader *reader,
                                          enum ps_checkpoint_section section,
                                          struct section_choice *choice, struct ps_error *error)
{
    size_t count = 0;
    size_t before = state->facts.sections[section].count;
    /* A file without the section has a walk that ends at once, and then there is nothing to do but
     * to make the rows. */
    PS_TRY(count_records(state, reader, section, choice, &count, error));
    /* What an earlier file gave stays in front: of one parameter all records come of one file, and
     * their order among each other is what counts (evictions before contributions). */
    PS_TRY(choice == NULL ? state_sections_begin(state, section, count, error)
                          : grow(state, section, count, error));
    enum ps_status status = count == 0 ? PS_OK
                                       : read_records(state, reader, section, choice,
                                                      (choice == NULL ? 0 : before) + count, error);
    /* Whoever lets damage pass goes on with the state. */
    if (status != PS_OK)
        state->facts.sections[section].count = choice == NULL ? 0 : before;
    return status;
}

/* Nothing but walking says how many records there are: they have different sizes. The walk verifies
 * each. */
static enum ps_status count_records(const struct shard_state *state,
                                    struct ps_checkpoint_reader *reader,
                                    enum ps_checkpoint_section section,
                                    struct section_choice *choice, size_t *count,
                                    struct ps_error *error)
{
    struct ps_checkpoint_walk walk = {0};
    for (bool more = true; more;) {
        struct ps_journal_row row = {0};
        PS_TRY(ps_checkpoint_next_record(reader, section, &walk, &row, &more, error));
        if (more && is_chosen(state, choice, section, &row.record))
            ++*count;
        else if (more)
            count_left_out(state, choice, &row.record);
        ps_journal_row_release(&row);
    }
    return PS_OK;
}

/* The reader's rows go at once: they are in the memory of the reader's allocator, piece by piece.
 * What is chosen depends on the record alone, so that both walks choose the same. */
static enum ps_status read_records(struct shard_state *state, struct ps_checkpoint_reader *reader,
                                   enum ps_checkpoint_section section,
                                   const struct section_choice *choice, size_t room,
                                   struct ps_error *error)
{
    struct ps_checkpoint_walk walk = {0};
    for (bool more = true; more;) {
        struct ps_journal_row row = {0};
        PS_TRY(ps_checkpoint_next_record(reader, section, &walk, &row, &more, error));
        enum ps_status status = PS_OK;
        bool wanted = more && is_chosen(state, choice, section, &row.record);
        /* The file may have changed since it was counted. */
        if (wanted && state->facts.sections[section].count == room)
            status = ps_fail(error, PS_ERR_CORRUPT, "the checkpoint changes while it is read");
        else if (wanted)
            status = state_sections_put(state, section, &row.record, error);
        ps_journal_row_release(&row);
        if (status != PS_OK)
            return status;
    }
    return PS_OK;
}

/* Room for so many more: the entries move, and what they point to stays where it is. The room that
 * they leave goes with the state, as all rooms do; there are as many as files at most. */
static enum ps_status grow(struct shard_state *state, enum ps_checkpoint_section section,
                           size_t count, struct ps_error *error)
{
    const struct ps_checkpoint_records before = state->facts.sections[section];
    const struct rows *from = before.self;
    PS_TRY(state_sections_begin(state, section, before.count + count, error));
    struct ps_checkpoint_records *to = &state->facts.sections[section];
    struct rows *rows = to->self;
    for (size_t i = 0; i < before.count; i++)
        rows->entries[i] = from->entries[i];
    to->count = before.count;
    return PS_OK;
}

/* Empty, with space for so many. A room of no bytes is a room as well, so that a file without the
 * section and one with it take the same way. */
enum ps_status state_sections_begin(struct shard_state *state, enum ps_checkpoint_section section,
                                    size_t count, struct ps_error *error)
{
    struct rows *rows = shard_state_room(state, 1, sizeof *rows, error);
    if (rows == NULL)
        return PS_ERR_NO_MEMORY;
    rows->room = count;
    rows->entries = shard_state_room(state, count, sizeof *rows->entries, error);
    if (rows->entries == NULL)
        return PS_ERR_NO_MEMORY;
    state->facts.sections[section] = (struct ps_checkpoint_records){.give = give, .self = rows};
    return PS_OK;
}

/* Copied: a journal's row goes when it was read, and another state may go before this one. */
enum ps_status state_sections_put(struct shard_state *state, enum ps_checkpoint_section section,
                                  const struct ps_record *record, struct ps_error *error)
{
    /* The place behind the last one; whoever made the rows has counted that there is one. */
    struct ps_checkpoint_records *to = &state->facts.sections[section];
    struct rows *rows = to->self;
    PS_ASSERT(to->count < rows->room);
    struct entry *entry = &rows->entries[to->count];
    size_t size = record->content.size;
    struct ps_bytes name = shard_state_copy(state, record->name, error);
    uint8_t *content = shard_state_room(state, size, 1, error);
    if (name.data == NULL || content == NULL)
        return PS_ERR_NO_MEMORY;
    ps_view_copy(record->content, 0, content, size);
    *entry = (struct entry){*record, {content, size}};
    entry->record.name = name;
    to->count++;
    return PS_OK;
}

/* The view is made here, of the row's own piece: rows move when others are left out. */
static void give(void *self, size_t i, struct ps_record *record)
{
    /* Asked by the writer, twice for each; nothing is made for it. */
    const struct rows *rows = self;
    *record = rows->entries[i].record;
    record->content = ps_view_of(&rows->entries[i].content);
}

/* A record fits its parameter in the file that both are in; the version is looked at all the same,
 * since whoever loads the state would refuse one of another. A contribution is to the round that
 * follows the version that it names, and keys that were counted up to one version have rows in
 * another. Clocks belong to no parameter. */
static bool is_chosen(const struct shard_state *state, const struct section_choice *choice,
                      enum ps_checkpoint_section section, const struct ps_record *record)
{
    if (choice == NULL || section == PS_CHECKPOINT_CLOCKS)
        return choice == NULL || choice->clocks;
    if (file_of(state, choice, record->name) != choice->file)
        return false;
    for (size_t i = 0; i < state->count; i++)
        if (ps_bytes_equal(state->parameters[i].name, record->name))
            return state->parameters[i].version == record->version;
    return false;
}

/* SIZE_MAX: it is whole nowhere. */
static size_t file_of(const struct shard_state *state, const struct section_choice *choice,
                      struct ps_bytes name)
{
    for (size_t i = 0; i < state->count; i++)
        if (ps_bytes_equal(state->parameters[i].name, name))
            return choice->files[i];
    return SIZE_MAX;
}

/* Contributions are a promise to workers; a lost count costs a key some pushes: both are told to
 * the operator, each in its own words. Those of a file that is older than the parameter's are over,
 * and nothing is lost with them: their rounds have ended in the newer one. */
static void count_left_out(const struct shard_state *state, struct section_choice *choice,
                           const struct ps_record *record)
{
    if (choice == NULL || file_of(state, choice, record->name) < choice->file)
        return;
    choice->contributions += record->type == PS_RECORD_HELD;
    choice->tables += record->type == PS_RECORD_CANDIDATES;
}

/* Every new shard has the same clocks, as it has the same sessions: a worker counts up at all. All
 * shards are asked about rounds before any is written to, so that a refusal leaves nothing half
 * done. */
enum ps_status state_sections_merge(const struct shard_state *states, size_t state_count,
                                    struct shard_state *shards, size_t shard_count, size_t *evicted,
                                    struct ps_error *error)
{
    *evicted = 0;
    for (size_t i = 0; i < state_count; i++)
        PS_TRY(check_rounds(&states[i], evicted, error));
    for (size_t i = 0; i < shard_count; i++)
        PS_TRY(gather_clocks(states, state_count, &shards[i], error));
    return candidate_shards_merge(states, state_count, shards, (uint32_t)shard_count, error);
}

/* A round is open at each range by itself, and ranges are about to be cut in another way. Whoever
 * ends it first loses nothing, which is more than could be done here. */
static enum ps_status check_rounds(const struct shard_state *state, size_t *evicted,
                                   struct ps_error *error)
{
    const struct ps_checkpoint_records *rounds = &state->facts.sections[PS_CHECKPOINT_ROUNDS];
    for (size_t i = 0; i < rounds->count; i++) {
        struct ps_record record = {0};
        struct ps_round_record round;
        rounds->give(rounds->self, i, &record);
        int width = (int)(record.name.size < 80 ? record.name.size : 80);
        /* The text says what to do: at that moment the job is down, and whoever reads it wants it
         * up again. */
        if (record.type == PS_RECORD_HELD)
            return ps_fail(error, PS_ERR_UNSUPPORTED,
                           "round %" PRIu64 " of %.*s is open: start the servers, let it end (with "
                           "grace_ms it ends without who is missing), stop them, and try again",
                           record.version + 1, width, (const char *)record.name.data);
        if (record.content.piece_count != 1)
            return ps_fail(error, PS_ERR_CORRUPT, "a round without its workers");
        PS_TRY(ps_round_record_read(record.content.pieces[0], &round, error));
        /* An eviction is about a worker, and not about a range; but it is cheap to find out again,
         * and the sets of several ranges may differ. */
        *evicted += ps_round_set_count(round.evicted, round.workers);
    }
    return PS_OK;
}

static enum ps_status gather_clocks(const struct shard_state *states, size_t state_count,
                                    struct shard_state *to, struct ps_error *error)
{
    /* As many as there are at all shards, before equal ones are joined: rooms are given back with
     * the state only. */
    size_t room = 0;
    for (size_t i = 0; i < state_count; i++)
        room += states[i].facts.sections[PS_CHECKPOINT_CLOCKS].count;
    PS_TRY(state_sections_begin(to, PS_CHECKPOINT_CLOCKS, room, error));
    /* In the order of the shards, which does not matter: what is equal is joined, and the rest has
     * an order of its own. */
    for (size_t i = 0; i < state_count; i++) {
        const struct ps_checkpoint_records *from = &states[i].facts.sections[PS_CHECKPOINT_CLOCKS];
        for (size_t j = 0; j < from->count; j++) {
            struct ps_record record = {0};
            from->give(from->self, j, &record);
            PS_TRY(add_clock(to, &record, error));
        }
    }
    join_clocks(to);
    return PS_OK;
}

/* Checked first: what is joined below was read once. */
static enum ps_status add_clock(struct shard_state *to, const struct ps_record *record,
                                struct ps_error *error)
{
    struct ps_clocks_record clocks;
    struct ps_clock_record clock;
    if (record->content.piece_count != 1)
        return ps_fail(error, PS_ERR_CORRUPT, "a record of clocks without content");
    if (record->type == PS_RECORD_CLOCKS)
        PS_TRY(ps_clocks_record_read_kept(record->content.pieces[0], &clocks, error));
    else
        PS_TRY(ps_clock_record_read(record->content.pieces[0], &clock, error));
    return state_sections_put(to, PS_CHECKPOINT_CLOCKS, record, error);
}

/* Settings stand before the workers of the same name, as in every section. */
static void join_clocks(struct shard_state *to)
{
    struct ps_checkpoint_records *clocks = &to->facts.sections[PS_CHECKPOINT_CLOCKS];
    struct entry *entries = ((struct rows *)clocks->self)->entries;
    size_t kept = 0;
    if (clocks->count > 0)
        qsort(entries, clocks->count, sizeof *entries, compare_entries);
    for (size_t i = 0; i < clocks->count; i++) {
        if (kept > 0 && compare_entries(&entries[kept - 1], &entries[i]) == 0)
            join(&entries[kept - 1], &entries[i]);
        else
            entries[kept++] = entries[i];
    }
    clocks->count = kept;
}

/* A worker counts up once its pushes are done at all shards, so the highest clock that any of them
 * has heard is the worker's. It is evicted where nobody has heard of it since. Settings differ only
 * where a client was cut off while it set them; those for more workers have room for all clocks. */
static void join(struct entry *kept, const struct entry *more)
{
    struct ps_clocks_record settings[2];
    struct ps_clock_record clocks[2];
    if (kept->record.type == PS_RECORD_CLOCKS) {
        /* They were read before they were added; a failure now would be a fault of this program. */
        bool read = ps_clocks_record_read(kept->content, &settings[0], NULL) == PS_OK &&
                    ps_clocks_record_read(more->content, &settings[1], NULL) == PS_OK;
        PS_ASSERT(read);
        /* A later task is what the job is in, whoever has not heard of it yet. */
        bool is_later = settings[1].task > settings[0].task;
        if (is_later ||
            (settings[1].task == settings[0].task && settings[1].workers > settings[0].workers))
            *kept = *more;
        return;
    }
    bool read = ps_clock_record_read(kept->content, &clocks[0], NULL) == PS_OK &&
                ps_clock_record_read(more->content, &clocks[1], NULL) == PS_OK;
    PS_ASSERT(read);
    if (clocks[1].clock > clocks[0].clock)
        clocks[0].clock = clocks[1].clock;
    clocks[0].evicted = clocks[0].evicted && clocks[1].evicted;
    /* Into the copy that this state made of it. */
    ps_clock_record_write(&clocks[0], (uint8_t *)(uintptr_t)kept->content.data);
}

/* By name, settings first, then by the rank that a worker's record begins with. */
static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    struct ps_clock_record clocks[2];
    int names = ps_bytes_compare(left->record.name, right->record.name);
    if (names != 0)
        return names;
    /* There are two types in the section; the settings have the lower number. */
    if (left->record.type != right->record.type || left->record.type == PS_RECORD_CLOCKS)
        return (left->record.type > right->record.type) - (left->record.type < right->record.type);
    bool read = ps_clock_record_read(left->content, &clocks[0], NULL) == PS_OK &&
                ps_clock_record_read(right->content, &clocks[1], NULL) == PS_OK;
    PS_ASSERT(read);
    return (clocks[0].worker > clocks[1].worker) - (clocks[0].worker < clocks[1].worker);
}

/* Asked of the facts and not of the rows, so that a snapshot of a replayed state is counted in the
 * same way. */
size_t state_sections_held(const struct ps_checkpoint_facts *facts)
{
    const struct ps_checkpoint_records *rounds = &facts->sections[PS_CHECKPOINT_ROUNDS];
    size_t count = 0;
    for (size_t i = 0; i < rounds->count; i++) {
        struct ps_record record = {0};
        rounds->give(rounds->self, i, &record);
        count += record.type == PS_RECORD_HELD;
    }
    return count;
}

/* Everything with its length in front, as in a state's digest. Contents are read and not kept: this
 * goes over contributions that may be as large as the state. */
void state_sections_add(const struct ps_checkpoint_facts *facts, struct sha256 *hash)
{
    for (size_t section = 0; section < PS_CHECKPOINT_SECTION_COUNT; section++) {
        const struct ps_checkpoint_records *from = &facts->sections[section];
        for (size_t i = 0; i < from->count; i++) {
            struct ps_record record = {0};
            from->give(from->self, i, &record);
            /* Position and epoch are the file's, which are in the name of the file anyway. */
            sha256_add_number(hash, (uint64_t)record.type, 1);
            sha256_add_number(hash, record.name.size, 4);
            sha256_add(hash, record.name);
            sha256_add_number(hash, record.version, 8);
            sha256_add_number(hash, record.content.size, 8);
            sha256_add_view(hash, record.content);
        }
    }
}
