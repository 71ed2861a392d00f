/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of rows and pages. Everything of a row lies together: a push reads and writes all of
 * it, and a row of 16 floats is then two lines of memory instead of three.
 *
 * The size of a page is a bargain: the last page of each of 256 stripes is half empty, and each
 * page has an entry in the list of its stripe, which is read at every look-up and should stay near.
 */
#include "server/core/tables/row_shape.h"

#include "base/assert.h"

#define LIVE_BITS 64

/* Rows that share a page's entry of 8 bytes, at least: 32 as far as twice the usual page goes, a
 * quarter of a byte for each, and eight as far as three times that goes. */
#define PAGE_ROWS 32
#define PAGE_ROWS_LEAST 8

/* The next part of a row, behind those that are placed. */
static void place(struct ps_row_shape *shape, uint32_t array, size_t *at, size_t size)
{
    PS_ASSERT(array < PS_ROW_ARRAYS_MAX);
    shape->arrays[array].offset = *at;
    shape->arrays[array].size = size;
    *at += size;
}

/* Bytes of a page with so many rows, at most. It may be a quarter larger than asked for: rows of 76
 * bytes get 128 to a page, not 64. */
static size_t page_bytes_max(size_t rows)
{
    size_t bytes = PS_ROW_PAGE_BYTES + PS_ROW_PAGE_BYTES / 4;
    PS_ASSERT(rows > 0);
    if (rows > PAGE_ROWS)
        return bytes;
    return rows > PAGE_ROWS_LEAST ? 2 * bytes : 3 * bytes;
}

/* A power of two, so that a row's page is found with a shift. */
static uint32_t page_bits_of(size_t stride)
{
    PS_ASSERT(stride > 0);
    /* A row that is longer than a page is a page of its own. */
    uint32_t bits = 0;
    while (bits < PS_ROW_PAGE_BITS_MAX && stride << (bits + 1) <= page_bytes_max((size_t)2 << bits))
        bits++;
    return bits;
}

/* Key and version come first: a look-up reads the key and, in most tables, finds the begin of the
 * values in the same line. */
void ps_row_shape_init(struct ps_row_shape *shape, const struct ps_row_layout *layout)
{
    PS_ASSERT(layout->width > 0 && layout->width <= PS_TABLE_WIDTH_MAX);
    PS_ASSERT(layout->state_count <= PS_STATES_MAX);
    memset(shape, 0, sizeof *shape);
    shape->layout = *layout;
    shape->element = ps_dtype_size(layout->dtype);
    shape->array_count = 1 + layout->state_count + 2;
    size_t at = 0;
    place(shape, 1 + layout->state_count, &at, sizeof(uint64_t));
    PS_ASSERT(at == PS_ROW_TOUCHED_OFFSET);
    place(shape, 2 + layout->state_count, &at, sizeof(uint32_t));
    /* Elements are aligned to themselves: the rules' loops promise that to the compiler. */
    at = (at + shape->element - 1) / shape->element * shape->element;
    place(shape, 0, &at, layout->width * shape->element);
    for (uint32_t i = 0; i < layout->state_count; i++)
        place(shape, 1 + i, &at, (layout->state_is_one[i] ? 1 : layout->width) * shape->element);
    shape->stride = at;
    PS_ASSERT(at % shape->element == 0);
    shape->page_bits = page_bits_of(at);
    size_t rows = (size_t)1 << shape->page_bits;
    shape->live_words = (uint32_t)((rows + LIVE_BITS - 1) / LIVE_BITS);
    PS_ASSERT(rows <= PS_ROW_PAGE_ROWS_MAX);
    /* A row that is a page of its own has room for a head, when it is set aside. */
    size_t bytes = rows * at > at + PS_ROW_ASIDE_HEAD ? rows * at : at + PS_ROW_ASIDE_HEAD;
    shape->page_bytes = (bytes + PS_ROW_PAGE_ALIGN - 1) / PS_ROW_PAGE_ALIGN * PS_ROW_PAGE_ALIGN;
}
