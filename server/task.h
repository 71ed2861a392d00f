/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tasks.c, load_task.c and save_task.c: the threads, and what one task is.
 *
 * Threads:  a task runs in the worker thread; what the mutex guards is said at it.
 * Blocking: running a task, for the disk and the store.
 * Errors:   said at the functions.
 * Memory:   as server/tasks.h says.
 */
#ifndef PS_SERVER_TASK_H
#define PS_SERVER_TASK_H

#include "base/thread.h"
#include "server/core/recovery/increments.h"
#include "server/tasks.h"

/* The folder of one shard's checkpoints are at most this long. */
#define PS_SHARD_FOLDER_BYTES 4096

/* For one question to the store; the coordinator tries again. */
#define PS_TASK_STORE_TIMEOUT_MS 5000

enum ps_task_kind { PS_TASK_NONE, PS_TASK_LOAD, PS_TASK_SAVE };

struct ps_task {
    enum ps_task_kind kind;
    struct ps_claim claim;
    uint32_t shard_count;
    bool publish;
};

struct ps_tasks {
    struct ps_tasks_options options;      /* what it names is borrowed */
    struct ps_coordinator_driver *driver; /* borrowed; set before the first start_* */
    struct ps_mutex mutex;                /* guards what follows */
    struct ps_condition changed;
    bool ending;
    bool awaits_journal; /* a save does, and is to be woken */
    bool woken;          /* a save that waits is to look again */
    struct ps_task due;  /* the worker takes it */
    bool drain_due;
    bool hurries; /* the server ends: its last checkpoint takes no rests */
    uint64_t drain_until_ms;
    uint64_t epoch;                  /* of the service under the claim loaded last; worker thread */
    struct ps_increments increments; /* the worker thread's */
    struct ps_thread worker;
    struct ps_thread drainer;
};

/* Touches the memory that loading will need, for as long as there is no task. */
void ps_tasks_prepare_memory(struct ps_tasks *tasks);

/* The shard's newest state, and a journal that goes on from it. PS_ERR_NOT_FOUND: there is no
 * state, the shard begins empty; otherwise as server/core/recovery/recovery_run.h says. */
PS_MUST_USE enum ps_status ps_task_load(struct ps_tasks *tasks, const struct ps_task *task,
                                        struct ps_error *error);

/* A checkpoint of the shard, published if the task says so; as server/core/recovery/saver.h
 * says. */
PS_MUST_USE enum ps_status ps_task_save(struct ps_tasks *tasks, const struct ps_task *task,
                                        struct ps_error *error);

/* True while there is no task, and the server does not end. */
bool ps_tasks_idle(struct ps_tasks *tasks);

/* DIR, or DIR/JOB. */
void ps_tasks_job_folder(const struct ps_tasks *tasks, char folder[PS_SHARD_FOLDER_BYTES]);
/* The job's folder and shard-<i>. */
void ps_tasks_shard_folder(const struct ps_tasks *tasks, uint32_t index,
                           char folder[PS_SHARD_FOLDER_BYTES]);

#endif
