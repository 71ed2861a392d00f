/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that touches memory before pushes come to it (base/touch_ahead.h).
 *
 * Threads:  one of its own, from init to fini.
 * Blocking: fini waits for the turn at work.
 * Errors:   init: PS_ERR_NO_MEMORY when the system refuses a thread.
 * Memory:   in place, and stays where it is until fini.
 */
#ifndef PS_SERVER_TOUCH_ERRAND_H
#define PS_SERVER_TOUCH_ERRAND_H

#include "base/touch_ahead.h"
#include "server/errand_thread.h"

struct ps_touch_errand {
    struct ps_touch_ahead ahead; /* for tables */
    struct ps_errand_thread thread;
};

PS_MUST_USE enum ps_status ps_touch_errand_init(struct ps_touch_errand *errand,
                                                struct ps_error *error);

/* After the last table. Accepts a zeroed one. */
void ps_touch_errand_fini(struct ps_touch_errand *errand);

#endif
