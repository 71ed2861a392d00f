/* SPDX-License-Identifier: Apache-2.0 */
/* A hold is the list of all pages, and which of their rows there were. The pages stay what they
 * are: a writer that finds one older than the hold leaves it to the hold and writes a copy.
 *
 * Taking a hold touches no page: a table of ten million rows has 160,000, and counting up a
 * reference in each would wait for as many lines of memory while all pushes stand still. The lists
 * are copied instead, 16 bytes a page from one end to the other, which takes a millisecond or two.
 */
#include "server/core/tables/row_hold.h"

#include "server/core/tables/row_hold_parts.h"

#include "base/assert.h"

/* What is made ready before a hold: a push of ten thousand rows copies nearly as many pages. */
#define READY_BYTES ((uint64_t)64 * 1024 * 1024)

static struct ps_row_hold *create_hold(struct ps_row_table *table);
static void hold_stripe(struct ps_row_hold *hold, const struct ps_row_stripe *stripe,
                        uint64_t *page);

/* Pages that holds have had are free for the next one, so that this happens once for a table that
 * does not grow. */
void ps_row_hold_expect(struct ps_row_table *table)
{
    PS_ASSERT(table->shape.page_bytes > 0);
    ps_row_pages_expect(&table->pages, READY_BYTES / table->shape.page_bytes, NULL);
}

/* The memory first, then the lists, and the number last: what fails has changed nothing, and no
 * push comes between, since the caller has seen to that. */
enum ps_status ps_row_hold_take(struct ps_row_table *table, struct ps_row_hold **taken,
                                struct ps_error *error)
{
    struct ps_row_hold *hold = create_hold(table);
    if (hold == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to hold a table of %llu rows",
                       (unsigned long long)ps_row_table_rows(table));
    uint64_t pages = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        hold_stripe(hold, &table->stripes[i], &pages);
    PS_ASSERT(pages == hold->page_count);
    PS_ASSERT(hold->rows == ps_row_table_rows(table));
    hold->pages[pages].first = hold->rows;
    ps_row_table_acquire(table);
    ps_row_pages_hold(&table->pages, &hold->holder);
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
    uint64_t live_bytes = pages * table->shape.live_words * sizeof(uint64_t);
    struct ps_row_hold *hold = ps_plain(
        table->memory, sizeof *hold + (pages + 1) * sizeof(struct ps_held_page) + live_bytes);
    if (hold == NULL)
        return NULL;
    memset(hold, 0, sizeof *hold);
    hold->table = table;
    hold->page_count = pages;
    hold->pages = (struct ps_held_page *)(void *)(hold + 1);
    /* The entry behind the last page says where the rows end. */
    hold->live = (uint64_t *)(void *)(hold->pages + pages + 1);
    return hold;
}

/* Which rows there are is copied, not only which pages: taking a row out, or making one, changes
 * that without touching a page that only loses a row. */
static void hold_stripe(struct ps_row_hold *hold, const struct ps_row_stripe *stripe,
                        uint64_t *page)
{
    uint32_t words = hold->table->shape.live_words;
    if (stripe->page_count == 0)
        return;
    PS_ASSERT(*page + stripe->page_count <= hold->page_count);
    memcpy(hold->live + *page * words, stripe->live,
           (size_t)stripe->page_count * words * sizeof *hold->live);
    for (uint32_t i = 0; i < stripe->page_count; i++, (*page)++) {
        hold->pages[*page] = (struct ps_held_page){stripe->pages[i].page, hold->rows};
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
        if (hold->pages[middle].first <= row)
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

/* Without a lock: nobody writes a page that a hold has. The rows are gathered, and one array read
 * from end to end goes once over all pages; a file with three arrays reads them three times, from
 * memory. */
enum ps_status ps_row_hold_read(struct ps_row_hold *hold, uint32_t array, uint64_t offset, void *to,
                                size_t size, struct ps_error *error)
{
    const struct ps_row_shape *shape = &hold->table->shape;
    (void)error;
    PS_ASSERT(array < shape->array_count);
    size_t each = shape->arrays[array].size;
    PS_ASSERT(offset <= hold->rows * each && size <= hold->rows * each - offset);
    /* Who reads sees to the memory of the next copies, beside the pushes that need it. */
    ps_row_pages_expect(&hold->table->pages, READY_BYTES / shape->page_bytes, &hold->holder);
    uint8_t *at = to;
    size_t skipped = offset % each; /* of the first row: a reader may ask for any bytes */
    uint64_t row = offset / each;
    uint64_t page = size > 0 ? page_of(hold, row) : 0;
    while (size > 0) {
        struct walk walk = begin_walk(hold, page, row - hold->pages[page].first);
        for (; size > 0 && row < hold->pages[page + 1].first; row++) {
            const uint8_t *from = (const uint8_t *)hold->pages[page].page + PS_ROW_PAGE_HEAD +
                                  next_place(&walk) * shape->stride + shape->arrays[array].offset;
            /* The first row may be begun in its middle, and the last one left in its own. */
            size_t some = each - skipped < size ? each - skipped : size;
            ps_row_copy(at, from + skipped, some);
            at += some;
            size -= some;
            skipped = 0;
        }
        page++;
    }
    return PS_OK;
}

/* The table may end with it, if its owner has let go meanwhile. */
void ps_row_hold_release(struct ps_row_hold *hold)
{
    if (hold == NULL)
        return;
    struct ps_row_table *table = hold->table;
    PS_ASSERT(hold->holder.number > 0);
    ps_row_pages_release(&table->pages, &hold->holder);
    ps_row_mark_destroy(hold->mark);
    ps_release(table->memory, hold->changed);
    ps_release(table->memory, hold);
    ps_row_table_release(table);
}
