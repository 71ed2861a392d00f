/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows of many keys. A row is three lines of memory away, each known only when the one
 * before is there: the line of the index, the entry of its page, the row. So the keys go through a
 * pipeline in which each line is asked for a group of keys before it is used, and the memory works
 * at many at a time.
 *
 * Threads:  whoever may read the stripes (row_stripes.h).
 * Blocking: never.
 * Errors:   none.
 * Memory:   borrowed for the call.
 */
#ifndef PS_SERVER_CORE_ROW_LOOK_UP_H
#define PS_SERVER_CORE_ROW_LOOK_UP_H

#include "server/core/tables/row_stripes.h"

/* Where a reader wants the `size` bytes that each row has at `offset`: those of the key at i go to
 * to + order[i] * size, and no other byte of `to` is written. */
struct ps_row_copies {
    uint8_t *to;
    const uint32_t *order;
    size_t offset;
    size_t size;
};

/* Writes each key's row, or NULL, and its number in its stripe, or PS_ROW_NONE. The first `bytes`
 * of each row found are then on their way to the cache; with `copies` (NULL: none are wanted) they
 * have been copied. Fastest for hashes in the order of their stripes. */
void ps_row_look_up(const struct ps_row_table *table, const uint64_t *hashes, const uint64_t *keys,
                    uint32_t count, size_t bytes, uint8_t **rows, uint32_t *numbers,
                    const struct ps_row_copies *copies);

#endif
