/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: from the files of a shard to a service that may begin, with a journal behind it. The
 * plan: settle the epoch, read the store's pointer and note, apply the checkpoint and the journal,
 * open the new journal, and let the service begin last. All of it runs in the worker thread of
 * tasks.c, while the coordinator keeps the lease. */
#include "server/task.h"

#include "base/assert.h"
#include "base/file.h"
#include "server/core/ownership/shard_epoch.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_run.h"
#include "server/forecast.h"
#include "server/replay_pool.h"
#include "server/thread_crew.h"

#include <unistd.h>

/* Files that cannot be read are tried so often, with rests that double, before the server ends. The
 * four rests together take 3 s. */
#define READ_TRIES 5
#define RETRY_MS 200

static enum ps_status load_state(struct ps_tasks *tasks, const struct ps_task *task,
                                 const char *folder, struct ps_recovered *recovered,
                                 struct ps_error *error);
static enum ps_status read_note(struct ps_tasks *tasks, uint32_t index,
                                struct ps_journal_note *note, struct ps_error *error);
static enum ps_status load_patiently(struct ps_tasks *tasks, struct ps_recovery *recovery,
                                     struct ps_recovered *recovered, struct ps_error *error);
static bool rest(struct ps_tasks *tasks, uint64_t rest_ms);
static enum ps_status load_in_threads(struct ps_recovery *recovery, struct ps_recovered *recovered,
                                      struct ps_error *error);
static enum ps_status replay_record(void *self, const struct ps_record *record,
                                    struct ps_error *error);
static enum ps_status begin_epoch(struct ps_tasks *tasks, const struct ps_task *task,
                                  const char *folder, struct ps_error *error);
static enum ps_status open_journal(struct ps_tasks *tasks, const struct ps_task *task,
                                   const char *folder, const struct ps_recovered *recovered,
                                   struct ps_error *error);

/* While the server waits for a shard: memory that is touched for the first time is the larger part
 * of a load. Half of what the machine has free at most: it may never come to loading. */
void ps_tasks_prepare_memory(struct ps_tasks *tasks)
{
    const struct ps_tasks_options *options = &tasks->options;
    if (options->pool == NULL || options->data_dir == NULL)
        return;
    char folder[PS_SHARD_FOLDER_BYTES];
    ps_tasks_job_folder(tasks, folder);
    uint64_t bytes = ps_forecast_bytes(options->files, folder, options->memory);
    /* What is free now may be wanted by others, too. */
    uint64_t most = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    if (options->memory_bytes > 0 && options->memory_bytes < most)
        most = options->memory_bytes;
    bytes = bytes < most ? bytes : most;
    /* Slab by slab: as soon as there is a task, it begins. */
    while (ps_tasks_idle(tasks) && ps_block_pool_prepare(options->pool, bytes)) {
    }
}

/* The new epoch's journal is open before the shard is: a push that is acknowledged needs a file to
 * be in. When it cannot be opened, what was loaded is given up again, since a shard without its
 * journal must not begin. */
enum ps_status ps_task_load(struct ps_tasks *tasks, const struct ps_task *task,
                            struct ps_error *error)
{
    PS_ASSERT(task->kind == PS_TASK_LOAD);
    if (tasks->options.data_dir == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "no --data-dir: nothing was ever saved");
    char folder[PS_SHARD_FOLDER_BYTES];
    struct ps_recovered recovered = {0};
    ps_tasks_shard_folder(tasks, task->claim.index, folder);
    /* Before anything is read: recovery asks for files of epochs up to this one. */
    PS_TRY(begin_epoch(tasks, task, folder, error));
    enum ps_status status = load_state(tasks, task, folder, &recovered, error);
    /* State that is there and cannot be read must not become an empty shard: that would throw away
     * what was acknowledged. */
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    /* A shard without state begins empty; so does its journal. */
    enum ps_status opened = open_journal(tasks, task, folder, &recovered, error);
    if (status == PS_OK && opened == PS_OK)
        ps_recovery_finish(tasks->options.service, recovered.position);
    if (status == PS_OK && opened != PS_OK)
        ps_service_give_up_recovery(tasks->options.service);
    /* NOT_FOUND goes to the coordinator, which begins an empty shard then. */
    return opened == PS_OK ? status : opened;
}

/* The pointer is read before the folder: a checkpoint that is published in between is in the folder
 * then, and found there. */
static enum ps_status load_state(struct ps_tasks *tasks, const struct ps_task *task,
                                 const char *folder, struct ps_recovered *recovered,
                                 struct ps_error *error)
{
    PS_ASSERT(tasks->options.registry != NULL);
    const struct ps_tasks_options *options = &tasks->options;
    struct ps_kv_entries pointer = {0};
    enum ps_status status = ps_registry_read_checkpoint(
        options->registry, task->claim.index,
        ps_deadline_after(options->clock, PS_TASK_STORE_TIMEOUT_MS), &pointer, error);
    /* A store that does not answer is not a store without a pointer, so the load is refused. */
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    struct ps_recovery recovery = {
        .service = options->service,
        .files = options->files,
        .folder = folder,
        .memory = options->memory,
        .log = options->log,
    };
    if (pointer.count > 0)
        recovery.pointer =
            (struct ps_bytes){pointer.entries[0].value, pointer.entries[0].value_size};
    status = read_note(tasks, task->claim.index, &recovery.noted, error);
    if (status == PS_OK)
        status = load_patiently(tasks, &recovery, recovered, error);
    /* The recovery borrows the pointer's bytes until here. */
    ps_kv_entries_release(&pointer);
    return status;
}

/* One that cannot be read, which somebody wrote by hand, demands nothing. */
static enum ps_status read_note(struct ps_tasks *tasks, uint32_t index,
                                struct ps_journal_note *note, struct ps_error *error)
{
    const struct ps_tasks_options *options = &tasks->options;
    struct ps_kv_entries entries = {0};
    struct ps_error why = {0};
    enum ps_status status = ps_registry_read_note(
        options->registry, index, ps_deadline_after(options->clock, PS_TASK_STORE_TIMEOUT_MS),
        &entries, error);
    /* A shard that never noted anything. */
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

/* Descriptors that ran out come back, and many a disk reads what it could not read at first. A disk
 * that comes back, a folder that is mounted late: what cannot be read just now may be whole. What
 * is damaged is not tried again. */
static enum ps_status load_patiently(struct ps_tasks *tasks, struct ps_recovery *recovery,
                                     struct ps_recovered *recovered, struct ps_error *error)
{
    PS_ASSERT(recovery->service != NULL);
    uint64_t rest_ms = RETRY_MS;
    for (int i = 1; i < READ_TRIES; i++, rest_ms *= 2) {
        struct ps_error why = {0};
        enum ps_status status = load_in_threads(recovery, recovered, &why);
        if (status != PS_ERR_IO)
            return status == PS_OK ? PS_OK : ps_fail(error, status, "%s", why.text);
        PS_LOG(tasks->options.log, PS_LOG_WARN, "checkpoint",
               "the shard's files cannot be read: trying again", PS_FIELD_UINT("try", (uint64_t)i),
               PS_FIELD_UINT("tries", READ_TRIES), PS_FIELD_ERROR(&why));
        if (!rest(tasks, rest_ms))
            return ps_fail(error, PS_ERR_IO, "%s", why.text);
    }
    /* The last try, whose error is the caller's. */
    return load_in_threads(recovery, recovered, error);
}

/* False when the server ends. Ends early when the server is to end. */
static bool rest(struct ps_tasks *tasks, uint64_t rest_ms)
{
    uint64_t until_ms = ps_deadline_after(tasks->options.clock, rest_ms);
    ps_mutex_lock(&tasks->mutex);
    /* Wakes for other reasons signal the same condition, so the clock is asked again after each. */
    while (!tasks->ending && ps_time_left_ms(tasks->options.clock, until_ms) > 0)
        (void)ps_condition_wait(&tasks->changed, &tasks->mutex,
                                ps_time_left_ms(tasks->options.clock, until_ms));
    bool go_on = !tasks->ending;
    ps_mutex_unlock(&tasks->mutex);
    return go_on;
}

/* Nobody is served before it is done, so it may have the whole machine. As many threads as there
 * are processors: nothing else runs on this server yet. */
static enum ps_status load_in_threads(struct ps_recovery *recovery, struct ps_recovered *recovered,
                                      struct ps_error *error)
{
    PS_ASSERT(recovery->sink == NULL && recovery->crew == NULL);
    /* For both halves: arrays first, records behind them. */
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
    /* The pool ends with this call, and a second try makes another. */
    recovery->sink = NULL;
    recovery->crew = NULL;
    ps_replay_pool_destroy(pool);
    return status;
}

/* What the pool calls for each record. */
static enum ps_status replay_record(void *self, const struct ps_record *record,
                                    struct ps_error *error)
{
    return ps_recovery_apply(self, record, error);
}

/* The store may have begun its history anew since the files were written. The service is told its
 * epoch anew when the files are above the claim's. */
static enum ps_status begin_epoch(struct ps_tasks *tasks, const struct ps_task *task,
                                  const char *folder, struct ps_error *error)
{
    PS_ASSERT(task->claim.epoch > 0);
    const struct ps_tasks_options *options = &tasks->options;
    PS_TRY(ps_shard_epoch(options->files, folder, task->claim.epoch, options->memory,
                          &tasks->epoch, error));
    /* The usual case: the store is older than every file. */
    if (tasks->epoch == task->claim.epoch)
        return PS_OK;
    PS_LOG(options->log, PS_LOG_WARN, "checkpoint",
           "the store is younger than the files of this shard: going on above their epoch",
           PS_FIELD_UINT("claim_epoch", task->claim.epoch), PS_FIELD_UINT("epoch", tasks->epoch));
    ps_service_own(options->service, task->claim.index, task->shard_count, tasks->epoch, "");
    return PS_OK;
}

/* It goes on from what is known to be durable, and repeats what was read beyond that. */
static enum ps_status open_journal(struct ps_tasks *tasks, const struct ps_task *task,
                                   const char *folder, const struct ps_recovered *recovered,
                                   struct ps_error *error)
{
    PS_ASSERT(recovered->durable <= recovered->position);
    if (tasks->options.journal == NULL)
        return PS_OK;
    /* Loading takes time, and the process may have been stopped meanwhile: when the shard is
     * another's, a segment of ours would only be in the way. */
    if (!ps_service_is_proved(tasks->options.service))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the lease ran out while the shard was loaded");
    const struct ps_journal_facts facts = {
        .index = task->claim.index,
        .shard_count = task->shard_count,
        .epoch = tasks->epoch,
        .position = recovered->durable,
        .previous_epoch = recovered->epoch,
        .history = ps_service_history(tasks->options.service),
        /* Records between these two places were read and may not be durable: the new journal holds
         * them again. */
        .repeat_to = recovered->position,
    };
    PS_TRY(ps_journal_thread_open(tasks->options.journal, folder, &facts, error));
    /* Notes of this epoch begin with its journal. */
    if (tasks->options.notes != NULL)
        ps_note_thread_begin(tasks->options.notes, folder, &task->claim, tasks->epoch);
    return PS_OK;
}
