/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of many workers, added in an order that the caller gives: the arithmetic of rounds
 * (docs/rounds.md), for gradients that are whole arrays and for single rows.
 *
 *     sum = w0 g0;  sum += w1 g1;  ...  sum /= w0 + w1 + ...
 *
 * Every product is rounded before it is added, and every sum of weights to the type: the bits are
 * those of the formula in that type, on every processor. A weight of 1 changes no bit.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none; a sum that is too large is infinite. Types are PS_F32 and PS_F64.
 * Memory:   borrowed for the call.
 */
#ifndef PS_OPTIMIZER_WEIGHTED_SUM_H
#define PS_OPTIMIZER_WEIGHTED_SUM_H

#include "base/dtype.h"

#include <stddef.h>

/* Begins a sum: `sum` is written, and not read. */
void ps_weighted_sum_first(enum ps_dtype dtype, void *sum, const void *gradient, size_t count,
                           double weight);

void ps_weighted_sum_add(enum ps_dtype dtype, void *sum, const void *gradient, size_t count,
                         double weight);

/* `by` is not 0. */
void ps_weighted_sum_divide(enum ps_dtype dtype, void *sum, size_t count, double by);

/* The next sum of weights, which begins with 0. */
double ps_weighted_sum_weigh(enum ps_dtype dtype, double weights, double weight);

#endif
