/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes <-> messages, for the server and for the client. The bulk field (`content`) is never
 * copied: decoding leaves it where it lies and gives a view, encoding gives the small fields and
 * leaves the sender to append the content.
 *
 * Encoding, both directions: head = everything but the content, ending with the content's tag and
 * length. What goes on the wire is head, then the content's bytes. Fields may arrive in any order,
 * unknown ones are skipped, repeated ones follow protobuf's rule (the last one counts).
 *
 * Threads:  all functions are pure but for the memory they are given.
 * Blocking: never.
 * Errors:   decoding: PS_ERR_BAD_INPUT for malformed bytes, an unknown element type or a field
 *           beyond its bound (base/bounds.h), PS_ERR_NO_MEMORY when the decoded message would take
 *           more than its cap.
 * Memory:   a decoded message borrows from the view and from its `struct ps_decoded`, which the
 *           caller releases when done with the message.
 */
#ifndef PS_PROTO_CODEC_H
#define PS_PROTO_CODEC_H

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "proto/admin_messages.h"
#include "proto/messages.h"

/* What keeps a decoded message alive beside the view it came from. Opaque content. */
struct ps_decoded {
    const struct ps_allocator *memory;
    void *message;           /* the unpacked small fields */
    struct ps_bytes *pieces; /* of the content's view */
};

/* Accepts a zeroed struct, and one that was released already. */
void ps_decoded_release(struct ps_decoded *decoded);

PS_MUST_USE enum ps_status ps_decode_init(struct ps_view bytes, const struct ps_allocator *memory,
                                          struct ps_init_request *request,
                                          struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_init_reply(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_init_reply *reply,
                                                struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_finish(struct ps_view bytes, const struct ps_allocator *memory,
                                            struct ps_finish_request *request,
                                            struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_push(struct ps_view bytes, const struct ps_allocator *memory,
                                          struct ps_push_request *request,
                                          struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_push_reply(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_push_reply *reply,
                                                struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_pull(struct ps_view bytes, const struct ps_allocator *memory,
                                          struct ps_pull_request *request,
                                          struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_pull_reply(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_pull_reply *reply,
                                                struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_status_reply(struct ps_view bytes,
                                                  const struct ps_allocator *memory,
                                                  struct ps_status_reply *reply,
                                                  struct ps_decoded *decoded,
                                                  struct ps_error *error);
/* A request without fields: only whether it is a message. */
PS_MUST_USE enum ps_status ps_decode_nothing(struct ps_view bytes, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_list(struct ps_view bytes, const struct ps_allocator *memory,
                                          struct ps_list_request *request,
                                          struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_list_reply(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_list_reply *reply,
                                                struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_save_reply(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_save_reply *reply,
                                                struct ps_decoded *decoded, struct ps_error *error);
/* The rows and texts of the reply live in `decoded`. */
PS_MUST_USE enum ps_status ps_decode_model_reply(struct ps_view bytes,
                                                 const struct ps_allocator *memory,
                                                 struct ps_model_reply *reply,
                                                 struct ps_decoded *decoded,
                                                 struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_save(struct ps_view bytes, struct ps_save_request *request,
                                          struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_drain(struct ps_view bytes, struct ps_drain_request *request,
                                           struct ps_error *error);

/* Each appends the head to `head`; request->content (if the message has one), or the keys of a
 * pull, follow it on the wire. A failure marks the buffer. */
void ps_encode_init(const struct ps_init_request *request, struct ps_buffer *head);
void ps_encode_init_reply(const struct ps_init_reply *reply, struct ps_buffer *head);
void ps_encode_finish(const struct ps_finish_request *request, struct ps_buffer *head);
void ps_encode_push(const struct ps_push_request *request, struct ps_buffer *head);
void ps_encode_push_reply(const struct ps_push_reply *reply, struct ps_buffer *head);
void ps_encode_pull(const struct ps_pull_request *request, struct ps_buffer *head);
void ps_encode_pull_reply(const struct ps_pull_reply *reply, struct ps_buffer *head);
void ps_encode_status_reply(const struct ps_status_reply *reply, struct ps_buffer *head);
void ps_encode_list(const struct ps_list_request *request, struct ps_buffer *head);
void ps_encode_list_reply(const struct ps_list_reply *reply, struct ps_buffer *head);
void ps_encode_save(const struct ps_save_request *request, struct ps_buffer *head);
void ps_encode_save_reply(const struct ps_save_reply *reply, struct ps_buffer *head);
void ps_encode_drain(const struct ps_drain_request *request, struct ps_buffer *head);

#endif
