/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes by is counted under the mutex, so that a worker knows what it waits for without a queue
 * of names: so many more than when it stood aside. That it may be others than those that waited
 * then does not matter to it, since the system wakes sleepers in about the order in which they
 * came. */
#include "base/let_by.h"

#include "base/assert.h"
#include "base/clock.h"

/* Beside a mutex that has been made, or is about to be: it is named with each call. */
void ps_let_by_init(struct ps_let_by *let_by)
{
    atomic_init(&let_by->waiting, 0);
    let_by->passed = 0;
    let_by->aside = 0;
    ps_condition_init(&let_by->came_by);
}

/* As of a mutex: memory that somebody still waits in is not given back. */
void ps_let_by_fini(struct ps_let_by *let_by)
{
    PS_ASSERT(atomic_load(&let_by->waiting) == 0 && let_by->aside == 0);
    ps_condition_fini(&let_by->came_by);
}

/* One try more than a lock: whoever finds it free pays nothing else. */
void ps_let_by_lock(struct ps_let_by *let_by, struct ps_mutex *mutex)
{
    if (ps_mutex_try_lock(mutex))
        return;
    atomic_fetch_add(&let_by->waiting, 1);
    ps_mutex_lock(mutex);
    uint32_t before = atomic_fetch_sub(&let_by->waiting, 1);
    PS_ASSERT(before > 0);
    let_by->passed++;
    /* The worker wakes up when this one lets go, and looks at whether others are due. */
    if (let_by->aside > 0)
        ps_condition_signal_all(&let_by->came_by);
}

/* A wake-up for nothing is looked at and slept over. One who never comes costs the whole time once,
 * and not for each of those that would have been waited for behind it. */
void ps_let_by_wait(struct ps_let_by *let_by, struct ps_mutex *mutex, uint64_t timeout_ms)
{
    /* One that came between its try and its count is let by the next time. */
    uint64_t until = let_by->passed + atomic_load(&let_by->waiting);
    PS_ASSERT(timeout_ms > 0 && timeout_ms != PS_DEADLINE_NEVER);
    let_by->aside++;
    while (let_by->passed < until && ps_condition_wait(&let_by->came_by, mutex, timeout_ms)) {
    }
    let_by->aside--;
}
