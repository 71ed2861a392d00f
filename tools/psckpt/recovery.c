/* Newest checkpoint first, until one is whole; then every record behind it through the code that
 * applied it first. */
#include "tools/psckpt/recovery.h"

#include "base/clock.h"
#include "checkpoint/catalog.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum ps_status try_all(struct recovery *recovery, const struct recovery_wish *wish,
                              const char *folder, struct ps_error *error);
static enum ps_status try_each(struct recovery *recovery, const struct recovery_wish *wish,
                               const char *folder, const struct ps_catalog *catalog,
                               const struct ps_journal_segments *segments, struct ps_error *error);
static bool is_superseded(const struct ps_catalog_entry *entry, const struct ps_catalog *catalog,
                          const struct ps_journal_segments *segments);
static enum ps_status load_checkpoint(struct recovery *recovery, const struct recovery_wish *wish,
                                      const char *path, struct ps_error *error);
static enum ps_status begin_service(struct recovery *recovery, const struct recovery_wish *wish,
                                    const char *path, struct ps_error *error);
static enum ps_status replay(struct recovery *recovery, const struct recovery_wish *wish,
                             const char *folder, struct ps_error *error);
static enum ps_status replay_records(struct recovery *recovery, const struct recovery_wish *wish,
                                     struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status take_state(struct recovery *recovery, struct ps_error *error);
static void omit(struct recovery *recovery, const char *what, const struct ps_error *why);

/* A record whose application failed half-way leaves no state that anybody had. Then everything
 * begins again, to stop in front of it. */
enum ps_status recovery_load(struct recovery *recovery, const struct recovery_wish *wish,
                             const char *folder, struct ps_error *error)
{
    struct ps_error why = {0};
    *recovery = (struct recovery){0};
    enum ps_status status = try_all(recovery, wish, folder, &why);
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
            omit(recovery, "journal", &why);
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

void recovery_fini(struct recovery *recovery)
{
    shard_state_fini(&recovery->state);
}

static enum ps_status try_all(struct recovery *recovery, const struct recovery_wish *wish,
                              const char *folder, struct ps_error *error)
{
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
    PS_TRY(ps_catalog_init(&catalog, wish->files, folder, wish->memory, error));
    enum ps_status status =
        ps_journal_segments_init(&segments, wish->files, folder, UINT64_MAX, wish->memory, error);
    if (status == PS_OK) {
        status = try_each(recovery, wish, folder, &catalog, &segments, error);
        ps_journal_segments_fini(&segments);
    }
    ps_catalog_fini(&catalog);
    if (status == PS_OK && wish->journal)
        status = replay(recovery, wish, folder, error);
    uint64_t reached = recovery->begin + recovery->replayed;
    if (status == PS_OK && wish->to != RECOVERY_TO_END && reached != wish->to)
        status =
            ps_fail(error, PS_ERR_NOT_FOUND, "%.150s ends at position %" PRIu64 ", before %" PRIu64,
                    folder, reached, wish->to);
    return status;
}

static enum ps_status try_each(struct recovery *recovery, const struct recovery_wish *wish,
                               const char *folder, const struct ps_catalog *catalog,
                               const struct ps_journal_segments *segments, struct ps_error *error)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct ps_catalog_entry *entry = &catalog->entries[i];
        bool wanted = wish->to == RECOVERY_TO_END || entry->position <= wish->to;
        if (!wanted || is_superseded(entry, catalog, segments))
            continue;
        char path[1200];
        struct ps_error why = {0};
        (void)snprintf(path, sizeof path, "%.1000s/%s", folder, entry->name);
        enum ps_status status = load_checkpoint(recovery, wish, path, &why);
        if (status == PS_OK) {
            memcpy(recovery->checkpoint, entry->name, sizeof recovery->checkpoint);
            return PS_OK;
        }
        shard_state_fini(&recovery->state);
        if (status != PS_ERR_CORRUPT && status != PS_ERR_NOT_FOUND && status != PS_ERR_IO)
            return ps_fail(error, status, "%s", why.text);
        omit(recovery, entry->name, &why);
    }
    if (recovery->omission_count > 0)
        return ps_fail(error, PS_ERR_CORRUPT, "%.100s: no checkpoint is whole: %.100s", folder,
                       recovery->omissions[0].why);
    if (catalog->count > 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "%.150s: no checkpoint at or before %" PRIu64,
                       folder, wish->to);
    return ps_fail(error, PS_ERR_NOT_FOUND, "%.200s holds no checkpoint", folder);
}

/* A former owner's checkpoint behind the place where a higher epoch began is of a life that did not
 * happen. */
static bool is_superseded(const struct ps_catalog_entry *entry, const struct ps_catalog *catalog,
                          const struct ps_journal_segments *segments)
{
    for (size_t i = 0; i < segments->count; i++)
        if (segments->entries[i].epoch > entry->epoch &&
            segments->entries[i].first <= entry->position)
            return true;
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->entries[i].epoch > entry->epoch &&
            catalog->entries[i].position < entry->position)
            return true;
    return false;
}

static enum ps_status load_checkpoint(struct recovery *recovery, const struct recovery_wish *wish,
                                      const char *path, struct ps_error *error)
{
    shard_state_init(&recovery->state, wish->memory);
    if (wish->journal)
        PS_TRY(begin_service(recovery, wish, path, error));
    else
        PS_TRY(shard_state_read(&recovery->state, wish->files, path, wish->progress, error));
    recovery->begin = recovery->state.facts.position;
    recovery->replayed = 0;
    return PS_OK;
}

/* The service is asked for nothing that a running server would not do too. */
static enum ps_status begin_service(struct recovery *recovery, const struct recovery_wish *wish,
                                    const char *path, struct ps_error *error)
{
    struct shard_state *state = &recovery->state;
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(wish->files, path, wish->memory, &reader, error));
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    const struct ps_service_options options = {.memory = wish->memory,
                                               .clock = ps_clock_real(),
                                               .clients_max = UINT32_MAX,
                                               .device = "cpu",
                                               .job = ""};
    struct ps_bytes job = shard_state_copy(state, ps_bytes_of_text(facts->job), error);
    enum ps_status status = job.data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
    if (status == PS_OK && facts->index >= facts->shard_count)
        status = ps_fail(error, PS_ERR_CORRUPT, "it says that it is shard %" PRIu32 " of %" PRIu32,
                         facts->index, facts->shard_count);
    if (status == PS_OK)
        status = ps_service_create(&options, &state->service, error);
    if (status == PS_OK) {
        state->facts = *facts;
        state->facts.job = (const char *)job.data;
        state->facts.sessions = (struct ps_bytes){NULL, 0};
        ps_service_own(state->service, facts->index, facts->shard_count, facts->epoch, "");
        status = ps_service_begin_loaded(state->service, reader, error);
    }
    ps_checkpoint_close(reader);
    return status;
}

static enum ps_status replay(struct recovery *recovery, const struct recovery_wish *wish,
                             const char *folder, struct ps_error *error)
{
    struct ps_journal_reader *reader = NULL;
    if (recovery->begin >= wish->to)
        return take_state(recovery, error);
    ps_service_enter_thread();
    PS_TRY(ps_journal_reader_open(wish->files, folder, recovery->begin, UINT64_MAX, wish->memory,
                                  &reader, error));
    progress_begin(wish->progress, "replaying", 0);
    enum ps_status status = replay_records(recovery, wish, reader, error);
    progress_end(wish->progress);
    uint64_t epoch = ps_journal_reader_epoch(reader);
    if (recovery->replayed > 0 && epoch > recovery->state.facts.epoch)
        recovery->state.facts.epoch = epoch;
    ps_journal_reader_close(reader);
    return status == PS_OK ? take_state(recovery, error) : status;
}

static enum ps_status replay_records(struct recovery *recovery, const struct recovery_wish *wish,
                                     struct ps_journal_reader *reader, struct ps_error *error)
{
    struct ps_journal_row row = {0};
    while (recovery->begin + recovery->replayed < wish->to) {
        enum ps_status status = ps_journal_next(reader, &row, &recovery->cut, NULL, error);
        if (status == PS_ERR_NOT_FOUND)
            return PS_OK;
        if (status != PS_OK)
            return status;
        progress_add(wish->progress, row.record.content.size);
        status = ps_service_replay(recovery->state.service, &row.record, error);
        ps_journal_row_release(&row);
        if (status != PS_OK)
            return status;
        recovery->replayed++;
    }
    return PS_OK;
}

static enum ps_status take_state(struct recovery *recovery, struct ps_error *error)
{
    struct shard_state *state = &recovery->state;
    state->facts.position = recovery->begin + recovery->replayed;
    ps_service_begin_recovered(state->service, state->facts.position);
    PS_TRY(ps_service_snapshot(state->service, &state->snapshot, error));
    state->parameters = state->snapshot.parameters;
    state->count = state->snapshot.parameter_count;
    state->facts.sessions = state->snapshot.facts.sessions;
    return shard_state_seal(state, error);
}

static void omit(struct recovery *recovery, const char *what, const struct ps_error *why)
{
    size_t i = recovery->omission_count++;
    if (i >= RECOVERY_OMISSIONS_MAX)
        return;
    (void)snprintf(recovery->omissions[i].what, sizeof recovery->omissions[i].what, "%s", what);
    (void)snprintf(recovery->omissions[i].why, sizeof recovery->omissions[i].why, "%s", why->text);
}
