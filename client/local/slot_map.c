/* SPDX-License-Identifier: Apache-2.0 */
/* First fit over bits. 2,048 of them are looked through faster than any tree of free runs could be
 * kept, and the lowest run is the one whose pages exist and are in the cache. */
#include "client/local/slot_map.h"

#include "base/assert.h"

void ps_slot_map_init(struct ps_slot_map *map, uint32_t unit_count)
{
    PS_ASSERT(unit_count > 0 && unit_count <= PS_SLOT_UNITS_MAX);
    *map = (struct ps_slot_map){.unit_count = unit_count};
}

/* Set from take to release. */
static bool is_used(const struct ps_slot_map *map, uint32_t unit)
{
    return (map->used[unit / 64] >> (unit % 64) & 1) != 0;
}

/* An exclusive or, since take and release each know that all bits of the run are alike: one loop
 * for both, and a unit that was in the wrong state comes out in the wrong state, which the next
 * look at it finds. */
static void flip(struct ps_slot_map *map, uint32_t first, uint32_t count)
{
    for (uint32_t unit = first; unit < first + count; unit++)
        map->used[unit / 64] ^= UINT64_C(1) << (unit % 64);
}

/* A rest takes a unit of its own. The sum with a unit's size less one could wrap, for a size that
 * is nonsense. */
static size_t units_of(size_t size)
{
    return size / PS_SLOT_UNIT_BYTES + (size % PS_SLOT_UNIT_BYTES != 0);
}

/* Whole units only: two calls never share a cache line, let alone a unit whose end one has given
 * back. */
bool ps_slot_map_take(struct ps_slot_map *map, size_t size, size_t *offset)
{
    size_t count = units_of(size);
    PS_ASSERT(count > 0);
    uint32_t run = 0;
    for (uint32_t unit = 0; unit < map->unit_count; unit++) {
        run = is_used(map, unit) ? 0 : run + 1;
        if (run < count)
            continue;
        uint32_t first = unit + 1 - run;
        flip(map, first, run);
        map->used_count += run;
        *offset = first * PS_SLOT_UNIT_BYTES;
        return true;
    }
    return false;
}

/* A unit that is free already means that a slot was given back twice: the next two calls would get
 * the same memory, and one gradient would be pushed under two names. */
void ps_slot_map_release(struct ps_slot_map *map, size_t size, size_t offset)
{
    uint32_t count = (uint32_t)units_of(size);
    uint32_t first = (uint32_t)(offset / PS_SLOT_UNIT_BYTES);
    PS_ASSERT(offset % PS_SLOT_UNIT_BYTES == 0 && first + count <= map->unit_count);
    for (uint32_t unit = first; unit < first + count; unit++)
        PS_ASSERT(is_used(map, unit));
    flip(map, first, count);
    PS_ASSERT(map->used_count >= count);
    map->used_count -= count;
}
