/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table that one mini-batch touches: each key once, its row as the servers have it,
 * and the gradient of it.
 *
 *     begin ──► visit each key ──► the rows are fetched ──► compute, in the order of the visits
 *           ──► average ──► the gradients are pushed
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, from begin alone.
 * Memory:   owned, kept from batch to batch, until fini.
 */
#ifndef PS_TOOLS_ROW_BATCH_H
#define PS_TOOLS_ROW_BATCH_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ps_row_batch {
    uint32_t width;
    size_t room;        /* visits that there is memory for */
    size_t row_count;   /* different keys */
    size_t visit_count; /* keys, as often as they came */
    uint64_t *keys;     /* by row */
    float *rows;        /* by row, `width` elements each */
    float *gradients;   /* the same */
    uint32_t *visits;   /* how often each row was visited */
    uint32_t *places;   /* by visit: which row */
    uint32_t *slots;    /* by hash: 1 + the row */
    size_t slot_count;  /* a power of two */
};

void ps_row_batch_init(struct ps_row_batch *batch, uint32_t width);
void ps_row_batch_fini(struct ps_row_batch *batch);

/* Forgets the keys, and has room for so many visits. */
PS_MUST_USE enum ps_status ps_row_batch_begin(struct ps_row_batch *batch, size_t visits_max,
                                              struct ps_error *error);

/* One more visit of the key; its gradient is zero so far. */
void ps_row_batch_visit(struct ps_row_batch *batch, uint64_t key);

/* Divides each row's gradient by how often the row was visited. */
void ps_row_batch_average(struct ps_row_batch *batch);

/* The row of a visit, and its gradient. */
static inline float *ps_row_batch_row(const struct ps_row_batch *batch, size_t visit)
{
    return batch->rows + (size_t)batch->places[visit] * batch->width;
}
static inline float *ps_row_batch_gradient(const struct ps_row_batch *batch, size_t visit)
{
    return batch->gradients + (size_t)batch->places[visit] * batch->width;
}

#endif
