/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes that know their place in the lock order, conditions with deadlines, named threads.
 *
 * Threads:  that is what it is for.
 * Blocking: lock, wait and join, as their names say.
 * Errors:   only ps_thread_start can fail; the rest asserts, since failure is a bug of ours.
 * Memory:   in place; the system's own allocations behind a thread aside.
 */
#ifndef PS_BASE_THREAD_H
#define PS_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A thread takes locks in rising rank only; taking one out of order aborts. */
enum ps_lock_rank {
    PS_RANK_COORDINATOR = 1, /* server/: coordination state */
    PS_RANK_TABLE,           /* server/core: the name table and the cut of a snapshot */
    PS_RANK_ROUND,           /* server/core: contributions to a parameter; around the next */
    PS_RANK_PARAMETER,       /* server/core: one parameter; never two at a time */
    PS_RANK_STAGING,         /* server/core: requests in ranges; asks the sessions within */
    PS_RANK_GATHER,          /* server/core: small gradients on their way to a device */
    PS_RANK_LOADING,         /* server/core: some stripes of a table that is loaded; never two */
    PS_RANK_GROWTH,          /* server/core: the lists of a table that is loaded, and its rows */
    PS_RANK_BODIES,          /* server/core: bodies of a table's rows on a device */
    PS_RANK_HOLDS,           /* server/core: the holds of a table, while rows are set aside */
    PS_RANK_ROWS,            /* server/core: some stripes of a table; never two at a time */
    PS_RANK_CLIENT,          /* client/: the client's state */
    PS_RANK_QUEUE,           /* hand-over queues between threads */
    PS_RANK_LEAF             /* logs, metrics: nothing is locked beyond */
};

struct ps_mutex {
    pthread_mutex_t mutex;
    enum ps_lock_rank rank;
};

void ps_mutex_init(struct ps_mutex *mutex, enum ps_lock_rank rank);
void ps_mutex_fini(struct ps_mutex *mutex);
void ps_mutex_lock(struct ps_mutex *mutex);
void ps_mutex_unlock(struct ps_mutex *mutex);

/* Takes it if nobody has it; false, and nothing has changed, if somebody does. */
PS_MUST_USE bool ps_mutex_try_lock(struct ps_mutex *mutex);

/* Many readers or one writer; a waiting writer holds new readers back. */
struct ps_rwlock {
    pthread_rwlock_t lock;
    enum ps_lock_rank rank;
};

void ps_rwlock_init(struct ps_rwlock *lock, enum ps_lock_rank rank);
void ps_rwlock_fini(struct ps_rwlock *lock);
void ps_rwlock_read(struct ps_rwlock *lock);
void ps_rwlock_write(struct ps_rwlock *lock);
void ps_rwlock_unlock(struct ps_rwlock *lock);

struct ps_condition {
    pthread_cond_t condition;
};

void ps_condition_init(struct ps_condition *condition);
void ps_condition_fini(struct ps_condition *condition);
void ps_condition_signal_all(struct ps_condition *condition);

/* Waits at most `timeout_ms` (PS_DEADLINE_NEVER: for ever); true when signalled, false at the
 * deadline. As always with conditions, look at the state again after either. */
bool ps_condition_wait(struct ps_condition *condition, struct ps_mutex *mutex, uint64_t timeout_ms);

typedef void (*ps_thread_fn)(void *argument);

struct ps_thread {
    pthread_t thread;
    ps_thread_fn run;
    void *argument;
    bool started;
};

/* Starts `run(argument)` in a thread called `name` (at most 15 characters are kept). `thread`
 * must stay where it is until joined. PS_ERR_NO_MEMORY when the system refuses. */
PS_MUST_USE enum ps_status ps_thread_start(struct ps_thread *thread, const char *name,
                                           ps_thread_fn run, void *argument,
                                           struct ps_error *error);

/* Waits for the thread's end; does nothing when it was never started. */
void ps_thread_join(struct ps_thread *thread);

#endif
