/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the service Programs, both ways. Content is never copied: it is read as a view of
 * the network's slices, and written as a head that it follows.
 *
 * The sizes of a message's tensors must add up to its content, and each must be what its shape
 * says; where the content lies in shared memory its length is the range's.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for malformed bytes and fields beyond their bound; PS_ERR_NO_MEMORY.
 * Memory:   what is decoded borrows from the view and from its `struct ps_decoded`, which holds
 *           nothing after a failure.
 */
#ifndef PS_PROTO_PROGRAM_CODEC_H
#define PS_PROTO_PROGRAM_CODEC_H

#include "proto/codec.h"
#include "proto/program_messages.h"

/* ---- Requests ---- */

PS_MUST_USE enum ps_status ps_decode_ask(struct ps_view bytes, const struct ps_allocator *memory,
                                         struct ps_ask_request *request, struct ps_decoded *decoded,
                                         struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_take(struct ps_view bytes, const struct ps_allocator *memory,
                                          struct ps_take_request *request,
                                          struct ps_decoded *decoded, struct ps_error *error);
/* A part of a tensor that the message does not have, or rows beyond its end, are PS_ERR_BAD_INPUT:
 * nothing of the message is to be carried out. */
PS_MUST_USE enum ps_status ps_decode_answer(struct ps_view bytes, const struct ps_allocator *memory,
                                            struct ps_answer_request *request,
                                            struct ps_decoded *decoded, struct ps_error *error);

/* Each writes what comes before the content, with the content's tag and length unless that is
 * empty: the content follows on the wire. */
void ps_encode_ask(const struct ps_ask_request *request, struct ps_buffer *head);
void ps_encode_take(const struct ps_take_request *request, struct ps_buffer *bytes);
void ps_encode_answer(const struct ps_answer_request *request, struct ps_buffer *head);

/* Behind the head of an Ask, and before its places: the life of the server that it is for, which is
 * known only when it leaves. 0: nothing. */
void ps_encode_program_epoch(uint64_t epoch, struct ps_buffer *head);

/* What comes behind the head of a request or of an answer that was encoded without content and
 * ranges: where these are in shared memory, or the tag and length of content that follows. */
void ps_encode_program_places(size_t content_size, const struct ps_shared_range *shared,
                              const struct ps_shared_range *room, struct ps_buffer *head);

/* ---- Replies ---- */

/* The content of the payload follows; of one that went through shared memory nothing does, and
 * `shared_size` says how much that is. */
void ps_encode_ask_reply(const struct ps_ask_reply *reply, struct ps_buffer *head);
PS_MUST_USE enum ps_status ps_decode_ask_reply(struct ps_view bytes,
                                               const struct ps_allocator *memory,
                                               struct ps_ask_reply *reply,
                                               struct ps_decoded *decoded, struct ps_error *error);

/* One request of a Take's reply, without its content; then, once, the size of the content of all,
 * which follows. */
void ps_encode_taken(const struct ps_program_taken *taken, struct ps_buffer *head);
void ps_encode_take_content(uint64_t shared_size, size_t content_size, struct ps_buffer *head);

/* The requests of a reply, in order. The content of each is a view of its own. */
struct ps_take_reply {
    const struct ps_program_taken *taken;
    size_t taken_count;
    uint64_t shared_size; /* the content lies in the Take's room: the views are empty */
};
PS_MUST_USE enum ps_status ps_decode_take_reply(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_take_reply *reply,
                                                struct ps_decoded *decoded, struct ps_error *error);

/* What became of each answer, in order. */
void ps_encode_answer_reply(const enum ps_status *statuses, size_t count, struct ps_buffer *bytes);
/* PS_ERR_BAD_INPUT also when there are not `count`. */
PS_MUST_USE enum ps_status ps_decode_answer_reply(struct ps_view bytes, enum ps_status *statuses,
                                                  size_t count, struct ps_error *error);

/* One app of ListApps; and, once, the epoch of this life of the shard. */
void ps_encode_apps_epoch(uint64_t epoch, struct ps_buffer *bytes);
void ps_encode_app_state(const struct ps_app_state *state, struct ps_buffer *bytes);
/* The apps, their takers and names live in `decoded`. */
PS_MUST_USE enum ps_status ps_decode_app_states(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                const struct ps_app_state **states, size_t *count,
                                                uint64_t *epoch, struct ps_decoded *decoded,
                                                struct ps_error *error);

/* The elements of a packed list, 4 or 8 bytes each. */
uint32_t ps_program_len_at(struct ps_bytes lens, size_t index);
uint64_t ps_program_key_at(struct ps_bytes keys, size_t index);

#endif
