/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table in a state: sorted by key, every array one piece. A server writes rows in the
 * order in which they lie in its pages, which depends on who came first; psckpt has them in one
 * order, and writes them so.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   said at the function.
 * Memory:   an index of 16 bytes for a row while rows are sorted.
 */
#ifndef PS_TOOLS_TABLE_ROWS_H
#define PS_TOOLS_TABLE_ROWS_H

#include "checkpoint/array_layout.h"

/* Sorts the rows of `table`, whose arrays these are, by key, where they lie: after PS_OK row i of
 * each array is that of the i-th lowest key. Rows that are sorted already cost a look at their
 * keys.
 *
 * PS_ERR_CORRUPT      a key is there twice
 * PS_ERR_NO_MEMORY    the arrays are as they were
 */
PS_MUST_USE enum ps_status table_rows_sort(const struct ps_checkpoint_parameter *table,
                                           uint8_t *const arrays[PS_CHECKPOINT_ARRAYS_MAX],
                                           const struct ps_allocator *memory,
                                           struct ps_error *error);

/* The bytes of one array of a table in a state, row after row. Of a table without rows there are
 * none, and the pointer is of no use. */
const uint8_t *table_array(const struct ps_checkpoint_parameter *table, uint32_t array);

/* The key of row `row`, which the table must have. Keys rise with rows. */
uint64_t table_key(const struct ps_checkpoint_parameter *table, uint64_t row);

/* Bytes of one row in an array: of the values the width times the element's, of keys 8, of a clock
 * 4, and of a state those of one element where the rule keeps it for whole rows. */
size_t table_row_bytes(const struct ps_checkpoint_parameter *table, uint32_t array);

#endif
