/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of SetClocks, Clock and Progress, both ways.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for malformed bytes and fields beyond their bound; PS_ERR_NO_MEMORY.
 * Memory:   a decoded request borrows from the view and from its `struct ps_decoded`.
 */
#ifndef PS_PROTO_CLOCK_CODEC_H
#define PS_PROTO_CLOCK_CODEC_H

#include "proto/clock_messages.h"
#include "proto/codec.h"

PS_MUST_USE enum ps_status ps_decode_set_clocks(struct ps_view bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_set_clocks_request *request,
                                                struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_clock(struct ps_view bytes, const struct ps_allocator *memory,
                                           struct ps_clock_request *request,
                                           struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status ps_decode_progress(struct ps_view bytes,
                                              const struct ps_allocator *memory,
                                              struct ps_progress_request *request,
                                              struct ps_decoded *decoded, struct ps_error *error);
PS_MUST_USE enum ps_status
ps_decode_clocks_reply(struct ps_view bytes, struct ps_clocks_reply *reply, struct ps_error *error);

/* Who takes the rows of a reply to Progress, in their order; both must be there. A row and a name
 * are borrowed for the call. */
struct ps_progress_rows {
    void (*worker)(void *self, const struct ps_worker_clock *worker);
    void (*name)(void *self, struct ps_bytes name);
    void *self;
};

/* `*reply` has no rows of its own, only how many there were. More workers or names than there can
 * be are PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_decode_progress_reply(struct ps_view bytes,
                                                    const struct ps_progress_rows *rows,
                                                    struct ps_progress_reply *reply,
                                                    struct ps_error *error);

void ps_encode_set_clocks(const struct ps_set_clocks_request *request, struct ps_buffer *bytes);
void ps_encode_clock(const struct ps_clock_request *request, struct ps_buffer *bytes);
void ps_encode_progress(const struct ps_progress_request *request, struct ps_buffer *bytes);

/* Without durable_position, which is known last: ps_encode_change_durable puts it behind the rest,
 * under the same number. */
void ps_encode_clocks_reply(const struct ps_clocks_reply *reply, struct ps_buffer *bytes);
void ps_encode_progress_reply(const struct ps_progress_reply *reply, struct ps_buffer *bytes);

#endif
