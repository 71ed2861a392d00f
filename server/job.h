/* Private to jobs.c, load_job.c and save_job.c: the threads, and what one job is.
 *
 * Threads:  a job runs in the worker thread; what the mutex guards is said at it.
 * Blocking: running a job, for the disk and the store.
 * Errors:   said at the functions.
 * Memory:   as server/jobs.h says.
 */
#ifndef PS_SERVER_JOB_H
#define PS_SERVER_JOB_H

#include "base/thread.h"
#include "server/jobs.h"

/* Folders of one shard's checkpoints are at most this long. */
#define PS_JOB_FOLDER_BYTES 4096

/* For one question to the store; the coordinator tries again. */
#define PS_JOB_STORE_TIMEOUT_MS 5000

enum ps_job_kind { PS_JOB_NONE, PS_JOB_LOAD, PS_JOB_SAVE };

/* One job. */
struct ps_job {
    enum ps_job_kind kind;
    struct ps_claim claim;
    uint32_t shard_count;
    bool publish;
};

struct ps_jobs {
    struct ps_jobs_options options;       /* what it names is borrowed */
    struct ps_coordinator_driver *driver; /* borrowed; set before the first start_* */
    struct ps_mutex mutex;                /* guards what follows */
    struct ps_condition changed;
    bool ending;
    bool woken;        /* a save that waits is to look again */
    struct ps_job due; /* the worker takes it */
    bool drain_due;
    bool hurries; /* the server ends: its last checkpoint takes no rests */
    uint64_t drain_until_ms;
    uint64_t epoch; /* of the service under the claim loaded last; worker thread */
    struct ps_thread worker;
    struct ps_thread drainer;
};

/* Touches the memory that loading will need, for as long as there is no job. */
void ps_jobs_prepare_memory(struct ps_jobs *jobs);

/* The shard's newest state, and a journal that goes on from it. PS_ERR_NOT_FOUND: there is no
 * state, the shard begins empty; otherwise as server/core/recovery/recovery_run.h says. */
PS_MUST_USE enum ps_status ps_job_load(struct ps_jobs *jobs, const struct ps_job *job,
                                       struct ps_error *error);

/* A checkpoint of the shard, published if the job says so; as server/core/recovery/saver.h says. */
PS_MUST_USE enum ps_status ps_job_save(struct ps_jobs *jobs, const struct ps_job *job,
                                       struct ps_error *error);

/* True while there is no job, and the server does not end. */
bool ps_jobs_idle(struct ps_jobs *jobs);

/* DIR, or DIR/JOB. */
void ps_job_folder(const struct ps_jobs *jobs, char folder[PS_JOB_FOLDER_BYTES]);
/* The job's folder and shard-<i>. */
void ps_job_shard_folder(const struct ps_jobs *jobs, uint32_t index,
                         char folder[PS_JOB_FOLDER_BYTES]);

#endif
