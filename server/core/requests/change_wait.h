/* SPDX-License-Identifier: Apache-2.0 */
/* What the three changes of change.h ask before and behind: is the shard READY and ours, and for
 * what the answer waits. Private to define.c and change_param.c.
 *
 * Threads:  with the cut held.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_CHANGE_WAIT_H
#define PS_SERVER_CORE_CHANGE_WAIT_H

#include "server/core/requests/service_state.h"

/* PS_ERR_NOT_READY, PS_ERR_NOT_OWNER, PS_ERR_UNAVAILABLE. */
PS_MUST_USE enum ps_status ps_change_check_ready(const struct ps_service *service, uint32_t shard,
                                                 struct ps_error *error);

/* For the answer to what is at `position`, at the server's own level of acknowledgement; 0: for
 * nothing. `wait` may be NULL; `*durable` is what is durable now. */
void ps_change_begin_wait(struct ps_service *service, uint64_t position, struct ps_push_wait *wait,
                          uint64_t *durable);

#endif
