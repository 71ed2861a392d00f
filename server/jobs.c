/* Two threads that do what the coordinator must not wait for. */
#include "server/jobs.h"

#include "base/assert.h"
#include "server/job.h"

#include <stdio.h>
#include <string.h>

/* After so long without a checkpoint, memory that is ready for one goes back to the system. */
#define RELAX_MS 300000

static void worker_main(void *argument);
static bool take_job(struct ps_jobs *jobs, struct ps_job *job);
static void run_job(struct ps_jobs *jobs, const struct ps_job *job);
static void drainer_main(void *argument);

enum ps_status ps_jobs_create(const struct ps_jobs_options *options, struct ps_jobs **out,
                              struct ps_error *error)
{
    struct ps_jobs *jobs = ps_zeroed(options->memory, sizeof *jobs);
    if (jobs == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the checkpointer");
    jobs->options = *options;
    ps_mutex_init(&jobs->mutex, PS_RANK_QUEUE);
    ps_condition_init(&jobs->changed);
    enum ps_status status =
        ps_thread_start(&jobs->worker, "checkpointer", worker_main, jobs, error);
    if (status == PS_OK)
        status = ps_thread_start(&jobs->drainer, "drainer", drainer_main, jobs, error);
    if (status != PS_OK) {
        ps_jobs_destroy(jobs);
        return status;
    }
    *out = jobs;
    return PS_OK;
}

void ps_jobs_destroy(struct ps_jobs *jobs)
{
    if (jobs == NULL)
        return;
    ps_mutex_lock(&jobs->mutex);
    jobs->ending = true;
    ps_condition_signal_all(&jobs->changed);
    ps_mutex_unlock(&jobs->mutex);
    ps_thread_join(&jobs->worker);
    ps_thread_join(&jobs->drainer);
    ps_condition_fini(&jobs->changed);
    ps_mutex_fini(&jobs->mutex);
    ps_release(jobs->options.memory, jobs);
}

void ps_jobs_report_to(struct ps_jobs *jobs, struct ps_coordinator_driver *driver)
{
    jobs->driver = driver;
}

void ps_jobs_wake(struct ps_jobs *jobs)
{
    ps_mutex_lock(&jobs->mutex);
    jobs->woken = true;
    ps_condition_signal_all(&jobs->changed);
    ps_mutex_unlock(&jobs->mutex);
}

void ps_jobs_start_load(struct ps_jobs *jobs, const struct ps_claim *claim, uint32_t shard_count)
{
    ps_mutex_lock(&jobs->mutex);
    PS_ASSERT(jobs->due.kind == PS_JOB_NONE);
    jobs->due = (struct ps_job){.kind = PS_JOB_LOAD, .claim = *claim, .shard_count = shard_count};
    ps_condition_signal_all(&jobs->changed);
    ps_mutex_unlock(&jobs->mutex);
}

void ps_jobs_start_save(struct ps_jobs *jobs, const struct ps_claim *claim, bool publish)
{
    ps_mutex_lock(&jobs->mutex);
    PS_ASSERT(jobs->due.kind == PS_JOB_NONE);
    jobs->due = (struct ps_job){.kind = PS_JOB_SAVE, .claim = *claim, .publish = publish};
    ps_condition_signal_all(&jobs->changed);
    ps_mutex_unlock(&jobs->mutex);
}

void ps_jobs_start_drain(struct ps_jobs *jobs, uint64_t deadline_ms)
{
    ps_mutex_lock(&jobs->mutex);
    jobs->drain_due = true;
    jobs->hurries = true;
    jobs->drain_until_ms = deadline_ms;
    ps_condition_signal_all(&jobs->changed);
    ps_mutex_unlock(&jobs->mutex);
}

static void worker_main(void *argument)
{
    struct ps_jobs *jobs = argument;
    ps_service_enter_thread();
    ps_jobs_prepare_memory(jobs);
    struct ps_job job = {.kind = PS_JOB_NONE};
    while (take_job(jobs, &job))
        run_job(jobs, &job);
}

/* Waits for a job; false when there will be none. `job` is the one before. */
static bool take_job(struct ps_jobs *jobs, struct ps_job *job)
{
    const struct ps_clock *clock = jobs->options.clock;
    bool may_relax = job->kind == PS_JOB_SAVE && jobs->options.pool != NULL;
    uint64_t relax_ms = ps_deadline_after(clock, RELAX_MS);
    ps_mutex_lock(&jobs->mutex);
    while (jobs->due.kind == PS_JOB_NONE && !jobs->ending) {
        uint64_t left_ms = may_relax ? ps_time_left_ms(clock, relax_ms) : PS_DEADLINE_NEVER;
        if (left_ms > 0) {
            (void)ps_condition_wait(&jobs->changed, &jobs->mutex, left_ms);
            continue;
        }
        may_relax = false;
        ps_mutex_unlock(&jobs->mutex);
        ps_block_pool_relax(jobs->options.pool);
        ps_mutex_lock(&jobs->mutex);
    }
    *job = jobs->due;
    jobs->due.kind = PS_JOB_NONE;
    ps_mutex_unlock(&jobs->mutex);
    return job->kind != PS_JOB_NONE;
}

static void run_job(struct ps_jobs *jobs, const struct ps_job *job)
{
    struct ps_error why = {0};
    if (job->kind == PS_JOB_LOAD) {
        enum ps_status loaded = ps_job_load(jobs, job, &why);
        ps_coordinator_driver_tell_loaded(jobs->driver, loaded, &why);
    } else {
        struct ps_ticket asked = ps_service_newest_ticket(jobs->options.service);
        enum ps_status saved = ps_job_save(jobs, job, &why);
        why.status = saved;
        if (saved != PS_OK && saved != PS_ERR_NOT_READY)
            ps_service_not_saved(jobs->options.service, asked, &why);
        ps_coordinator_driver_tell_saved(jobs->driver, saved, &why);
    }
}

static void drainer_main(void *argument)
{
    struct ps_jobs *jobs = argument;
    ps_mutex_lock(&jobs->mutex);
    while (!jobs->ending) {
        if (!jobs->drain_due) {
            (void)ps_condition_wait(&jobs->changed, &jobs->mutex, PS_DEADLINE_NEVER);
            continue;
        }
        jobs->drain_due = false;
        uint64_t until_ms = jobs->drain_until_ms;
        ps_mutex_unlock(&jobs->mutex);
        ps_rpc_server_drain(jobs->options.rpc, until_ms);
        ps_coordinator_driver_tell_drained(jobs->driver);
        ps_mutex_lock(&jobs->mutex);
    }
    ps_mutex_unlock(&jobs->mutex);
}

bool ps_jobs_idle(struct ps_jobs *jobs)
{
    ps_mutex_lock(&jobs->mutex);
    bool idle = jobs->due.kind == PS_JOB_NONE && !jobs->ending;
    ps_mutex_unlock(&jobs->mutex);
    return idle;
}

void ps_job_folder(const struct ps_jobs *jobs, char folder[PS_JOB_FOLDER_BYTES])
{
    const char *job = jobs->options.job;
    int length = snprintf(folder, PS_JOB_FOLDER_BYTES, "%s%s%s", jobs->options.data_dir,
                          job[0] != '\0' ? "/" : "", job);
    PS_ASSERT(length > 0 && length < PS_JOB_FOLDER_BYTES);
}

void ps_job_shard_folder(const struct ps_jobs *jobs, uint32_t index,
                         char folder[PS_JOB_FOLDER_BYTES])
{
    ps_job_folder(jobs, folder);
    size_t used = strlen(folder);
    int length = snprintf(folder + used, PS_JOB_FOLDER_BYTES - used, "/shard-%u", index);
    PS_ASSERT(length > 0 && (size_t)length < PS_JOB_FOLDER_BYTES - used);
}
