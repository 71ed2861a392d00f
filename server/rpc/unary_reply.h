/* SPDX-License-Identifier: Apache-2.0 */
/* The message of an answer that was made, and the end of every answer.
 *
 * Threads:  the lane's.
 * Blocking: never.
 * Errors:   in the answer's status.
 * Memory:   the message is the caller's.
 */
#ifndef PS_SERVER_RPC_UNARY_REPLY_H
#define PS_SERVER_RPC_UNARY_REPLY_H

#include "server/rpc/unary_call.h"

#include <grpc/byte_buffer.h>

/* Of an answer that is PS_OK. NULL when there is no memory for it; the answer then says so, and for
 * a call that has changed something not in a way that reads as "not applied". */
grpc_byte_buffer *ps_unary_reply(struct ps_call_answer *answer, enum ps_method method);

/* Lets go of what serving the call has begun, whether its answer was made or not. */
void ps_unary_reply_release(struct ps_call_answer *answer);

#endif
