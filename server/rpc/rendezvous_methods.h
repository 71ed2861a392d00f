/* SPDX-License-Identifier: Apache-2.0 */
/* SendTensor, RecvTensors and StepControl. RecvTensors waits for other clients, as long as the
 * request says; the others never wait.
 *
 * Threads:  that of the call's lane, or of the helper that has the call.
 * Blocking: never.
 * Errors:   in the answer.
 * Memory:   the answer's.
 */
#ifndef PS_SERVER_RPC_RENDEZVOUS_METHODS_H
#define PS_SERVER_RPC_RENDEZVOUS_METHODS_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_send_tensor(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_recv_tensors(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_step_control(struct ps_call_answer *answer);

#endif
