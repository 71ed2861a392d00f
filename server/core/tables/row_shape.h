/* SPDX-License-Identifier: Apache-2.0 */
/* Where everything of a row lies within it, and how many rows make a page. Pure arithmetic.
 *
 * A row is one run of bytes: key (8), the version of its last push (4), values, states. Behind the
 * head of elements of 8 bytes are 4 unused ones, so that elements are aligned; the key never is,
 * and is read with memcpy.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_ROW_SHAPE_H
#define PS_SERVER_CORE_ROW_SHAPE_H

#include "server/core/tables/row_table.h"

#include <stddef.h>
#include <string.h>

/* Bytes of a page of rows, about: small, since each stripe's last page is half empty; large enough
 * for some rows of several states, whose pages would else take much for their entries. Of wide rows
 * up to twice or three times that. */
#ifndef PS_ROW_PAGE_BYTES
#define PS_ROW_PAGE_BYTES 8192
#endif

/* A place in a page is known by one byte (row_aside.h). */
#define PS_ROW_PAGE_BITS_MAX 8
#define PS_ROW_PAGE_ROWS_MAX (1u << PS_ROW_PAGE_BITS_MAX)

/* What lies beside a row in a page of rows that were set aside (row_aside.h), at most. Every page
 * has room for one. */
#define PS_ROW_ASIDE_HEAD 16

/* Pages begin at multiples of this: enough for elements of 8 bytes, and for rows of 16 bytes not to
 * lie in two lines. Whole lines would waste most of a byte for each row. */
#define PS_ROW_PAGE_ALIGN ((size_t)16)

/* Arrays of a table as a checkpoint has them: values, states, keys, versions. */
#define PS_ROW_ARRAYS_MAX (PS_ARRAYS_MAX + 2)

struct ps_row_shape {
    struct ps_row_layout layout;
    uint32_t array_count; /* 1 + states + 2 */
    struct {
        size_t offset; /* within a row */
        size_t size;   /* of a row's part of the array */
    } arrays[PS_ROW_ARRAYS_MAX];
    size_t element;
    size_t stride;       /* from row to row */
    uint32_t page_bits;  /* a page has 1 << page_bits rows */
    uint32_t live_words; /* words of 64 bits in which a hold has the rows of a page */
    size_t page_bytes;
};

void ps_row_shape_init(struct ps_row_shape *shape, const struct ps_row_layout *layout);

#define PS_ROW_TOUCHED_OFFSET 8

static inline uint64_t ps_row_key(const uint8_t *row)
{
    uint64_t key;
    memcpy(&key, row, sizeof key);
    return key;
}

static inline uint32_t ps_row_touched(const uint8_t *row)
{
    uint32_t touched;
    memcpy(&touched, row + PS_ROW_TOUCHED_OFFSET, sizeof touched);
    return touched;
}

static inline void ps_row_set_touched(uint8_t *row, uint64_t version)
{
    uint32_t touched = (uint32_t)version;
    memcpy(row + PS_ROW_TOUCHED_OFFSET, &touched, sizeof touched);
}

/* A row's elements. With constant sizes for common widths: a call of memcpy for 4 bytes costs more
 * than the bytes. */
static inline void ps_row_copy(void *to, const void *from, size_t size)
{
    if (size == 4)
        memcpy(to, from, 4);
    else if (size == 64)
        memcpy(to, from, 64);
    else
        memcpy(to, from, size);
}

#endif
