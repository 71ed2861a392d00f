/* SPDX-License-Identifier: Apache-2.0 */
/* How two tables of one width and type differ, row by row. Rows belong together by their keys; the
 * order in which a file has them means nothing.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TOOLS_TABLE_DIFF_H
#define PS_TOOLS_TABLE_DIFF_H

#include "tools/psckpt/array_distance.h"
#include "tools/psckpt/table_rows.h"

struct table_diff {
    uint64_t added;                 /* keys that only B has */
    uint64_t removed;               /* keys that only A has */
    uint64_t changed;               /* rows of keys that both have */
    uint64_t first_key;             /* lowest key of all these */
    uint64_t first_changed;         /* lowest key of a row that has changed */
    struct array_distance distance; /* of the rows that both have; `first` is of no use */
};

/* Compares an array of tables in sealed states, of which both have it with the same type. Which
 * keys there are is the same for each array, so `added` and `removed` are as well. */
struct table_diff table_diff_of(const struct ps_checkpoint_parameter *a,
                                const struct ps_checkpoint_parameter *b, uint32_t array);

#endif
