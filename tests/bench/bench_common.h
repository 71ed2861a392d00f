/* SPDX-License-Identifier: Apache-2.0 */
/* What measurements of pushes have in common.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   abort.
 * Memory:   said at each function.
 */
#ifndef PS_TESTS_BENCH_BENCH_COMMON_H
#define PS_TESTS_BENCH_BENCH_COMMON_H

#include "server/core/update/parameter.h"
#include "server/core/update/update.h"

/* How many bytes gRPC puts into one slice of a message, about. */
#define BENCH_SLICE_BYTES ((size_t)65536)

/* Returns a float32 parameter on the heap that begins as `start`; end it with
 * ps_parameter_destroy. */
struct ps_parameter *bench_parameter(enum ps_rule rule, size_t count, const float *start);

/* Cut as gRPC cuts a message. `pieces` has room for all; content and pieces are borrowed by the
 * gradient. */
struct ps_gradient bench_cut(const void *content, size_t size, enum ps_encoding encoding,
                             struct ps_bytes *pieces);

/* Sorts them. */
double bench_median(double *values, size_t count);

#endif
