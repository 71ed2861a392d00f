/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on whole numbers: p <- p - d, computed exactly and clamped to the type.
 *
 * A rate of exactly 1 takes d = g, all 64 bits. Else t = eta g in double, and d is t rounded to the
 * nearest (ties to even), or floor(t + u) with u uniform in (0, 1) from a counter; d is clamped to
 * 64 bits before it becomes a whole number. The gradient is of the signed type of the same width
 * unless gradient_unsigned says otherwise.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_INTEGER_SGD_RULE_H
#define PS_OPTIMIZER_INTEGER_SGD_RULE_H

#include "optimizer/philox.h"
#include "optimizer/rule.h"

/* A double that is already whole, as an int64. Machines disagree beyond the range: clamp first. */
PS_RULE int64_t ps_whole(double x)
{
    if (x >= 9223372036854775808.0)
        return INT64_MAX;
    if (x < -9223372036854775808.0)
        return INT64_MIN;
    return (int64_t)x;
}

/* Is chance needed at this step? A rate of exactly 1 leaves nothing to round, and nearest rounding
 * asks nobody. */
PS_RULE bool ps_dithers(const struct ps_step_whole *step)
{
    return step->stochastic && step->rate != 1.0;
}

/* What chance says at this step of four elements in a row, the first of them a multiple of four and
 * `index` one of them. Whoever goes through a run draws once for all four: ten rounds of two
 * multiplications each are several times what the rest of an element takes. */
PS_RULE struct ps_philox ps_dither_four(const struct ps_step_whole *step, uint64_t index)
{
    uint64_t quad = index / 4;
    uint64_t id = step->parameter_id;
    struct ps_philox counter;
    counter.word[0] = (uint32_t)quad;
    counter.word[1] = (uint32_t)(quad >> 32);
    counter.word[2] = (uint32_t)step->number;
    counter.word[3] = (uint32_t)id ^ (uint32_t)(id >> 32);
    return ps_philox_random(counter, step->seed);
}

/* The random number of element `index` (modulo four), in (0, 1): neither end, so that floor(t + u)
 * of a whole t is t. */
PS_RULE double ps_dither(const struct ps_philox *four, uint64_t index)
{
    /* Chosen, not indexed: a GPU would keep the array in memory for that. */
    uint32_t low = index % 2 == 0 ? four->word[0] : four->word[1];
    uint32_t high = index % 2 == 0 ? four->word[2] : four->word[3];
    return ((double)(index % 4 < 2 ? low : high) + 0.5) * (1.0 / 4294967296.0);
}

/* d for a rate that is not exactly 1. */
PS_RULE int64_t ps_integer_step(const struct ps_step_whole *step, const struct ps_philox *four,
                                uint64_t index, double gradient)
{
    double target = step->rate * gradient;
    if (step->stochastic)
        return ps_whole(floor(target + ps_dither(four, index)));
    return ps_whole(rint(target));
}

/* value - d, clamped to 64 bits. */
PS_RULE int64_t ps_wide_minus(int64_t value, int64_t d)
{
    int64_t rest = (int64_t)((uint64_t)value - (uint64_t)d);
    if (((value ^ d) & (value ^ rest)) >= 0)
        return rest;
    return value < 0 ? INT64_MIN : INT64_MAX;
}

PS_RULE uint64_t ps_wide_minus_unsigned(uint64_t value, int64_t d)
{
    uint64_t size = d < 0 ? (uint64_t)0 - (uint64_t)d : (uint64_t)d;
    if (d >= 0)
        return value < size ? 0 : value - size;
    return value + size < value ? UINT64_MAX : value + size;
}

PS_RULE int64_t ps_between(int64_t value, int64_t least, int64_t greatest)
{
    int64_t above = value < least ? least : value;
    return above > greatest ? greatest : above;
}

/* value - d, clamped to the type. What has fewer than 64 bits fits into an int64_t, sign or not. */
#define MINUS_SIGNED(suffix, T, U, least, greatest)                     \
    PS_RULE T ps_minus_##suffix(T value, int64_t d)                     \
    {                                                                   \
        return (T)ps_between(ps_wide_minus(value, d), least, greatest); \
    }
#define MINUS_UNSIGNED(suffix, T, twin, TWIN, greatest)                               \
    PS_RULE T ps_minus_##suffix(T value, int64_t d)                                   \
    {                                                                                 \
        if (sizeof(T) == sizeof(uint64_t))                                            \
            return (T)ps_wide_minus_unsigned(value, d);                               \
        return (T)ps_between(ps_wide_minus((int64_t)value, d), 0, (int64_t)greatest); \
    }
PS_SIGNED_TABLE(MINUS_SIGNED)
PS_UNSIGNED_TABLE(MINUS_UNSIGNED)
#undef MINUS_SIGNED
#undef MINUS_UNSIGNED

/* The gradient of an unsigned type is of the signed twin: its bits carry the sign. `four` is read
 * where ps_dithers alone, `index` counts modulo four. */
#define INTEGER_SGD_ONE(suffix, T, TWIN)                                                         \
    PS_RULE void ps_sgd_##suffix(const struct ps_step_whole *step, const struct ps_philox *four, \
                                 uint64_t index, T *value, T pushed)                             \
    {                                                                                            \
        TWIN gradient = (TWIN)pushed;                                                            \
        int64_t d = gradient;                                                                    \
        if (step->rate != 1.0)                                                                   \
            d = ps_integer_step(step, four, index, (double)gradient);                            \
        *value = ps_minus_##suffix(*value, d);                                                   \
    }
#define SIGNED_SGD(suffix, T, U, least, greatest) INTEGER_SGD_ONE(suffix, T, T)
#define UNSIGNED_SGD(suffix, T, twin, TWIN, greatest) INTEGER_SGD_ONE(suffix, T, TWIN)
PS_SIGNED_TABLE(SIGNED_SGD)
PS_UNSIGNED_TABLE(UNSIGNED_SGD)
#undef SIGNED_SGD
#undef UNSIGNED_SGD
#undef INTEGER_SGD_ONE

/* The same with an unsigned gradient, which can only lower the value. */
#define UNSIGNED_SGD_ONE(suffix, T, twin, TWIN, greatest)                                         \
    PS_RULE void ps_sgd_unsigned_##suffix(const struct ps_step_whole *step,                       \
                                          const struct ps_philox *four, uint64_t index, T *value, \
                                          T pushed)                                               \
    {                                                                                             \
        if (step->rate == 1.0)                                                                    \
            *value = (T)(*value < pushed ? 0 : *value - pushed);                                  \
        else                                                                                      \
            *value =                                                                              \
                ps_minus_##suffix(*value, ps_integer_step(step, four, index, (double)pushed));    \
    }
PS_UNSIGNED_TABLE(UNSIGNED_SGD_ONE)
#undef UNSIGNED_SGD_ONE

#endif
