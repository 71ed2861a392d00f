/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of Ask and Take as messages that copy no content: their slices point at what has brought
 * it. Where the caller has given room in shared memory, and the content fits, it is copied there.
 *
 * Threads:  made on whichever thread answers; a parcel is released by whoever drops its last slice.
 * Blocking: as copying does.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   the message has references of its own to the parcels.
 */
#ifndef PS_SERVER_RPC_PROGRAM_MESSAGE_H
#define PS_SERVER_RPC_PROGRAM_MESSAGE_H

#include "server/rpc/unary_call.h"

#include <grpc/byte_buffer.h>

/* False: the call is neither of the two, or has nothing to say. */
bool ps_program_has_reply(const struct ps_call_answer *answer);

PS_MUST_USE enum ps_status ps_program_message_create(struct ps_call_answer *answer,
                                                     grpc_byte_buffer **message);

#endif
