/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a table: cut from slabs of large pages, kept when they are free, given back to the
 * system with the table. Most have rows; some have what rows were at the instant of a hold
 * (row_aside.h), and are free again when the hold ends.
 *
 * Threads:  all functions from any thread.
 * Blocking: for a lock of PS_RANK_LEAF, and the kernel when a slab is needed.
 * Errors:   NULL or false when memory is refused or the limit reached.
 * Memory:   a page belongs to whoever took it until it is given back.
 */
#ifndef PS_SERVER_CORE_ROW_PAGES_H
#define PS_SERVER_CORE_ROW_PAGES_H

#include "base/alloc.h"
#include "base/thread.h"
#include "base/touch_ahead.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A page that has no rows of the table, and may be in a list. */
struct ps_row_page {
    struct ps_row_page *next;
};

struct ps_row_slab;

/* Slabs that are had before they are needed, at most: 6 MiB, for a table of 768 MiB or more. */
#define PS_ROW_SLABS_AHEAD_MAX 3

struct ps_row_pages {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_touch_ahead *ahead;      /* borrowed; may be NULL */
    size_t page_bytes;
    _Atomic uint64_t bytes;       /* of slabs, and what else was counted in */
    _Atomic uint64_t bytes_limit; /* of `bytes`; the pushing thread sets it */
    struct ps_mutex lock;         /* guards what follows */
    struct ps_row_page *free;
    uint64_t free_count;
    struct ps_row_slab *slabs;
    struct ps_row_slab *next; /* those that are touched ahead, the first to be used first */
    uint32_t next_count;
    uint32_t next_wanted; /* more when the one that touches came too late */
    uint8_t *uncut;           /* of the newest slab */
    size_t uncut_bytes;
    size_t slab_bytes; /* of the next one: they grow with the table */
};

/* `ahead` (borrowed, may be NULL) has slabs touched that come next: one, and up to
 * PS_ROW_SLABS_AHEAD_MAX where it has been too slow for one. */
void ps_row_pages_init(struct ps_row_pages *pages, const struct ps_allocator *memory,
                       size_t page_bytes, struct ps_touch_ahead *ahead);

/* All pages go, whoever has them. */
void ps_row_pages_fini(struct ps_row_pages *pages);

/* Counts `bytes` of other memory in, unless they would go over the limit; and out again. */
bool ps_row_pages_count(struct ps_row_pages *pages, uint64_t bytes);
void ps_row_pages_count_back(struct ps_row_pages *pages, uint64_t bytes);

/* A page with undefined content, or NULL. */
struct ps_row_page *ps_row_pages_take(struct ps_row_pages *pages);

/* Takes a list of pages, which are free from here on; NULL is an empty one. */
void ps_row_pages_give(struct ps_row_pages *pages, struct ps_row_page *list);

/* Makes slabs and touches them until `count` pages are free, as far as memory goes. For whoever
 * does not hold pushes up: memory that was never written costs faults of the kernel. */
void ps_row_pages_expect(struct ps_row_pages *pages, uint64_t count);

#endif
