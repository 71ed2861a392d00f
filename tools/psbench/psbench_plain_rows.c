/* SPDX-License-Identifier: Apache-2.0 */
/* The walk that a table's speed is a share of. The arithmetic is that of the rules in as few
 * operations as there can be; the file is compiled with -O3, also in a debug build. Lines are
 * asked for 24 rows ahead, as in the experiment that the shares a table is to reach come from:
 * figures of both can be held against each other. A shorter way ahead would make the array
 * slower, and the table look better than it is. */
#include "tools/psbench/psbench_plain_rows.h"

#include "base/alloc.h"
#include "base/attributes.h"
#include "base/slab.h"
#include "tools/psbench/psbench_values.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define AHEAD 24
#define LINE_FLOATS 16

static void step_row(float *restrict row, const float *restrict gradient, uint32_t width,
                     uint32_t states);

/* Aligned to large pages and asked to be in them, as the server's slabs are: the array is 1.5 times
 * as fast for it. Clearing is the first touch. */
enum ps_status ps_bench_plain_rows_open(struct ps_bench_plain_rows *plain, uint64_t count,
                                        uint32_t width, uint32_t states, struct ps_error *error)
{
    size_t bytes = (size_t)count * width * (1 + states) * sizeof(float);
    *plain = (struct ps_bench_plain_rows){.width = width, .states = states};
    plain->memory = ps_plain(ps_allocator_heap(), bytes + 2 * PS_SLAB_BYTES);
    if (plain->memory == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for an array of %zu bytes", bytes);
    uintptr_t start = ((uintptr_t)plain->memory + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES;
    plain->rows = (float *)(start * PS_SLAB_BYTES);
    /* A kernel without large pages refuses, and then there are none. */
    (void)madvise(plain->rows, (bytes + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES,
                  MADV_HUGEPAGE);
    memset(plain->rows, 0, bytes);
    return PS_OK;
}

/* Accepts an array that was never opened, or for which there was no memory. */
void ps_bench_plain_rows_close(struct ps_bench_plain_rows *plain)
{
    ps_release(ps_allocator_heap(), plain->memory);
    *plain = (struct ps_bench_plain_rows){.memory = NULL};
}

/* Every line of a row is asked for by itself; which of them the processor would fetch ahead of
 * its own accord depends on the model. */
static void ask_for(const float *row, size_t floats)
{
    for (size_t i = 0; i < floats; i += LINE_FLOATS)
        PS_PREFETCH(row + i);
}

/* The widths that are measured are copied with their size known: a call for each row would take
 * longer than the copy. */
static void copy_row(float *to, const float *from, uint32_t width)
{
    if (width == 1)
        *to = *from;
    else if (width == 16)
        memcpy(to, from, 16 * sizeof *to);
    else
        memcpy(to, from, width * sizeof *to);
}

/* The last rows of a batch are not asked for ahead, as little as the table asks for those of the
 * next batch. */
void ps_bench_plain_rows_get(const struct ps_bench_plain_rows *plain, const uint64_t *numbers,
                             size_t count, float *to)
{
    size_t stride = (size_t)plain->width * (1 + plain->states);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            ask_for(plain->rows + numbers[i + AHEAD] * stride, plain->width);
        copy_row(to + i * plain->width, plain->rows + numbers[i] * stride, plain->width);
    }
}

/* A row that comes twice is stepped twice: adding up first would be more work here, and less in
 * the table, which has to do that. */
void ps_bench_plain_rows_add(struct ps_bench_plain_rows *plain, const uint64_t *numbers,
                             size_t count, const float *gradients)
{
    size_t stride = (size_t)plain->width * (1 + plain->states);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            ask_for(plain->rows + numbers[i + AHEAD] * stride, stride);
        step_row(plain->rows + numbers[i] * stride, gradients + i * plain->width, plain->width,
                 plain->states);
    }
}

/* SGD, Adagrad and FTRL, told apart by their states. */
static void step_row(float *restrict row, const float *restrict gradient, uint32_t width,
                     uint32_t states)
{
    /* Computed once: a conversion in the loop would be counted as the rule's. */
    const float rate = (float)PS_BENCH_LEARNING_RATE;
    float *restrict squares = row + width;
    float *restrict linear = row + 2 * (size_t)width;
    if (states == 0) {
        for (uint32_t i = 0; i < width; i++)
            row[i] -= rate * gradient[i];
    } else if (states == 1) {
        for (uint32_t i = 0; i < width; i++) {
            squares[i] += gradient[i] * gradient[i];
            row[i] -= rate * gradient[i] / (sqrtf(squares[i]) + 1e-7f);
        }
    } else {
        for (uint32_t i = 0; i < width; i++) {
            float sum = squares[i] + gradient[i] * gradient[i];
            float root = sqrtf(sum);
            linear[i] += gradient[i] - (root - sqrtf(squares[i])) / rate * row[i];
            squares[i] = sum;
            row[i] = -linear[i] / ((1.0f + root) / rate);
        }
    }
}
