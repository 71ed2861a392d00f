/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of each element is made twice, once for the sum and once for the step: that is less
 * than to keep it, since a row has four lines and the second time they are near. */
#include "optimizer/row_wise.h"

#include "base/assert.h"
#include "optimizer/rule.h"

#include <string.h>

/* As many as one AVX2 register has floats. The number is part of the bits and never changes. */
#define LANES 8

#define ROW_WISE(suffix, T, f)                                                                    \
    static T gradient_##suffix(const struct ps_step_##suffix *step, const T *values,              \
                               const char *gradient, size_t i)                                    \
    {                                                                                             \
        T pushed;                                                                                 \
        memcpy(&pushed, gradient + i * sizeof pushed, sizeof pushed);                             \
        return ps_gradient_##suffix(step, values[i], pushed);                                     \
    }                                                                                             \
    /* Lanes first, so that eight sums go on side by side; then 0 + 4, 1 + 5, and so on. */       \
    static T squares_##suffix(const struct ps_step_##suffix *step, const T *values,               \
                              const char *gradient, size_t width)                                 \
    {                                                                                             \
        T lanes[LANES] = {0};                                                                     \
        for (size_t i = 0; i < width; i++) {                                                      \
            T one = gradient_##suffix(step, values, gradient, i);                                 \
            lanes[i % LANES] += one * one;                                                        \
        }                                                                                         \
        for (size_t half = LANES / 2; half > 0; half /= 2)                                        \
            for (size_t i = 0; i < half; i++)                                                     \
                lanes[i] += lanes[i + half];                                                      \
        return lanes[0];                                                                          \
    }                                                                                             \
    static void step_##suffix(const struct ps_step_##suffix *step, size_t width, T *values,       \
                              T *accumulator, const char *gradient)                               \
    {                                                                                             \
        T sum = *accumulator + squares_##suffix(step, values, gradient, width) / (T)width;        \
        T root = ps_root_##suffix(sum + step->epsilon_inside) + step->epsilon_outside;            \
        *accumulator = sum;                                                                       \
        for (size_t i = 0; i < width; i++) {                                                      \
            T old = values[i];                                                                    \
            T one = gradient_##suffix(step, values, gradient, i);                                 \
            values[i] = old - (step->rate * (one / root) + ps_share_##suffix(step->shrink, old)); \
        }                                                                                         \
    }
PS_FLOAT_TABLE(ROW_WISE)
#undef ROW_WISE

/* What adagrad.rule.h does to one element, spread over a row: the accumulator is read and written
 * once, and the root is made once, which is where the time goes for a row of one state each. A
 * clip by value holds each element, before the squares are summed; a clip by norm and l2 go in as
 * everywhere. The step's numbers are copied, as the loops do, so that no store could change them.
 * */
void ps_optimizer_row_wise(const struct ps_optimizer_step *step, size_t width, void *values,
                           void *accumulator, const void *gradient)
{
    PS_ASSERT(!step->skip);
    PS_ASSERT(width > 0);
    PS_ASSERT(step->settings->rule == PS_RULE_ADAGRAD);
    if (step->dtype == PS_F32) {
        const struct ps_step_f32 numbers = step->f32;
        step_f32(&numbers, width, values, accumulator, gradient);
        return;
    }
    /* Settings with row_wise are refused for every other type (table_check.h). */
    PS_ASSERT(step->dtype == PS_F64);
    const struct ps_step_f64 numbers = step->f64;
    step_f64(&numbers, width, values, accumulator, gradient);
}
