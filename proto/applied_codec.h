/* SPDX-License-Identifier: Apache-2.0 */
/* LastApplied as bytes, both ways. Names of a reply are copied row by row into the reader's own
 * memory, so that nothing of the message is kept.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   decoding: PS_ERR_BAD_INPUT for malformed bytes and fields beyond their bounds.
 * Memory:   a request's texts lie in the place that the caller gives.
 */
#ifndef PS_PROTO_APPLIED_CODEC_H
#define PS_PROTO_APPLIED_CODEC_H

#include "base/bounds.h"
#include "base/buffer.h"
#include "proto/messages.h"

/* Where the texts of a decoded request lie. */
struct ps_applied_texts {
    uint8_t client_id[PS_CLIENT_ID_BYTES_MAX];
    uint8_t after[PS_NAME_BYTES_MAX];
};

/* `request` borrows from `texts`. */
PS_MUST_USE enum ps_status ps_decode_applied(struct ps_view bytes, struct ps_applied_texts *texts,
                                             struct ps_applied_request *request,
                                             struct ps_error *error);
void ps_encode_applied(const struct ps_applied_request *request, struct ps_buffer *bytes);

/* Takes a row, whose name is borrowed for the call. Another status than PS_OK ends the decoding
 * with it. */
typedef enum ps_status (*ps_applied_row_fn)(void *self, const struct ps_applied_row *row,
                                            struct ps_error *error);

/* `*reply` has everything but the rows, which `take` was given, in the order of the message. */
PS_MUST_USE enum ps_status ps_decode_applied_reply(struct ps_view bytes, ps_applied_row_fn take,
                                                   void *self, struct ps_applied_reply *reply,
                                                   struct ps_error *error);
void ps_encode_applied_reply(const struct ps_applied_reply *reply, struct ps_buffer *bytes);

#endif
