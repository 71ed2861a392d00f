/* SPDX-License-Identifier: Apache-2.0 */
/* Linear probing over an index of half as many rows as places, at most. A row that goes leaves no
 * mark behind: those after it that it had pushed away come back to where they belong. */
#include "client/replica/row_map.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "base/row_hash.h"

#include <stdbool.h>
#include <string.h>

/* Another order than the one by which keys have their servers: those of one server would crowd in a
 * part of the index. */
#define SEED UINT64_C(0x6d61705f726f7773)

#define ROOM_FIRST 64
#define NONE UINT32_MAX

/* Memory is had with the first row: a server may have none of a table. */
void ps_row_map_init(struct ps_row_map *map, const struct ps_allocator *memory, size_t row_bytes)
{
    PS_ASSERT(memory != NULL && row_bytes > 0);
    *map = (struct ps_row_map){.memory = memory, .row_bytes = row_bytes};
}

/* Also of a map that is all zeros, which nobody has begun. */
void ps_row_map_fini(struct ps_row_map *map)
{
    if (map->memory == NULL)
        return;
    PS_ASSERT(map->count <= map->room);
    ps_release(map->memory, map->keys);
    ps_release(map->memory, map->values);
    ps_release(map->memory, map->index);
    *map = (struct ps_row_map){0};
}

/* Where the search for a key begins. */
static uint32_t home_of(const struct ps_row_map *map, uint64_t key)
{
    PS_ASSERT(map->index != NULL);
    return (uint32_t)ps_row_hash(key, SEED) & map->index_mask;
}

/* The place of the index with the key, or the free one where it would be. The search ends, since
 * half of the places are free. The keys themselves are compared: numbers of rows alone say nothing,
 * and a tag would save little where a line of the index has sixteen of them. */
static uint32_t place_of(const struct ps_row_map *map, uint64_t key)
{
    uint32_t place = home_of(map, key);
    PS_ASSERT(map->count <= map->index_mask / 2 + 1);
    while (map->index[place] != 0 && map->keys[map->index[place] - 1] != key)
        place = (place + 1) & map->index_mask;
    return place;
}

/* A map without rows has no index yet. */
const uint8_t *ps_row_map_find(const struct ps_row_map *map, uint64_t key)
{
    if (map->count == 0)
        return NULL;
    uint32_t row = map->index[place_of(map, key)];
    PS_ASSERT(row <= map->count);
    return row > 0 ? map->values + (size_t)(row - 1) * map->row_bytes : NULL;
}

void ps_row_map_expect(const struct ps_row_map *map, uint64_t key)
{
    if (map->count > 0)
        PS_PREFETCH(&map->index[home_of(map, key)]);
}

/* Of what stands at the key's home, which is the key itself more often than not; another one costs
 * a line that nobody needed. */
void ps_row_map_expect_row(const struct ps_row_map *map, uint64_t key)
{
    if (map->count == 0)
        return;
    uint32_t row = map->index[home_of(map, key)];
    PS_ASSERT(row <= map->count);
    if (row == 0)
        return;
    PS_PREFETCH(&map->keys[row - 1]);
    PS_PREFETCH(map->values + (size_t)(row - 1) * map->row_bytes);
}

/* ---- Growing ---- */

/* A copy with more room in the place of `old`, whose first `used` bytes count. An allocator has no
 * way to lengthen what it gave, and large blocks are copied by the kernel's pages in any case. */
static bool lengthen(const struct ps_row_map *map, void *old, size_t used, size_t size, void **new)
{
    void *longer = ps_plain(map->memory, size);
    PS_ASSERT(used <= size);
    if (longer == NULL)
        return false;
    if (used > 0)
        memcpy(longer, old, used);
    *new = longer;
    return true;
}

/* For so many rows, at most half full: with a hash that spreads as well as this one a key that is
 * not there is found out after two places. */
static bool make_index(const struct ps_row_map *map, uint32_t rows, uint32_t **index,
                       uint32_t *mask)
{
    uint64_t places = ROOM_FIRST;
    while (places < 2 * (uint64_t)rows)
        places *= 2;
    PS_ASSERT(places <= (uint64_t)UINT32_MAX + 1);
    *index = ps_zeroed_array(map->memory, (size_t)places, sizeof **index);
    *mask = (uint32_t)(places - 1);
    return *index != NULL;
}

/* Everything is had before anything is exchanged: what was refused has changed nothing. By half at
 * a time, since the old and the new rows are there together for a moment. */
static bool grow(struct ps_row_map *map)
{
    uint32_t room = map->room == 0 ? ROOM_FIRST : map->room + map->room / 2;
    struct ps_row_map longer = *map;
    PS_ASSERT(map->count == map->room);
    /* Half of the numbers that an index can have places for. */
    if (room > UINT32_MAX / 2)
        return false;
    void *keys = NULL, *values = NULL;
    uint32_t *index = NULL;
    bool is_had =
        lengthen(map, map->keys, map->count * sizeof *map->keys, room * sizeof *map->keys, &keys) &&
        lengthen(map, map->values, map->count * map->row_bytes, room * map->row_bytes, &values) &&
        make_index(map, room, &index, &longer.index_mask);
    if (!is_had) {
        ps_release(map->memory, keys);
        ps_release(map->memory, values);
        return false;
    }
    longer.keys = keys;
    longer.values = values;
    longer.index = index;
    longer.room = room;
    /* From the keys, since the places of the old index say nothing about those of a larger one. */
    for (uint32_t row = 0; row < longer.count; row++)
        index[place_of(&longer, longer.keys[row])] = row + 1;
    ps_release(map->memory, map->keys);
    ps_release(map->memory, map->values);
    ps_release(map->memory, map->index);
    *map = longer;
    return true;
}

/* ---- Changing ---- */

/* The new key is the last one, and in the index only when its row has a place. */
uint8_t *ps_row_map_put(struct ps_row_map *map, uint64_t key)
{
    PS_ASSERT(map->memory != NULL);
    /* The caller writes to it; a search alone promises not to. */
    uint8_t *row = (uint8_t *)(uintptr_t)ps_row_map_find(map, key);
    if (row != NULL)
        return row;
    if (map->count == map->room && !grow(map))
        return NULL;
    map->keys[map->count] = key;
    map->index[place_of(map, key)] = ++map->count;
    return map->values + (size_t)(map->count - 1) * map->row_bytes;
}

/* What stands behind a place that becomes free may have been pushed there by it: it goes back, and
 * leaves a free place of its own. */
static void free_place(struct ps_row_map *map, uint32_t free)
{
    uint32_t place = free;
    PS_ASSERT(map->index[free] != 0);
    for (;;) {
        place = (place + 1) & map->index_mask;
        if (map->index[place] == 0)
            break;
        /* By the hash anew: places do not remember it. */
        uint32_t home = home_of(map, map->keys[map->index[place] - 1]);
        /* Nearer to its home, which lies at the free place or before it. */
        if (((place - home) & map->index_mask) >= ((place - free) & map->index_mask)) {
            map->index[free] = map->index[place];
            free = place;
        }
    }
    map->index[free] = 0;
}

/* The rows stay side by side, so that a copy with more room touches nothing else. The last row
 * moves into the place that becomes free, and the index is told before the keys change: until then
 * every search finds what it should. */
void ps_row_map_remove(struct ps_row_map *map, uint64_t key)
{
    if (map->count == 0)
        return;
    uint32_t place = place_of(map, key);
    if (map->index[place] == 0)
        return;
    uint32_t row = map->index[place] - 1;
    uint32_t last = map->count - 1;
    PS_ASSERT(row <= last);
    if (row != last) {
        map->index[place_of(map, map->keys[last])] = row + 1;
        /* The place of the key that goes is found by the row's number from here on. */
        map->index[place] = last + 1;
        memcpy(map->values + row * map->row_bytes, map->values + last * map->row_bytes,
               map->row_bytes);
        uint64_t moved = map->keys[last];
        map->keys[last] = key;
        map->keys[row] = moved;
    }
    free_place(map, place);
    map->count--;
}

/* Each row is found by its key, and the index has no place for any other. */
void ps_row_map_check(const struct ps_row_map *map)
{
    uint64_t used = 0;
    PS_ASSERT(map->count <= map->room);
    /* Of the last place, too, whose number is the mask itself. */
    for (uint64_t i = 0; map->index != NULL && i <= map->index_mask; i++)
        used += map->index[i] != 0 ? 1 : 0;
    PS_ASSERT(used == map->count);
    for (uint32_t row = 0; row < map->count; row++)
        PS_ASSERT(map->index[place_of(map, map->keys[row])] == row + 1);
}
