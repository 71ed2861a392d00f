/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: each row is made and written over with what was saved. A checkpoint has the rows stripe
 * by stripe, so that one stripe's index is warm while it is filled, and threads that load pieces of
 * a file seldom meet: each takes the lock of some stripes for as long as the rows are theirs. What
 * stripes share (lists that grow, the sum of the rows) has another lock.
 *
 * Ages are counted from the version that the table was saved at, and not from that of its newest
 * row: rows know 32 bits of theirs, which alone do not say which of two is the newer one.
 */
#include "server/core/tables/row_load.h"

#include "server/core/tables/row_stripes.h"

#include "base/assert.h"

#include <inttypes.h>

/* Rows whose line of the index is asked for ahead. */
#define AHEAD 8

/* Of a stripe's part of the rows so much more is got ready: a fiftieth. */
#define MARGIN_PARTS 50

/* What one call loads. */
struct loading {
    struct ps_row_table *table;
    const uint64_t *keys;
    const uint32_t *touched;
    const void *values;
    const void *const *states;
    size_t rows;
    uint32_t held; /* the lock that is held; PS_ROW_LOCKS: none */
    size_t made;   /* rows that are in the table already */
};

/* As a push has it, row by row: an index that grows by a quarter is made anew some fifteen times
 * up to a million rows, which is a tenth of the time that loading takes. Most rows have room: the
 * lock that all threads share is for every hundredth. */
static bool has_room(struct ps_row_table *table, uint32_t number, uint32_t *row)
{
    PS_ASSERT(number < PS_ROW_STRIPES);
    struct ps_row_stripe *stripe = &table->stripes[number];
    *row = ps_row_stripe_free(table, stripe, stripe->free_from);
    if (*row == PS_ROW_NONE)
        return false;
    uint32_t page = *row >> table->shape.page_bits;
    if (page < stripe->page_count && stripe->rows < stripe->index.rows_max)
        return true;
    ps_mutex_lock(&table->growth);
    bool is_there = ps_row_stripe_extend(table, number, page) &&
                    ps_row_stripe_expect(table, number, (uint64_t)stripe->rows + 1);
    ps_mutex_unlock(&table->growth);
    return is_there;
}

/* The arrays are a file's, and lie in a buffer at any address. */
static uint64_t key_at(const uint64_t *keys, size_t i)
{
    PS_ASSERT(keys != NULL);
    uint64_t key;
    memcpy(&key, (const char *)keys + i * sizeof key, sizeof key);
    return key;
}

/* All that the row has beside its key. */
static void write_row(const struct loading *loading, uint8_t *row, size_t i)
{
    const struct ps_row_shape *shape = &loading->table->shape;
    PS_ASSERT(loading->touched != NULL && loading->values != NULL);
    memcpy(row + PS_ROW_TOUCHED_OFFSET, (const char *)loading->touched + i * sizeof(uint32_t),
           sizeof(uint32_t));
    size_t size = shape->arrays[0].size;
    ps_row_copy(row + shape->arrays[0].offset, (const char *)loading->values + i * size, size);
    for (uint32_t k = 0; k < shape->layout.state_count; k++) {
        size = shape->arrays[1 + k].size;
        ps_row_copy(row + shape->arrays[1 + k].offset, (const char *)loading->states[k] + i * size,
                    size);
    }
}

/* Rows of other stripes than before have another lock. */
static void hold_stripe(struct loading *loading, uint32_t number)
{
    uint32_t lock = number / PS_ROW_LOCK_STRIPES;
    if (lock == loading->held)
        return;
    if (loading->held < PS_ROW_LOCKS)
        ps_mutex_unlock(&loading->table->loading[loading->held]);
    ps_mutex_lock(&loading->table->loading[lock]);
    loading->held = lock;
}

/* A file has the rows in the order of the stripes they were in, which are those they come to. An
 * index whose lock is not held may be made anew by somebody else just now. */
static void ask_line(const struct loading *loading, size_t i)
{
    if (i >= loading->rows)
        return;
    uint64_t hash = ps_row_table_hash(loading->table, key_at(loading->keys, i));
    uint32_t number = ps_row_stripe_of(hash);
    const struct ps_row_index *index = &loading->table->stripes[number].index;
    if (number / PS_ROW_LOCK_STRIPES == loading->held && index->lines != NULL)
        PS_PREFETCH(&index->lines[ps_row_home(index, hash)]);
}

/* Stripes have nearly the same number of rows each: what is above a stripe's part by chance is had
 * as the rows come. */
enum ps_status ps_row_table_expect(struct ps_row_table *table, uint64_t rows, uint64_t version,
                                   struct ps_error *error)
{
    uint64_t each = rows / PS_ROW_STRIPES + rows / (PS_ROW_STRIPES * MARGIN_PARTS);
    PS_ASSERT(ps_row_table_rows(table) == 0);
    ps_row_table_set_version(table, version);
    atomic_store(&table->pages.bytes_limit, UINT64_MAX);
    for (uint32_t i = 0; i < PS_ROW_STRIPES && each > 0; i++)
        if (!ps_row_stripe_expect(table, i, each))
            return ps_fail(error, PS_ERR_NO_MEMORY,
                           "no memory for the index of a table of %" PRIu64 " rows", rows);
    return PS_OK;
}

/* A key that comes twice would be two rows of which one is never found: the file is damaged,
 * whatever its checksums say. */
static enum ps_status load_row(struct loading *loading, size_t i, struct ps_error *error)
{
    struct ps_row_table *table = loading->table;
    uint64_t key = key_at(loading->keys, i);
    uint64_t hash = ps_row_table_hash(table, key);
    uint32_t number = ps_row_stripe_of(hash);
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t row;
    hold_stripe(loading, number);
    ask_line(loading, i + AHEAD);
    PS_TRY(ps_row_table_check_key(table, key, error));
    if (ps_row_stripe_find(table, stripe, key, hash) != PS_ROW_NONE)
        return ps_fail(error, PS_ERR_CORRUPT, "key %" PRIu64 " comes twice", key);
    if (!has_room(table, number, &row))
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for row %zu of %zu", i, loading->rows);
    uint8_t *made = ps_row_stripe_place(table, stripe, key, hash, row);
    stripe->free_from = row + 1;
    write_row(loading, made, i);
    loading->made++;
    PS_ASSERT(stripe->rows <= stripe->index.rows_max);
    return PS_OK;
}

/* Whole or not at all is the caller's affair: a table that is half loaded is thrown away. */
enum ps_status ps_row_table_load(struct ps_row_table *table, const uint64_t *keys,
                                 const uint32_t *touched, const void *values,
                                 const void *const states[], size_t rows, struct ps_error *error)
{
    struct loading loading = {.table = table,
                              .keys = keys,
                              .touched = touched,
                              .values = values,
                              .states = states,
                              .rows = rows,
                              .held = PS_ROW_LOCKS};
    enum ps_status status = PS_OK;
    atomic_store(&table->pages.bytes_limit, UINT64_MAX);
    /* Nothing is set aside here. */
    PS_ASSERT(table->asides == NULL);
    for (size_t i = 0; i < rows && status == PS_OK; i++)
        status = load_row(&loading, i, error);
    if (loading.held < PS_ROW_LOCKS)
        ps_mutex_unlock(&table->loading[loading.held]);
    atomic_fetch_add(&table->rows, loading.made);
    return status;
}

/* Looked at first, since the candidates' table knows neither rows nor what a count may be. */
static enum ps_status check_candidate(const struct ps_row_table *table, uint64_t key,
                                      uint32_t count, struct ps_error *error)
{
    uint64_t hash = ps_row_table_hash(table, key);
    PS_ASSERT(table->settings.admission > 1);
    if (count == 0 || count >= table->settings.admission)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "key %" PRIu64 " was pushed to %" PRIu32 " times, and has no row", key,
                       count);
    if (ps_row_stripe_find(table, &table->stripes[ps_row_stripe_of(hash)], key, hash) !=
        PS_ROW_NONE)
        return ps_fail(error, PS_ERR_CORRUPT, "key %" PRIu64 " has a row, and is counted", key);
    return PS_OK;
}

/* Two walks: what is refused by the first has changed nothing, and the second is the one that loads
 * rows, with the checks that those have: the shard's keys, and each of them once. */
enum ps_status ps_row_table_load_candidates(struct ps_row_table *table, const uint64_t *keys,
                                            const uint32_t *counts, const uint32_t *touched,
                                            size_t count, struct ps_error *error)
{
    PS_ASSERT(table->candidates != NULL);
    for (size_t i = 0; i < count; i++) {
        /* At any address, as all that comes out of a file. */
        uint32_t pushes;
        memcpy(&pushes, (const char *)counts + i * sizeof pushes, sizeof pushes);
        PS_TRY(check_candidate(table, key_at(keys, i), pushes, error));
    }
    return ps_row_table_load(table->candidates, keys, touched, counts, NULL, count, error);
}
