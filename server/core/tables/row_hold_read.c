/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a hold: rows of its instant, wherever they are now, in the order of their stripes and
 * pages. A row that no push has come to is read where it lies, under the lock of its stripe, which
 * is held for a page at a time; one that a push has come to was set aside, and lies still. Nobody
 * changes the lists of the hold but pushes that set aside, under the same lock.
 */
#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_hold_parts.h"

#include "base/assert.h"

/* The page with this row: the last whose first row is not behind it. Pages without rows have the
 * same first row as the next one, and are never the last. */
static uint64_t page_of(const struct ps_row_hold *hold, uint64_t row)
{
    uint64_t low = 0;
    uint64_t high = hold->page_count;
    PS_ASSERT(row < hold->rows);
    /* low is a page that begins at the row or before it, high one that begins behind. */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (hold->firsts[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A place in a page, going over its rows. */
struct walk {
    const uint64_t *live;
    uint32_t word;
    uint64_t left; /* of that word */
};

/* The caller knows how many rows there are, and asks for no more. */
static uint32_t next_place(struct walk *walk)
{
    PS_ASSERT(walk->live != NULL);
    while (walk->left == 0)
        walk->left = walk->live[++walk->word];
    uint32_t place = walk->word * 64 + (uint32_t)__builtin_ctzll(walk->left);
    walk->left &= walk->left - 1;
    return place;
}

/* A reader that goes on where it stopped begins in the middle of a page; the rows before are passed
 * over, at most a page's. */
static struct walk begin_walk(const struct ps_row_hold *hold, uint64_t page, uint64_t rows_before)
{
    PS_ASSERT(page <= hold->page_count);
    const uint64_t *live = hold->live + page * hold->table->shape.live_words;
    struct walk walk = {.live = live, .left = live[0]};
    for (uint64_t i = 0; i < rows_before; i++)
        (void)next_place(&walk);
    return walk;
}

/* What is read, and how far it has come. */
struct reading {
    struct ps_row_hold *hold;
    uint32_t array;
    uint8_t *to;
    size_t size;
    size_t skipped; /* of the first row: a reader may ask for any bytes */
    uint64_t row;
    uint64_t page;
    uint32_t stripe; /* of the page */
};

/* Those that are as they were, and those that were set aside. */
void ps_row_hold_find_rows(const struct ps_row_hold *hold, uint32_t stripe, uint64_t page,
                           const uint8_t **rows)
{
    const struct ps_row_shape *shape = &hold->table->shape;
    const uint64_t *due = hold->aside.due + page * shape->live_words;
    const uint8_t *at = hold->table->stripes[stripe].pages[page - hold->aside.first_pages[stripe]];
    for (uint32_t word = 0; word < shape->live_words; word++)
        for (uint64_t left = due[word]; left != 0; left &= left - 1) {
            uint32_t place = word * 64 + (uint32_t)__builtin_ctzll(left);
            rows[place] = at + place * shape->stride;
        }
    for (const struct ps_row_old *old = hold->aside.old[page]; old != NULL; old = old->next) {
        PS_ASSERT(old->count <= PS_ROW_OLD_ROWS);
        for (uint32_t i = 0; i < old->count; i++)
            rows[old->places[i]] = old->rows[i];
    }
}

/* As far as the page goes. A push that comes to one of its rows waits for a lock that is held for
 * half a microsecond. */
static void read_page(struct reading *reading)
{
    const struct ps_row_hold *hold = reading->hold;
    const struct ps_row_shape *shape = &hold->table->shape;
    size_t each = shape->arrays[reading->array].size;
    size_t offset = shape->arrays[reading->array].offset;
    /* By place, and only of those that there were: the walk comes to no other. */
    const uint8_t *rows[PS_ROW_PAGE_ROWS_MAX];
    struct walk walk = begin_walk(hold, reading->page, reading->row - hold->firsts[reading->page]);
    PS_ASSERT(reading->page < hold->page_count);
    ps_mutex_lock(ps_row_lock_of(hold->table, reading->stripe));
    ps_row_hold_find_rows(hold, reading->stripe, reading->page, rows);
    for (; reading->size > 0 && reading->row < hold->firsts[reading->page + 1]; reading->row++) {
        /* The first row may be begun in its middle, and the last one left in its own. */
        size_t left = each - reading->skipped;
        size_t some = left < reading->size ? left : reading->size;
        ps_row_copy(reading->to, rows[next_place(&walk)] + offset + reading->skipped, some);
        reading->to += some;
        reading->size -= some;
        reading->skipped = 0;
    }
    ps_mutex_unlock(ps_row_lock_of(hold->table, reading->stripe));
}

/* Rows of a page that the hold has as they are now. */
static enum ps_status call_page(const struct ps_row_hold *hold, uint32_t stripe, uint64_t page,
                                struct ps_error *error)
{
    struct ps_row_table *table = hold->table;
    uint32_t rows = 1u << table->shape.page_bits;
    uint32_t first = (uint32_t)(page - hold->aside.first_pages[stripe]) * rows;
    PS_ASSERT(page < hold->page_count);
    for (uint32_t row = first; row < first + rows; row++)
        PS_TRY(ps_row_aside_call(table, stripe, row, error));
    return PS_OK;
}

/* From this page on those with rows before `row_end`: what a device has of them comes home, once
 * for all arrays. What a push comes to afterwards it sets aside as it was. */
static enum ps_status bring_home(const struct ps_row_hold *hold, uint64_t page, uint64_t row_end,
                                 struct ps_error *error)
{
    struct ps_row_bodies *bodies = hold->table->bodies;
    enum ps_status status = PS_OK;
    uint32_t stripe = 0;
    PS_ASSERT(row_end <= hold->rows);
    ps_rwlock_write(&bodies->lock);
    for (; status == PS_OK && page < hold->page_count && hold->firsts[page] < row_end; page++) {
        while (page >= hold->aside.first_pages[stripe + 1])
            stripe++;
        /* Pages without a row that is read have nothing to bring. */
        if (hold->firsts[page] < hold->firsts[page + 1])
            status = call_page(hold, stripe, page, error);
    }
    if (status == PS_OK)
        status = ps_row_bodies_fetch(hold->table, error);
    ps_rwlock_unlock(&bodies->lock);
    return status;
}

/* The rows are gathered. Whoever reads all arrays asks for some rows of each, so that their pages
 * come from memory once. */
enum ps_status ps_row_hold_read(struct ps_row_hold *hold, uint32_t array, uint64_t offset, void *to,
                                size_t size, struct ps_error *error)
{
    const struct ps_row_shape *shape = &hold->table->shape;
    PS_ASSERT(array < shape->array_count);
    size_t each = shape->arrays[array].size;
    PS_ASSERT(offset <= hold->rows * each && size <= hold->rows * each - offset);
    struct reading reading = {.hold = hold,
                              .array = array,
                              .to = to,
                              .size = size,
                              .skipped = offset % each,
                              .row = offset / each};
    if (size > 0)
        reading.page = page_of(hold, reading.row);
    PS_ASSERT(size == 0 || reading.page >= hold->gone_pages);
    /* Keys and versions are the host's. */
    if (hold->table->bodies != NULL && array <= shape->layout.state_count)
        PS_TRY(bring_home(hold, reading.page, (offset + size + each - 1) / each, error));
    /* Pages come in the order of their stripes, some of which have none. */
    for (; reading.size > 0; reading.page++) {
        while (reading.page >= hold->aside.first_pages[reading.stripe + 1])
            reading.stripe++;
        /* Of an increment most pages have none. */
        if (hold->firsts[reading.page] < hold->firsts[reading.page + 1])
            read_page(&reading);
    }
    return PS_OK;
}
