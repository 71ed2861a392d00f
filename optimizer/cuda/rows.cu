/* SPDX-License-Identifier: Apache-2.0 */
/* The update of rows of a table, all of them different. A warp looks at 32 numbers at a time, and
 * the whole warp steps one row after the other. Nothing is ever shared, so there are no atomics and
 * any grid gives the same bits. */
#include "optimizer/cuda/rules.cuh"

#define ALL 0xffffffffu

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

PS_DEVICE unsigned lowest(unsigned mask)
{
    return (unsigned)__ffs((int)mask) - 1;
}

/* Which of the 32 positions from `base` on have a row that exists. */
PS_DEVICE unsigned rows_at(const struct ps_cuda_rows *rows, uint64_t base, unsigned lane)
{
    uint64_t at = base + lane;
    return __ballot_sync(ALL, at < rows->count && rows->numbers[at] < rows->row_count);
}

/* The row at a position, as a run. */
#define RUN_OF_ROW(suffix, T, f)                                                                   \
    PS_DEVICE struct ps_cuda_run run_of_row_##suffix(const struct ps_cuda_rows *rows, uint64_t at) \
    {                                                                                              \
        struct ps_cuda_run run = {};                                                               \
        const uint64_t start = rows->numbers[at] * rows->stride;                                   \
        run.values = (T *)rows->values + start;                                                    \
        for (unsigned i = 0; i < PS_STATES_MAX; i++)                                               \
            run.states[i] = rows->states[i] == NULL ? NULL : (T *)rows->states[i] + start;         \
        run.gradient.elements = (const T *)rows->gradient + at * rows->width;                      \
        return run;                                                                                \
    }
PS_FLOAT_TABLE(RUN_OF_ROW)
#undef RUN_OF_ROW

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
            for (unsigned mask = rows_at(&rows, base, lane); mask != 0; mask &= mask - 1)       \
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
