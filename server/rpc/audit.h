/* SPDX-License-Identifier: Apache-2.0 */
/* One line of the log, under "audit", for each call that changes the state of the job and is not a
 * push: who made it, from where, at which position, and what came of it.
 *
 * Threads:  any.
 * Blocking: never, but for a line of the log.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_RPC_AUDIT_H
#define PS_SERVER_RPC_AUDIT_H

#include "server/rpc/rpc_call.h"

/* The call is about to be answered with this status; `error` says more of a failure, and a
 * refusal is counted here. `done` says what it does in other words than its method's; NULL: in
 * those. Methods that change nothing leave no line of the audit, nor does who
 * was not let in: refusals.h has those. Of the parameters of a job the first leaves one that was
 * taken. */
void ps_audit_call(struct ps_rpc_call *call, enum ps_method method, const char *done,
                   enum ps_status status, const struct ps_error *error);

#endif
