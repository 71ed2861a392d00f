/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles (SendGrads, GetParams, PushPull) as bytes and back. As in codec.h the content of an item
 * is never copied, however deep it lies: decoding gives views, encoding gives what goes before each
 * content.
 *
 * On the wire a message is: its RequestId, then head and content of each push, then each pull; a
 * reply is head of each push result, then head and content of each pull result. Results that failed
 * have no content.
 *
 * Threads:  all functions are pure but for the memory they are given.
 * Blocking: never.
 * Errors:   decoding: PS_ERR_BAD_INPUT for malformed bytes, a field beyond its bound and more items
 *           than PS_BUNDLE_ITEMS_MAX or PS_BUNDLE_NUMBERED_MAX, PS_ERR_NO_MEMORY.
 * Memory:   one allocation for all items, one more for each small field that the network has cut in
 *           two. A decoded message borrows from the view and from its `struct ps_decoded`.
 */
#ifndef PS_PROTO_BUNDLE_CODEC_H
#define PS_PROTO_BUNDLE_CODEC_H

#include "base/bounds.h"
#include "proto/codec.h"

PS_MUST_USE enum ps_status ps_decode_bundle(struct ps_view bytes, const struct ps_allocator *memory,
                                            struct ps_bundle_request *request,
                                            struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_bundle_reply(struct ps_view bytes,
                                                  const struct ps_allocator *memory,
                                                  struct ps_bundle_reply *reply,
                                                  struct ps_decoded *decoded,
                                                  struct ps_error *error);

/* Most bytes that one item adds to a head. */
enum {
    PS_BUNDLE_ITEM_BYTES_MAX = PS_NAME_BYTES_MAX + PS_CLIENT_ID_BYTES_MAX +
                               PS_CLOCKS_NAME_BYTES_MAX + 10 * PS_SHAPE_RANK_MAX + 256 +
                               8 * PS_DELTA_BYTES_MAX / PS_BLOCK_BYTES
};

/* What a request begins with: the id under which its pushes count (`present` unset: none). */
void ps_encode_bundle_id(const struct ps_request_id *base, struct ps_buffer *head);

/* Push `index` of a request whose id is `base`; its content follows. A push that has another
 * sequence than base->sequence + index carries it; client and session are the same. */
void ps_encode_bundle_push(const struct ps_push_request *push, const struct ps_request_id *base,
                           size_t index, struct ps_buffer *head);
/* Its keys, if it has any, follow. */
void ps_encode_bundle_pull(const struct ps_pull_request *pull, struct ps_buffer *head);

/* A whole GetParamsSinceRequest. */
void ps_encode_since(const struct ps_since_request *request, struct ps_buffer *head);

/* Results; the content of a pull that worked follows its head. */
void ps_encode_push_result(const struct ps_push_result *result, struct ps_buffer *head);
void ps_encode_pull_result(const struct ps_pull_result *result, struct ps_buffer *head);

#endif
