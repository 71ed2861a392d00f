/* SPDX-License-Identifier: Apache-2.0 */
/* What the method LastApplied does: proto/pserver/v1/pserver.proto.
 *
 * Threads:  the call's lane.
 * Blocking: never.
 * Errors:   in the answer.
 * Memory:   of the answer.
 */
#ifndef PS_SERVER_RPC_APPLIED_CALL_H
#define PS_SERVER_RPC_APPLIED_CALL_H

#include "server/rpc/unary_call.h"

/* A ps_serve_fn. */
enum ps_serve_progress ps_serve_applied(struct ps_call_answer *answer);

#endif
