/* SPDX-License-Identifier: Apache-2.0 */
/* The batches of several shares that are one step of a table: their rows are read as one batch,
 * each computes its own gradients, and what is pushed is the average over the shares, in the bits
 * that a round of as many workers would have (docs/rounds.md).
 *
 *     collect each part ──► join ──► the rows of `joined` are fetched ──► spread
 *           ──► compute each part ──► average ──► the gradients of `joined` are pushed
 *
 * Of one share nothing is joined: `joined` is its batch.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, PS_ERR_BAD_INPUT of too many keys.
 * Memory:   owned, kept from step to step, until fini.
 */
#ifndef PS_TOOLS_ROW_BATCHES_H
#define PS_TOOLS_ROW_BATCHES_H

#include "tools/row_batch.h"

struct ps_row_batches {
    uint32_t count;
    struct ps_row_batch *parts;  /* owned */
    struct ps_row_batch *joined; /* the only part, or `own` */
    struct ps_row_batch own;
};

/* PS_ERR_NO_MEMORY: `batches` is for fini. */
PS_MUST_USE enum ps_status ps_row_batches_init(struct ps_row_batches *batches, uint32_t count,
                                               uint32_t width);
void ps_row_batches_fini(struct ps_row_batches *batches);

/* All parts have their keys: `joined` has each of them once. */
PS_MUST_USE enum ps_status ps_row_batches_join(struct ps_row_batches *batches,
                                               struct ps_error *error);

/* `joined` has its rows: the parts have theirs. */
void ps_row_batches_spread(struct ps_row_batches *batches);

/* The parts have their gradients, each the mean of its visits: `joined` has their sums in the order
 * of the parts, divided by how many parts there are. */
void ps_row_batches_average(struct ps_row_batches *batches);

#endif
