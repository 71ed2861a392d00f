/* SPDX-License-Identifier: Apache-2.0 */
/* Rows on the CPU: a stable merge sort of the arrivals, sums row by row, one update per row. */
#include "optimizer/rows.h"

#include "base/assert.h"

#include <string.h>

static size_t least(size_t left, size_t right)
{
    return left < right ? left : right;
}

/* Merges from[begin, middle) and from[middle, end); of equal rows the left one goes first.
 * Stable, because the order of arrival is part of the bits: sums of floats depend on the order
 * in which they are added. */
static void merge(const uint64_t *rows, const uint32_t *from, size_t begin, size_t middle,
                  size_t end, uint32_t *to)
{
    size_t left = begin;
    size_t right = middle;
    for (size_t i = begin; i < end; i++) {
        /* "Less or equal" is what makes it stable. */
        bool take_left = left < middle && (right == end || rows[from[left]] <= rows[from[right]]);
        to[i] = take_left ? from[left++] : from[right++];
    }
}

/* Bottom-up, in two arrays of the caller: no recursion and no allocation, in a place where rows
 * are as many as a client may send. */
void ps_rows_sort(const uint64_t *rows, size_t count, uint32_t *order, uint32_t *other)
{
    uint32_t *from = order;
    uint32_t *to = other;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t i = 0; i < count; i += 2 * width)
            merge(rows, from, i, least(i + width, count), least(i + 2 * width, count), to);
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    /* After an odd number of rounds the result lies in the other array; the caller looks into
     * the first. */
    if (from != order)
        memcpy(order, from, count * sizeof *order);
}

#define ADD_ROW(suffix, T)                                                    \
    static void add_row_##suffix(T *restrict sum, const T *row, size_t width) \
    {                                                                         \
        for (size_t i = 0; i < width; i++)                                    \
            sum[i] = sum[i] + row[i];                                         \
    }
ADD_ROW(f32, float)
ADD_ROW(f64, double)
#undef ADD_ROW

/* Gradients of one row are added up before the rule sees them: to a rule with states, two pushes
 * of half a gradient are not one of the whole. */
static void add_row(enum ps_dtype dtype, void *sum, const void *row, size_t width)
{
    if (dtype == PS_F32)
        add_row_f32(sum, row, width);
    else
        add_row_f64(sum, row, width);
}

/* Applies the sum of one row's gradients.
 * The row begins at `stride` elements from its predecessor, and its states lie beside it: a row
 * is updated like a small parameter. Its elements count from 0, which no float rule looks at. */
static void update_row(const struct ps_rows *rows, uint64_t row, const void *sum)
{
    size_t start = (size_t)row * rows->stride * ps_dtype_size(rows->step->dtype);
    void *states[PS_STATES_MAX] = {NULL};
    for (uint32_t i = 0; i < ps_rule_states(rows->step->settings->rule); i++)
        states[i] = (char *)rows->states[i] + start;
    ps_optimizer_apply(rows->step, 0, rows->width, (char *)rows->values + start, states, sum);
}

/* Where the gradient lies that comes `position`-th in the sorted order; gradients themselves are
 * never moved. */
static char *gradient_at(const struct ps_rows *rows, size_t position)
{
    size_t bytes = rows->width * ps_dtype_size(rows->step->dtype);
    return (char *)rows->gradient + rows->scratch[position] * bytes;
}

static uint64_t row_at(const struct ps_rows *rows, size_t position)
{
    return rows->rows[rows->scratch[position]];
}

/* Adds up at most PS_ROWS_PART gradients of one row, from sorted position `begin` on, into the
 * first of them; returns where the part ends.
 * Parts have a bounded length so that a GPU can sum them side by side; the CPU keeps to the same
 * parts, and so to the same bits. */
static size_t add_part(const struct ps_rows *rows, size_t begin)
{
    size_t most = least(rows->count, begin + PS_ROWS_PART);
    size_t end = begin + 1;
    for (; end < most && row_at(rows, end) == row_at(rows, begin); end++)
        add_row(rows->step->dtype, gradient_at(rows, begin), gradient_at(rows, end), rows->width);
    return end;
}

/* One pass over the sorted arrivals. A row that came often is summed part by part into its first
 * gradient, and updated once. A row beyond the table is summed and dropped: the caller has
 * refused it where that is an error. */
void ps_optimizer_rows(const struct ps_rows *rows)
{
    enum ps_dtype dtype = rows->step->dtype;
    PS_ASSERT(ps_dtype_is_float(dtype));
    PS_ASSERT(rows->count <= UINT32_MAX);
    ps_rows_sort(rows->rows, rows->count, rows->scratch, rows->scratch + rows->count);
    for (size_t begin = 0, end = 0; begin < rows->count; begin = end) {
        uint64_t row = row_at(rows, begin);
        char *sum = gradient_at(rows, begin);
        end = add_part(rows, begin);
        while (end < rows->count && row_at(rows, end) == row) {
            const char *part = gradient_at(rows, end);
            end = add_part(rows, end);
            add_row(dtype, sum, part, rows->width);
        }
        if (row < rows->row_count)
            update_row(rows, row, sum);
    }
}
