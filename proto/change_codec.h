/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of DropParam and ConfigureParam, both ways. DropParam's is ConfigureParam's without
 * a change.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for malformed bytes and fields beyond their bound; PS_ERR_NO_MEMORY.
 * Memory:   a decoded message borrows from the view and from its `struct ps_decoded`.
 */
#ifndef PS_PROTO_CHANGE_CODEC_H
#define PS_PROTO_CHANGE_CODEC_H

#include "proto/codec.h"

PS_MUST_USE enum ps_status ps_decode_change(struct ps_view bytes, const struct ps_allocator *memory,
                                            struct ps_change_request *request,
                                            struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_change_reply(struct ps_view bytes,
                                                  const struct ps_allocator *memory,
                                                  struct ps_change_reply *reply,
                                                  struct ps_decoded *decoded,
                                                  struct ps_error *error);

void ps_encode_change(const struct ps_change_request *request, struct ps_buffer *bytes);

/* Without durable_position, which is known last: ps_encode_change_durable puts it behind the
 * rest. */
void ps_encode_change_reply(const struct ps_change_reply *reply, struct ps_buffer *bytes);
void ps_encode_change_durable(uint64_t durable_position, struct ps_buffer *bytes);

#endif
