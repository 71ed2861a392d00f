/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a hold. Private to this room.
 *
 * Threads:  that of the hold.
 * Blocking: never.
 * Errors:   none.
 * Memory:   a hold owns what its pointers point to, but for the pages.
 */
#ifndef PS_SERVER_CORE_ROW_HOLD_PARTS_H
#define PS_SERVER_CORE_ROW_HOLD_PARTS_H

#include "server/core/tables/row_hold.h"
#include "server/core/tables/row_removals.h"
#include "server/core/tables/row_stripes.h"

struct ps_held_page {
    const struct ps_row_page *page;
    uint64_t first; /* rows of the pages before it */
};

struct ps_row_hold {
    struct ps_row_table *table; /* a reference */
    struct ps_row_holder holder;
    uint64_t rows; /* that are read */
    uint64_t page_count;
    struct ps_held_page *pages; /* and one more, whose `first` is all rows */
    uint64_t *live;             /* live_words for each page: the rows that are read */
    uint64_t *changed;        /* as `live`: those of them that were found; NULL: none looked for */
    struct ps_row_mark *mark; /* of the instant; NULL: it has none */
};

/* So many rows a page has by these words. */
static inline uint32_t ps_held_rows(const uint64_t *live, uint32_t words)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < words; i++)
        rows += (uint32_t)__builtin_popcountll(live[i]);
    return rows;
}

#endif
