/* SPDX-License-Identifier: Apache-2.0 */
/* This trainer's part in initialising the job: queue for the lock, hold it, mark the job done.
 *
 * While it holds the lock, a thread keeps its lease; when this process dies, the lease ends and
 * the next trainer in the queue is selected.
 *
 * Threads:  one caller at a time; one thread of its own while the lock is held.
 * Blocking: begin and finish until their deadline; fini for a few seconds at most.
 * Errors:   failures to ask are retried until the deadline.
 * Memory:   in place; options are borrowed for the initialiser's life.
 */
#ifndef PS_CLIENT_INITIALISER_H
#define PS_CLIENT_INITIALISER_H

#include "client/members/init_way.h"
#include "client/members/wake.h"

#include <stdatomic.h>

struct ps_initialiser {
    const struct ps_clock *clock;
    uint64_t ttl_ms;
    struct ps_init_way way; /* owned; belongs to the thread while that runs */
    struct ps_thread keeper;
    struct ps_wake stop;             /* woken to end the thread */
    uint64_t heard;                  /* count of `stop` when the thread was started */
    bool holding;                    /* selected, and not finished */
    uint64_t placement;              /* of the job, when begin returned; 0: not decided */
    _Atomic bool lost;               /* the thread has heard that the lease is over */
    const atomic_bool *is_cancelled; /* borrowed; begin gives up when it is set. NULL: never */
};

/* Takes what `way` is. */
void ps_initialiser_init(struct ps_initialiser *initialiser, const struct ps_init_way *way,
                         uint64_t ttl_ms, const struct ps_clock *clock);

/* Gives up the lock if it is held. Accepts a zeroed struct. */
void ps_initialiser_fini(struct ps_initialiser *initialiser);

/* Waits until this trainer holds the lock of a job that is not initialised (*selected), or the job
 * is initialised (not *selected). PS_ERR_UNAVAILABLE: neither, by the deadline; the text says who
 * it waited for. */
PS_MUST_USE enum ps_status ps_initialiser_begin(struct ps_initialiser *initialiser,
                                                uint64_t deadline_ms, bool *selected,
                                                struct ps_error *error);

/* Decides on the job's placement unless that is decided; `*decided` is what holds. `proposal` is
 * not 0. Errors as of prepare. */
PS_MUST_USE enum ps_status ps_initialiser_decide(struct ps_initialiser *initialiser,
                                                 uint64_t proposal, uint64_t deadline_ms,
                                                 uint64_t *decided, struct ps_error *error);

/* Before the servers are told to finish: finish demands that none of them begins without any state
 * from now on. PS_ERR_STALE_EPOCH: the lock is not held, begin again; a zeroed initialiser holds
 * none. After another failure the lock is still held. */
PS_MUST_USE enum ps_status ps_initialiser_prepare(struct ps_initialiser *initialiser,
                                                  uint64_t deadline_ms, struct ps_error *error);

/* Marks the job initialised and gives the lock up. PS_ERR_STALE_EPOCH: the lock had been lost;
 * begin again. After another failure the lock is still held; PS_ERR_CONFLICT: a server has begun
 * without any state, so prepare and tell all of them to finish again. */
PS_MUST_USE enum ps_status ps_initialiser_finish(struct ps_initialiser *initialiser,
                                                 uint64_t deadline_ms, struct ps_error *error);

#endif
