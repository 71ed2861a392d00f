/* SPDX-License-Identifier: Apache-2.0 */
/* The update of the rows of a sparse push, in three kernels: one adds up the gradients of each part
 * of a row (rows.h) in the order of arrival, one the parts of rows that have several, the last
 * applies the rule. In each a warp looks at 32 sorted positions at a time, and where a part or a
 * row begins, the whole warp does it. Nothing is ever shared, so there are no atomics and any grid
 * gives the same bits. */
#include "optimizer/cuda/rules.cuh"
#include "optimizer/rows.h"

#define ALL 0xffffffffu

/* Gradients of one row: those at sorted positions [begin, end). */
struct part {
    uint64_t begin;
    uint64_t end;
};

/* The positions a warp begins with, and how far it is to the next ones. */
PS_DEVICE uint64_t first_position()
{
    uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    return thread / PS_WARP * PS_WARP;
}

PS_DEVICE uint64_t positions()
{
    return (uint64_t)gridDim.x * blockDim.x;
}

/* Where the gradient lies that stands for a sorted position: of rows that are all different it is
 * the position itself, and no list says so. */
PS_DEVICE uint64_t gradient_of(const struct ps_cuda_rows *rows, uint64_t at)
{
    return rows->arrival == NULL ? at : rows->arrival[at];
}

PS_DEVICE unsigned lowest(unsigned mask)
{
    return (unsigned)__ffs((int)mask) - 1;
}

/* Which of the 32 positions from `base` on begin a row that exists. */
PS_DEVICE unsigned rows_begin(const struct ps_cuda_rows *rows, uint64_t base, unsigned lane)
{
    uint64_t at = base + lane;
    bool begins = at < rows->count && rows->sorted[at] < rows->row_count &&
                  (at == 0 || rows->sorted[at - 1] != rows->sorted[at]);
    return __ballot_sync(ALL, begins);
}

/* The first position of the row that is at `at`. */
PS_DEVICE uint64_t row_begin(const struct ps_cuda_rows *rows, uint64_t at)
{
    uint64_t low = 0;
    uint64_t high = at;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (rows->sorted[middle] < rows->sorted[at])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does a part begin here? Most positions know from their neighbours; only those of a row with many
 * gradients look for its beginning. */
PS_DEVICE bool part_begins(const struct ps_cuda_rows *rows, uint64_t at)
{
    if (at >= rows->count || rows->sorted[at] >= rows->row_count)
        return false;
    if (at == 0 || rows->sorted[at - 1] != rows->sorted[at])
        return true;
    if (at < PS_ROWS_PART || rows->sorted[at - PS_ROWS_PART] != rows->sorted[at])
        return false;
    return (at - row_begin(rows, at)) % PS_ROWS_PART == 0;
}

/* The part that begins at `begin`; the warp looks for its end at 32 positions at once. */
PS_DEVICE struct part part_from(const struct ps_cuda_rows *rows, uint64_t begin, unsigned lane)
{
    const uint64_t number = rows->sorted[begin];
    for (uint64_t at = begin; at < begin + PS_ROWS_PART; at += PS_WARP) {
        bool same = at + lane < rows->count && rows->sorted[at + lane] == number;
        unsigned mask = __ballot_sync(ALL, same);
        if (mask != ALL)
            return {begin, at + lowest(~mask)};
    }
    return {begin, begin + PS_ROWS_PART};
}

/* Has the row that begins here another part? */
PS_DEVICE bool has_parts(const struct ps_cuda_rows *rows, uint64_t begin)
{
    return PS_MUTATED(PS_KERNELS_PARTS_LEFT, false, begin + PS_ROWS_PART < rows->count) &&
           rows->sorted[begin + PS_ROWS_PART] == rows->sorted[begin];
}

/* Adds a part's gradients into that of the first to arrive, where nobody else reads or writes; then
 * a row's parts into its first one. */
#define SUM_ROW(suffix, T, f)                                                                   \
    PS_DEVICE void sum_pack_##suffix(const struct ps_cuda_rows *rows, const struct part &row,   \
                                     uint64_t pack)                                             \
    {                                                                                           \
        const uint64_t packs = rows->width / PACK(T);                                           \
        const uint64_t to = rows->arrival[row.begin] * packs + pack;                            \
        struct pack_##suffix sum = load_##suffix(rows->gradient, to);                           \
        _Pragma("unroll 4") for (uint64_t at = row.begin + 1; at < row.end; at++)               \
        {                                                                                       \
            const struct pack_##suffix next =                                                   \
                load_##suffix(rows->gradient, rows->arrival[at] * packs + pack);                \
            for (unsigned k = 0; k < PACK(T); k++)                                              \
                sum.element[k] = sum.element[k] + next.element[k];                              \
        }                                                                                       \
        store_##suffix(rows->gradient, to, sum);                                                \
    }                                                                                           \
    PS_DEVICE void sum_one_##suffix(const struct ps_cuda_rows *rows, const struct part &row,    \
                                    uint64_t i)                                                 \
    {                                                                                           \
        T *gradient = (T *)rows->gradient + i;                                                  \
        const uint64_t to = rows->arrival[row.begin] * rows->width;                             \
        T sum = gradient[to];                                                                   \
        for (uint64_t at = row.begin + 1; at < row.end; at++)                                   \
            sum = sum + gradient[rows->arrival[at] * rows->width];                              \
        gradient[to] = sum;                                                                     \
    }                                                                                           \
    PS_DEVICE void sum_row_##suffix(const struct ps_cuda_rows *rows, const struct part &row,    \
                                    unsigned lane)                                              \
    {                                                                                           \
        if (row.end - row.begin == 1)                                                           \
            return;                                                                             \
        const bool packed = rows->width % PACK(T) == 0;                                         \
        for (uint64_t i = lane; packed && i < rows->width / PACK(T); i += PS_WARP)              \
            sum_pack_##suffix(rows, row, i);                                                    \
        for (uint64_t i = lane; !packed && i < rows->width; i += PS_WARP)                       \
            sum_one_##suffix(rows, row, i);                                                     \
    }                                                                                           \
    PS_WIDE_KERNEL sum_##suffix(const struct ps_cuda_rows rows)                                 \
    {                                                                                           \
        const unsigned lane = threadIdx.x % PS_WARP;                                            \
        if (forbids(rows.verdict))                                                              \
            return;                                                                             \
        for (uint64_t base = first_position(); base < rows.count; base += positions()) {        \
            unsigned mask = __ballot_sync(ALL, part_begins(&rows, base + lane));                \
            for (; mask != 0; mask &= mask - 1)                                                 \
                sum_row_##suffix(&rows, part_from(&rows, base + lowest(mask), lane), lane);     \
        }                                                                                       \
    }                                                                                           \
    PS_DEVICE void join_parts_##suffix(const struct ps_cuda_rows *rows, uint64_t begin,         \
                                       unsigned lane)                                           \
    {                                                                                           \
        const uint64_t number = rows->sorted[begin];                                            \
        for (uint64_t i = lane; i < rows->width; i += PS_WARP) {                                \
            T *gradient = (T *)rows->gradient + i;                                              \
            const uint64_t to = rows->arrival[begin] * rows->width;                             \
            T sum = gradient[to];                                                               \
            for (uint64_t at = begin + PS_ROWS_PART;                                            \
                 at < rows->count && rows->sorted[at] == number; at += PS_ROWS_PART)            \
                sum = sum + gradient[rows->arrival[at] * rows->width];                          \
            gradient[to] = sum;                                                                 \
        }                                                                                       \
    }                                                                                           \
    PS_WIDE_KERNEL join_##suffix(const struct ps_cuda_rows rows)                                \
    {                                                                                           \
        const unsigned lane = threadIdx.x % PS_WARP;                                            \
        if (forbids(rows.verdict))                                                              \
            return;                                                                             \
        for (uint64_t base = first_position(); base < rows.count; base += positions())          \
            for (unsigned mask = rows_begin(&rows, base, lane); mask != 0; mask &= mask - 1)    \
                if (has_parts(&rows, base + lowest(mask)))                                      \
                    join_parts_##suffix(&rows, base + lowest(mask), lane);                      \
    }                                                                                           \
    /* The row that begins at a position, as a run with its sum for a gradient. */              \
    PS_DEVICE struct ps_cuda_run run_of_row_##suffix(const struct ps_cuda_rows *rows,           \
                                                     uint64_t begin)                            \
    {                                                                                           \
        struct ps_cuda_run run = {};                                                            \
        const uint64_t start = rows->sorted[begin] * rows->stride;                              \
        run.values = (T *)rows->values + start;                                                 \
        for (unsigned i = 0; i < PS_STATES_MAX; i++)                                            \
            run.states[i] = rows->states[i] == NULL ? NULL : (T *)rows->states[i] + start;      \
        run.gradient.elements =                                                                 \
            (const T *)rows->gradient + gradient_of(rows, begin) * rows->width;                 \
        return run;                                                                             \
    }
PS_FLOAT_TABLE(SUM_ROW)
#undef SUM_ROW

/* One row in packs, or, where rows do not begin at multiples of a pack, element by element. */
#define APPLY_ROW(TAG, rule, states_, suffix, T)                                                 \
    PS_DEVICE void packed_row_##rule##_##suffix(                                                 \
        const STEP_##suffix *step, const struct ps_cuda_run &run, uint64_t width, unsigned lane) \
    {                                                                                            \
        for (unsigned i = lane; i < width / PACK(T); i += PS_WARP)                               \
            native_##rule##_##suffix(step, &run, i, 1, 1);                                       \
    }                                                                                            \
    PS_DEVICE void ragged_row_##rule##_##suffix(                                                 \
        const STEP_##suffix *step, const struct ps_cuda_run &run, uint64_t width, unsigned lane) \
    {                                                                                            \
        for (uint64_t i = lane; i < width; i += PS_WARP)                                         \
            element_##rule##_##suffix(step, &run, i, ((const T *)run.gradient.elements)[i]);     \
    }
#define ROWS_KERNEL(kind, rule, suffix)                                                         \
    PS_WIDE_KERNEL kind##_##rule##_##suffix(const struct ps_cuda_rows rows, STEP_##suffix step) \
    {                                                                                           \
        const unsigned lane = threadIdx.x % PS_WARP;                                            \
        if (!admit(rows.verdict, &step))                                                        \
            return;                                                                             \
        for (uint64_t base = first_position(); base < rows.count; base += positions())          \
            for (unsigned mask = rows_begin(&rows, base, lane); mask != 0; mask &= mask - 1)    \
                kind##_row_##rule##_##suffix(                                                   \
                    &step, run_of_row_##suffix(&rows, base + lowest(mask)), rows.width, lane);  \
    }
#define ROW_KERNELS(TAG, rule, states_, suffix, T) \
    APPLY_ROW(TAG, rule, states_, suffix, T)       \
    ROWS_KERNEL(packed, rule, suffix)              \
    ROWS_KERNEL(ragged, rule, suffix)
PS_FLOAT_RULES(ROW_KERNELS, f32, float)
PS_FLOAT_RULES(ROW_KERNELS, f64, double)
#undef ROW_KERNELS
#undef ROWS_KERNEL
#undef APPLY_ROW

#define LAUNCH_PACKED(TAG, rule, states_, suffix, T)                                       \
    case TAG:                                                                              \
        return PS_LAUNCH_MANY(packed_##rule##_##suffix, blocks, rows->grid, stream, *rows, \
                              rows->step->suffix);
#define LAUNCH_RAGGED(TAG, rule, states_, suffix, T)                                       \
    case TAG:                                                                              \
        return PS_LAUNCH_MANY(ragged_##rule##_##suffix, blocks, rows->grid, stream, *rows, \
                              rows->step->suffix);

#define ROWS(suffix, T, f)                                                                     \
    static int ragged_##suffix(const struct ps_cuda_rows *rows, uint64_t blocks, void *stream) \
    {                                                                                          \
        switch ((int)rows->step->settings->rule) {                                             \
            PS_FLOAT_RULES(LAUNCH_RAGGED, suffix, T)                                           \
        }                                                                                      \
        PS_NO_SUCH("unknown rule");                                                            \
    }                                                                                          \
    static int packed_##suffix(const struct ps_cuda_rows *rows, uint64_t blocks, void *stream) \
    {                                                                                          \
        switch ((int)rows->step->settings->rule) {                                             \
            PS_FLOAT_RULES(LAUNCH_PACKED, suffix, T)                                           \
        }                                                                                      \
        PS_NO_SUCH("unknown rule");                                                            \
    }                                                                                          \
    static int rows_##suffix(const struct ps_cuda_rows *rows, uint64_t blocks, void *stream)   \
    {                                                                                          \
        const bool ragged = rows->width % PACK(T) != 0 || rows->stride % PACK(T) != 0;         \
        int error = 0;                                                                         \
        /* Of different rows each gradient is a sum already. */                                \
        if (rows->arrival != NULL)                                                             \
            error = PS_LAUNCH_MANY(sum_##suffix, blocks, rows->grid, stream, *rows);           \
        if (error == 0 && rows->arrival != NULL && rows->count > PS_ROWS_PART)                 \
            error = PS_LAUNCH_MANY(join_##suffix, blocks, rows->grid, stream, *rows);          \
        if (error != 0)                                                                        \
            return error;                                                                      \
        return ragged ? ragged_##suffix(rows, blocks, stream)                                  \
                      : packed_##suffix(rows, blocks, stream);                                 \
    }
PS_FLOAT_TABLE(ROWS)
#undef ROWS
#undef LAUNCH_PACKED
#undef LAUNCH_RAGGED

int ps_cuda_launch_rows(const struct ps_cuda_rows *rows, void *stream)
{
    if (rows->count == 0 || rows->width == 0)
        return 0;
    PS_ASSERT(!rows->step->skip);
    PS_ASSERT(rows->width <= UINT32_MAX);
    PS_ASSERT(aligned(rows->values) && aligned(rows->states[0]) && aligned(rows->states[1]));
    PS_ASSERT(aligned(rows->gradient));
    uint64_t blocks = rows->count / PS_THREADS + 1;
    if (rows->step->dtype == PS_F32)
        return rows_f32(rows, blocks, stream);
    PS_ASSERT(rows->step->dtype == PS_F64);
    return rows_f64(rows, blocks, stream);
}
