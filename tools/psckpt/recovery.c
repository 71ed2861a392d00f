/* SPDX-License-Identifier: Apache-2.0 */
/* Newest checkpoint first, until one is whole; then every record behind it through the code that
 * applied it first. This is a server's recovery with two differences: nothing in the folder is
 * changed (no file put aside, no new epoch begun), and it can stop at a position or in front of
 * damage. All loading and replaying is done by the server's own functions, so that psckpt and a
 * server cannot disagree about what a folder holds. */
#include "tools/psckpt/recovery.h"

#include "base/clock.h"
#include "checkpoint/catalog.h"
#include "checkpoint/journal_chain.h"
#include "checkpoint/journal_segments.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_fill.h"
#include "server/core/recovery/recovery_replay.h"
#include "server/core/recovery/snapshot.h"
#include "tools/psckpt/folder_histories.h"
#include "tools/psckpt/parameter_room.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How often a folder is looked at whose files come and go. */
enum { LISTINGS_MAX = 10 };

/* The sink of a replay. Handed to the server's replay as `self`. */
struct replaying {
    struct recovery *recovery;
    const struct recovery_wish *wish;
    uint64_t epoch; /* of the last record */
    bool reached;   /* no more is wanted */
};

static enum ps_status try_all(struct recovery *recovery, const struct recovery_wish *wish,
                              const char *folder, struct ps_error *error);
static enum ps_status try_each(struct recovery *recovery, const struct recovery_wish *wish,
                               const char *folder, const struct ps_catalog *catalog,
                               const struct ps_journal_segments *segments, struct ps_error *error);
static enum ps_status load_checkpoint(struct recovery *recovery, const struct recovery_wish *wish,
                                      const char *path, bool replays, struct ps_error *error);
static enum ps_status ask_journal(const struct recovery *recovery, const struct recovery_wish *wish,
                                  const char *folder, const struct ps_catalog_entry *entry,
                                  bool *replays, struct ps_error *error);
static enum ps_status check_index(const struct ps_checkpoint_facts *facts, struct ps_error *error);
static enum ps_status begin_service(struct recovery *recovery, const struct recovery_wish *wish,
                                    const char *path, struct ps_error *error);
static enum ps_status replay(struct recovery *recovery, const struct recovery_wish *wish,
                             const char *folder, const struct ps_journal_segments *segments,
                             struct ps_error *error);
static enum ps_status put_record(void *self, struct ps_journal_row *row, struct ps_error *error);
static enum ps_status finish_records(void *self, struct ps_error *error);
static enum ps_status take_state(struct recovery *recovery, struct ps_error *error);
static void omit(struct recovery *recovery, const char *what, const struct ps_error *why);

/* A record whose application failed half-way leaves no state that anybody had. Then everything
 * begins again, to stop in front of it. A record whose application failed half-way leaves a state
 * that nobody ever had, and a service cannot be asked to forget it. So the whole recovery is done
 * again and told to stop one record earlier; the second run costs time, and gives a state that is
 * certainly one of the past. */
enum ps_status recovery_load(struct recovery *recovery, const struct recovery_wish *wish,
                             const char *folder, struct ps_error *error)
{
    struct ps_error why = {0};
    *recovery = (struct recovery){0};
    enum ps_status status = try_all(recovery, wish, folder, &why);
    /* A server at work there may have put newer checkpoints in the place of all that were listed,
     * or swept segments that a newer one has made superfluous. */
    for (int again = 1; again < LISTINGS_MAX && recovery->is_moving; again++) {
        recovery_fini(recovery);
        *recovery = (struct recovery){0};
        status = try_all(recovery, wish, folder, &why);
    }
    uint64_t last = recovery->begin + recovery->replayed;
    bool journal_failed = recovery->state.service != NULL &&
                          (status == PS_ERR_CORRUPT || status == PS_ERR_UNSUPPORTED);
    if (wish->salvage && journal_failed) {
        struct recovery_wish again = *wish;
        again.to = last;
        recovery_fini(recovery);
        *recovery = (struct recovery){0};
        enum ps_status second = try_all(recovery, &again, folder, error);
        if (second == PS_OK)
            omit(recovery, "journal from the damage on", &why);
        else
            recovery_fini(recovery);
        return second;
    }
    if (status != PS_OK) {
        recovery_fini(recovery);
        return ps_fail(error, status, "%s", why.text);
    }
    return PS_OK;
}

/* The service, its blocks and the snapshot belong to the state. */
void recovery_fini(struct recovery *recovery)
{
    shard_state_fini(&recovery->state);
}

/* Whether one of these segments is not listed any more. Both lists are in the same order. */
static bool have_gone(const struct recovery_wish *wish, const char *folder,
                      const struct ps_journal_segments *segments)
{
    struct ps_journal_segments now;
    size_t found = 0;
    if (ps_journal_segments_init(&now, wish->box->files, folder, UINT64_MAX, wish->box->memory,
                                 NULL) != PS_OK)
        return false;
    for (size_t i = 0; i < now.count && found < segments->count; i++)
        found += now.entries[i].epoch == segments->entries[found].epoch &&
                 now.entries[i].first == segments->entries[found].first;
    ps_journal_segments_fini(&now);
    return found < segments->count;
}

/* The list of segments is read even without the journal: the epochs in it say which checkpoints
 * were overtaken by a later owner. Catalog and segments are released here in every case; the state
 * stays with the caller. */
static enum ps_status try_all(struct recovery *recovery, const struct recovery_wish *wish,
                              const char *folder, struct ps_error *error)
{
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
    /* First, as a server asks: what follows believes positions, which two histories share. */
    PS_TRY(folder_histories_check(wish->box, folder, &recovery->history, error));
    PS_TRY(ps_catalog_init(&catalog, wish->box->files, folder, wish->box->memory, error));
    enum ps_status status = ps_journal_segments_init(&segments, wish->box->files, folder,
                                                     UINT64_MAX, wish->box->memory, error);
    if (status == PS_OK) {
        ps_journal_chain_keep_history(&segments, wish->box->files, folder, &recovery->history);
        if (wish->checkpoint != NULL)
            status = load_checkpoint(recovery, wish, wish->checkpoint, wish->journal, error);
        else
            status = try_each(recovery, wish, folder, &catalog, &segments, error);
        if (status == PS_OK && recovery->state.service != NULL)
            status = replay(recovery, wish, folder, &segments, error);
        if (status == PS_ERR_IO && have_gone(wish, folder, &segments))
            recovery->is_moving = true;
        ps_journal_segments_fini(&segments);
    }
    ps_catalog_fini(&catalog);
    uint64_t reached = recovery->begin + recovery->replayed;
    /* A position was asked for, and a state of another one must not be passed off as it. */
    if (status == PS_OK && wish->to != RECOVERY_TO_END && reached != wish->to)
        status =
            ps_fail(error, PS_ERR_NOT_FOUND, "%.150s ends at position %" PRIu64 ", before %" PRIu64,
                    folder, reached, wish->to);
    return status;
}

/* From the newest on. A checkpoint that is damaged is passed over and reported, as a server does; a
 * failure that would hit the next file as well (memory, an unknown version) ends the search. Files
 * that are too new for the position asked for are not even opened. */
static enum ps_status try_each(struct recovery *recovery, const struct recovery_wish *wish,
                               const char *folder, const struct ps_catalog *catalog,
                               const struct ps_journal_segments *segments, struct ps_error *error)
{
    bool is_gone = false;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct ps_catalog_entry *entry = &catalog->entries[i];
        bool wanted = wish->to == RECOVERY_TO_END || entry->position <= wish->to;
        if (!wanted || ps_recovery_is_superseded(segments, entry->epoch, entry->position))
            continue;
        char path[1200];
        struct ps_error why = {0};
        (void)snprintf(path, sizeof path, "%.1000s/%s", folder, entry->name);
        bool replays = false;
        PS_TRY(ask_journal(recovery, wish, folder, entry, &replays, error));
        enum ps_status status = load_checkpoint(recovery, wish, path, replays, &why);
        if (status == PS_OK) {
            memcpy(recovery->checkpoint, entry->name, sizeof recovery->checkpoint);
            return PS_OK;
        }
        shard_state_fini(&recovery->state);
        /* Listed, and gone since: a server has removed it for a newer one. */
        if (status == PS_ERR_NOT_FOUND) {
            is_gone = true;
            continue;
        }
        if (status != PS_ERR_CORRUPT && status != PS_ERR_IO)
            return ps_fail(error, status, "%s", why.text);
        omit(recovery, entry->name, &why);
    }
    recovery->is_moving = is_gone || catalog->count == 0;
    /* The message names the newest file's damage: that is the one the operator expected to work. */
    if (recovery->omission_count > 0)
        return ps_fail(error, PS_ERR_CORRUPT, "%.100s: no checkpoint is whole: %.100s", folder,
                       recovery->omissions[0].why);
    if (is_gone)
        return ps_fail(error, PS_ERR_NOT_FOUND, "%.200s: its checkpoints are removed all the time",
                       folder);
    if (catalog->count > 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "%.150s: no checkpoint at or before %" PRIu64,
                       folder, wish->to);
    return ps_fail(error, PS_ERR_NOT_FOUND, "%.200s holds no checkpoint", folder);
}

/* Without records to apply the arrays are enough; with them, a service is needed, whose tables are
 * copied behind it: that takes them twice. Which of the two ways is taken changes nothing in the
 * values: both check every array against its sum. */
static enum ps_status load_checkpoint(struct recovery *recovery, const struct recovery_wish *wish,
                                      const char *path, bool replays, struct ps_error *error)
{
    shard_state_init(&recovery->state, wish->box->memory);
    if (replays)
        PS_TRY(begin_service(recovery, wish, path, error));
    else
        PS_TRY(shard_state_read(&recovery->state, wish->box, path, error));
    PS_TRY(check_index(&recovery->state.facts, error));
    /* Of an older program's file the rest of the folder may know more. */
    if (!ps_history_known(&recovery->state.facts.history))
        recovery->state.facts.history = recovery->history;
    recovery->begin = recovery->state.facts.position;
    recovery->replayed = 0;
    return PS_OK;
}

/* A server that was told to stop has a checkpoint at the end of its journal, so that the state is
 * in one file: of a table of many gigabytes nobody needs twice the memory then. Whatever else than
 * the plain end is found (a record, a torn end, one that was noted and is not there) is the
 * replay's to judge and to say. */
static enum ps_status ask_journal(const struct recovery *recovery, const struct recovery_wish *wish,
                                  const char *folder, const struct ps_catalog_entry *entry,
                                  bool *replays, struct ps_error *error)
{
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    *replays = wish->journal && entry->position < wish->to;
    if (!*replays)
        return PS_OK;
    enum ps_status status =
        ps_journal_reader_open_of(wish->box->files, folder, entry->position, UINT64_MAX,
                                  &recovery->history, wish->box->memory, &reader, error);
    if (status == PS_OK) {
        /* As a recovery from this checkpoint expects it: notes of former owners say nothing. */
        ps_journal_reader_expect(reader, &(struct ps_journal_note){0}, entry->epoch);
        status = ps_journal_next(reader, &row, &cut, NULL, error);
        *replays = status != PS_ERR_NOT_FOUND || cut > 0 || ps_journal_reader_given_up(reader) > 0;
        ps_journal_row_release(&row);
        ps_journal_reader_close(reader);
    }
    /* What the next file would meet as well. */
    return status == PS_ERR_NO_MEMORY || status == PS_ERR_IO ? status : PS_OK;
}

/* The service asserts this of its caller; here the numbers come from a file. */
static enum ps_status check_index(const struct ps_checkpoint_facts *facts, struct ps_error *error)
{
    if (facts->index < facts->shard_count)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT, "it says that it is shard %" PRIu32 " of %" PRIu32,
                   facts->index, facts->shard_count);
}

/* A time that does not move: that of the checkpoint. Its bytes say when clients came last, and
 * whoever replays twice is to get the same bytes. Kept in a room of the state, because the service
 * keeps a pointer to it for as long as it lives. */
struct standing_clock {
    struct ps_clock clock;
    uint64_t unix_ns;
};

static uint64_t standing_now_ms(void *self)
{
    return ((const struct standing_clock *)self)->unix_ns / 1000000;
}

static uint64_t standing_unix_ns(void *self)
{
    return ((const struct standing_clock *)self)->unix_ns;
}

/* Lives as long as the state, and does not move with it; NULL with `error` filled. The service asks
 * its clock when a client was last heard of, and writes the answer into the sessions. With the real
 * time two replays of one folder would have different digests. */
static const struct ps_clock *make_clock(struct shard_state *state, uint64_t unix_ns,
                                         struct ps_error *error)
{
    struct standing_clock *standing = shard_state_room(state, 1, sizeof *standing, error);
    if (standing == NULL)
        return NULL;
    standing->clock = (struct ps_clock){standing_now_ms, standing_unix_ns, standing};
    standing->unix_ns = unix_ns;
    return &standing->clock;
}

/* The service is asked for nothing that a running server would not do too. The service owns the
 * shard with the highest epoch there is: every record in the folder is then of an owner before it,
 * and may be read. "cpu" keeps it from looking for a device. A job's name is kept in the facts for
 * the new checkpoint; the service itself needs none. */
static enum ps_status begin_service(struct recovery *recovery, const struct recovery_wish *wish,
                                    const char *path, struct ps_error *error)
{
    struct shard_state *state = &recovery->state;
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(wish->box->files, path, wish->box->memory, &reader, error));
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    const struct ps_clock *clock = make_clock(state, facts->unix_ns, error);
    const struct ps_service_options options = {.memory = wish->box->memory,
                                               .clock = clock,
                                               .clients_max = UINT32_MAX,
                                               .device = "cpu",
                                               .job = ""};
    struct ps_bytes job = shard_state_copy(state, ps_bytes_of_text(facts->job), error);
    enum ps_status status = job.data == NULL || clock == NULL ? PS_ERR_NO_MEMORY : PS_OK;
    if (status == PS_OK)
        status = check_index(facts, error);
    if (status == PS_OK)
        status = ps_service_create(&options, &state->service, error);
    if (status == PS_OK) {
        state->facts = *facts;
        state->facts.base = ""; /* it is all here, in how many files it may have been */
        state->facts.set = "";  /* the set's is that file, and not what the journal makes of it */
        state->facts.job = (const char *)job.data;
        state->facts.sessions = (struct ps_bytes){NULL, 0};
        /* Whatever epochs there are: they are all before this one. */
        ps_service_own(state->service, facts->index, facts->shard_count, UINT64_MAX, "");
        status = ps_recovery_fill(state->service, reader, NULL, error);
    }
    ps_checkpoint_close(reader);
    return status;
}

/* The server's own replay, with a sink that stops where it was asked to. A position at or before
 * the checkpoint's needs no journal at all. The thread is prepared like a server's, or
 * floating-point results could differ in their last bit. */
static enum ps_status replay(struct recovery *recovery, const struct recovery_wish *wish,
                             const char *folder, const struct ps_journal_segments *segments,
                             struct ps_error *error)
{
    struct shard_state *state = &recovery->state;
    struct replaying replaying = {.recovery = recovery, .wish = wish};
    const struct ps_replay_sink sink = {put_record, finish_records, &replaying};
    const struct ps_recovery way = {.service = state->service,
                                    .files = wish->box->files,
                                    .folder = folder,
                                    .memory = wish->box->memory,
                                    .sink = &sink};
    struct ps_recovered recovered = {
        .place = {.position = recovery->begin, .epoch = state->facts.epoch},
        .history = recovery->history};
    if (recovery->begin >= wish->to)
        return take_state(recovery, error);
    ps_service_enter_thread();
    progress_begin(wish->box->progress, "replaying", 0);
    enum ps_status status = ps_recovery_replay(&way, segments, &recovered, error);
    progress_end(wish->box->progress);
    recovery->cut = recovered.cut_bytes;
    /* The sink ended the replay by a failure of its own, since that is the only way to stop the
     * reader. */
    if (replaying.reached)
        status = PS_OK;
    /* The state is of the epoch of its last record: a later checkpoint of it must not look older
     * than the journal. */
    if (recovery->replayed > 0)
        state->facts.epoch = replaying.epoch;
    return status == PS_OK ? take_state(recovery, error) : status;
}

/* A record that a salvaged state already has, or that is about a parameter it lacks, is passed over
 * by ps_recovery_apply_missing; a recovery from a real checkpoint takes each record or fails. */
static enum ps_status put_record(void *self, struct ps_journal_row *row, struct ps_error *error)
{
    struct replaying *replaying = self;
    struct recovery *recovery = replaying->recovery;
    progress_add(replaying->wish->box->progress, row->record.content.size);
    if (replaying->wish->checkpoint != NULL)
        PS_TRY(ps_recovery_apply_missing(recovery->state.service, &row->record, error));
    else
        PS_TRY(ps_recovery_apply(recovery->state.service, &row->record, error));
    replaying->epoch = row->record.epoch;
    recovery->replayed++;
    replaying->reached = row->record.position == replaying->wish->to;
    /* The bytes behind the record are not even looked at: they may be damaged. */
    if (replaying->reached)
        return ps_fail(error, PS_ERR_CANCELLED, "far enough");
    ps_journal_row_release(row);
    return PS_OK;
}

/* A server begins its new epoch here; a tool begins none. */
static enum ps_status finish_records(void *self, struct ps_error *error)
{
    (void)self;
    (void)error;
    return PS_OK;
}

/* A snapshot of the service is what a server would write as its next checkpoint: sorted parameters
 * over shared blocks, and the sessions of this instant. */
static enum ps_status take_state(struct recovery *recovery, struct ps_error *error)
{
    struct shard_state *state = &recovery->state;
    state->facts.position = recovery->begin + recovery->replayed;
    ps_recovery_finish(state->service, state->facts.position);
    PS_TRY(ps_snapshot_take(state->service, &state->snapshot, error));
    state->parameters = state->snapshot.parameters;
    state->count = state->snapshot.parameter_count;
    state->facts.sessions = state->snapshot.facts.sessions;
    /* Rows lie in pages of the service, in an order that says nothing: they are copied. The
     * snapshot's own source is not asked a second time, since it may be read once. */
    PS_TRY(parameter_room_take_tables(state, error));
    /* Given by the snapshot, which the state keeps as long as its parameters: what rounds hold is
     * not copied either. */
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        state->facts.sections[i] = state->snapshot.facts.sections[i];
    return shard_state_seal(state, error);
}

/* The first ones are kept word for word, the others only counted. Names of files and reasons are
 * cut to their room, the count is exact. */
static void omit(struct recovery *recovery, const char *what, const struct ps_error *why)
{
    size_t i = recovery->omission_count++;
    if (i >= RECOVERY_OMISSIONS_MAX)
        return;
    (void)snprintf(recovery->omissions[i].what, sizeof recovery->omissions[i].what, "%s", what);
    (void)snprintf(recovery->omissions[i].why, sizeof recovery->omissions[i].why, "%s", why->text);
}

void recovery_say_left_out(const struct recovery *recovery, const char *folder)
{
    for (size_t i = 0; i < recovery->omission_count && i < RECOVERY_OMISSIONS_MAX; i++)
        (void)fprintf(stderr, "%s: left out: %s: %s\n", folder, recovery->omissions[i].what,
                      recovery->omissions[i].why);
}
