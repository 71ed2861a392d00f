/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of SendTensor and RecvTensors, both ways. Those of StepControl are flat, and need no
 * codec (fields.h).
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for malformed bytes and fields beyond their bound; PS_ERR_NO_MEMORY.
 * Memory:   a decoded request borrows from the view and from its `struct ps_decoded`.
 */
#ifndef PS_PROTO_RENDEZVOUS_CODEC_H
#define PS_PROTO_RENDEZVOUS_CODEC_H

#include "proto/codec.h"
#include "proto/rendezvous_messages.h"

/* Numbers of the fields of StepControlRequest. */
enum ps_step_field {
    PS_STEP_FIELD_STEP = 1,
    PS_STEP_FIELD_ACT,
    PS_STEP_FIELD_EPOCH,
    PS_STEP_FIELD_SESSION,
    PS_STEP_FIELD_STRICT,
    PS_STEP_FIELD_LIFETIME_MS,
    PS_STEP_FIELD_REASON,
    PS_STEP_FIELD_INTERNAL,
    PS_STEP_FIELD_SHARD = 11
};

/* The epoch of a reply is this field, in each of the three. */
#define PS_RENDEZVOUS_EPOCH_FIELD 1

PS_MUST_USE enum ps_status ps_decode_send_tensor(struct ps_view bytes,
                                                 const struct ps_allocator *memory,
                                                 struct ps_send_tensor_request *request,
                                                 struct ps_decoded *decoded,
                                                 struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_recv_tensors(struct ps_view bytes,
                                                  const struct ps_allocator *memory,
                                                  struct ps_recv_tensors_request *request,
                                                  struct ps_decoded *decoded,
                                                  struct ps_error *error);

/* All of the message but where its content is, which the channel decides and tells last: with
 * ps_encode_sent_content, behind which content of `size` bytes follows on the wire; or `shared` is
 * where it is. Of a RecvTensors `shared` is room, if there is any. */
void ps_encode_sent_content(size_t size, const struct ps_shared_range *shared,
                            struct ps_buffer *head);
void ps_encode_receive_room(const struct ps_shared_range *shared, struct ps_buffer *head);
void ps_encode_send_tensor(const struct ps_send_tensor_request *request, struct ps_buffer *head);
void ps_encode_recv_tensors(const struct ps_recv_tensors_request *request, struct ps_buffer *bytes);

void ps_encode_send_tensor_reply(const struct ps_send_tensor_reply *reply, struct ps_buffer *bytes);
PS_MUST_USE enum ps_status ps_decode_send_tensor_reply(struct ps_view bytes,
                                                       struct ps_send_tensor_reply *reply,
                                                       struct ps_error *error);

/* One answer, but for its content, which follows on the wire. */
void ps_encode_received_tensor(const struct ps_received_tensor *received, struct ps_buffer *head);

/* Who takes the answers of a reply, in their order. What is taken is borrowed for the call. A
 * status that is not PS_OK ends the decoding, and is what it says. */
struct ps_received_taker {
    enum ps_status (*take)(void *self, const struct ps_received_tensor *received,
                           struct ps_error *error);
    void *self;
};

PS_MUST_USE enum ps_status ps_decode_recv_tensors_reply(struct ps_view bytes,
                                                        const struct ps_allocator *memory,
                                                        const struct ps_received_taker *taker,
                                                        uint64_t *epoch, struct ps_error *error);

#endif
