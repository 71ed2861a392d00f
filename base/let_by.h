/* SPDX-License-Identifier: Apache-2.0 */
/* Long work under a mutex, done in pieces, that lets by whoever waits for it.
 *
 * A mutex promises nothing of who has it next: a thread that lets go and takes it again at once has
 * it before one that sleeps is awake, so that pieces one after another are as bad for others as the
 * whole. Those who are to be let by are counted while they wait, and the worker stands aside until
 * as many have had the mutex. They pay for it only when they have to wait anyway.
 *
 * Threads:  any. Beside one mutex, which every call is given.
 * Blocking: as said at each function.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_BASE_LET_BY_H
#define PS_BASE_LET_BY_H

#include "base/thread.h"

#include <stdatomic.h>

struct ps_let_by {
    _Atomic uint32_t waiting; /* for the mutex, of those that are let by */
    /* Guarded by the mutex. */
    uint64_t passed; /* how many have waited, and had it */
    uint32_t aside;  /* workers that let others by */
    struct ps_condition came_by;
};

void ps_let_by_init(struct ps_let_by *let_by);
void ps_let_by_fini(struct ps_let_by *let_by); /* nobody waits any more */

/* Takes the mutex, as one who is let by. Unlocked as ever. */
void ps_let_by_lock(struct ps_let_by *let_by, struct ps_mutex *mutex);

/* With the mutex, which is let go of meanwhile, as a condition does: everyone who waits for it now
 * through ps_let_by_lock has it first. Who comes later may have it, too. It waits no longer than
 * `timeout_ms` for each of them, and returns with the mutex. */
void ps_let_by_wait(struct ps_let_by *let_by, struct ps_mutex *mutex, uint64_t timeout_ms);

#endif
