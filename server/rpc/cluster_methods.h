/* SPDX-License-Identifier: Apache-2.0 */
/* What GetCluster, BeginInit and EndInit do: rows of ps_unary_methods.
 *
 * Threads:  a call belongs to its lane's thread.
 * Blocking: never: a call that waits is parked.
 * Errors:   as unary_call.h.
 * Memory:   an inquiry of the call is released by the call.
 */
#ifndef PS_SERVER_RPC_CLUSTER_METHODS_H
#define PS_SERVER_RPC_CLUSTER_METHODS_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_cluster(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_begin_init(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_end_init(struct ps_call_answer *answer);

#endif
