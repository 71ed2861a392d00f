/* SPDX-License-Identifier: Apache-2.0 */
/* A reply of RecvTensors as a message that copies no content: its slices point at the values, which
 * the senders' messages still hold.
 *
 * Threads:  made on a lane's thread; a value is released by whoever drops its last slice.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   the message has references of its own to the values.
 */
#ifndef PS_SERVER_RPC_RENDEZVOUS_MESSAGE_H
#define PS_SERVER_RPC_RENDEZVOUS_MESSAGE_H

#include "base/buffer.h"
#include "server/core/requests/rendezvous_calls.h"
#include "server/rpc/rpc_context.h"

#include <grpc/byte_buffer.h>

/* Where the call has room in shared memory, contents go there, as far as it has.
 *
 * What was collected, behind what `head` has; that becomes part of the message's own bytes, and
 * more is appended to it. */
PS_MUST_USE enum ps_status ps_rendezvous_message_create(struct ps_rpc_context *context,
                                                        const struct ps_tensor_wait *wait,
                                                        struct ps_buffer *head,
                                                        grpc_byte_buffer **message,
                                                        struct ps_error *error);

#endif
