/* SPDX-License-Identifier: Apache-2.0 */
/* A hold is the list of which rows there were, page by page, and what pushes have set aside of them
 * since (row_aside.h). It is read in row_hold_read.c.
 *
 * Taking a hold touches no row: a table of ten million has 160,000 pages, and each would be some
 * lines of memory while all pushes stand still. The bits that say which rows there are, 8 bytes for
 * 64 rows, are copied from one end to the other, which takes a millisecond or two.
 */
#include "server/core/tables/row_hold.h"

#include "server/core/tables/row_hold_parts.h"

#include "base/assert.h"

/* Memory that is made ready before a hold: for what pushes set aside until much of the table has
 * been read, a sixteenth of it and 64 MiB at most, for some tens of pushes of ten thousand rows.
 * What they set aside behind that has memory that was touched ahead, as rows of a table that grows
 * have, or what was set aside of rows that have been read since. A thread that touches ahead comes
 * too late for the first ones where memory is slow to come, and a push then waits for the kernel; a
 * reader that saw to it had so much to do that every row was set aside before it was read. */
#define READY_BYTES ((uint64_t)64 * 1024 * 1024)
#define READY_PART 16
/* Of a table that is smaller, as far as its rows need so much. */
#define READY_BYTES_LEAST ((uint64_t)16 * 1024 * 1024)

/* Pages that a table may get between the making of a hold's memory and its instant, besides a
 * sixteenth of all. With more, the memory is got at the instant. */
#define MORE_PAGES 16

static void get_ready(struct ps_row_table *table);
static void hold_stripe(struct ps_row_hold *hold, uint32_t number);

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* No more than what all these rows would take. */
static void expect_pages(struct ps_row_table *table, uint64_t rows)
{
    uint64_t part = rows * table->shape.stride / READY_PART;
    uint64_t most = clamp(part, READY_BYTES_LEAST, READY_BYTES) / table->shape.page_bytes;
    uint64_t needed = ps_row_aside_pages(table, rows);
    PS_ASSERT(table->shape.page_bytes > 0);
    ps_row_pages_expect(&table->pages, needed < most ? needed : most);
}

/* Pages that holds have had are free for the next one, so that this happens once for a table that
 * does not grow. */
void ps_row_hold_expect(struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    get_ready(table);
    expect_pages(table, ps_row_table_rows(table));
    if (table->candidates != NULL)
        ps_row_hold_expect(table->candidates);
}

/* One allocation for all pages of all stripes, in their order, which is the order of the rows in
 * every array that is read. */
static size_t hold_bytes(const struct ps_row_table *table, uint64_t pages)
{
    PS_ASSERT(table->shape.live_words > 0);
    return sizeof(struct ps_row_hold) + (pages + 1) * sizeof(uint64_t) +
           pages * sizeof(struct ps_row_old *) +
           2 * pages * table->shape.live_words * sizeof(uint64_t);
}

/* With room for so many pages, and nobody's yet. */
static struct ps_row_hold *create_hold(const struct ps_row_table *table, uint64_t pages)
{
    struct ps_row_hold *hold = ps_plain(table->memory, hold_bytes(table, pages));
    if (hold == NULL)
        return NULL;
    memset(hold, 0, sizeof *hold);
    hold->page_room = pages;
    /* The entry behind the last page says where the rows end. */
    hold->firsts = (uint64_t *)(void *)(hold + 1);
    hold->aside.old = (struct ps_row_old **)(void *)(hold->firsts + pages + 1);
    hold->live = (uint64_t *)(void *)(hold->aside.old + pages);
    hold->aside.due = hold->live + pages * table->shape.live_words;
    PS_ASSERT((uint8_t *)(hold->aside.due + pages * table->shape.live_words) ==
              (uint8_t *)hold + hold_bytes(table, pages));
    return hold;
}

/* Beside pushes, which make pages. */
static uint64_t count_pages(struct ps_row_table *table)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        ps_mutex_lock(ps_row_lock_of(table, i));
        pages += table->stripes[i].page_count;
        ps_mutex_unlock(ps_row_lock_of(table, i));
    }
    PS_ASSERT(pages <= (uint64_t)PS_ROW_STRIPES * UINT32_MAX);
    return pages;
}

/* Takes what is ready; NULL when nothing is. */
static struct ps_row_hold *exchange_ready(struct ps_row_table *table, struct ps_row_hold *next)
{
    PS_ASSERT(next == NULL || next->table == NULL);
    ps_mutex_lock(&table->holds_lock);
    struct ps_row_hold *ready = table->next_hold;
    table->next_hold = next;
    ps_mutex_unlock(&table->holds_lock);
    return ready;
}

/* Written to as well: a table of ten million rows has five megabytes of lists, whose first touch
 * takes the kernel a millisecond, and in a virtual machine perhaps thirty. One that nobody took is
 * replaced, since the table may have grown. */
static void get_ready(struct ps_row_table *table)
{
    uint64_t pages = count_pages(table);
    struct ps_row_hold *hold = create_hold(table, pages + pages / 16 + MORE_PAGES);
    if (hold != NULL)
        memset(hold + 1, 0, hold_bytes(table, hold->page_room) - sizeof *hold);
    ps_release(table->memory, exchange_ready(table, hold));
}

/* The memory first, then the lists, and pushes learn of it last: what fails has changed nothing,
 * and no push comes between, since the caller has seen to that. */
enum ps_status ps_row_hold_take(struct ps_row_table *table, struct ps_row_hold **taken,
                                struct ps_error *error)
{
    uint64_t pages = count_pages(table);
    struct ps_row_hold *hold = exchange_ready(table, NULL);
    if (hold != NULL && hold->page_room < pages) {
        ps_release(table->memory, hold);
        hold = NULL;
    }
    if (hold == NULL)
        hold = create_hold(table, pages);
    if (hold == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to hold a table of %llu rows",
                       (unsigned long long)ps_row_table_rows(table));
    hold->table = table;
    hold->page_count = pages;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        hold_stripe(hold, i);
    PS_ASSERT(hold->aside.first_pages[PS_ROW_STRIPES] == hold->page_count);
    PS_ASSERT(hold->rows == ps_row_table_rows(table));
    hold->firsts[hold->page_count] = hold->rows;
    ps_row_table_acquire(table);
    ps_row_aside_init(table, &hold->aside);
    *taken = hold;
    return PS_OK;
}

/* The bits of a page: some words of the stripe's, or a part of one, where a page has fewer rows
 * than a word has bits. */
static void copy_bits(const struct ps_row_shape *shape, const struct ps_row_stripe *stripe,
                      uint32_t page, uint64_t *words)
{
    uint64_t first = (uint64_t)page << shape->page_bits;
    const uint64_t *live = &stripe->live[first / 64];
    PS_ASSERT(page < stripe->page_count);
    if (shape->page_bits < 6)
        words[0] = live[0] >> first % 64 & (((uint64_t)1 << (1u << shape->page_bits)) - 1);
    else
        memcpy(words, live, shape->live_words * sizeof *words);
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
    memset(hold->aside.old + page, 0, stripe->page_count * sizeof *hold->aside.old);
    for (uint32_t i = 0; i < stripe->page_count; i++, page++) {
        uint64_t *live = hold->live + page * words;
        copy_bits(&hold->table->shape, stripe, i, live);
        memcpy(hold->aside.due + page * words, live, words * sizeof *live);
        hold->firsts[page] = hold->rows;
        hold->rows += ps_held_rows(live, words);
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
    PS_ASSERT(hold->gone_pages <= hold->page_count);
    ps_row_aside_fini(table, &hold->aside);
    ps_row_mark_destroy(hold->mark);
    ps_release(table->memory, hold->changed);
    ps_release(table->memory, hold);
    ps_row_table_release(table);
}
