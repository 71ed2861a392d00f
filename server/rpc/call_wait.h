/* SPDX-License-Identifier: Apache-2.0 */
/* How long a call waits for what other clients do, and the steps of one that may have to.
 *
 * Threads:  whoever has the call.
 * Blocking: as the serve's steps.
 * Errors:   in the results of the serve.
 * Memory:   none.
 */
#ifndef PS_SERVER_RPC_CALL_WAIT_H
#define PS_SERVER_RPC_CALL_WAIT_H

#include "server/rpc/unary_call.h"

/* How long the call may wait: what the request says (not 0), and else what the client's deadline
 * leaves, less some room for the answer. */
uint64_t ps_call_patience_ms(const struct ps_call_answer *answer, uint64_t wish_ms);

/* One step of the call's serve. What it waits for stands in the answer. */
enum ps_serve_progress ps_call_step(struct ps_call_answer *answer, struct ps_serve *serve);

#endif
