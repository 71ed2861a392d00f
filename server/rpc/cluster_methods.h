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

#include "proto/fields.h"
#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_cluster(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_begin_init(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_end_init(struct ps_call_answer *answer);

/* ---- What calls about the job have in common ---- */

/* Reads a flat request; field `job` names the job that the client means. False: the answer is
 * made. */
bool ps_cluster_read_request(struct ps_call_answer *answer, struct ps_fields *fields, uint32_t job);

/* From now on the call waits for at most `wait_ms`, and ten minutes. */
void ps_cluster_set_patience(struct ps_call_answer *answer, uint64_t wait_ms);

/* What is left of that; 0 at a server that drains. */
uint64_t ps_cluster_time_left_ms(const struct ps_call_answer *answer);

#endif
