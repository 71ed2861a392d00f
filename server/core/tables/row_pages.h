/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a table, and who still needs a page that was copied: cut from slabs of large pages,
 * kept when they are free, given back to the system with the table.
 *
 * A hold (row_hold.h) has a number, and a page knows how many holds there had been when it was
 * made. A page that is older than the newest hold is left to that hold by its next writer, who
 * goes on in a copy. When a hold ends, the pages left to it go to the next older hold that has
 * them too, or are free. So holding and letting go touch no page.
 *
 * Threads:  all functions from any thread; only one at a time makes pages older (take, leave).
 * Blocking: for a lock of PS_RANK_LEAF, and the kernel when a slab is needed.
 * Errors:   NULL or false when memory is refused or the limit reached.
 * Memory:   a page belongs to whoever took it until it is given back or left to a hold.
 */
#ifndef PS_SERVER_CORE_ROW_PAGES_H
#define PS_SERVER_CORE_ROW_PAGES_H

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The head of a page; rows follow it. */
struct ps_row_page {
    struct ps_row_page *next; /* while it is free, or left to a hold */
    uint64_t age;             /* holds that there had been, when it was left to one */
};

/* A hold as the pages know it. */
struct ps_row_holder {
    struct ps_row_holder *older;
    struct ps_row_page *left; /* pages that only holds have */
    uint64_t left_count;
    uint64_t number; /* 1 for the first; rising */
};

struct ps_row_slab;

struct ps_row_pages {
    const struct ps_allocator *memory; /* borrowed */
    size_t page_bytes;
    _Atomic uint64_t bytes;        /* of slabs, and what else was counted in */
    _Atomic uint64_t bytes_limit;  /* of `bytes`; the pushing thread sets it */
    uint64_t hold_count;           /* holds taken so far */
    _Atomic uint64_t newest;       /* number of the newest hold that lives; 0: none does */
    struct ps_mutex lock;          /* guards what follows */
    struct ps_row_holder *holders; /* the newest first */
    struct ps_row_page *free;
    uint64_t free_count;
    uint64_t taken_count; /* pages that are not free: of the table, and left to holds */
    struct ps_row_slab *slabs;
    uint8_t *uncut; /* of the newest slab */
    size_t uncut_bytes;
    size_t slab_bytes; /* of the next one: they grow with the table */
};

void ps_row_pages_init(struct ps_row_pages *pages, const struct ps_allocator *memory,
                       size_t page_bytes);

/* All pages go, whoever has them. */
void ps_row_pages_fini(struct ps_row_pages *pages);

/* Counts `bytes` of other memory in, unless they would go over the limit; and out again. */
bool ps_row_pages_count(struct ps_row_pages *pages, uint64_t bytes);
void ps_row_pages_count_back(struct ps_row_pages *pages, uint64_t bytes);

/* A page with undefined content, or NULL. */
struct ps_row_page *ps_row_pages_take(struct ps_row_pages *pages);

/* Makes slabs and touches them until `count` pages are free, or as many as are taken; as far as
 * memory goes. For whoever does not hold pushes up: memory that was never written costs faults of
 * the kernel. With `holder`: no more than what this hold may still have copied. */
void ps_row_pages_expect(struct ps_row_pages *pages, uint64_t count,
                         const struct ps_row_holder *holder);

/* Is a page of this age to be copied before it is written? */
static inline bool ps_row_pages_held(const struct ps_row_pages *pages, uint64_t age)
{
    return age < atomic_load_explicit(&pages->newest, memory_order_relaxed);
}

/* The page was replaced: it is left to the holds that have it, or free when they have ended. */
void ps_row_pages_leave(struct ps_row_pages *pages, struct ps_row_page *page, uint64_t age);

/* A new hold: every page that there is, it has. Nobody pushes. `holder` stays where it is. */
void ps_row_pages_hold(struct ps_row_pages *pages, struct ps_row_holder *holder);
void ps_row_pages_release(struct ps_row_pages *pages, struct ps_row_holder *holder);

#endif
