/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a mini-batch, each once. The servers would sum gradients of one key as well, but every
 * repeat would travel: half of the keys of a batch are repeats where some are frequent. */
#include "tools/row_batch.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <string.h>

static enum ps_status make_room(struct ps_row_batch *batch, size_t visits, struct ps_error *error);
static void release(struct ps_row_batch *batch);

/* No memory is taken before the first batch says how large it is. */
void ps_row_batch_init(struct ps_row_batch *batch, uint32_t width)
{
    PS_ASSERT(width > 0);
    *batch = (struct ps_row_batch){.width = width};
}

/* Accepts a batch that never began. */
void ps_row_batch_fini(struct ps_row_batch *batch)
{
    release(batch);
    *batch = (struct ps_row_batch){.width = 0};
}

/* Batches are about as large as those before, so memory is rarely taken. Only the slots have to be
 * cleared: a row is cleared when its key comes first. */
enum ps_status ps_row_batch_begin(struct ps_row_batch *batch, size_t visits_max,
                                  struct ps_error *error)
{
    if (visits_max > batch->room || batch->room == 0)
        PS_TRY(make_room(batch, visits_max, error));
    memset(batch->slots, 0, batch->slot_count * sizeof *batch->slots);
    batch->row_count = 0;
    batch->visit_count = 0;
    return PS_OK;
}

/* At most half of the slots are ever in use, so that a search is short. */
static enum ps_status make_room(struct ps_row_batch *batch, size_t visits, struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    /* Rows are numbered in 32 bits. */
    if (visits > UINT32_MAX / 4)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a batch with %zu keys is too large", visits);
    release(batch);
    /* A power of two, so that a slot is found by a mask, and so that batches of about one size
     * do not each take memory anew. */
    size_t room = 64;
    while (room < visits)
        room *= 2;
    batch->slot_count = 2 * room;
    batch->keys = ps_zeroed_array(heap, room, sizeof *batch->keys);
    batch->rows = ps_zeroed_array(heap, room, batch->width * sizeof *batch->rows);
    batch->gradients = ps_zeroed_array(heap, room, batch->width * sizeof *batch->gradients);
    batch->visits = ps_zeroed_array(heap, room, sizeof *batch->visits);
    batch->places = ps_zeroed_array(heap, room, sizeof *batch->places);
    batch->slots = ps_zeroed_array(heap, batch->slot_count, sizeof *batch->slots);
    batch->room = room;
    /* One check for all: which of them was refused makes no difference. */
    if (batch->keys != NULL && batch->rows != NULL && batch->gradients != NULL &&
        batch->visits != NULL && batch->places != NULL && batch->slots != NULL)
        return PS_OK;
    release(batch);
    return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch with %zu keys", visits);
}

/* All arrays or none: a batch that has failed to grow is empty, and may grow again. */
static void release(struct ps_row_batch *batch)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    ps_release(heap, batch->keys);
    ps_release(heap, batch->rows);
    ps_release(heap, batch->gradients);
    ps_release(heap, batch->visits);
    ps_release(heap, batch->places);
    ps_release(heap, batch->slots);
    *batch = (struct ps_row_batch){.width = batch->width};
}

/* Fibonacci hashing: the high bits of a product depend on all bits of the key, and keys of data
 * sets are often small numbers in a row. Ends at the slot of the key or at a free one: half of
 * them are always free. */
static size_t slot_of(const struct ps_row_batch *batch, uint64_t key)
{
    size_t slot = (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (batch->slot_count - 1);
    while (batch->slots[slot] != 0 && batch->keys[batch->slots[slot] - 1] != key)
        slot = (slot + 1) & (batch->slot_count - 1);
    return slot;
}

/* The first visit makes the row; every visit is noted, since models compute in the order of
 * their visits. */
void ps_row_batch_visit(struct ps_row_batch *batch, uint64_t key)
{
    PS_ASSERT(batch->visit_count < batch->room);
    size_t slot = slot_of(batch, key);
    if (batch->slots[slot] == 0) {
        size_t row = batch->row_count++;
        batch->keys[row] = key;
        batch->visits[row] = 0;
        /* Not when the batch begins: most of the room is not used by most batches. */
        memset(batch->gradients + row * batch->width, 0, batch->width * sizeof(float));
        batch->slots[slot] = (uint32_t)batch->row_count;
    }
    uint32_t row = batch->slots[slot] - 1;
    batch->visits[row]++;
    batch->places[batch->visit_count++] = row;
}

/* The sum would make a frequent row's step as large as the batch, and the mean over the batch would
 * make that of a rare row small: each row gets the mean over what has to do with it, so that the
 * learning rate suits all of them and batches of any size. */
void ps_row_batch_average(struct ps_row_batch *batch)
{
    for (size_t row = 0; row < batch->row_count; row++) {
        float visits = (float)batch->visits[row];
        for (size_t i = 0; i < batch->width; i++)
            batch->gradients[row * batch->width + i] /= visits;
    }
}
