/* SPDX-License-Identifier: Apache-2.0 */
/* A ring for the order, and beside it the same numbers by their hash, with open addressing. A slot
 * that is given up is closed by moving up those behind it, so that there are no graves: a server
 * that runs for months finds as fast as on its first day.
 *
 * The number 0 is a free slot, and stands for callers who say none. What is forgotten is forgotten
 * by age alone: a repeat that comes later than so many others is taken for a new request. */
#include "server/core/rendezvous/recent_ids.h"

#include "base/assert.h"

#include <string.h>

static uint32_t slot_of(const struct ps_recent_ids *ids, uint64_t id);
static uint32_t find(const struct ps_recent_ids *ids, uint64_t id);
static void forget(struct ps_recent_ids *ids, uint64_t id);

/* Half of the slots stay free at least, so that a look passes few of them. */
void ps_recent_ids_init(struct ps_recent_ids *ids, const struct ps_allocator *memory,
                        uint32_t capacity)
{
    PS_ASSERT(capacity > 0 && capacity <= UINT32_C(1) << 24);
    *ids = (struct ps_recent_ids){.memory = memory, .capacity = capacity, .slot_count = 1};
    while (ids->slot_count < 2 * capacity)
        ids->slot_count *= 2;
}

/* Also of one that was never reserved. */
void ps_recent_ids_fini(struct ps_recent_ids *ids)
{
    PS_ASSERT(ids->memory != NULL);
    ps_release(ids->memory, ids->ring);
    ps_release(ids->memory, ids->slots);
    ids->ring = NULL;
    ids->slots = NULL;
}

/* One look, mostly at one slot: this is asked for every send. */
bool ps_recent_ids_has(const struct ps_recent_ids *ids, uint64_t id)
{
    PS_ASSERT(ids->slots != NULL || ids->count == 0);
    return id != 0 && ids->slots != NULL && ids->slots[find(ids, id)] == id;
}

/* The memory comes with the first number: most servers are never asked for a rendezvous. */
enum ps_status ps_recent_ids_reserve(struct ps_recent_ids *ids, struct ps_error *error)
{
    PS_ASSERT(ids->slot_count >= 2 * ids->capacity);
    /* From the second call on there is nothing to do. */
    if (ids->slots != NULL)
        return PS_OK;
    ids->ring = ps_zeroed_array(ids->memory, ids->capacity, sizeof *ids->ring);
    ids->slots = ps_zeroed_array(ids->memory, ids->slot_count, sizeof *ids->slots);
    if (ids->ring != NULL && ids->slots != NULL)
        return PS_OK;
    ps_recent_ids_fini(ids);
    return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the numbers of requests");
}

void ps_recent_ids_add(struct ps_recent_ids *ids, uint64_t id)
{
    PS_ASSERT(ids->slots != NULL && ids->ring != NULL);
    if (id == 0 || ps_recent_ids_has(ids, id))
        return;
    /* The oldest goes first, so that a slot is free whenever one is looked for. */
    if (ids->count == ids->capacity)
        forget(ids, ids->ring[ids->next]);
    ids->slots[find(ids, id)] = id;
    ids->ring[ids->next] = id;
    ids->next = (ids->next + 1) % ids->capacity;
    ids->count++;
    PS_ASSERT(ids->count <= ids->capacity);
}

/* Numbers of clients are random or counted up: the multiplication spreads both. */
static uint32_t slot_of(const struct ps_recent_ids *ids, uint64_t id)
{
    PS_ASSERT(id != 0);
    return (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (ids->slot_count - 1);
}

/* The slot of this number, or the free one where it would be put. */
static uint32_t find(const struct ps_recent_ids *ids, uint64_t id)
{
    uint32_t slot = slot_of(ids, id);
    PS_ASSERT(ids->count < ids->slot_count);
    /* Ends, since half of the slots are free. */
    while (ids->slots[slot] != 0 && ids->slots[slot] != id)
        slot = (slot + 1) & (ids->slot_count - 1);
    return slot;
}

/* Each number behind the hole moves into it, unless its own place lies between the hole and where
 * it is: it would not be found there. */
static void forget(struct ps_recent_ids *ids, uint64_t id)
{
    uint32_t mask = ids->slot_count - 1;
    uint32_t hole = find(ids, id);
    PS_ASSERT(ids->slots[hole] == id && ids->count > 0);
    for (uint32_t i = (hole + 1) & mask; ids->slots[i] != 0; i = (i + 1) & mask) {
        uint32_t from_home = (i - slot_of(ids, ids->slots[i])) & mask;
        if (from_home < ((i - hole) & mask))
            continue;
        ids->slots[hole] = ids->slots[i];
        hole = i;
    }
    ids->slots[hole] = 0;
    ids->count--;
}

/* The newest numbers are in the ring before `next`, the oldest from it on when the ring is
 * full. */
void ps_recent_ids_check(const struct ps_recent_ids *ids)
{
    PS_ASSERT(ids->count <= ids->capacity && ids->next < ids->capacity);
    PS_ASSERT((ids->ring == NULL) == (ids->slots == NULL));
    PS_ASSERT(ids->count == ids->capacity || ids->next == ids->count);
    /* A sample: a look at all of them for each event of a test would take longer than the test. */
    for (uint32_t i = 0; i < ids->count && i < 64; i++)
        PS_ASSERT(ps_recent_ids_has(ids, ids->ring[i]));
}
