/* SPDX-License-Identifier: Apache-2.0 */
/* From keys to rows of one size: the rows lie side by side in the order in which they came, and an
 * index says which of them has a key.
 *
 * Threads:  the caller's affair.
 * Blocking: never.
 * Errors:   ps_row_map_put says NULL when memory is refused.
 * Memory:   grows by half as rows come; given back by ps_row_map_fini alone.
 */
#ifndef PS_CLIENT_ROW_MAP_H
#define PS_CLIENT_ROW_MAP_H

#include "base/alloc.h"

#include <stdint.h>

struct ps_row_map {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    size_t row_bytes;
    uint32_t count;
    uint32_t room;       /* rows */
    uint64_t *keys;      /* owned: of the rows */
    uint8_t *values;     /* owned */
    uint32_t *index;     /* owned: 1 + the row; 0: free */
    uint32_t index_mask; /* places of the index - 1; a power of two of them */
};

void ps_row_map_init(struct ps_row_map *map, const struct ps_allocator *memory, size_t row_bytes);

/* May be used again after ps_row_map_init. */
void ps_row_map_fini(struct ps_row_map *map);

/* NULL: there is none. */
const uint8_t *ps_row_map_find(const struct ps_row_map *map, uint64_t key);

/* A key that will be looked for soon: the first asks for its line of the index, the second, some
 * keys later, for its row. A look-up alone waits for three lines of memory, one after the other. */
void ps_row_map_expect(const struct ps_row_map *map, uint64_t key);
void ps_row_map_expect_row(const struct ps_row_map *map, uint64_t key);

/* The row of the key, made if there is none; its values are the caller's to write. NULL: no memory,
 * and nothing has changed. */
uint8_t *ps_row_map_put(struct ps_row_map *map, uint64_t key);

/* A key without a row is fine. The last row takes the place of the one that goes. */
void ps_row_map_remove(struct ps_row_map *map, uint64_t key);

/* Asserts every invariant; reads everything. */
void ps_row_map_check(const struct ps_row_map *map);

#endif
