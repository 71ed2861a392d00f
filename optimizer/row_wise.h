/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad with one accumulator for a whole row of a table: A <- A + mean of the row's g g, and
 * p <- p - (eta g / root + eta lambda p) for each of its elements, with the g and the root of
 * adagrad.rule.h. The state of a row of 64 floats is 4 bytes then, not 256.
 *
 * The sum of the squares has one shape, in the row's type: square i adds to lane i mod 8, and the
 * lanes are folded in halves. So the bits depend on no compiler and no width of vectors.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   none.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_OPTIMIZER_ROW_WISE_H
#define PS_OPTIMIZER_ROW_WISE_H

#include "optimizer/optimizer.h"

/* Steps one row of a float type. `values` and `accumulator` are aligned to their element,
 * `gradient` need not be. */
void ps_optimizer_row_wise(const struct ps_optimizer_step *step, size_t width, void *values,
                           void *accumulator, const void *gradient);

#endif
