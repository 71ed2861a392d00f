/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a hold. Private to this room.
 *
 * Threads:  that of the hold.
 * Blocking: never.
 * Errors:   none.
 * Memory:   a hold owns what its pointers point to, but for the rows.
 */
#ifndef PS_SERVER_CORE_ROW_HOLD_PARTS_H
#define PS_SERVER_CORE_ROW_HOLD_PARTS_H

#include "server/core/tables/row_aside.h"
#include "server/core/tables/row_hold.h"
#include "server/core/tables/row_removals.h"

struct ps_row_hold {
    struct ps_row_table *table; /* a reference */
    struct ps_row_aside aside;
    uint64_t rows; /* that are read */
    uint64_t page_count;
    uint64_t page_room;    /* of the lists */
    uint64_t gone_pages;   /* nobody reads the first of them any more */
    uint32_t gone_stripes; /* the same; of the next one some pages may be gone */
    /* Of each page, stripe by stripe. */
    uint64_t *firsts;         /* rows of the pages before it; and one more, which is all rows */
    uint64_t *live;           /* live_words: rows that are read */
    uint64_t *changed;        /* the same: those of them that were found; NULL: none looked for */
    struct ps_row_mark *mark; /* of the instant; NULL: it has none */
};

/* Under the lock of the page's stripe: writes down by their place where the rows of the page are
 * now. */
void ps_row_hold_find_rows(const struct ps_row_hold *hold, uint32_t stripe, uint64_t page,
                           const uint8_t **rows);

/* So many rows a page has by these words. */
static inline uint32_t ps_held_rows(const uint64_t *live, uint32_t words)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < words; i++)
        rows += (uint32_t)__builtin_popcountll(live[i]);
    return rows;
}

#endif
