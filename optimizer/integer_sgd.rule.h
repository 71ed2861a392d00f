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

/* The random number of element `index` at this step, in (0, 1). */
PS_RULE double ps_dither(const struct ps_step_whole *step, uint64_t index)
{
    uint64_t quad = index / 4;
    uint64_t id = step->parameter_id;
    struct ps_philox counter;
    counter.word[0] = (uint32_t)quad;
    counter.word[1] = (uint32_t)(quad >> 32);
    counter.word[2] = (uint32_t)step->number;
    counter.word[3] = (uint32_t)id ^ (uint32_t)(id >> 32);
    struct ps_philox random = ps_philox_random(counter, step->seed);
    /* Chosen, not indexed: a GPU would keep the array in memory for that. */
    uint32_t low = index % 2 == 0 ? random.word[0] : random.word[1];
    uint32_t high = index % 2 == 0 ? random.word[2] : random.word[3];
    return ((double)(index % 4 < 2 ? low : high) + 0.5) * (1.0 / 4294967296.0);
}

/* d for a rate that is not exactly 1. */
PS_RULE int64_t ps_integer_step(const struct ps_step_whole *step, uint64_t index, double gradient)
{
    double target = step->rate * gradient;
    if (step->stochastic)
        return ps_whole(floor(target + ps_dither(step, index)));
    return ps_whole(rint(target));
}

/* value - d in 64 bits, clamped to the type. */
PS_RULE int64_t ps_minus_i64(int64_t value, int64_t d)
{
    int64_t rest = (int64_t)((uint64_t)value - (uint64_t)d);
    if (((value ^ d) & (value ^ rest)) >= 0)
        return rest;
    return value < 0 ? INT64_MIN : INT64_MAX;
}

PS_RULE uint64_t ps_minus_u64(uint64_t value, int64_t d)
{
    uint64_t size = d < 0 ? (uint64_t)0 - (uint64_t)d : (uint64_t)d;
    if (d >= 0)
        return value < size ? 0 : value - size;
    return value + size < value ? UINT64_MAX : value + size;
}

PS_RULE int32_t ps_minus_i32(int32_t value, int64_t d)
{
    int64_t rest = ps_minus_i64(value, d);
    if (rest > INT32_MAX)
        return INT32_MAX;
    return rest < INT32_MIN ? INT32_MIN : (int32_t)rest;
}

PS_RULE uint32_t ps_minus_u32(uint32_t value, int64_t d)
{
    int64_t rest = ps_minus_i64((int64_t)value, d);
    if (rest > (int64_t)UINT32_MAX)
        return UINT32_MAX;
    return rest < 0 ? 0 : (uint32_t)rest;
}

/* X(suffix, element type, type of the gradient): the signed twin's bits carry the sign. */
#define PS_TWIN_TABLE(X)      \
    X(i32, int32_t, int32_t)  \
    X(u32, uint32_t, int32_t) \
    X(i64, int64_t, int64_t)  \
    X(u64, uint64_t, int64_t)

#define INTEGER_SGD_ONE(suffix, T, TWIN)                                                     \
    PS_RULE void ps_sgd_##suffix(const struct ps_step_whole *step, uint64_t index, T *value, \
                                 T pushed)                                                   \
    {                                                                                        \
        TWIN gradient = (TWIN)pushed;                                                        \
        int64_t d = gradient;                                                                \
        if (step->rate != 1.0)                                                               \
            d = ps_integer_step(step, index, (double)gradient);                              \
        *value = ps_minus_##suffix(*value, d);                                               \
    }
PS_TWIN_TABLE(INTEGER_SGD_ONE)
#undef INTEGER_SGD_ONE

/* The same with an unsigned gradient, which can only lower the value. */
#define UNSIGNED_SGD_ONE(suffix, T, greatest)                                                 \
    PS_RULE void ps_sgd_unsigned_##suffix(const struct ps_step_whole *step, uint64_t index,   \
                                          T *value, T pushed)                                 \
    {                                                                                         \
        if (step->rate == 1.0)                                                                \
            *value = *value < pushed ? 0 : *value - pushed;                                   \
        else                                                                                  \
            *value = ps_minus_##suffix(*value, ps_integer_step(step, index, (double)pushed)); \
    }
PS_UNSIGNED_TABLE(UNSIGNED_SGD_ONE)
#undef UNSIGNED_SGD_ONE

#endif
