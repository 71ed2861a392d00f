/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of many large pages, cut into units. A block takes the first run of units that is long
 * enough: blocks that were made one after the other lie beside each other, and when they are
 * released in the same order, as the indexes of a growing table are, what they leave is one gap
 * that larger ones fit in.
 *
 * Room in a region that no block has come to is address space, and no memory.
 *
 * A general heap would put these blocks between small ones, and grow by pieces that are no whole
 * large pages: measured, none of an index came to lie in one. A slab for each block would waste up
 * to half of it. */
#include "base/large_heap.h"

#include "base/assert.h"
#include "base/slab.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UNIT_BYTES ((size_t)4096)
#define REGION_SLABS 16
#define UNITS ((uint32_t)(REGION_SLABS * (size_t)PS_SLAB_BYTES / UNIT_BYTES))
#define WORDS (UNITS / 64)

_Static_assert(PS_LARGE_HEAP_MOST <= UNITS * UNIT_BYTES, "a region has room for every block");

struct ps_large_region {
    struct ps_large_region *next;
    uint8_t *begin;
    uint32_t used_count;
    uint32_t wanted_end;  /* units before it have been used, or are touched ahead */
    uint64_t used[WORDS]; /* units of blocks */
    uint64_t last[WORDS]; /* the last unit of each block */
};

static void *take_zeroed(void *self, size_t size);
static void *take_plain(void *self, size_t size);
static void release(void *self, void *memory);

/* The functions find the heap by the allocator's own pointer. */
void ps_large_heap_init(struct ps_large_heap *heap, const struct ps_allocator *small,
                        struct ps_touch_ahead *ahead)
{
    PS_ASSERT(small != NULL);
    *heap = (struct ps_large_heap){
        .allocator = {take_zeroed, take_plain, release, heap}, .small = small, .ahead = ahead};
}

/* A region that is left is a block that somebody still has. */
void ps_large_heap_fini(struct ps_large_heap *heap)
{
    PS_ASSERT(heap->regions == NULL);
    heap->small = NULL;
}

/* Two lists of bits say all of a region: which units are used, and where a block ends. Sizes need
 * not be kept beside. */
static bool is_set(const uint64_t *words, uint32_t unit)
{
    return (words[unit / 64] >> unit % 64 & 1) != 0;
}

/* Callers know what it was. */
static void flip(uint64_t *words, uint32_t unit)
{
    words[unit / 64] ^= (uint64_t)1 << unit % 64;
}

/* The first of so many units that are free; UNITS when there is no such run. Regions are full but
 * for the last of them, and words without a free unit are passed over as such. */
static uint32_t find_run(const struct ps_large_region *region, uint32_t count)
{
    uint32_t run = 0;
    PS_ASSERT(count > 0 && count <= UNITS);
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        if (unit % 64 == 0 && region->used[unit / 64] == UINT64_MAX) {
            run = 0;
            unit += 63;
            continue;
        }
        run = is_set(region->used, unit) ? 0 : run + 1;
        if (run == count)
            return unit + 1 - count;
    }
    return UNITS;
}

/* Behind the others, so that they are filled first. */
static struct ps_large_region *add_region(struct ps_large_heap *heap)
{
    struct ps_large_region *region = ps_zeroed(heap->small, sizeof *region);
    if (region == NULL)
        return NULL;
    region->begin = ps_slabs_take(REGION_SLABS);
    if (region->begin == NULL) {
        ps_release(heap->small, region);
        return NULL;
    }
    /* There are as many as 32 MiB go into all large blocks. */
    struct ps_large_region **end = &heap->regions;
    while (*end != NULL)
        end = &(*end)->next;
    *end = region;
    return region;
}

/* One large page behind the block is touched ahead: blocks that are larger take longer to fill than
 * it takes to touch the next. */
static void touch_behind(struct ps_large_heap *heap, struct ps_large_region *region, uint32_t end)
{
    uint32_t wanted_end = end + UNITS / REGION_SLABS;
    PS_ASSERT(end <= UNITS);
    if (wanted_end > UNITS)
        wanted_end = UNITS;
    /* What a block has come to by itself needs no wish. */
    if (region->wanted_end < end)
        region->wanted_end = end;
    if (region->wanted_end >= wanted_end)
        return;
    ps_touch_ahead_want(heap->ahead, region->begin + region->wanted_end * UNIT_BYTES,
                        (wanted_end - region->wanted_end) * UNIT_BYTES);
    region->wanted_end = wanted_end;
}

/* An empty region other than `but`, or NULL. */
static struct ps_large_region *find_empty(const struct ps_large_heap *heap,
                                          const struct ps_large_region *but)
{
    struct ps_large_region *region = heap->regions;
    while (region != NULL && (region->used_count > 0 || region == but))
        region = region->next;
    return region;
}

/* A region that is full but for what is touched ahead has the next one behind it, with its first
 * page touched. Else whoever takes the first block of a region would wait for the kernel. What is
 * refused here is asked for again when it is needed. */
static void prepare_next(struct ps_large_heap *heap, const struct ps_large_region *region)
{
    PS_ASSERT(region->used_count > 0);
    if (heap->ahead == NULL || region->next != NULL || region->wanted_end < UNITS ||
        find_empty(heap, NULL) != NULL)
        return;
    struct ps_large_region *next = add_region(heap);
    if (next != NULL)
        touch_behind(heap, next, 0);
}

/* The first region with room. Going through all bits takes some microseconds, for a block that
 * somebody is about to fill in a hundred times of that. */
static void *take_units(struct ps_large_heap *heap, uint32_t count)
{
    struct ps_large_region *region = heap->regions;
    while (region != NULL && find_run(region, count) == UNITS)
        region = region->next;
    if (region == NULL)
        region = add_region(heap);
    if (region == NULL)
        return NULL;
    /* In a new region it is the first unit. */
    uint32_t first = find_run(region, count);
    for (uint32_t unit = first; unit < first + count; unit++)
        flip(region->used, unit);
    flip(region->last, first + count - 1);
    region->used_count += count;
    PS_ASSERT(region->used_count <= UNITS);
    touch_behind(heap, region, first + count);
    prepare_next(heap, region);
    return region->begin + first * UNIT_BYTES;
}

/* Below, rounding up to units would cost more than it gains. */
static bool is_large(size_t size)
{
    return size >= PS_LARGE_HEAP_FROM && size <= PS_LARGE_HEAP_MOST;
}

/* Whole units: an index wastes half of one on average, a hundredth of itself. */
static void *take_plain(void *self, size_t size)
{
    struct ps_large_heap *heap = self;
    PS_ASSERT(heap->small != NULL);
    if (!is_large(size))
        return ps_plain(heap->small, size);
    return take_units(heap, (uint32_t)((size + UNIT_BYTES - 1) / UNIT_BYTES));
}

/* Units that have been used before are not zero. */
static void *take_zeroed(void *self, size_t size)
{
    struct ps_large_heap *heap = self;
    if (!is_large(size))
        return ps_zeroed(heap->small, size);
    void *taken = take_plain(self, size);
    if (taken != NULL)
        memset(taken, 0, size);
    return taken;
}

/* What the kernel takes for giving memory back is the releasing thread's. */
static void remove_region(struct ps_large_heap *heap, struct ps_large_region *region)
{
    struct ps_large_region **at = &heap->regions;
    while (*at != region) {
        PS_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = region->next;
    ps_touch_ahead_forget(heap->ahead, region->begin, UNITS * UNIT_BYTES);
    ps_slabs_give(region->begin, REGION_SLABS);
    ps_release(heap->small, region);
}

/* One empty region stays, since the next blocks will be larger ones: of two the one that more was
 * touched of. Without any block all of them go. */
static void remove_empty(struct ps_large_heap *heap, struct ps_large_region *region)
{
    struct ps_large_region *other = find_empty(heap, region);
    PS_ASSERT(region->used_count == 0);
    if (other != NULL && other->wanted_end < region->wanted_end)
        remove_region(heap, other);
    else if (other != NULL)
        remove_region(heap, region);
    if (heap->regions->next == NULL && heap->regions->used_count == 0)
        remove_region(heap, heap->regions);
}

/* A block is large if it lies in a region; how long it is, the bits say. */
static void release(void *self, void *memory)
{
    struct ps_large_heap *heap = self;
    uintptr_t at = (uintptr_t)memory;
    struct ps_large_region *region = heap->regions;
    while (region != NULL && at - (uintptr_t)region->begin >= UNITS * UNIT_BYTES)
        region = region->next;
    if (region == NULL) {
        ps_release(heap->small, memory);
        return;
    }
    uint32_t unit = (uint32_t)((at - (uintptr_t)region->begin) / UNIT_BYTES);
    PS_ASSERT(at % UNIT_BYTES == 0);
    /* Ends at the latest with the region, whose last unit ends a block or is free. */
    bool was_last = false;
    for (; !was_last; unit++) {
        PS_ASSERT(unit < UNITS && is_set(region->used, unit));
        was_last = is_set(region->last, unit);
        flip(region->used, unit);
        region->used_count--;
    }
    flip(region->last, unit - 1);
    /* The others stay, however little is in them: blocks cannot move. */
    if (region->used_count == 0)
        remove_empty(heap, region);
}
