/* SPDX-License-Identifier: Apache-2.0 */
/* One stripe: finding, making and removing rows, and what must be ready before a row is made. What
 * may fail (memory) changes nothing that anybody can see: a larger index has the same rows, a new
 * page has none. So a push may do all of it before it is sure that it will happen.
 *
 * Three lists grow: the index, the pages, the bits that say which rows there are. Each is replaced
 * by a longer one under the stripe's lock, for the time of an assignment; what takes long (going
 * through the rows, copying) is done before, since readers may go on with the old one and nobody
 * else writes. Pages stay where they are.
 */
#include "server/core/tables/row_stripes.h"

#include "server/core/tables/row_bodies.h"

#include "base/assert.h"
#include "optimizer/first_values.h"
#include "optimizer/optimizer.h"

#define INDEX_ROWS_FIRST 16
#define PAGES_FIRST 4

/* A stripe grows ahead of its need when it has come within this part of its limit, unless it is so
 * small that its index is made anew in no time. For each row that a push makes, so many rows of
 * growing stripes are gone through: half more than growth by a quarter needs in the long run. */
#define AHEAD_PART 64
#define AHEAD_FROM 2048
#define AHEAD_ROWS 6

/* Rows that are read ahead while an index is rebuilt. */
#define AHEAD 16

/* The slow and certain way: every row of every line that the key may be in. row_look_up.c has the
 * fast one, and comes here where it was wrong. */
uint32_t ps_row_stripe_find(const struct ps_row_table *table, const struct ps_row_stripe *stripe,
                            uint64_t key, uint64_t hash)
{
    PS_ASSERT(ps_row_stripe_of(hash) == (uint32_t)(stripe - table->stripes));
    const struct ps_row_index *index = &stripe->index;
    if (index->lines == NULL)
        return PS_ROW_NONE;
    uint8_t tag = ps_row_tag(hash);
    uint32_t at = ps_row_home(index, hash);
    /* Once around at most: when rows come and go, each of a few lines may have one that went past
     * it, and then none of them says that the search is over. */
    for (uint32_t left = index->line_count; left > 0; left--) {
        const struct ps_row_line *line = &index->lines[at];
        for (uint32_t found = ps_row_line_match(line, tag); found != 0; found &= found - 1) {
            uint32_t row = ps_row_line_number(line, (uint32_t)__builtin_ctz(found));
            if (ps_row_key(ps_row_at(&table->shape, stripe, row)) == key)
                return row;
        }
        if (line->past == 0)
            return PS_ROW_NONE;
        at = ps_row_line_after(index, at);
    }
    return PS_ROW_NONE;
}

/* Goes through the rows in the order of their pages; the line of a row is asked for a few rows
 * before it is written. */
static void fill_index(const struct ps_row_table *table, const struct ps_row_stripe *stripe,
                       struct ps_row_index *index)
{
    uint64_t hashes[AHEAD];
    uint32_t rows[AHEAD];
    uint32_t count = 0;
    uint32_t end = stripe->page_count << table->shape.page_bits;
    for (uint32_t row = 0; row < end; row++) {
        if (!ps_row_is_live(stripe, row))
            continue;
        uint32_t at = count % AHEAD;
        /* Its line was asked for AHEAD rows ago. */
        if (count >= AHEAD)
            ps_row_index_insert(index, hashes[at], rows[at]);
        rows[at] = row;
        hashes[at] = ps_row_table_hash(table, ps_row_key(ps_row_at(&table->shape, stripe, row)));
        PS_PREFETCH(&index->lines[ps_row_home(index, hashes[at])]);
        count++;
    }
    PS_ASSERT(count == stripe->rows);
    for (uint32_t i = count < AHEAD ? 0 : count - AHEAD; i < count; i++)
        ps_row_index_insert(index, hashes[i % AHEAD], rows[i % AHEAD]);
}

/* Room for `rows`, a quarter more each time. Stripes have nearly the same number of rows, so each
 * has steps of its own: with equal steps all of them would grow within a few pushes, and those
 * pushes would take as long as rebuilding the index of the whole table. */
static uint64_t index_room(uint32_t number, uint64_t rows)
{
    PS_ASSERT(number < PS_ROW_STRIPES);
    double room = INDEX_ROWS_FIRST * (1 + 0.25 * number / PS_ROW_STRIPES);
    while (room < (double)rows)
        room *= 1.25;
    /* Up to the last number; for more rows than that there is no index. */
    return rows <= PS_ROW_NUMBERS && room >= PS_ROW_NUMBERS ? PS_ROW_NUMBERS : (uint64_t)room + 1;
}

/* The index takes 5.0 to 6.3 bytes a row. A stripe of 40,000 rows is gone through in a millisecond,
 * which is the longest that a push waits for growth. */
bool ps_row_stripe_expect(struct ps_row_table *table, uint32_t number, uint64_t rows)
{
    PS_ASSERT(number < PS_ROW_STRIPES);
    struct ps_row_stripe *stripe = &table->stripes[number];
    if (rows <= stripe->index.rows_max)
        return true;
    uint64_t wanted = index_room(number, rows);
    struct ps_row_index larger;
    uint64_t bytes = ps_row_index_bytes(wanted);
    if (!ps_row_pages_count(&table->pages, bytes))
        return false;
    if (!ps_row_index_create(&larger, &table->lists.allocator, wanted)) {
        ps_row_pages_count_back(&table->pages, bytes);
        return false;
    }
    /* Only the pushing thread makes rows, so that no lock is needed but for the exchange. */
    fill_index(table, stripe, &larger);
    struct ps_row_index smaller = stripe->index;
    ps_mutex_lock(ps_row_lock_of(table, number));
    stripe->index = larger;
    ps_mutex_unlock(ps_row_lock_of(table, number));
    if (smaller.lines != NULL)
        ps_row_pages_count_back(&table->pages,
                                ((uint64_t)smaller.line_count + 1) * sizeof(struct ps_row_line));
    ps_row_index_destroy(&smaller, &table->lists.allocator);
    return true;
}

/* The stripe with the fewest rows between it and its next index; PS_ROW_STRIPES when none is near.
 */
static uint32_t nearest_to_growth(const struct ps_row_table *table)
{
    uint32_t nearest = PS_ROW_STRIPES;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        const struct ps_row_stripe *stripe = &table->stripes[i];
        PS_ASSERT(stripe->rows <= stripe->index.rows_max);
        uint32_t left = stripe->index.rows_max - stripe->rows;
        bool near = stripe->rows >= AHEAD_FROM && left <= stripe->index.rows_max / AHEAD_PART;
        if (near && left < least) {
            least = left;
            nearest = i;
        }
    }
    return nearest;
}

/* Stripes come to their limits as chance has it, some pushes with five of them and some with none.
 * A stripe that is near its limit grows with a push that has time for it. What is refused here is
 * asked for again when it is needed. */
void ps_row_stripes_grow_ahead(struct ps_row_table *table, uint64_t rows_made)
{
    uint64_t budget = rows_made * AHEAD_ROWS;
    /* One index at least, however large, and then as many as the rows pay for. */
    for (uint64_t done = 0; done < budget;) {
        uint32_t number = nearest_to_growth(table);
        if (number == PS_ROW_STRIPES)
            return;
        const struct ps_row_stripe *stripe = &table->stripes[number];
        PS_ASSERT(stripe->rows > 0);
        if (!ps_row_stripe_expect(table, number, (uint64_t)stripe->index.rows_max + 1))
            return;
        done += stripe->rows;
    }
}

/* Entries and bits, in this order: both are made of words of 8 bytes. On a device more bits, and
 * seats behind them. */
static uint64_t list_bytes(const struct ps_row_table *table, uint32_t pages)
{
    uint64_t bits = ps_row_words(&table->shape, pages) * sizeof(uint64_t);
    PS_ASSERT(bits > 0 || pages == 0);
    uint64_t seats = ((uint64_t)pages * sizeof(uint32_t)) << table->shape.page_bits;
    uint64_t bodies = table->bodies == NULL ? 0 : bits + seats;
    return pages * sizeof(uint8_t *) + bits + bodies;
}

/* What a stripe knows of rows on a device, in its longer lists: no row is stale, and none has a
 * seat, but those that did. */
static void lengthen_seats(const struct ps_row_table *table, struct ps_row_stripe *longer,
                           const struct ps_row_stripe *stripe, uint32_t room)
{
    const struct ps_row_shape *shape = &table->shape;
    size_t room_words = ps_row_words(shape, room);
    size_t rows = (size_t)stripe->page_count << shape->page_bits;
    PS_ASSERT(table->bodies != NULL);
    longer->stale = longer->live + room_words;
    longer->seats = (uint32_t *)(void *)(longer->stale + room_words);
    memset(longer->seats, 0xff, ((size_t)room << shape->page_bits) * sizeof *longer->seats);
    if (stripe->stale == NULL)
        return;
    memcpy(longer->stale, stripe->stale,
           ps_row_words(shape, stripe->page_count) * sizeof *longer->stale);
    memcpy(longer->seats, stripe->seats, rows * sizeof *longer->seats);
}

/* Room for `pages`, an eighth more each time, by steps of the stripe's own (index_room): lists are
 * copied as they are, which takes no time beside the making of an index. */
static uint32_t list_room(uint32_t number, uint32_t pages)
{
    PS_ASSERT(number < PS_ROW_STRIPES);
    double room = PAGES_FIRST * (1 + 0.125 * number / PS_ROW_STRIPES);
    while (room < (double)pages)
        room *= 1.125;
    return (uint32_t)room + 1;
}

/* All lists of a stripe are one allocation; larger ones take their place under the lock. */
static bool lengthen_lists(struct ps_row_table *table, uint32_t number)
{
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t room = list_room(number, stripe->page_room + 1);
    uint64_t bytes = list_bytes(table, room);
    if (!ps_row_pages_count(&table->pages, bytes))
        return false;
    uint8_t **pages = ps_zeroed(&table->lists.allocator, bytes);
    if (pages == NULL) {
        ps_row_pages_count_back(&table->pages, bytes);
        return false;
    }
    uint64_t *live = (uint64_t *)(void *)(pages + room);
    uint8_t **shorter = stripe->pages;
    if (shorter != NULL) {
        memcpy(pages, shorter, stripe->page_count * sizeof *pages);
        memcpy(live, stripe->live, ps_row_words(&table->shape, stripe->page_count) * sizeof *live);
    }
    /* Filled before the lock is taken, as the others are. */
    struct ps_row_stripe longer = {.live = live};
    if (table->bodies != NULL)
        lengthen_seats(table, &longer, stripe, room);
    ps_mutex_lock(ps_row_lock_of(table, number));
    stripe->pages = pages;
    stripe->live = live;
    stripe->stale = longer.stale;
    stripe->seats = longer.seats;
    ps_mutex_unlock(ps_row_lock_of(table, number));
    ps_row_pages_count_back(&table->pages, list_bytes(table, stripe->page_room));
    ps_release(&table->lists.allocator, shorter);
    PS_ASSERT(room > stripe->page_room);
    stripe->page_room = room;
    return true;
}

/* The page behind the last one: from the pool, with what rows of any table left in it. Readers who
 * have the stripe's lock see it whole or not at all, and no row is in it yet. */
static bool add_page(struct ps_row_table *table, uint32_t number)
{
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t page = stripe->page_count;
    PS_ASSERT(page <= stripe->page_room);
    if (page == stripe->page_room && !lengthen_lists(table, number))
        return false;
    struct ps_row_page *fresh = ps_row_pages_take(&table->pages);
    if (fresh == NULL)
        return false;
    ps_mutex_lock(ps_row_lock_of(table, number));
    stripe->pages[page] = (uint8_t *)fresh;
    stripe->page_count++;
    ps_mutex_unlock(ps_row_lock_of(table, number));
    return true;
}

/* Pages never move and never go: whoever has the address of a row may keep it. With bodies on a
 * device others go over a stripe's lists without its lock, and with that of bodies. */
bool ps_row_stripe_extend(struct ps_row_table *table, uint32_t number, uint32_t page)
{
    PS_ASSERT(page <= table->stripes[number].page_count);
    if (page < table->stripes[number].page_count)
        return true;
    if (table->bodies == NULL)
        return add_page(table, number);
    ps_rwlock_write(&table->bodies->lock);
    bool is_there = add_page(table, number);
    ps_rwlock_unlock(&table->bodies->lock);
    return is_there;
}

/* Sixty-four numbers at a time; those behind the last page are nobody's. A stripe keeps how far its
 * numbers are all in use, so that a table that only grows never looks back. */
uint32_t ps_row_stripe_free(const struct ps_row_table *table, const struct ps_row_stripe *stripe,
                            uint32_t from)
{
    uint32_t end = stripe->page_count << table->shape.page_bits;
    PS_ASSERT(stripe->page_count <= stripe->page_room);
    for (uint32_t row = from; row < end; row = (row / 64 + 1) * 64) {
        uint64_t taken = stripe->live[row / 64] | (ps_row_bit(row) - 1);
        if (taken != UINT64_MAX)
            return row / 64 * 64 + (uint32_t)__builtin_ctzll(~taken);
    }
    return from > end ? from : end;
}

/* Nobody reads the row before the lock is let go, so that it may be in the index already. */
uint8_t *ps_row_stripe_place(struct ps_row_table *table, struct ps_row_stripe *stripe, uint64_t key,
                             uint64_t hash, uint32_t row)
{
    const struct ps_row_shape *shape = &table->shape;
    PS_ASSERT(!ps_row_is_live(stripe, row));
    PS_ASSERT(stripe->rows < stripe->index.rows_max);
    PS_ASSERT(row >> shape->page_bits < stripe->page_count);
    uint8_t *at = ps_row_at(shape, stripe, row);
    memcpy(at, &key, sizeof key);
    ps_row_set_touched(at, 0);
    ps_row_index_insert(&stripe->index, hash, row);
    stripe->live[row / 64] |= ps_row_bit(row);
    stripe->rows++;
    return at;
}

/* What lay there before is written over, all of it but the bytes between head and values. */
uint8_t *ps_row_stripe_insert(struct ps_row_table *table, struct ps_row_stripe *stripe,
                              uint64_t key, uint64_t hash, uint32_t row)
{
    const struct ps_row_shape *shape = &table->shape;
    uint8_t *at = ps_row_stripe_place(table, stripe, key, hash, row);
    ps_first_values(&table->settings, shape->layout.dtype, key, shape->layout.width,
                    at + shape->arrays[0].offset);
    /* States begin as in a dense parameter, also for a row that went and comes back. */
    for (uint32_t i = 0; i < shape->layout.state_count; i++)
        ps_optimizer_fill(shape->layout.dtype, shape->layout.state_start[i],
                          at + shape->arrays[1 + i].offset,
                          shape->arrays[1 + i].size / shape->element);
    PS_ASSERT(ps_row_key(at) == key);
    return at;
}

/* The bytes of the row stay, since a hold may have the page; only its number is free. */
void ps_row_stripe_remove(struct ps_row_table *table, struct ps_row_stripe *stripe, uint64_t hash,
                          uint32_t row)
{
    const struct ps_row_shape *shape = &table->shape;
    PS_ASSERT(ps_row_is_live(stripe, row));
    PS_ASSERT(stripe->rows > 0);
    /* Before anything is changed: the key is in the row. */
    ps_row_removals_add(table->removals, ps_row_key(ps_row_at(shape, stripe, row)),
                        atomic_load(&table->rows));
    ps_row_index_remove(&stripe->index, hash, row);
    if (table->bodies != NULL)
        ps_row_bodies_leave(table, stripe, row);
    stripe->live[row / 64] &= ~ps_row_bit(row);
    stripe->rows--;
    if (row < stripe->free_from)
        stripe->free_from = row;
}
