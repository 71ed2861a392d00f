/* Two threads that do what the coordinator must not wait for. */
#include "server/jobs.h"

#include "base/assert.h"
#include "base/file.h"
#include "base/thread.h"
#include "server/core/loader.h"
#include "server/core/saver.h"
#include "server/core/shard_epoch.h"
#include "server/forecast.h"
#include "server/replay_pool.h"
#include "server/thread_crew.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Folders of one shard's checkpoints are at most this long. */
#define FOLDER_BYTES 4096

/* Most that a save waits for the journal; the coordinator tries again. */
#define JOURNAL_TIMEOUT_MS 5000

/* For one question to the store; the coordinator tries again. */
#define STORE_TIMEOUT_MS 5000

/* A rest between pieces of a checkpoint: shorter ones are not worth a wake-up, and after a longer
 * piece the disk was what took the time. */
#define REST_MS_MIN 4
#define REST_MS_MAX 50

enum job_kind { JOB_NONE, JOB_LOAD, JOB_SAVE };

struct ps_jobs {
    struct ps_jobs_options options;       /* what it names is borrowed */
    struct ps_coordinator_driver *driver; /* borrowed; set before the first start_* */
    struct ps_mutex mutex;                /* guards what follows */
    struct ps_condition changed;
    bool ending;
    bool woken;         /* a save that waits is to look again */
    enum job_kind kind; /* the job that is due; the worker takes it */
    struct ps_claim claim;
    uint32_t shard_count;
    bool publish;
    bool drain_due;
    bool hurries; /* the server ends: its last checkpoint takes no rests */
    uint64_t drain_until_ms;
    uint64_t epoch; /* of the service under the claim loaded last; worker thread */
    struct ps_thread worker;
    struct ps_thread drainer;
};

/* One job as its thread took it. */
struct job {
    enum job_kind kind;
    struct ps_claim claim;
    uint32_t shard_count;
    bool publish;
};

/* Of one checkpoint that is being written. */
struct pace {
    struct ps_jobs *jobs;
    uint64_t since_ns; /* at work without a rest */
};

static void worker_main(void *argument);
static void prepare_memory(struct ps_jobs *jobs);
static bool is_idle(struct ps_jobs *jobs);
static bool take_job(struct ps_jobs *jobs, struct job *job);
static void load(struct ps_jobs *jobs, const struct job *job);
static enum ps_status load_newest(struct ps_jobs *jobs, const struct job *job,
                                  struct ps_error *error);
static enum ps_status load_state(struct ps_jobs *jobs, const struct job *job, const char *folder,
                                 struct ps_loaded *loaded, struct ps_error *error);
static enum ps_status load_in_threads(struct ps_loader *loader, struct ps_loaded *loaded,
                                      struct ps_error *error);
static enum ps_status replay_record(void *self, const struct ps_record *record,
                                    struct ps_error *error);
static enum ps_status begin_epoch(struct ps_jobs *jobs, const struct job *job, const char *folder,
                                  struct ps_error *error);
static enum ps_status open_journal(struct ps_jobs *jobs, const struct job *job, const char *folder,
                                   const struct ps_loaded *loaded, struct ps_error *error);
static void save(struct ps_jobs *jobs, const struct job *job);
static void rest(void *self);
static enum ps_status write_file(struct ps_jobs *jobs, const struct ps_saver *saver,
                                 struct ps_saving *saving, struct ps_error *error);
static enum ps_status wait_for_journal(struct ps_jobs *jobs, const struct ps_saver *saver,
                                       const struct ps_saving *saving, struct ps_error *error);
static void drainer_main(void *argument);
static void job_folder(const struct ps_jobs *jobs, char folder[FOLDER_BYTES]);
static void shard_folder(const struct ps_jobs *jobs, uint32_t index, char folder[FOLDER_BYTES]);

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
    PS_ASSERT(jobs->kind == JOB_NONE);
    jobs->kind = JOB_LOAD;
    jobs->claim = *claim;
    jobs->shard_count = shard_count;
    ps_condition_signal_all(&jobs->changed);
    ps_mutex_unlock(&jobs->mutex);
}

void ps_jobs_start_save(struct ps_jobs *jobs, const struct ps_claim *claim, bool publish)
{
    ps_mutex_lock(&jobs->mutex);
    PS_ASSERT(jobs->kind == JOB_NONE);
    jobs->kind = JOB_SAVE;
    jobs->claim = *claim;
    jobs->publish = publish;
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
    prepare_memory(jobs);
    struct job job;
    while (take_job(jobs, &job)) {
        if (job.kind == JOB_LOAD)
            load(jobs, &job);
        else
            save(jobs, &job);
    }
}

/* While the server waits for a shard: memory that is touched for the first time is the larger part
 * of a load. Half of what the machine has free at most: it may never come to loading. */
static void prepare_memory(struct ps_jobs *jobs)
{
    const struct ps_jobs_options *options = &jobs->options;
    if (options->pool == NULL || options->data_dir == NULL)
        return;
    char folder[FOLDER_BYTES];
    job_folder(jobs, folder);
    uint64_t bytes = ps_forecast_bytes(ps_files_real(), folder, options->memory);
    uint64_t most = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    if (options->memory_bytes > 0 && options->memory_bytes < most)
        most = options->memory_bytes;
    bytes = bytes < most ? bytes : most;
    while (is_idle(jobs) && ps_block_pool_prepare(options->pool, bytes)) {
    }
}

static bool is_idle(struct ps_jobs *jobs)
{
    ps_mutex_lock(&jobs->mutex);
    bool idle = jobs->kind == JOB_NONE && !jobs->ending;
    ps_mutex_unlock(&jobs->mutex);
    return idle;
}

/* Waits for a job; false when there will be none. */
static bool take_job(struct ps_jobs *jobs, struct job *job)
{
    ps_mutex_lock(&jobs->mutex);
    while (jobs->kind == JOB_NONE && !jobs->ending)
        (void)ps_condition_wait(&jobs->changed, &jobs->mutex, PS_DEADLINE_NEVER);
    *job = (struct job){.kind = jobs->kind,
                        .claim = jobs->claim,
                        .shard_count = jobs->shard_count,
                        .publish = jobs->publish};
    jobs->kind = JOB_NONE;
    ps_mutex_unlock(&jobs->mutex);
    return job->kind != JOB_NONE;
}

/* DIR, or DIR/JOB. */
static void job_folder(const struct ps_jobs *jobs, char folder[FOLDER_BYTES])
{
    const char *job = jobs->options.job;
    int length = snprintf(folder, FOLDER_BYTES, "%s%s%s", jobs->options.data_dir,
                          job[0] != '\0' ? "/" : "", job);
    PS_ASSERT(length > 0 && length < FOLDER_BYTES);
}

/* The job's folder and shard-<i>. */
static void shard_folder(const struct ps_jobs *jobs, uint32_t index, char folder[FOLDER_BYTES])
{
    job_folder(jobs, folder);
    size_t used = strlen(folder);
    int length = snprintf(folder + used, FOLDER_BYTES - used, "/shard-%u", index);
    PS_ASSERT(length > 0 && (size_t)length < FOLDER_BYTES - used);
}

static void load(struct ps_jobs *jobs, const struct job *job)
{
    struct ps_error why = {0};
    enum ps_status status = PS_ERR_NOT_FOUND;
    if (jobs->options.data_dir != NULL)
        status = load_newest(jobs, job, &why);
    else
        (void)ps_fail(&why, status, "no --data-dir: nothing was ever saved");
    ps_coordinator_driver_tell_loaded(jobs->driver, status, &why);
}

static enum ps_status load_newest(struct ps_jobs *jobs, const struct job *job,
                                  struct ps_error *error)
{
    char folder[FOLDER_BYTES];
    struct ps_loaded loaded = {0};
    shard_folder(jobs, job->claim.index, folder);
    PS_TRY(begin_epoch(jobs, job, folder, error));
    enum ps_status status = load_state(jobs, job, folder, &loaded, error);
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    /* A shard without state begins empty; so does its journal. */
    enum ps_status opened = open_journal(jobs, job, folder, &loaded, error);
    if (status == PS_OK && opened == PS_OK)
        ps_service_begin_recovered(jobs->options.service, loaded.position);
    if (status == PS_OK && opened != PS_OK)
        ps_service_give_up_recovery(jobs->options.service);
    return opened == PS_OK ? status : opened;
}

static enum ps_status load_state(struct ps_jobs *jobs, const struct job *job, const char *folder,
                                 struct ps_loaded *loaded, struct ps_error *error)
{
    const struct ps_jobs_options *options = &jobs->options;
    struct ps_kv_entries pointer = {0};
    enum ps_status status = ps_registry_read_checkpoint(
        options->registry, job->claim.index, ps_deadline_after(options->clock, STORE_TIMEOUT_MS),
        &pointer, error);
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    struct ps_loader loader = {
        .service = options->service,
        .files = ps_files_real(),
        .folder = folder,
        .memory = options->memory,
        .log = options->log,
    };
    if (pointer.count > 0)
        loader.pointer = (struct ps_bytes){pointer.entries[0].value, pointer.entries[0].value_size};
    status = load_in_threads(&loader, loaded, error);
    ps_kv_entries_release(&pointer);
    return status;
}

/* Nobody is served before it is done, so it may have the whole machine. */
static enum ps_status load_in_threads(struct ps_loader *loader, struct ps_loaded *loaded,
                                      struct ps_error *error)
{
    uint32_t thread_count = ps_crew_thread_count();
    const struct ps_replay_pool_options options = {.memory = loader->memory,
                                                   .thread_count = thread_count,
                                                   .apply = replay_record,
                                                   .self = loader->service};
    struct ps_replay_pool *pool = NULL;
    PS_TRY(ps_replay_pool_create(&options, &pool, error));
    const struct ps_replay_sink sink = ps_replay_pool_sink(pool);
    const struct ps_crew crew = ps_thread_crew(&thread_count);
    loader->sink = &sink;
    loader->crew = &crew;
    enum ps_status status = ps_loader_load(loader, loaded, error);
    loader->sink = NULL;
    loader->crew = NULL;
    ps_replay_pool_destroy(pool);
    return status;
}

static enum ps_status replay_record(void *self, const struct ps_record *record,
                                    struct ps_error *error)
{
    return ps_service_replay(self, record, error);
}

/* The store may have begun its history anew since the files were written. */
static enum ps_status begin_epoch(struct ps_jobs *jobs, const struct job *job, const char *folder,
                                  struct ps_error *error)
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

static enum ps_status open_journal(struct ps_jobs *jobs, const struct job *job, const char *folder,
                                   const struct ps_loaded *loaded, struct ps_error *error)
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
        .position = loaded->durable,
        .previous_epoch = loaded->epoch,
        .repeat_to = loaded->position,
    };
    return ps_journal_thread_open(jobs->options.journal, folder, &facts, error);
}

static void save(struct ps_jobs *jobs, const struct job *job)
{
    const struct ps_jobs_options *options = &jobs->options;
    char folder[FOLDER_BYTES];
    shard_folder(jobs, job->claim.index, folder);
    struct pace pace = {.jobs = jobs, .since_ns = ps_clock_precise_ns()};
    const struct ps_saver saver = {
        .service = options->service,
        .files = ps_files_real(),
        .folder = folder,
        .registry = options->registry,
        .claim = &job->claim,
        .epoch = jobs->epoch,
        .keeps_journal = options->journal_keep,
        .memory = options->memory,
        .clock = options->clock,
        .log = options->log,
        .rest = rest,
        .rest_self = &pace,
    };
    struct ps_error why = {0};
    struct ps_saving saving;
    enum ps_status status = write_file(jobs, &saver, &saving, &why);
    if (status == PS_OK && job->publish)
        status = ps_saver_publish(&saver, &saving,
                                  ps_deadline_after(options->clock, STORE_TIMEOUT_MS), &why);
    ps_coordinator_driver_tell_saved(jobs->driver, status, &why);
}

/* Work and rest take turns, equally long: a checkpoint takes twice its time and half of what it
 * costs the pushes. Nobody rests while the server waits for this checkpoint to end. */
static void rest(void *self)
{
    struct pace *pace = self;
    struct ps_jobs *jobs = pace->jobs;
    uint64_t worked_ms = (ps_clock_precise_ns() - pace->since_ns) / 1000000;
    if (worked_ms < REST_MS_MIN)
        return;
    uint64_t until_ms =
        ps_deadline_after(jobs->options.clock, worked_ms < REST_MS_MAX ? worked_ms : REST_MS_MAX);
    ps_mutex_lock(&jobs->mutex);
    while (!jobs->ending && !jobs->hurries) {
        uint64_t left_ms = ps_time_left_ms(jobs->options.clock, until_ms);
        if (left_ms == 0)
            break;
        (void)ps_condition_wait(&jobs->changed, &jobs->mutex, left_ms);
    }
    ps_mutex_unlock(&jobs->mutex);
    pace->since_ns = ps_clock_precise_ns();
}

static enum ps_status write_file(struct ps_jobs *jobs, const struct ps_saver *saver,
                                 struct ps_saving *saving, struct ps_error *error)
{
    PS_TRY(ps_saver_begin(saver, saving, error));
    enum ps_status status = wait_for_journal(jobs, saver, saving, error);
    if (status == PS_OK)
        return ps_saver_write(saver, saving, error);
    ps_saver_give_up(saving);
    return status;
}

/* It is a few milliseconds behind, or as far as the queue of the journal is long. */
static enum ps_status wait_for_journal(struct ps_jobs *jobs, const struct ps_saver *saver,
                                       const struct ps_saving *saving, struct ps_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(jobs->options.clock, JOURNAL_TIMEOUT_MS);
    for (;;) {
        ps_mutex_lock(&jobs->mutex);
        jobs->woken = false;
        bool ending = jobs->ending;
        ps_mutex_unlock(&jobs->mutex);
        enum ps_status status = ps_saver_may_write(saver, saving, error);
        uint64_t left_ms = ps_time_left_ms(jobs->options.clock, deadline_ms);
        if (status == PS_ERR_NOT_READY && (left_ms == 0 || ending))
            return ps_fail(error, PS_ERR_TIMEOUT, "the journal does not get as far as the state");
        if (status != PS_ERR_NOT_READY)
            return status;
        ps_mutex_lock(&jobs->mutex);
        if (!jobs->woken && !jobs->ending)
            (void)ps_condition_wait(&jobs->changed, &jobs->mutex, left_ms);
        ps_mutex_unlock(&jobs->mutex);
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
