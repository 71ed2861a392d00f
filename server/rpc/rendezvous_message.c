/* SPDX-License-Identifier: Apache-2.0 */
/* All heads come into one buffer first, and are copied once: a slice of gRPC for each would cost
 * more than the head. Then contents are put between its parts, in a second walk that encodes the
 * heads once more over themselves, for their sizes alone: that is cheaper than a list of places,
 * whose memory could be refused.
 *
 * The contents are not copied at all. A slice points into the message that the sender's call has
 * brought, which stays until the last holder lets go of it: the step, while the receive is not
 * done with; and each slice of each reply that is on its way. */
#include "server/rpc/rendezvous_message.h"

#include "base/assert.h"
#include "proto/rendezvous_codec.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

static size_t encode_row(const struct ps_received *row, struct ps_buffer *head);
static void add_content(struct ps_held_value *value, grpc_slice_buffer *slices);

enum ps_status ps_rendezvous_message_create(const struct ps_receiving *receiving,
                                            struct ps_buffer *head, grpc_byte_buffer **message,
                                            struct ps_error *error)
{
    /* What the call has written already goes before the answers. */
    size_t begin = head->size;
    for (size_t i = 0; i < receiving->count; i++)
        (void)encode_row(&receiving->rows[i], head);
    PS_TRY(ps_buffer_status(head, error));
    grpc_slice all = grpc_slice_from_copied_buffer(head->text, head->size);
    grpc_byte_buffer *made = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &made->data.raw.slice_buffer;
    /* How long the message is without its contents. */
    size_t end = head->size;
    size_t done = 0;
    /* Written once more over itself: the sizes are the same, and nothing grows. */
    ps_buffer_rewind(head, begin);
    for (size_t i = 0; i < receiving->count; i++) {
        struct ps_held_value *value = receiving->rows[i].value;
        begin += encode_row(&receiving->rows[i], head);
        if (value == NULL || value->content.size == 0)
            continue;
        grpc_slice_buffer_add(slices, grpc_slice_sub(all, done, begin));
        done = begin;
        add_content(value, slices);
    }
    PS_ASSERT(begin == end && done <= end);
    if (done < end)
        grpc_slice_buffer_add(slices, grpc_slice_sub(all, done, end));
    /* Every part that was added has a reference of its own. */
    grpc_slice_unref(all);
    *message = made;
    return PS_OK;
}

/* How many bytes it took. A receive that nothing came for is not listed. */
static size_t encode_row(const struct ps_received *row, struct ps_buffer *head)
{
    size_t before = head->size;
    struct ps_received_tensor received = {.id = row->id, .status = row->status};
    if (row->status == PS_ERR_NOT_READY)
        return 0;
    PS_ASSERT((row->value != NULL) == (row->status == PS_OK));
    if (row->value != NULL) {
        received.facts = row->value->facts;
        received.content = row->value->content;
    }
    ps_encode_received_tensor(&received, head);
    return head->size - before;
}

/* Any of gRPC's threads may drop a slice. */
static void drop(void *value)
{
    ps_held_value_release(value);
}

/* A reference for each slice, so that none of them has to know of the others. */
static void add_content(struct ps_held_value *value, grpc_slice_buffer *slices)
{
    for (size_t i = 0; i < value->content.piece_count; i++) {
        const struct ps_bytes *piece = &value->content.pieces[i];
        /* gRPC's slices are not const, but what is sent is only read. */
        void *bytes = (void *)(uintptr_t)piece->data;
        if (piece->size == 0)
            continue;
        grpc_slice_buffer_add(slices, grpc_slice_new_with_user_data(bytes, piece->size, drop,
                                                                    ps_held_value_acquire(value)));
    }
}
