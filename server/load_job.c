/* Loading: from the files of a shard to a service that may begin, with a journal behind it. */
#include "server/job.h"

#include "base/file.h"
#include "server/core/ownership/shard_epoch.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_run.h"
#include "server/forecast.h"
#include "server/replay_pool.h"
#include "server/thread_crew.h"

#include <unistd.h>

/* Files that cannot be read are tried so often, with rests that double, before the server ends. */
#define READ_TRIES 5
#define RETRY_MS 200

static enum ps_status load_state(struct ps_jobs *jobs, const struct ps_job *job, const char *folder,
                                 struct ps_recovered *recovered, struct ps_error *error);
static enum ps_status read_note(struct ps_jobs *jobs, uint32_t index, struct ps_journal_note *note,
                                struct ps_error *error);
static enum ps_status load_patiently(struct ps_jobs *jobs, struct ps_recovery *recovery,
                                     struct ps_recovered *recovered, struct ps_error *error);
static bool rest(struct ps_jobs *jobs, uint64_t rest_ms);
static enum ps_status load_in_threads(struct ps_recovery *recovery, struct ps_recovered *recovered,
                                      struct ps_error *error);
static enum ps_status replay_record(void *self, const struct ps_record *record,
                                    struct ps_error *error);
static enum ps_status begin_epoch(struct ps_jobs *jobs, const struct ps_job *job,
                                  const char *folder, struct ps_error *error);
static enum ps_status open_journal(struct ps_jobs *jobs, const struct ps_job *job,
                                   const char *folder, const struct ps_recovered *recovered,
                                   struct ps_error *error);

/* While the server waits for a shard: memory that is touched for the first time is the larger part
 * of a load. Half of what the machine has free at most: it may never come to loading. */
void ps_jobs_prepare_memory(struct ps_jobs *jobs)
{
    const struct ps_jobs_options *options = &jobs->options;
    if (options->pool == NULL || options->data_dir == NULL)
        return;
    char folder[PS_JOB_FOLDER_BYTES];
    ps_job_folder(jobs, folder);
    uint64_t bytes = ps_forecast_bytes(ps_files_real(), folder, options->memory);
    uint64_t most = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    if (options->memory_bytes > 0 && options->memory_bytes < most)
        most = options->memory_bytes;
    bytes = bytes < most ? bytes : most;
    while (ps_jobs_idle(jobs) && ps_block_pool_prepare(options->pool, bytes)) {
    }
}

enum ps_status ps_job_load(struct ps_jobs *jobs, const struct ps_job *job, struct ps_error *error)
{
    if (jobs->options.data_dir == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "no --data-dir: nothing was ever saved");
    char folder[PS_JOB_FOLDER_BYTES];
    struct ps_recovered recovered = {0};
    ps_job_shard_folder(jobs, job->claim.index, folder);
    PS_TRY(begin_epoch(jobs, job, folder, error));
    enum ps_status status = load_state(jobs, job, folder, &recovered, error);
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    /* A shard without state begins empty; so does its journal. */
    enum ps_status opened = open_journal(jobs, job, folder, &recovered, error);
    if (status == PS_OK && opened == PS_OK)
        ps_recovery_finish(jobs->options.service, recovered.position);
    if (status == PS_OK && opened != PS_OK)
        ps_service_give_up_recovery(jobs->options.service);
    return opened == PS_OK ? status : opened;
}

static enum ps_status load_state(struct ps_jobs *jobs, const struct ps_job *job, const char *folder,
                                 struct ps_recovered *recovered, struct ps_error *error)
{
    const struct ps_jobs_options *options = &jobs->options;
    struct ps_kv_entries pointer = {0};
    enum ps_status status = ps_registry_read_checkpoint(
        options->registry, job->claim.index,
        ps_deadline_after(options->clock, PS_JOB_STORE_TIMEOUT_MS), &pointer, error);
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    struct ps_recovery recovery = {
        .service = options->service,
        .files = ps_files_real(),
        .folder = folder,
        .memory = options->memory,
        .log = options->log,
    };
    if (pointer.count > 0)
        recovery.pointer =
            (struct ps_bytes){pointer.entries[0].value, pointer.entries[0].value_size};
    status = read_note(jobs, job->claim.index, &recovery.noted, error);
    if (status == PS_OK)
        status = load_patiently(jobs, &recovery, recovered, error);
    ps_kv_entries_release(&pointer);
    return status;
}

/* One that cannot be read, which somebody wrote by hand, demands nothing. */
static enum ps_status read_note(struct ps_jobs *jobs, uint32_t index, struct ps_journal_note *note,
                                struct ps_error *error)
{
    const struct ps_jobs_options *options = &jobs->options;
    struct ps_kv_entries entries = {0};
    struct ps_error why = {0};
    enum ps_status status = ps_registry_read_note(
        options->registry, index, ps_deadline_after(options->clock, PS_JOB_STORE_TIMEOUT_MS),
        &entries, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return status;
    struct ps_bytes json = {entries.entries[0].value, entries.entries[0].value_size};
    if (ps_journal_note_read(json, note, &why) != PS_OK)
        PS_LOG(options->log, PS_LOG_WARN, "checkpoint", "the note in the store is passed over",
               PS_FIELD_ERROR(&why));
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* Descriptors that ran out come back, and many a disk reads what it could not read at first. */
static enum ps_status load_patiently(struct ps_jobs *jobs, struct ps_recovery *recovery,
                                     struct ps_recovered *recovered, struct ps_error *error)
{
    uint64_t rest_ms = RETRY_MS;
    for (int i = 1; i < READ_TRIES; i++, rest_ms *= 2) {
        struct ps_error why = {0};
        enum ps_status status = load_in_threads(recovery, recovered, &why);
        if (status != PS_ERR_IO)
            return status == PS_OK ? PS_OK : ps_fail(error, status, "%s", why.text);
        PS_LOG(jobs->options.log, PS_LOG_WARN, "checkpoint",
               "the shard's files cannot be read: trying again", PS_FIELD_UINT("try", (uint64_t)i),
               PS_FIELD_UINT("tries", READ_TRIES), PS_FIELD_ERROR(&why));
        if (!rest(jobs, rest_ms))
            return ps_fail(error, PS_ERR_IO, "%s", why.text);
    }
    return load_in_threads(recovery, recovered, error);
}

/* False when the server ends. */
static bool rest(struct ps_jobs *jobs, uint64_t rest_ms)
{
    uint64_t until_ms = ps_deadline_after(jobs->options.clock, rest_ms);
    ps_mutex_lock(&jobs->mutex);
    while (!jobs->ending && ps_time_left_ms(jobs->options.clock, until_ms) > 0)
        (void)ps_condition_wait(&jobs->changed, &jobs->mutex,
                                ps_time_left_ms(jobs->options.clock, until_ms));
    bool go_on = !jobs->ending;
    ps_mutex_unlock(&jobs->mutex);
    return go_on;
}

/* Nobody is served before it is done, so it may have the whole machine. */
static enum ps_status load_in_threads(struct ps_recovery *recovery, struct ps_recovered *recovered,
                                      struct ps_error *error)
{
    uint32_t thread_count = ps_crew_thread_count();
    const struct ps_replay_pool_options options = {.memory = recovery->memory,
                                                   .thread_count = thread_count,
                                                   .apply = replay_record,
                                                   .self = recovery->service};
    struct ps_replay_pool *pool = NULL;
    PS_TRY(ps_replay_pool_create(&options, &pool, error));
    const struct ps_replay_sink sink = ps_replay_pool_sink(pool);
    const struct ps_crew crew = ps_thread_crew(&thread_count);
    recovery->sink = &sink;
    recovery->crew = &crew;
    enum ps_status status = ps_recovery_run(recovery, recovered, error);
    recovery->sink = NULL;
    recovery->crew = NULL;
    ps_replay_pool_destroy(pool);
    return status;
}

static enum ps_status replay_record(void *self, const struct ps_record *record,
                                    struct ps_error *error)
{
    return ps_recovery_apply(self, record, error);
}

/* The store may have begun its history anew since the files were written. */
static enum ps_status begin_epoch(struct ps_jobs *jobs, const struct ps_job *job,
                                  const char *folder, struct ps_error *error)
{
    const struct ps_jobs_options *options = &jobs->options;
    PS_TRY(ps_shard_epoch(ps_files_real(), folder, job->claim.epoch, options->memory, &jobs->epoch,
                          error));
    if (jobs->epoch == job->claim.epoch)
        return PS_OK;
    PS_LOG(options->log, PS_LOG_WARN, "checkpoint",
           "the store is younger than the files of this shard: going on above their epoch",
           PS_FIELD_UINT("claim_epoch", job->claim.epoch), PS_FIELD_UINT("epoch", jobs->epoch));
    ps_service_own(options->service, job->claim.index, job->shard_count, jobs->epoch, "");
    return PS_OK;
}

static enum ps_status open_journal(struct ps_jobs *jobs, const struct ps_job *job,
                                   const char *folder, const struct ps_recovered *recovered,
                                   struct ps_error *error)
{
    if (jobs->options.journal == NULL)
        return PS_OK;
    /* Loading takes time, and the process may have been stopped meanwhile: when the shard is
     * another's, a segment of ours would only be in the way. */
    if (!ps_service_is_proved(jobs->options.service))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the lease ran out while the shard was loaded");
    const struct ps_journal_facts facts = {
        .index = job->claim.index,
        .shard_count = job->shard_count,
        .epoch = jobs->epoch,
        .position = recovered->durable,
        .previous_epoch = recovered->epoch,
        .repeat_to = recovered->position,
    };
    PS_TRY(ps_journal_thread_open(jobs->options.journal, folder, &facts, error));
    if (jobs->options.notes != NULL)
        ps_note_thread_begin(jobs->options.notes, folder, &job->claim, jobs->epoch);
    return PS_OK;
}
