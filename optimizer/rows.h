/* SPDX-License-Identifier: Apache-2.0 */
/* The update of single rows of a table: the rows of a push may come in any order and more than
 * once. What the kernels of cuda/rows.cu do, on the CPU.
 *
 * The gradients of one row are added up in the order of arrival, in the table's type, and the rule
 * is applied once to the row. So the result depends on neither sorting nor threads. A row that
 * comes more than PS_ROWS_PART times is added up in parts of so many, each in the order of arrival,
 * and then the parts in theirs: parts can be worked on side by side.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   none; a row beyond row_count is left out.
 * Memory:   nothing is allocated; everything is borrowed for the call.
 */
#ifndef PS_OPTIMIZER_ROWS_H
#define PS_OPTIMIZER_ROWS_H

#include "optimizer/optimizer.h"

#define PS_ROWS_PART 1024

struct ps_rows {
    const struct ps_optimizer_step *step; /* of a float type */
    const uint64_t *rows;                 /* of each gradient, as they arrived */
    size_t count;                         /* gradients; below 2^32 */
    uint64_t row_count;                   /* of the table */
    size_t width;                         /* elements of a row */
    size_t stride;  /* from one row's values (or states) to the next one's, in elements */
    void *gradient; /* count * width elements, in the order of arrival; sums are left in it */
    void *values;
    void *states[PS_STATES_MAX];
    uint32_t *scratch; /* 2 * count of them */
};

void ps_optimizer_rows(const struct ps_rows *rows);

/* Puts into `order` the numbers 0 .. count - 1 sorted by the row they stand for, equal rows in the
 * order of arrival. `other` is room for as many. */
void ps_rows_sort(const uint64_t *rows, size_t count, uint32_t *order, uint32_t *other);

#endif
