/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad with one accumulator for a row (optimizer/row_wise.c). Eight threads
 * have a row, as the CPU has eight lanes for the sum of its squares: each adds up every eighth
 * element in their order, and the sums are folded in the CPU's order, so that the bits are its
 * bits. */
#include "optimizer/cuda/device.cuh"

#define LANES 8
#define TEAMS (PS_THREADS / LANES)

/* The gradient is made twice, for the sum and for the step: that is less than to keep it. */
#define ROW_WISE(suffix, T, f)                                                                  \
    PS_DEVICE T lane_squares_##suffix(const STEP_##suffix *step, const T *values,               \
                                      const T *gradient, uint64_t width, unsigned lane)         \
    {                                                                                           \
        T sum = 0;                                                                              \
        for (uint64_t i = lane; i < width; i += LANES) {                                        \
            const T one = ps_gradient_##suffix(step, values[i], gradient[i]);                   \
            sum = sum + one * one;                                                              \
        }                                                                                       \
        return sum;                                                                             \
    }                                                                                           \
    /* 0 + 4, 1 + 5, and so on, then 0 + 2, 1 + 3, then both. */                                \
    PS_DEVICE T folded_##suffix(const T *lanes)                                                 \
    {                                                                                           \
        return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +                                \
               ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));                                 \
    }                                                                                           \
    PS_KERNEL together_##suffix(const struct ps_cuda_rows rows, STEP_##suffix step)             \
    {                                                                                           \
        PS_SHARED T lanes[PS_THREADS];                                                          \
        const unsigned lane = threadIdx.x % LANES;                                              \
        const unsigned team = threadIdx.x / LANES;                                              \
        if (!admit(rows.verdict, &step))                                                        \
            return;                                                                             \
        /* All threads of a block come to each barrier, also those that have no row. */         \
        for (uint64_t base = (uint64_t)blockIdx.x * TEAMS; base < rows.count;                   \
             base += (uint64_t)gridDim.x * TEAMS) {                                             \
            const uint64_t at = base + team;                                                    \
            const bool has_row = at < rows.count;                                               \
            const uint64_t start = has_row ? rows.numbers[at] * rows.stride : 0;                 \
            T *values = (T *)rows.values + start;                                               \
            T *accumulator = (T *)rows.states[0] + start;                                       \
            const T *gradient = (const T *)rows.gradient + at * rows.width;                     \
            const T before = has_row ? *accumulator : 0;                                        \
            lanes[threadIdx.x] =                                                                \
                has_row ? lane_squares_##suffix(&step, values, gradient, rows.width, lane) : 0; \
            __syncthreads();                                                                    \
            const T sum = before + folded_##suffix(lanes + team * LANES) / (T)rows.width;       \
            const T root = ps_root_##suffix(sum + step.epsilon_inside) + step.epsilon_outside;  \
            if (has_row && lane == 0)                                                           \
                *accumulator = sum;                                                             \
            for (uint64_t i = lane; has_row && i < rows.width; i += LANES) {                    \
                const T old = values[i];                                                        \
                const T one = ps_gradient_##suffix(&step, old, gradient[i]);                    \
                values[i] =                                                                     \
                    old - (step.rate * (one / root) + ps_share_##suffix(step.shrink, old));     \
            }                                                                                   \
            __syncthreads(); /* before the lanes of the next rows are written */                \
        }                                                                                       \
    }
PS_FLOAT_TABLE(ROW_WISE)
#undef ROW_WISE

int ps_cuda_launch_row_wise(const struct ps_cuda_rows *rows, void *stream)
{
    PS_ASSERT(rows->step->settings->rule == PS_RULE_ADAGRAD);
    PS_ASSERT(!rows->step->skip);
    if (rows->count == 0 || rows->width == 0)
        return 0;
    /* A team has a row, and a block so many teams. */
    const uint64_t blocks = (rows->count + TEAMS - 1) / TEAMS;
    if (rows->step->dtype == PS_F32)
        return PS_LAUNCH_MANY(together_f32, blocks, rows->grid, stream, *rows, rows->step->f32);
    PS_ASSERT(rows->step->dtype == PS_F64);
    return PS_LAUNCH_MANY(together_f64, blocks, rows->grid, stream, *rows, rows->step->f64);
}
