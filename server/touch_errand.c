/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of its own, since the kernel takes some milliseconds for a large page, and every other
 * thread of a server has somebody who waits for it. */
#include "server/touch_errand.h"

#include "base/assert.h"

/* All that is wanted by now. What is wanted meanwhile wakes the thread once more. */
static uint64_t turn(void *self)
{
    struct ps_touch_errand *errand = self;
    while (ps_touch_ahead_turn(&errand->ahead)) {
    }
    return PS_DEADLINE_NEVER;
}

/* A push calls this, under a lock of its table: waking a thread takes a microsecond. */
static void wake(void *self)
{
    struct ps_touch_errand *errand = self;
    ps_errand_thread_wake(&errand->thread);
}

enum ps_status ps_touch_errand_init(struct ps_touch_errand *errand, struct ps_error *error)
{
    /* Before the thread, whose first turn may come at once. */
    ps_touch_ahead_init(&errand->ahead, wake, errand);
    enum ps_status status =
        ps_errand_thread_init(&errand->thread, "touch", ps_clock_real(), turn, errand, error);
    if (status != PS_OK)
        ps_touch_ahead_fini(&errand->ahead);
    return status;
}

void ps_touch_errand_fini(struct ps_touch_errand *errand)
{
    /* Zeroed: whatever was to be built before it has failed. */
    if (errand->thread.turn == NULL)
        return;
    /* Nobody wakes it any more: tables have forgotten what they wanted. */
    ps_errand_thread_fini(&errand->thread);
    PS_ASSERT(errand->ahead.count == 0);
    ps_touch_ahead_fini(&errand->ahead);
}
