/* SPDX-License-Identifier: Apache-2.0 */
/* May a pull that cannot be answered yet wait, or is it told so? Private to serve_pull.c.
 *
 * Threads:  that of the serve.
 * Blocking: never.
 * Errors:   none of its own.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_SERVE_WAIT_H
#define PS_SERVER_CORE_SERVE_WAIT_H

#include "server/core/requests/serve.h"

/* Of the next pull, which was PS_ERR_NOT_READY and would wait for `wait`. True: it waits, and the
 * serve says what for. False: `*status` and serve->error say why it does not. */
bool ps_serve_waits(struct ps_serve *serve, const struct ps_serve_turn *turn,
                    const struct ps_pull_wait *wait, enum ps_status *status);

#endif
