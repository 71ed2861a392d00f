/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls wait for what other clients do: pulls and changes of parameters before the
 * initialisation is finished, members of barriers, questions for the other servers or for the right
 * to initialise, health watches, reflection streams. Such a call costs memory and nothing else, for
 * as long as its client likes: so a server has a bound for all of them, and a connection has half
 * of the calls that it may have, because the other half must be able to bring what they wait for.
 *
 * Threads:  any; a call belongs to its lane's thread.
 * Blocking: never.
 * Errors:   PS_ERR_BUSY.
 * Memory:   in place; what a connection has is a sum of its budget (budgets.h).
 */
#ifndef PS_SERVER_RPC_WAITING_H
#define PS_SERVER_RPC_WAITING_H

#include "base/status.h"
#include "proto/messages.h"

#include <stdatomic.h>
#include <stdint.h>

struct ps_rpc_call;

#define PS_WAITING_CALLS_DEFAULT 4096

struct ps_waiting {
    uint32_t calls_max;            /* of the server */
    uint32_t connection_calls_max; /* of one connection */
    atomic_uint calls;
};

/* Before any call. A connection may have `client_calls` calls at once. */
void ps_waiting_init(struct ps_waiting *waiting, uint32_t calls_max, uint32_t client_calls);

/* Do calls of this method count? The others wait for the disk or the store: they have changed
 * something, and are answered. So has a message of gradients and pulls, whose pulls may wait:
 * where no more may, they are refused one by one. */
bool ps_waiting_counts(enum ps_method method);

/* Counts a call that is to wait, until it leaves or is cleared.
 *
 * PS_ERR_BUSY  the server or the connection has as many as it may; nothing is counted
 */
PS_MUST_USE enum ps_status ps_waiting_enter(struct ps_rpc_call *call, struct ps_error *error);

/* Of a call that does not wait any more, or never did. A call that is answered leaves before its
 * client has read the reply. */
void ps_waiting_leave(struct ps_rpc_call *call);

#endif
