/* SPDX-License-Identifier: Apache-2.0 */
/* Two files of one table may have its rows in two orders: servers write them as they lie in memory.
 * By rising keys there is one order, and two states are compared, joined and hashed in one walk.
 *
 * A table may be most of a machine's memory, so rows are moved where they lie, along the cycles of
 * the permutation: an index of keys and a bit for each row are all that is taken besides. */
#include "tools/psckpt/table_rows.h"

#include "base/assert.h"
#include "base/dtype.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Which row stands where, once the places are sorted: place i is for the i-th lowest key, and `row`
 * is where the row of that key lies in the file. */
struct place {
    uint64_t key;
    uint64_t row; /* before */
};

struct sorting {
    const struct ps_checkpoint_parameter *table;
    /* Three blocks, taken before anything is moved and given back at one place. */
    const struct ps_allocator *memory;
    struct place *places; /* owned, one for each row */
    uint8_t *moved;       /* owned, a bit for each row */
    uint8_t *kept;        /* owned, room for one row of any array */
};

static enum ps_status take_memory(struct sorting *sorting, struct ps_error *error);
static enum ps_status order_keys(struct sorting *sorting, const uint8_t *keys,
                                 struct ps_error *error);
static void move_rows(const struct sorting *sorting, uint8_t *rows, size_t row_bytes);
static uint64_t read_key(const uint8_t *keys, uint64_t row);
static bool is_sorted(const uint8_t *keys, uint64_t rows);

enum ps_status table_rows_sort(const struct ps_checkpoint_parameter *table,
                               uint8_t *const arrays[PS_CHECKPOINT_ARRAYS_MAX],
                               const struct ps_allocator *memory, struct ps_error *error)
{
    struct sorting sorting = {.table = table, .memory = memory};
    const uint8_t *keys = arrays[ps_array_of_keys(table)];
    /* What psckpt has written before is sorted. */
    if (is_sorted(keys, table->rows))
        return PS_OK;
    /* From here on nothing can fail once the first row has moved: rows half in the old order would
     * be rows of other keys. */
    enum ps_status status = take_memory(&sorting, error);
    if (status == PS_OK)
        status = order_keys(&sorting, keys, error);
    for (uint32_t array = 0; array < ps_array_count(table) && status == PS_OK; array++)
        move_rows(&sorting, arrays[array], table_row_bytes(table, array));
    ps_release(memory, sorting.places);
    ps_release(memory, sorting.moved);
    ps_release(memory, sorting.kept);
    return status;
}

/* All before the first row is moved. */
static enum ps_status take_memory(struct sorting *sorting, struct ps_error *error)
{
    uint64_t rows = sorting->table->rows;
    size_t widest = 0;
    for (uint32_t array = 0; array < ps_array_count(sorting->table); array++) {
        size_t bytes = table_row_bytes(sorting->table, array);
        widest = bytes > widest ? bytes : widest;
    }
    /* One more byte of bits than whole ones: a table of seven rows has none of eight. */
    sorting->places = ps_zeroed_array(sorting->memory, (size_t)rows, sizeof *sorting->places);
    sorting->moved = ps_zeroed(sorting->memory, (size_t)(rows / 8 + 1));
    sorting->kept = ps_zeroed(sorting->memory, widest);
    if (sorting->places == NULL || sorting->moved == NULL || sorting->kept == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to sort %" PRIu64 " rows", rows);
    return PS_OK;
}

/* By the number: two keys that compare as equal are one key. */
static int compare_places(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

/* A key twice would be a row that pulls find and one that they do not: which of them is meant,
 * nobody can tell. */
static enum ps_status order_keys(struct sorting *sorting, const uint8_t *keys,
                                 struct ps_error *error)
{
    uint64_t rows = sorting->table->rows;
    struct ps_bytes name = sorting->table->name;
    for (uint64_t row = 0; row < rows; row++)
        sorting->places[row] = (struct place){read_key(keys, row), row};
    qsort(sorting->places, (size_t)rows, sizeof *sorting->places, compare_places);
    for (uint64_t row = 1; row < rows; row++)
        if (sorting->places[row].key == sorting->places[row - 1].key)
            return ps_fail(error, PS_ERR_CORRUPT, "table %.*s has the key %" PRIu64 " twice",
                           (int)(name.size < 100 ? name.size : 100), (const char *)name.data,
                           sorting->places[row].key);
    return PS_OK;
}

/* Along each cycle: the first row is kept aside, every place gets the row that belongs there, and
 * the last place the one that was kept. */
static void move_rows(const struct sorting *sorting, uint8_t *rows, size_t row_bytes)
{
    uint64_t count = sorting->table->rows;
    memset(sorting->moved, 0, (size_t)(count / 8 + 1));
    for (uint64_t begin = 0; begin < count; begin++) {
        /* A part of a cycle that was gone along from a lower place. */
        if ((sorting->moved[begin / 8] >> (begin % 8) & 1) != 0)
            continue;
        memcpy(sorting->kept, rows + begin * row_bytes, row_bytes);
        uint64_t at = begin;
        for (;;) {
            uint64_t from = sorting->places[at].row;
            sorting->moved[at / 8] |= (uint8_t)(1u << (at % 8));
            /* The row that belongs here was overwritten first, and is the one that was kept. */
            if (from == begin)
                break;
            memcpy(rows + at * row_bytes, rows + from * row_bytes, row_bytes);
            at = from;
        }
        memcpy(rows + at * row_bytes, sorting->kept, row_bytes);
    }
}

/* As all numbers of the file: little-endian, as every machine that this runs on is. */
static uint64_t read_key(const uint8_t *keys, uint64_t row)
{
    uint64_t key;
    memcpy(&key, keys + row * sizeof key, sizeof key);
    return key;
}

/* Strictly: a key that is there twice is found by whoever sorts. */
static bool is_sorted(const uint8_t *keys, uint64_t rows)
{
    for (uint64_t row = 1; row < rows; row++)
        if (read_key(keys, row - 1) >= read_key(keys, row))
            return false;
    return true;
}

/* The asserts say what a sealed state promises of every table: the walks over keys and rows, here
 * and in the files that call this, index one piece. */
const uint8_t *table_array(const struct ps_checkpoint_parameter *table, uint32_t array)
{
    struct ps_view view = ps_array_view(table, array);
    PS_ASSERT(table->is_table && table->source.read == NULL);
    PS_ASSERT(view.piece_count == 1);
    return view.pieces[0].data;
}

/* Read each time, since a copy of all keys would double what a table of narrow rows takes. */
uint64_t table_key(const struct ps_checkpoint_parameter *table, uint64_t row)
{
    PS_ASSERT(row < table->rows);
    return read_key(table_array(table, ps_array_of_keys(table)), row);
}

/* Not the bytes of the array through its rows, of which there may be none. */
size_t table_row_bytes(const struct ps_checkpoint_parameter *table, uint32_t array)
{
    struct ps_checkpoint_parameter one = *table;
    one.rows = 1;
    one.count = table->width;
    return (size_t)ps_array_bytes(&one, array);
}
