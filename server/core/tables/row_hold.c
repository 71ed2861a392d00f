/* SPDX-License-Identifier: Apache-2.0 */
/* A hold is the list of which rows there were, page by page, and what pushes have set aside of them
 * since (row_aside.h). A row that no push has come to is read where it lies.
 *
 * Taking a hold touches no row: a table of ten million has 160,000 pages, and each would be some
 * lines of memory while all pushes stand still. The bits that say which rows there are, 8 bytes for
 * 64 rows, are copied from one end to the other, which takes a millisecond or two.
 */
#include "server/core/tables/row_hold.h"

#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_hold_parts.h"

#include "base/assert.h"

/* Memory that is made ready before a hold, and kept ready by whoever reads it: some ten pushes of
 * ten thousand rows. */
#define READY_BYTES ((uint64_t)16 * 1024 * 1024)

static struct ps_row_hold *create_hold(struct ps_row_table *table);
static void hold_stripe(struct ps_row_hold *hold, uint32_t number);

/* No more than what all these rows would take. */
static void expect_pages(struct ps_row_table *table, uint64_t rows)
{
    uint64_t most = READY_BYTES / table->shape.page_bytes;
    uint64_t needed = ps_row_aside_pages(table, rows);
    PS_ASSERT(table->shape.page_bytes > 0);
    ps_row_pages_expect(&table->pages, needed < most ? needed : most);
}

/* Pages that holds have had are free for the next one, so that this happens once for a table that
 * does not grow. */
void ps_row_hold_expect(struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    expect_pages(table, ps_row_table_rows(table));
    if (table->candidates != NULL)
        ps_row_hold_expect(table->candidates);
}

/* The memory first, then the lists, and pushes learn of it last: what fails has changed nothing,
 * and no push comes between, since the caller has seen to that. */
enum ps_status ps_row_hold_take(struct ps_row_table *table, struct ps_row_hold **taken,
                                struct ps_error *error)
{
    struct ps_row_hold *hold = create_hold(table);
    if (hold == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to hold a table of %llu rows",
                       (unsigned long long)ps_row_table_rows(table));
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        hold_stripe(hold, i);
    PS_ASSERT(hold->aside.first_pages[PS_ROW_STRIPES] == hold->page_count);
    PS_ASSERT(hold->rows == ps_row_table_rows(table));
    hold->firsts[hold->page_count] = hold->rows;
    atomic_init(&hold->aside.due_rows, hold->rows);
    ps_row_table_acquire(table);
    ps_row_aside_init(table, &hold->aside);
    *taken = hold;
    return PS_OK;
}

/* One allocation for all pages of all stripes, in their order, which is the order of the rows in
 * every array that is read. */
static struct ps_row_hold *create_hold(struct ps_row_table *table)
{
    PS_ASSERT(atomic_load(&table->references) > 0);
    uint64_t pages = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        pages += table->stripes[i].page_count;
    uint64_t words = pages * table->shape.live_words;
    struct ps_row_hold *hold = ps_plain(
        table->memory, sizeof *hold + (pages + 1) * sizeof *hold->firsts +
                           pages * sizeof(struct ps_row_old *) + 2 * words * sizeof *hold->live);
    if (hold == NULL)
        return NULL;
    memset(hold, 0, sizeof *hold);
    hold->table = table;
    hold->page_count = pages;
    /* The entry behind the last page says where the rows end. */
    hold->firsts = (uint64_t *)(void *)(hold + 1);
    hold->aside.old = (struct ps_row_old **)(void *)(hold->firsts + pages + 1);
    hold->live = (uint64_t *)(void *)(hold->aside.old + pages);
    hold->aside.due = hold->live + words;
    return hold;
}

/* All rows of the instant are due: none has been set aside. Which rows there are is the hold's own,
 * since taking a row out, or making one, changes that without touching a row of the hold. */
static void hold_stripe(struct ps_row_hold *hold, uint32_t number)
{
    const struct ps_row_stripe *stripe = &hold->table->stripes[number];
    uint32_t words = hold->table->shape.live_words;
    uint64_t page = hold->aside.first_pages[number];
    hold->aside.first_pages[number + 1] = page + stripe->page_count;
    if (stripe->page_count == 0)
        return;
    PS_ASSERT(page + stripe->page_count <= hold->page_count);
    size_t bytes = (size_t)stripe->page_count * words * sizeof *hold->live;
    memcpy(hold->live + page * words, stripe->live, bytes);
    memcpy(hold->aside.due + page * words, stripe->live, bytes);
    memset(hold->aside.old + page, 0, stripe->page_count * sizeof *hold->aside.old);
    for (uint32_t i = 0; i < stripe->page_count; i++, page++) {
        hold->firsts[page] = hold->rows;
        hold->rows += ps_held_rows(stripe->live + (size_t)i * words, words);
    }
}

/* What the arrays are long: known from the instant on, so that a file's head can be written first.
 * */
uint64_t ps_row_hold_rows(const struct ps_row_hold *hold)
{
    PS_ASSERT(hold != NULL);
    return hold->rows;
}

uint32_t ps_row_hold_arrays(const struct ps_row_hold *hold)
{
    PS_ASSERT(hold->table->shape.array_count >= 3);
    return hold->table->shape.array_count;
}

size_t ps_row_hold_row_bytes(const struct ps_row_hold *hold, uint32_t array)
{
    PS_ASSERT(array < hold->table->shape.array_count);
    return hold->table->shape.arrays[array].size;
}

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
    /* Who reads sees to the memory of what is set aside next, beside the pushes that need it. */
    expect_pages(hold->table, atomic_load(&hold->aside.due_rows));
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

/* Pages without rows that are read go with those before them. */
void ps_row_hold_let_go(struct ps_row_hold *hold, uint64_t end)
{
    PS_ASSERT(end <= hold->rows);
    while (hold->gone_stripes < PS_ROW_STRIPES) {
        uint64_t page = hold->gone_pages;
        uint64_t stripe_end = hold->aside.first_pages[hold->gone_stripes + 1];
        while (page < stripe_end && hold->firsts[page + 1] <= end)
            page++;
        if (page > hold->gone_pages)
            ps_row_aside_let_go(hold->table, &hold->aside, hold->gone_stripes, hold->gone_pages,
                                page);
        hold->gone_pages = page;
        if (page < stripe_end)
            return;
        hold->gone_stripes++;
    }
}

/* The table may end with it, if its owner has let go meanwhile. */
void ps_row_hold_release(struct ps_row_hold *hold)
{
    if (hold == NULL)
        return;
    struct ps_row_table *table = hold->table;
    PS_ASSERT(atomic_load(&hold->aside.due_rows) <= hold->rows);
    ps_row_aside_fini(table, &hold->aside);
    ps_row_mark_destroy(hold->mark);
    ps_release(table->memory, hold->changed);
    ps_release(table->memory, hold);
    ps_row_table_release(table);
}
