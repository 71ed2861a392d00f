/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients whose effect is known exactly: small whole numbers, never 0, and a learning rate that
 * is a power of two. After n pushes every weight is start - n * rate * gradient, nothing rounded,
 * so that "the update really happened, n times" is one comparison of numbers.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TOOLS_PSBENCH_VALUES_H
#define PS_TOOLS_PSBENCH_VALUES_H

#include <stddef.h>
#include <stdint.h>

#define PS_BENCH_LEARNING_RATE 0.5

/* Beyond so many pushes a float32 could no longer hold the weights exactly. */
#define PS_BENCH_PUSHES_MAX ((uint64_t)1 << 22)

/* -3 to 3 without 0, in no order that a compressor would find. */
void ps_bench_fill_gradient(float *values, size_t count);

/* Whole numbers from -1000 to 1000. */
void ps_bench_fill_start(float *values, size_t count);

/* How many of `values` are not what `pushes` pushes of the gradient make of the start. */
size_t ps_bench_count_wrong(const float *values, size_t count, uint64_t pushes);

#endif
