/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of both types. The build allows no fused operation, which would round once where the
 * formula rounds twice.
 *
 * Loops without a choice inside are what compilers turn into vector instructions. The first
 * gradient is written and not added to zeros, which saves a walk and keeps the sign of a zero. */
#include "optimizer/weighted_sum.h"

#include "base/assert.h"
#include "base/attributes.h"

/* Weights are rounded to the type of the elements before they multiply: a sum in floats is then the
 * same wherever it is computed, also by a trainer that follows the formula. */
#define LOOPS(suffix, T)                                                                     \
    static void first_##suffix(void *sum, const void *gradient, size_t count, double weight) \
    {                                                                                        \
        PS_TURNS_INDEPENDENT                                                                 \
        for (size_t i = 0; i < count; i++)                                                   \
            ((T *)sum)[i] = (T)weight * ((const T *)gradient)[i];                            \
    }                                                                                        \
    static void add_##suffix(void *sum, const void *gradient, size_t count, double weight)   \
    {                                                                                        \
        PS_TURNS_INDEPENDENT                                                                 \
        for (size_t i = 0; i < count; i++)                                                   \
            ((T *)sum)[i] += (T)weight * ((const T *)gradient)[i];                           \
    }                                                                                        \
    static void divide_##suffix(void *sum, size_t count, double by)                          \
    {                                                                                        \
        PS_TURNS_INDEPENDENT                                                                 \
        for (size_t i = 0; i < count; i++)                                                   \
            ((T *)sum)[i] /= (T)by;                                                          \
    }
LOOPS(f32, float)
LOOPS(f64, double)
#undef LOOPS

/* What one type has: the type is asked for once a run, and not within the loops, where the
 * compiler could not make vectors of them. */
struct loops {
    void (*first)(void *sum, const void *gradient, size_t count, double weight);
    void (*add)(void *sum, const void *gradient, size_t count, double weight);
    void (*divide)(void *sum, size_t count, double by);
};

/* Only floats are trained in rounds (optimizer/settings.c). */
static const struct loops *loops_of(enum ps_dtype dtype)
{
    static const struct loops f32_loops = {first_f32, add_f32, divide_f32};
    static const struct loops f64_loops = {first_f64, add_f64, divide_f64};
    PS_ASSERT(dtype == PS_F32 || dtype == PS_F64);
    return dtype == PS_F32 ? &f32_loops : &f64_loops;
}

/* One choice for a run of elements, which of a row may be short: the call of a function whose
 * address was just read costs about what one element does. */
void ps_weighted_sum_first(enum ps_dtype dtype, void *sum, const void *gradient, size_t count,
                           double weight)
{
    PS_ASSERT(weight > 0);
    loops_of(dtype)->first(sum, gradient, count, weight);
}

/* In the order of the calls: a sum of floats depends on it, and the order is the caller's
 * promise. */
void ps_weighted_sum_add(enum ps_dtype dtype, void *sum, const void *gradient, size_t count,
                         double weight)
{
    PS_ASSERT(weight > 0);
    loops_of(dtype)->add(sum, gradient, count, weight);
}

/* Divided and not multiplied by the inverse, which would be rounded twice. */
void ps_weighted_sum_divide(enum ps_dtype dtype, void *sum, size_t count, double by)
{
    PS_ASSERT(by > 0);
    loops_of(dtype)->divide(sum, count, by);
}

/* Rounded to the type after each weight, as whoever follows the formula in the type does. The sum
 * of two floats as doubles is rounded twice, which for floats is the same as once. */
double ps_weighted_sum_weigh(enum ps_dtype dtype, double weights, double weight)
{
    double sum = weights + weight;
    return dtype == PS_F32 ? (double)(float)sum : sum;
}
