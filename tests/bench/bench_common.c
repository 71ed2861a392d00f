/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter, its gradient in pieces, a median. */
#include "bench_common.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>

struct ps_parameter *bench_parameter(enum ps_rule rule, size_t count, const float *start)
{
    const struct ps_optimizer_settings settings = {
        .rule = rule, .learning_rate.rate = 1e-3, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-8};
    struct ps_bytes piece = {(const uint8_t *)start, count * sizeof(float)};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(ps_allocator_heap(), ps_bytes_of_text("w"), PS_F32, count,
                                 (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    PS_ASSERT(parameter != NULL);
    (void)!ps_parameter_set(parameter, ps_view_of(&piece), NULL); /* on the host it cannot fail */
    ps_parameter_spec_release(spec);
    return parameter;
}

struct ps_gradient bench_cut(const void *content, size_t size, enum ps_encoding encoding,
                             struct ps_bytes *pieces)
{
    size_t count = 0;
    for (size_t at = 0; at < size; at += BENCH_SLICE_BYTES)
        pieces[count++] =
            (struct ps_bytes){(const uint8_t *)content + at,
                              size - at < BENCH_SLICE_BYTES ? size - at : BENCH_SLICE_BYTES};
    return (struct ps_gradient){.content = {pieces, count, size}, .encoding = encoding};
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], by_value);
    return values[count / 2];
}
