/* SPDX-License-Identifier: Apache-2.0 */
/* A reply of one pull: a head that is copied, and content that is not. gRPC sends the slices
 * straight from the parameter's blocks and drops each when it is sent, on whichever thread that
 * happens; the holder counts them, and the last one gives the pull back. Until then a push to the
 * parameter writes into other blocks, so that the client receives one version, whole. */
#include "server/rpc/pull_message.h"

#include "base/assert.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <stdatomic.h>

struct holder {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_pull pull;               /* owned */
    atomic_size_t slices;              /* that are alive */
};

/* Any of gRPC's threads may drop a slice, and the last of them drops the pull. */
static void drop(void *argument)
{
    struct holder *holder = argument;
    size_t before = atomic_fetch_sub(&holder->slices, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    ps_pull_release(&holder->pull);
    ps_release(holder->memory, holder);
}

/* This function holds a reference of its own until all slices are there: gRPC may drop one at once.
 * The pull moves to the heap, since its slot is free for the next call before the last slice is
 * dropped. */
enum ps_status ps_pull_message_create(struct ps_bytes head, struct ps_pull *pull,
                                      const struct ps_allocator *memory, grpc_byte_buffer **message,
                                      struct ps_error *error)
{
    struct ps_view content = pull->reply.content;
    struct holder *holder = ps_zeroed(memory, sizeof *holder);
    if (holder == NULL) {
        ps_pull_release(pull);
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no memory for a reply");
    }
    holder->memory = memory;
    holder->pull = *pull;
    *pull = (struct ps_pull){0};
    /* All slices are counted before the first one exists. gRPC drops nothing before the message is
     * sent, but an empty content has no slice at all, and then this function's own is the last. */
    atomic_init(&holder->slices, content.piece_count + 1); /* one for this function */

    grpc_slice first = grpc_slice_from_copied_buffer((const char *)head.data, head.size);
    grpc_byte_buffer *made = grpc_raw_byte_buffer_create(&first, 1);
    grpc_slice_unref(first);
    for (size_t i = 0; i < content.piece_count; i++) {
        /* gRPC's slices are not const, but what is sent is only read: the blocks may be those that
         * the next update starts from. */
        void *bytes = (void *)(uintptr_t)content.pieces[i].data;
        grpc_slice slice =
            grpc_slice_new_with_user_data(bytes, content.pieces[i].size, drop, holder);
        grpc_slice_buffer_add(&made->data.raw.slice_buffer, slice);
    }
    drop(holder);
    *message = made;
    return PS_OK;
}
