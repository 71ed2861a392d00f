/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that looks after connections on which nothing happens (server/front).
 *
 * Threads:  one of its own, from init to fini.
 * Blocking: fini waits for the turn at work.
 * Errors:   init: PS_ERR_NO_MEMORY when the system refuses a thread.
 * Memory:   in place, and stays where it is until fini.
 */
#ifndef PS_SERVER_FRONT_ERRAND_H
#define PS_SERVER_FRONT_ERRAND_H

#include "server/errand_thread.h"

struct ps_front_errand {
    struct ps_errand_thread thread;
};

PS_MUST_USE enum ps_status ps_front_errand_init(struct ps_front_errand *errand,
                                                struct ps_error *error);

/* Accepts a zeroed one. */
void ps_front_errand_fini(struct ps_front_errand *errand);

#endif
