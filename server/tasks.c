/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that do what the coordinator must not wait for, since it keeps the lease: loading and
 * saving take as long as the shard is large. They never overlap, so one thread does both; draining
 * waits for calls in flight, during which a save may still be at work, and has a thread of its own.
 * */
#include "server/tasks.h"

#include "base/assert.h"
#include "server/task.h"

#include <stdio.h>
#include <string.h>

/* After so long without a checkpoint, memory that is ready for one goes back to the system. */
#define RELAX_MS 300000

static void worker_main(void *argument);
static bool take_task(struct ps_tasks *tasks, struct ps_task *task);
static void run_task(struct ps_tasks *tasks, const struct ps_task *task);
static void drainer_main(void *argument);

/* Both threads run from here on and wait. */
enum ps_status ps_tasks_create(const struct ps_tasks_options *options, struct ps_tasks **out,
                               struct ps_error *error)
{
    struct ps_tasks *tasks = ps_zeroed(options->memory, sizeof *tasks);
    if (tasks == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the checkpointer");
    tasks->options = *options;
    ps_increments_init(&tasks->increments, options->memory, options->increments);
    /* Lock and condition come before the threads, which wait on them at once. */
    ps_mutex_init(&tasks->mutex, PS_RANK_QUEUE);
    ps_condition_init(&tasks->changed);
    enum ps_status status =
        ps_thread_start(&tasks->worker, "checkpointer", worker_main, tasks, error);
    if (status == PS_OK)
        status = ps_thread_start(&tasks->drainer, "drainer", drainer_main, tasks, error);
    if (status != PS_OK) {
        ps_tasks_destroy(tasks);
        return status;
    }
    *out = tasks;
    return PS_OK;
}

/* A task at work is waited for: it writes into the service, which goes next. */
void ps_tasks_destroy(struct ps_tasks *tasks)
{
    if (tasks == NULL)
        return;
    ps_mutex_lock(&tasks->mutex);
    tasks->ending = true;
    ps_condition_signal_all(&tasks->changed);
    ps_mutex_unlock(&tasks->mutex);
    /* After a failed create one of the two never ran; joining passes over such a thread. */
    ps_thread_join(&tasks->worker);
    ps_thread_join(&tasks->drainer);
    /* While the service is there: tables keep keys for the base. */
    ps_increments_fini(&tasks->increments);
    ps_condition_fini(&tasks->changed);
    ps_mutex_fini(&tasks->mutex);
    ps_release(tasks->options.memory, tasks);
}

/* The main thread sets the driver before the coordinator runs. The first task comes from there, so
 * that no lock is needed. */
void ps_tasks_report_to(struct ps_tasks *tasks, struct ps_coordinator_driver *driver)
{
    tasks->driver = driver;
}

/* For a save that waits for the journal. Otherwise nobody is woken: each write of the journal comes
 * here, and two threads that wake for nothing would take their turn before the reply does. */
void ps_tasks_wake(struct ps_tasks *tasks)
{
    PS_ASSERT(tasks != NULL);
    ps_mutex_lock(&tasks->mutex);
    tasks->woken = true;
    if (tasks->awaits_journal)
        ps_condition_signal_all(&tasks->changed);
    ps_mutex_unlock(&tasks->mutex);
}

/* The coordinator starts one task at a time and waits to be told of its end. */
void ps_tasks_start_load(struct ps_tasks *tasks, const struct ps_claim *claim, uint32_t shard_count)
{
    PS_ASSERT(claim->epoch > 0 && shard_count > 0);
    ps_mutex_lock(&tasks->mutex);
    /* A second task would replace the first, whose end the coordinator would await for ever. */
    PS_ASSERT(tasks->due.kind == PS_TASK_NONE);
    tasks->due =
        (struct ps_task){.kind = PS_TASK_LOAD, .claim = *claim, .shard_count = shard_count};
    ps_condition_signal_all(&tasks->changed);
    ps_mutex_unlock(&tasks->mutex);
}

/* The claim is copied: by the time of the pointer the coordinator may have lost it, and the store
 * will refuse it then. */
void ps_tasks_start_save(struct ps_tasks *tasks, const struct ps_claim *claim, bool publish)
{
    ps_mutex_lock(&tasks->mutex);
    PS_ASSERT(tasks->due.kind == PS_TASK_NONE);
    tasks->due = (struct ps_task){.kind = PS_TASK_SAVE, .claim = *claim, .publish = publish};
    ps_condition_signal_all(&tasks->changed);
    ps_mutex_unlock(&tasks->mutex);
}

/* From here on a save takes no rests: somebody waits for the server to end. */
void ps_tasks_start_drain(struct ps_tasks *tasks, uint64_t deadline_ms)
{
    ps_mutex_lock(&tasks->mutex);
    tasks->drain_due = true;
    tasks->hurries = true;
    tasks->drain_until_ms = deadline_ms;
    ps_condition_signal_all(&tasks->changed);
    ps_mutex_unlock(&tasks->mutex);
}

/* The floating-point mode is set first, since replaying computes. */
static void worker_main(void *argument)
{
    struct ps_tasks *tasks = argument;
    ps_service_enter_thread();
    /* A load that is asked for meanwhile ends the preparation early (ps_tasks_idle). */
    ps_tasks_prepare_memory(tasks);
    struct ps_task task = {.kind = PS_TASK_NONE};
    while (take_task(tasks, &task))
        run_task(tasks, &task);
}

/* Waits for a task; false when there will be none. `*task` is the one before. While nothing is to
 * do for long, memory that was ready for the next checkpoint goes back to the system; for that the
 * lock is let go, and what came meanwhile is seen by the loop. */
static bool take_task(struct ps_tasks *tasks, struct ps_task *task)
{
    const struct ps_clock *clock = tasks->options.clock;
    /* Only a save has made memory ready. */
    bool may_relax = task->kind == PS_TASK_SAVE && tasks->options.pool != NULL;
    uint64_t relax_ms = ps_deadline_after(clock, RELAX_MS);
    ps_mutex_lock(&tasks->mutex);
    while (tasks->due.kind == PS_TASK_NONE && !tasks->ending) {
        uint64_t left_ms = may_relax ? ps_time_left_ms(clock, relax_ms) : PS_DEADLINE_NEVER;
        if (left_ms > 0) {
            (void)ps_condition_wait(&tasks->changed, &tasks->mutex, left_ms);
            continue;
        }
        may_relax = false;
        ps_mutex_unlock(&tasks->mutex);
        /* Without the lock, since giving memory back takes time and start_* must not wait. */
        ps_block_pool_relax(tasks->options.pool);
        ps_mutex_lock(&tasks->mutex);
    }
    /* When the server ends this is none, which ends the thread. */
    *task = tasks->due;
    tasks->due.kind = PS_TASK_NONE;
    ps_mutex_unlock(&tasks->mutex);
    return task->kind != PS_TASK_NONE;
}

/* What became of it goes to the driver, also of a load for a shard that was lost meanwhile: the
 * coordinator waits for that answer before it begins the next term. */
static void run_task(struct ps_tasks *tasks, const struct ps_task *task)
{
    PS_ASSERT(task->kind == PS_TASK_LOAD || task->kind == PS_TASK_SAVE);
    struct ps_error why = {0};
    if (task->kind == PS_TASK_LOAD) {
        enum ps_status loaded = ps_task_load(tasks, task, &why);
        ps_coordinator_driver_tell_loaded(tasks->driver, loaded, &why);
    } else {
        /* Before the save: whoever asks during it is not among those that it fails. */
        struct ps_ticket asked = ps_service_newest_ticket(tasks->options.service);
        enum ps_status saved = ps_task_save(tasks, task, &why);
        why.status = saved;
        /* Nothing to save is not a failure that anybody waits for. */
        if (saved != PS_OK && saved != PS_ERR_NOT_READY)
            ps_service_not_saved(tasks->options.service, asked, &why);
        ps_coordinator_driver_tell_saved(tasks->driver, saved, &why);
    }
}

/* Told again after a drain, since each stop may ask for one. */
static void drainer_main(void *argument)
{
    struct ps_tasks *tasks = argument;
    ps_mutex_lock(&tasks->mutex);
    while (!tasks->ending) {
        if (!tasks->drain_due) {
            (void)ps_condition_wait(&tasks->changed, &tasks->mutex, PS_DEADLINE_NEVER);
            continue;
        }
        tasks->drain_due = false;
        /* Copied under the lock: another start_drain may set another deadline. */
        uint64_t until_ms = tasks->drain_until_ms;
        ps_mutex_unlock(&tasks->mutex);
        /* Waits for calls; the mutex is let go, since they may wake a save. */
        ps_rpc_server_drain(tasks->options.rpc, until_ms);
        ps_coordinator_driver_tell_drained(tasks->driver);
        ps_mutex_lock(&tasks->mutex);
    }
    ps_mutex_unlock(&tasks->mutex);
}

/* Asked between two slabs of memory that is made ready. */
bool ps_tasks_idle(struct ps_tasks *tasks)
{
    ps_mutex_lock(&tasks->mutex);
    bool idle = tasks->due.kind == PS_TASK_NONE && !tasks->ending;
    ps_mutex_unlock(&tasks->mutex);
    return idle;
}

/* A server without a job's name uses the data directory itself, as it did before there were names.
 * */
void ps_tasks_job_folder(const struct ps_tasks *tasks, char folder[PS_SHARD_FOLDER_BYTES])
{
    PS_ASSERT(tasks->options.data_dir != NULL);
    const char *job = tasks->options.job;
    int length = snprintf(folder, PS_SHARD_FOLDER_BYTES, "%s%s%s", tasks->options.data_dir,
                          job[0] != '\0' ? "/" : "", job);
    PS_ASSERT(length > 0 && length < PS_SHARD_FOLDER_BYTES);
}

/* Recovery and the forecast of memory know a shard's folder by this name. */
void ps_tasks_shard_folder(const struct ps_tasks *tasks, uint32_t index,
                           char folder[PS_SHARD_FOLDER_BYTES])
{
    ps_tasks_job_folder(tasks, folder);
    size_t used = strlen(folder);
    int length = snprintf(folder + used, PS_SHARD_FOLDER_BYTES - used, "/shard-%u", index);
    PS_ASSERT(length > 0 && (size_t)length < PS_SHARD_FOLDER_BYTES - used);
}
