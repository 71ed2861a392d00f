/* SPDX-License-Identifier: Apache-2.0 */
/* What rows were at the instant of a hold, for those that a push has written over since. Rows stay
 * where they are; before a push writes over one that a hold has, it sets the old bytes aside for
 * that hold, once. So a push beside a hold copies the rows that it steps, and no others.
 *
 * Threads:  keep by the pushing one; init while nobody pushes; let_go and fini by any one. What is
 *           read of it is read under the lock of the row's stripe.
 * Blocking: keep holds the table's `holds_lock`, for which init and fini wait, and takes the locks
 *           of stripes, as let_go does.
 * Errors:   keep says false when memory is refused.
 * Memory:   old rows lie in pages of the table's pool, which go back to it by let_go and fini.
 */
#ifndef PS_SERVER_CORE_ROW_ASIDE_H
#define PS_SERVER_CORE_ROW_ASIDE_H

#include "server/core/tables/row_stripes.h"

#define PS_ROW_OLD_ROWS 6

/* Some rows of one page as they were: where they lie now, so that a reader asks for all of them at
 * once and does not find each by way of another. */
struct ps_row_old {
    struct ps_row_old *next; /* of the same page */
    const uint8_t *rows[PS_ROW_OLD_ROWS];
    uint8_t places[PS_ROW_OLD_ROWS]; /* in their page */
    uint8_t count;
};
_Static_assert(sizeof(struct ps_row_old) == 64, "one line of the cache");
_Static_assert(PS_ROW_PAGE_ROWS_MAX <= 256, "a place is one byte");

/* Pages with old rows of the stripes that share a lock, which guards them: when these stripes have
 * been read they are free, whatever has been read of the others. */
struct ps_row_aside_pages {
    struct ps_row_page *pages; /* the newest first */
    size_t used_bytes;         /* of the newest */
};

/* One hold, as pushes know it. */
struct ps_row_aside {
    struct ps_row_aside *next; /* of the same table */
    struct ps_row_aside_pages kept[PS_ROW_LOCKS];
    uint64_t first_pages[PS_ROW_STRIPES + 1]; /* the pages of stripe i begin here in the lists */
    /* Of each page that there was at the instant. Both lists are the hold's. */
    uint64_t *due;           /* live_words: rows of the instant that are as they were */
    struct ps_row_old **old; /* those that are not */
};

/* From here on pushes see to what `aside` has: its lists are filled in, and it stays where it is.
 * Fini ends that, whatever other holds there are. */
void ps_row_aside_init(struct ps_row_table *table, struct ps_row_aside *aside);
void ps_row_aside_fini(struct ps_row_table *table, struct ps_row_aside *aside);

/* Nobody will read the rows of these pages, of one stripe: they are not set aside any more. All
 * pages before `begin` were let go before; with the last of those that share a lock, the pages with
 * their old rows are free. */
void ps_row_aside_let_go(struct ps_row_table *table, struct ps_row_aside *aside, uint32_t stripe,
                         uint64_t begin, uint64_t end);

/* Sets aside, for every hold that has them, the rows of these numbers: those of stripe i stand from
 * begins[i] to before begins[i + 1]. They may be written over afterwards. Numbers that no hold
 * knows are passed over; what was set aside before a refusal stays, and changes nothing. */
bool ps_row_aside_keep(struct ps_row_table *table, const uint32_t begins[PS_ROW_STRIPES + 1],
                       const uint32_t *numbers);

/* Are there holds? For whoever pushes, who lets none come meanwhile. */
bool ps_row_aside_is_held(struct ps_row_table *table);

/* With the lock of bodies: calls the row home (row_bodies.h) if a hold has it as it is now. */
PS_MUST_USE enum ps_status ps_row_aside_call(struct ps_row_table *table, uint32_t stripe,
                                             uint32_t row, struct ps_error *error);

/* Pages that so many old rows take, at most, when most rows of a page are among them. */
uint64_t ps_row_aside_pages(const struct ps_row_table *table, uint64_t rows);

#endif
