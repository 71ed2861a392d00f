/* SPDX-License-Identifier: Apache-2.0 */
/* A push of random keys steps one row of nearly every page that it comes to. To copy those pages
 * would move fifty times the bytes of the rows: 40 MiB for ten thousand rows of 16 floats, where
 * the rows have less than one.
 *
 * Every hold has old rows of its own. With two holds at a time a row is set aside twice; for that,
 * a hold that ends hands nothing on to another one.
 */
#include "server/core/tables/row_aside.h"

#include "server/core/tables/row_bodies.h"

#include "base/assert.h"

/* Rows that are asked for before they are copied: a large push has outgrown the cache since it
 * looked them up. What leads to the list of a row's page is asked for as long again before that. */
#define AHEAD 8
#define LINE_BYTES 64

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_ROWS_ASIDE
static const bool nothing_is_kept = true;
#else
static const bool nothing_is_kept = false;
#endif

/* Another one: the places of rows that went are nobody's, though a hold may have those rows. */
#ifdef PS_MUTATE_SKIP_GONE_ROWS
static const bool the_gone_are_lost = true;
#else
static const bool the_gone_are_lost = false;
#endif

void ps_row_aside_init(struct ps_row_table *table, struct ps_row_aside *aside)
{
    PS_ASSERT(aside->due != NULL && aside->old != NULL);
    ps_mutex_lock(&table->holds_lock);
    aside->next = table->asides;
    table->asides = aside;
    ps_mutex_unlock(&table->holds_lock);
}

/* The pages are free for the rows to come and for the next hold. */
void ps_row_aside_fini(struct ps_row_table *table, struct ps_row_aside *aside)
{
    ps_mutex_lock(&table->holds_lock);
    /* Holds are few, and end in any order. */
    struct ps_row_aside **at = &table->asides;
    while (*at != aside) {
        PS_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = aside->next;
    ps_mutex_unlock(&table->holds_lock);
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++) {
        ps_row_pages_give(&table->pages, aside->kept[i].pages);
        aside->kept[i].pages = NULL;
    }
}

/* Pushes find by the bits that nothing is due, and never look at the lists of these pages again:
 * so the lists may point to pages that have other rows by then. */
void ps_row_aside_let_go(struct ps_row_table *table, struct ps_row_aside *aside, uint32_t number,
                         uint64_t begin, uint64_t end)
{
    uint32_t words = table->shape.live_words;
    struct ps_row_aside_pages *kept = &aside->kept[number / PS_ROW_LOCK_STRIPES];
    uint32_t stripes_end = (number / PS_ROW_LOCK_STRIPES + 1) * PS_ROW_LOCK_STRIPES;
    struct ps_row_page *pages = NULL;
    PS_ASSERT(begin >= aside->first_pages[number] && end <= aside->first_pages[number + 1]);
    ps_mutex_lock(ps_row_lock_of(table, number));
    memset(aside->due + begin * words, 0, (end - begin) * words * sizeof *aside->due);
    if (end == aside->first_pages[stripes_end]) {
        pages = kept->pages;
        kept->pages = NULL;
    }
    ps_mutex_unlock(ps_row_lock_of(table, number));
    ps_row_pages_give(&table->pages, pages);
}

/* Whole words, since lists of rows lie between rows. */
static size_t row_bytes(const struct ps_row_shape *shape)
{
    size_t word = sizeof(void *);
    PS_ASSERT(shape->stride > 0);
    return (shape->stride + word - 1) / word * word;
}

uint64_t ps_row_aside_pages(const struct ps_row_table *table, uint64_t rows)
{
    size_t each = row_bytes(&table->shape) + sizeof(struct ps_row_old) / PS_ROW_OLD_ROWS;
    uint64_t room = table->shape.page_bytes - sizeof(struct ps_row_page);
    PS_ASSERT(room > 0);
    /* Of long rows there is one to a page. The last page is not full, for each lock. */
    uint64_t in_page = room < 2 * each ? 1 : room / each;
    return rows / in_page + (rows < PS_ROW_LOCKS ? rows : PS_ROW_LOCKS);
}

/* So many bytes of the newest page, or of a new one; NULL when memory is refused. */
static void *take_room(struct ps_row_table *table, struct ps_row_aside_pages *kept, size_t bytes)
{
    size_t page_bytes = table->shape.page_bytes;
    PS_ASSERT(sizeof(struct ps_row_page) + bytes <= page_bytes);
    /* The rest of a page that is too short is lost until it goes. */
    if (kept->pages == NULL || kept->used_bytes + bytes > page_bytes) {
        struct ps_row_page *page = ps_row_pages_take(&table->pages);
        if (page == NULL)
            return NULL;
        page->next = kept->pages;
        kept->pages = page;
        kept->used_bytes = sizeof *page;
    }
    uint8_t *room = (uint8_t *)kept->pages + kept->used_bytes;
    kept->used_bytes += bytes;
    return room;
}

/* The list of this page's old rows, with a place for one more. */
static struct ps_row_old *take_place(struct ps_row_table *table, struct ps_row_aside *aside,
                                     uint32_t number, uint64_t page)
{
    struct ps_row_old *newest = aside->old[page];
    if (newest != NULL && newest->count < PS_ROW_OLD_ROWS)
        return newest;
    struct ps_row_old *old =
        take_room(table, &aside->kept[number / PS_ROW_LOCK_STRIPES], sizeof *old);
    if (old == NULL)
        return NULL;
    PS_ASSERT(newest == NULL || newest->count == PS_ROW_OLD_ROWS);
    /* The bytes may be those of any rows that lay there before. */
    old->next = newest;
    old->count = 0;
    aside->old[page] = old;
    return old;
}

/* Where the hold's lists have the page of this row. False: the page was made since. */
static bool find_page(const struct ps_row_table *table, const struct ps_row_aside *aside,
                      uint32_t number, uint32_t row, uint64_t *page)
{
    *page = aside->first_pages[number] + (row >> table->shape.page_bits);
    return *page < aside->first_pages[number + 1];
}

/* The bit of a row in a hold's word, which begins with a page. */
static uint64_t due_bit(const struct ps_row_table *table, uint32_t row)
{
    PS_ASSERT(row != PS_ROW_NONE);
    return (uint64_t)1 << (row & ((1u << table->shape.page_bits) - 1)) % 64;
}

/* The bits of a row that is due, by which page they lie. */
static uint64_t *due_word(const struct ps_row_table *table, const struct ps_row_aside *aside,
                          uint64_t page, uint32_t row)
{
    uint32_t place = row & ((1u << table->shape.page_bits) - 1);
    return &aside->due[page * table->shape.live_words + place / 64];
}

/* The entries of both lists, which lie anywhere in some mebibytes. */
static void ask_entries(const struct ps_row_table *table, const struct ps_row_aside *aside,
                        uint32_t number, uint32_t row)
{
    uint64_t page = 0;
    if (!find_page(table, aside, number, row, &page))
        return;
    PS_PREFETCH(due_word(table, aside, page, row));
    PS_PREFETCH(&aside->old[page]);
}

/* What the entries lead to: the list's newest part, and all lines of the row. */
static void ask_row(const struct ps_row_table *table, const struct ps_row_aside *aside,
                    uint32_t number, uint32_t row)
{
    const struct ps_row_shape *shape = &table->shape;
    uint64_t page = 0;
    if (!find_page(table, aside, number, row, &page))
        return;
    /* A row that was set aside before is not looked at again. */
    if ((*due_word(table, aside, page, row) & due_bit(table, row)) == 0)
        return;
    const uint8_t *at = ps_row_at(shape, &table->stripes[number], row);
    for (size_t i = 0; i < shape->stride; i += LINE_BYTES)
        PS_PREFETCH(at + i);
    PS_PREFETCH(aside->old[page]);
}

/* Under the stripe's lock, so that a reader of the hold finds the row here or there, and the same
 * bytes: the push writes over it later. The bit goes and the old row comes in one step for every
 * reader. */
static bool keep_row(struct ps_row_table *table, struct ps_row_aside *aside, uint32_t number,
                     uint32_t row)
{
    const struct ps_row_shape *shape = &table->shape;
    uint64_t page = 0;
    if (!find_page(table, aside, number, row, &page))
        return true;
    uint64_t *due = due_word(table, aside, page, row);
    if ((*due & due_bit(table, row)) == 0)
        return true;
    if (the_gone_are_lost && !ps_row_is_live(&table->stripes[number], row))
        return true;
    /* A list that was made for a row that is then refused has no row, and serves the next one. */
    struct ps_row_old *old = take_place(table, aside, number, page);
    uint8_t *kept =
        old != NULL ? take_room(table, &aside->kept[number / PS_ROW_LOCK_STRIPES], row_bytes(shape))
                    : NULL;
    if (kept == NULL)
        return false;
    /* All of the row: a reader may ask for any of its arrays. */
    memcpy(kept, ps_row_at(shape, &table->stripes[number], row), shape->stride);
    old->rows[old->count] = kept;
    old->places[old->count] = (uint8_t)(row & ((1u << shape->page_bits) - 1));
    old->count++;
    *due &= ~due_bit(table, row);
    return true;
}

/* The rows of one stripe, under one lock: a reader of the hold waits for a microsecond or two. */
static bool keep_stripe(struct ps_row_table *table, struct ps_row_aside *aside, uint32_t number,
                        const uint32_t *numbers, uint32_t count)
{
    bool kept = true;
    PS_ASSERT(number < PS_ROW_STRIPES);
    ps_mutex_lock(ps_row_lock_of(table, number));
    for (uint32_t i = 0; i < AHEAD && i < count; i++)
        ask_entries(table, aside, number, numbers[i]);
    for (uint32_t i = 0; i < count + AHEAD && kept; i++) {
        if (i + AHEAD < count)
            ask_entries(table, aside, number, numbers[i + AHEAD]);
        if (i < count)
            ask_row(table, aside, number, numbers[i]);
        if (i >= AHEAD)
            kept = keep_row(table, aside, number, numbers[i - AHEAD]);
    }
    ps_mutex_unlock(ps_row_lock_of(table, number));
    return kept;
}

/* The list of holds stays what it is meanwhile: one that ends waits until the push has looked after
 * it for the last time. */
bool ps_row_aside_keep(struct ps_row_table *table, const uint32_t begins[PS_ROW_STRIPES + 1],
                       const uint32_t *numbers)
{
    bool kept = true;
    PS_ASSERT(begins[0] == 0);
    if (nothing_is_kept)
        return true;
    ps_mutex_lock(&table->holds_lock);
    for (struct ps_row_aside *aside = table->asides; aside != NULL; aside = aside->next)
        for (uint32_t i = 0; i < PS_ROW_STRIPES && kept; i++)
            if (begins[i] < begins[i + 1])
                kept = keep_stripe(table, aside, i, numbers + begins[i], begins[i + 1] - begins[i]);
    ps_mutex_unlock(&table->holds_lock);
    return kept;
}

/* May be told yes for one that ends a moment later, which costs a copy for nothing. */
bool ps_row_aside_is_held(struct ps_row_table *table)
{
    ps_mutex_lock(&table->holds_lock);
    bool is_held = table->asides != NULL;
    ps_mutex_unlock(&table->holds_lock);
    PS_ASSERT(!is_held || atomic_load(&table->references) > 1);
    return is_held;
}

/* Is the row one that the hold has, and has not got yet? */
static bool is_due(const struct ps_row_table *table, const struct ps_row_aside *aside,
                   uint32_t number, uint32_t row)
{
    uint64_t page = 0;
    PS_ASSERT(number < PS_ROW_STRIPES);
    return find_page(table, aside, number, row, &page) &&
           (*due_word(table, aside, page, row) & due_bit(table, row)) != 0;
}

/* Asked row by row: few are stale and due while a checkpoint is read, since reading brings its rows
 * home, and what was set aside is due no more. Both locks are let go before the row is called: a
 * full list waits for the device. */
enum ps_status ps_row_aside_call(struct ps_row_table *table, uint32_t number, uint32_t row,
                                 struct ps_error *error)
{
    bool wanted = false;
    PS_ASSERT(table->bodies != NULL);
    if (row >> table->shape.page_bits >= table->stripes[number].page_count ||
        !ps_row_is_stale(&table->stripes[number], row))
        return PS_OK;
    ps_mutex_lock(&table->holds_lock);
    if (table->asides != NULL) {
        ps_mutex_lock(ps_row_lock_of(table, number));
        for (const struct ps_row_aside *aside = table->asides; aside != NULL; aside = aside->next)
            wanted = wanted || is_due(table, aside, number, row);
        ps_mutex_unlock(ps_row_lock_of(table, number));
    }
    ps_mutex_unlock(&table->holds_lock);
    return wanted ? ps_row_bodies_call(table, number, row, error) : PS_OK;
}
