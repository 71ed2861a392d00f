/* SPDX-License-Identifier: Apache-2.0 */
/* What JoinWorkers, LeaveWorkers and ListWorkers do: rows of ps_unary_methods.
 *
 * Threads:  a call belongs to its lane's thread.
 * Blocking: never: a call that waits is parked.
 * Errors:   as unary_call.h.
 * Memory:   an inquiry of the call is released by the call.
 */
#ifndef PS_SERVER_RPC_WORKER_METHODS_H
#define PS_SERVER_RPC_WORKER_METHODS_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_join_workers(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_leave_workers(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_list_workers(struct ps_call_answer *answer);

#endif
