/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: each row is made and written over with what was saved. A checkpoint has the rows stripe
 * by stripe, so that one stripe's index is warm while it is filled.
 *
 * The version of the newest push is found again from the rows themselves: ages are counted from
 * there, and only their order counts, so that a push which touched no row may be missed.
 */
#include "server/core/tables/row_load.h"

#include "server/core/tables/row_stripes.h"

#include "base/assert.h"

#include <inttypes.h>

/* Rows whose line of the index is asked for ahead. */
#define AHEAD 8

/* Of a stripe's part of the rows so much more is got ready: a fiftieth. */
#define MARGIN_PARTS 50

/* As a push has it, row by row: an index that grows by a quarter is made anew some fifteen times
 * up to a million rows, which is a tenth of the time that loading takes. */
static bool has_room(struct ps_row_table *table, uint32_t number, uint32_t *row)
{
    PS_ASSERT(number < PS_ROW_STRIPES);
    struct ps_row_stripe *stripe = &table->stripes[number];
    *row = ps_row_stripe_free(table, stripe, stripe->free_from);
    return *row != PS_ROW_NONE &&
           ps_row_stripe_extend(table, number, *row >> table->shape.page_bits) &&
           ps_row_stripe_expect(table, number, (uint64_t)stripe->rows + 1);
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
static void write_row(const struct ps_row_shape *shape, uint8_t *row, const uint32_t *touched,
                      const void *values, const void *const states[], size_t i)
{
    PS_ASSERT(touched != NULL && values != NULL);
    memcpy(row + PS_ROW_TOUCHED_OFFSET, (const char *)touched + i * sizeof *touched,
           sizeof *touched);
    size_t size = shape->arrays[0].size;
    ps_row_copy(row + shape->arrays[0].offset, (const char *)values + i * size, size);
    for (uint32_t k = 0; k < shape->layout.state_count; k++) {
        size = shape->arrays[1 + k].size;
        ps_row_copy(row + shape->arrays[1 + k].offset, (const char *)states[k] + i * size, size);
    }
}

/* The newest of the versions, which go on from 0 after 2^32. */
static void note_version(struct ps_row_table *table, uint32_t touched)
{
    PS_ASSERT(table != NULL);
    bool newer = (uint32_t)(touched - (uint32_t)table->version) < (uint32_t)1 << 31;
    if (newer || ps_row_table_rows(table) == 0)
        table->version = touched;
}

/* A file has the rows in the order of the stripes they were in, which are those they come to. */
static void ask_line(const struct ps_row_table *table, uint64_t key)
{
    PS_ASSERT(table != NULL);
    uint64_t hash = ps_row_table_hash(table, key);
    const struct ps_row_index *index = &table->stripes[ps_row_stripe_of(hash)].index;
    if (index->lines != NULL)
        PS_PREFETCH(&index->lines[ps_row_home(index, hash)]);
}

/* Stripes have nearly the same number of rows each: what is above a stripe's part by chance is had
 * as the rows come. */
enum ps_status ps_row_table_expect(struct ps_row_table *table, uint64_t rows,
                                   struct ps_error *error)
{
    uint64_t each = rows / PS_ROW_STRIPES + rows / (PS_ROW_STRIPES * MARGIN_PARTS);
    PS_ASSERT(ps_row_table_rows(table) == 0);
    atomic_store(&table->pages.bytes_limit, UINT64_MAX);
    for (uint32_t i = 0; i < PS_ROW_STRIPES && each > 0; i++)
        if (!ps_row_stripe_expect(table, i, each))
            return ps_fail(error, PS_ERR_NO_MEMORY,
                           "no memory for the index of a table of %" PRIu64 " rows", rows);
    return PS_OK;
}

/* A key that comes twice would be two rows of which one is never found: the file is damaged,
 * whatever its checksums say. */
enum ps_status ps_row_table_load(struct ps_row_table *table, const uint64_t *keys,
                                 const uint32_t *touched, const void *values,
                                 const void *const states[], size_t rows, struct ps_error *error)
{
    atomic_store(&table->pages.bytes_limit, UINT64_MAX);
    /* Nothing is set aside here. */
    PS_ASSERT(table->asides == NULL);
    for (size_t i = 0; i < rows; i++) {
        uint64_t key = key_at(keys, i);
        uint64_t hash = ps_row_table_hash(table, key);
        uint32_t number = ps_row_stripe_of(hash);
        struct ps_row_stripe *stripe = &table->stripes[number];
        uint32_t row;
        if (i + AHEAD < rows)
            ask_line(table, key_at(keys, i + AHEAD));
        PS_TRY(ps_row_table_check_key(table, key, error));
        if (ps_row_stripe_find(table, stripe, key, hash) != PS_ROW_NONE)
            return ps_fail(error, PS_ERR_CORRUPT, "key %" PRIu64 " comes twice", key);
        /* Whole or not at all is the caller's affair: a table that is half loaded is thrown away.
         * */
        if (!has_room(table, number, &row))
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for row %zu of %zu", i, rows);
        uint8_t *made = ps_row_stripe_place(table, stripe, key, hash, row);
        stripe->free_from = row + 1;
        write_row(&table->shape, made, touched, values, states, i);
        note_version(table, ps_row_touched(made));
        PS_ASSERT(stripe->rows <= stripe->index.rows_max);
        atomic_fetch_add_explicit(&table->rows, 1, memory_order_relaxed);
    }
    return PS_OK;
}
