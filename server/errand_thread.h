/* SPDX-License-Identifier: Apache-2.0 */
/* A thread with one errand that it does again and again: when it is woken, or when the time has
 * come that the last turn named. The journal's writer and the writer of notes are such threads.
 *
 * Threads:  init and fini belong to one thread; wake and interrupt to any.
 * Blocking: fini waits for the turn at work; wake and interrupt for a lock held for moments.
 * Errors:   init: PS_ERR_NO_MEMORY when the system refuses a thread.
 * Memory:   in place, and stays where it is until fini.
 */
#ifndef PS_SERVER_ERRAND_THREAD_H
#define PS_SERVER_ERRAND_THREAD_H

#include "base/clock.h"
#include "base/thread.h"

#include <stdatomic.h>

/* One turn. Returns when the next is due, on the thread's clock: until then no wake counts, so that
 * a turn may be paced, or wait before it tries again what has failed. PS_DEADLINE_NEVER: the next
 * turn comes with the next wake. */
typedef uint64_t (*ps_errand_fn)(void *self);

struct ps_errand_thread {
    ps_errand_fn turn;
    void *self;                   /* borrowed; outlives the thread */
    const struct ps_clock *clock; /* borrowed; outlives the thread */
    struct ps_thread thread;
    _Atomic bool woken;
    struct ps_mutex mutex; /* PS_RANK_LEAF; guards what follows */
    struct ps_condition changed;
    bool interrupted;
    bool ending;
};

/* Starts the thread under `name`; its first turn comes with the first wake. What `turn` uses is
 * ready by now. After a failure `*errand` is zeroed. */
PS_MUST_USE enum ps_status ps_errand_thread_init(struct ps_errand_thread *errand, const char *name,
                                                 const struct ps_clock *clock, ps_errand_fn turn,
                                                 void *self, struct ps_error *error);

/* No turn begins any more when this returns. Accepts a zeroed one. */
void ps_errand_thread_fini(struct ps_errand_thread *errand);

/* There is something to do. Cheap when that was said before. */
void ps_errand_thread_wake(struct ps_errand_thread *errand);

/* The next turn comes at once, also in a pause that the last one wanted. */
void ps_errand_thread_interrupt(struct ps_errand_thread *errand);

#endif
