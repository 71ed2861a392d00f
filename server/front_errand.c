/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of its own, because no bytes come on a connection that stands still, and because giving
 * memory back takes longer than whoever serves may wait. */
#include "server/front_errand.h"

#include "base/assert.h"
#include "server/front/front.h"

enum { TURN_MS = 1000 };

static uint64_t turn(void *self)
{
    /* There is one front door for the process. */
    PS_ASSERT(self == NULL);
    ps_front_turn();
    return ps_deadline_after(ps_clock_real(), TURN_MS);
}

/* Woken once, and by the clock from then on. The door is open before this thread runs and while it
 * ends: bounds by bytes hold without it, and only what stands still is not seen. */
enum ps_status ps_front_errand_init(struct ps_front_errand *errand, struct ps_error *error)
{
    PS_TRY(ps_errand_thread_init(&errand->thread, "front", ps_clock_real(), turn, NULL, error));
    ps_errand_thread_wake(&errand->thread);
    return PS_OK;
}

void ps_front_errand_fini(struct ps_front_errand *errand)
{
    ps_errand_thread_fini(&errand->thread);
}
