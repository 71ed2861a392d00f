/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator whose large blocks lie in large pages, beside each other: for arrays that are read
 * at random places, each of which would else need an address translation from memory. Small blocks
 * are another allocator's.
 *
 * Threads:  one at a time.
 * Blocking: for the kernel, when more room is needed.
 * Errors:   NULL when memory is refused.
 * Memory:   blocks go back to the same heap before its end. Of 32 MiB of room that are empty the
 *           heap keeps one for the blocks to come; the others, and without any block all, go back
 *           to the kernel.
 */
#ifndef PS_BASE_LARGE_HEAP_H
#define PS_BASE_LARGE_HEAP_H

#include "base/alloc.h"
#include "base/touch_ahead.h"

/* From this size on a block is large, as far as PS_LARGE_HEAP_MOST; still larger ones have pages
 * enough of their own, and are not this heap's either. */
#define PS_LARGE_HEAP_FROM ((size_t)32 * 1024)
#define PS_LARGE_HEAP_MOST ((size_t)8 * 1024 * 1024)

struct ps_large_region;

struct ps_large_heap {
    struct ps_allocator allocator;    /* what users are given */
    const struct ps_allocator *small; /* borrowed; outlives the heap */
    struct ps_touch_ahead *ahead;     /* borrowed; outlives the heap; may be NULL */
    struct ps_large_region *regions;
};

/* `heap` stays where it is. Nothing is allocated before it is needed. `ahead` (may be NULL) has the
 * room touched that comes next. */
void ps_large_heap_init(struct ps_large_heap *heap, const struct ps_allocator *small,
                        struct ps_touch_ahead *ahead);

/* All blocks were released. */
void ps_large_heap_fini(struct ps_large_heap *heap);

#endif
