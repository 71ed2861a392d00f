/* SPDX-License-Identifier: Apache-2.0 */
/* All heads come into one buffer first, and are copied once: a slice of gRPC for each would cost
 * more than the head. Then contents are put between its parts, in a second walk that encodes the
 * heads once more over themselves, for their sizes alone: that is cheaper than a list of places,
 * whose memory could be refused.
 *
 * The contents are not copied at all. A slice points into the message that the sender's call has
 * brought, which stays until the last holder lets go of it: the step, while the receive is not
 * done with; and each slice of each reply that is on its way. Only what goes through shared memory
 * is copied, into the room that the receiver has for it. */
#include "server/rpc/rendezvous_message.h"

#include "base/assert.h"
#include "proto/rendezvous_codec.h"
#include "server/rpc/shared_content.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <string.h>

/* Contents in one room begin in lines of the cache of their own; below the least size they are as
 * fast in the message. */
enum { ROOM_ALIGNMENT = 64, ROOM_LEAST_BYTES = 1024 };

/* The room of a call, and how much of it earlier rows have. */
struct room {
    struct ps_rpc_context *context;
    struct ps_shared_range range;
    uint64_t used;
};

static size_t encode_row(const struct ps_received *row, struct room *room, struct ps_buffer *head);
static void add_content(const struct ps_received *row, grpc_slice_buffer *slices);
static uint64_t place_of(const struct ps_received *row, struct room *room);
static enum ps_status fill_room(const struct ps_received *row, struct room *room,
                                struct ps_error *error);

/* Rows that have a place in the room are copied there first: should the memory have gone meanwhile,
 * the room is none, and all goes in the message. */
static enum ps_status fill_all(const struct ps_receiving *receiving, struct room *room,
                               struct ps_error *error)
{
    struct room walk = *room;
    PS_ASSERT(room->used == 0);
    for (size_t i = 0; i < receiving->count && room->range.segment != 0; i++) {
        walk.range = room->range;
        PS_TRY(fill_room(&receiving->rows[i], &walk, error));
        room->range = walk.range;
    }
    return PS_OK;
}

enum ps_status ps_rendezvous_message_create(struct ps_rpc_context *context,
                                            const struct ps_tensor_wait *wait,
                                            struct ps_buffer *head, grpc_byte_buffer **message,
                                            struct ps_error *error)
{
    const struct ps_receiving *receiving = &wait->receiving;
    struct room filled = {.context = context, .range = wait->room};
    PS_TRY(fill_all(receiving, &filled, error));
    /* What the call has written already goes before the answers. */
    size_t begin = head->size;
    struct room room = filled;
    for (size_t i = 0; i < receiving->count; i++)
        (void)encode_row(&receiving->rows[i], &room, head);
    PS_TRY(ps_buffer_status(head, error));
    grpc_slice all = grpc_slice_from_copied_buffer(head->text, head->size);
    grpc_byte_buffer *made = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &made->data.raw.slice_buffer;
    /* How long the message is without its contents. */
    size_t end = head->size;
    size_t done = 0;
    /* Written once more over itself: the sizes are the same, and nothing grows. */
    ps_buffer_rewind(head, begin);
    room = filled;
    for (size_t i = 0; i < receiving->count; i++) {
        const struct ps_received *row = &receiving->rows[i];
        /* The same question once more: where its content went. */
        struct room before = room;
        begin += encode_row(row, &room, head);
        if (row->value == NULL || row->count == 0 || place_of(row, &before) != UINT64_MAX)
            continue;
        grpc_slice_buffer_add(slices, grpc_slice_sub(all, done, begin));
        done = begin;
        add_content(row, slices);
    }
    PS_ASSERT(begin == end && done <= end);
    if (done < end)
        grpc_slice_buffer_add(slices, grpc_slice_sub(all, done, end));
    /* Every part that was added has a reference of its own. */
    grpc_slice_unref(all);
    *message = made;
    return PS_OK;
}

/* Where in the room the row's content begins; UINT64_MAX: it goes in the message. */
static uint64_t place_of(const struct ps_received *row, struct room *room)
{
    uint64_t left = room->range.size > room->used ? room->range.size - room->used : 0;
    uint64_t at = room->used;
    if (room->range.segment == 0 || row->value == NULL || row->count < ROOM_LEAST_BYTES ||
        row->count > left)
        return UINT64_MAX;
    room->used += (row->count + ROOM_ALIGNMENT - 1) / ROOM_ALIGNMENT * ROOM_ALIGNMENT;
    PS_ASSERT(at % ROOM_ALIGNMENT == 0);
    return at;
}

/* How many bytes it took. A receive that nothing came for is not listed. The content that follows
 * is known by its size alone here. */
static size_t encode_row(const struct ps_received *row, struct room *room, struct ps_buffer *head)
{
    size_t before = head->size;
    struct ps_received_tensor received = {.id = row->id, .status = row->status};
    if (row->status == PS_ERR_NOT_READY)
        return 0;
    PS_ASSERT((row->value != NULL) == (row->status == PS_OK));
    if (row->value != NULL) {
        uint64_t size = row->value->content.size;
        uint64_t place = place_of(row, room);
        received.facts = row->value->facts;
        received.offset = row->offset;
        received.total = row->count < size ? size : 0;
        if (place != UINT64_MAX) {
            received.shared_offset = place;
            received.shared_size = row->count;
        } else {
            received.content = (struct ps_view){NULL, 0, (size_t)row->count};
        }
    }
    ps_encode_received_tensor(&received, head);
    return head->size - before;
}

/* ---- In the message ---- */

/* Any of gRPC's threads may drop a slice. */
static void drop(void *value)
{
    ps_held_value_release(value);
}

/* A reference for each slice, so that none of them has to know of the others. */
static void add_piece(void *self, struct ps_held_value *holder, struct ps_bytes piece)
{
    grpc_slice_buffer *slices = self;
    /* gRPC's slices are not const, but what is sent is only read. */
    void *bytes = (void *)(uintptr_t)piece.data;
    if (piece.size == 0)
        return;
    PS_ASSERT(bytes != NULL);
    grpc_slice_buffer_add(slices, grpc_slice_new_with_user_data(bytes, piece.size, drop,
                                                                ps_held_value_acquire(holder)));
}

/* A range of the value, or all of it. */
static void add_content(const struct ps_received *row, grpc_slice_buffer *slices)
{
    ps_held_value_walk(row->value, row->offset, row->count, add_piece, slices);
}

/* ---- In shared memory ---- */

/* The pieces of one range, as they are counted and then listed. */
struct pieces {
    struct ps_bytes *list; /* NULL: they are counted */
    size_t count;
};

static void list_piece(void *self, struct ps_held_value *holder, struct ps_bytes piece)
{
    struct pieces *pieces = self;
    PS_ASSERT(holder != NULL);
    if (pieces->list != NULL)
        pieces->list[pieces->count] = piece;
    pieces->count++;
}

/* As the content of a pull is given, by several threads when it is large. A room that has gone is
 * none from here on. */
static enum ps_status fill_room(const struct ps_received *row, struct room *room,
                                struct ps_error *error)
{
    uint64_t place = place_of(row, room);
    struct ps_shared_content content;
    /* Without a list they are being counted. */
    struct pieces pieces = {.list = NULL};
    if (place == UINT64_MAX)
        return PS_OK;
    /* Once to count the pieces, and once to list them: a view has them in one array. */
    ps_held_value_walk(row->value, row->offset, row->count, list_piece, &pieces);
    const struct ps_allocator *memory = room->context->memory;
    struct ps_bytes *list = ps_zeroed_array(memory, pieces.count, sizeof *list);
    if (list == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a reply");
    pieces = (struct pieces){.list = list};
    ps_held_value_walk(row->value, row->offset, row->count, list_piece, &pieces);
    struct ps_pull_reply given = {.content = {list, pieces.count, (size_t)row->count}};
    const struct ps_shared_range range = {
        .segment = room->range.segment, .offset = room->range.offset + place, .size = row->count};
    ps_shared_content_init(&content, room->context);
    enum ps_status status = content.ways.give(content.ways.self, &range, &given, error);
    ps_release(memory, list);
    if (status == PS_OK && given.shared_size != row->count)
        room->range = (struct ps_shared_range){0};
    return status;
}
