/* SPDX-License-Identifier: Apache-2.0 */
/* One list of cases for every test that compares two ways of computing the same. */
#include "rule_cases.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Each is tried with each rule; a pair that the check refuses is left out. */
static const struct ps_optimizer_settings options[] = {
    {.epsilon = 1e-8},
    {.epsilon = 1e-8, .l2 = 0.01},
    {.epsilon = 1e-8, .decay = 0.02},
    {.epsilon = 1e-3, .decay = 0.02, .l2 = 0.01, .clip_value = 2.5, .clip_norm = 3},
    {.epsilon = 1e-5, .epsilon_outside_root = true},
    {.epsilon = 1e-5, .adagrad_reference_sign = true, .initial_accumulator = 0.1},
    {.epsilon = 1e-8, .l1 = 0.1, .ftrl_l2 = 0.2, .ftrl_beta = 1, .initial_accumulator = 0.1},
    {.overflow = PS_OVERFLOW_WRAP},
    {.overflow = PS_OVERFLOW_FAIL},
    {.rounding = PS_ROUNDING_STOCHASTIC, .seed = 77},
    {.gradient_unsigned = true},
    {.gradient_unsigned = true, .rounding = PS_ROUNDING_STOCHASTIC, .seed = 78},
};

#define OPTIONS (sizeof options / sizeof options[0])

/* Rule and option number `index` of all pairs, sensible or not. */
static struct ps_optimizer_settings any_case(size_t index)
{
    struct ps_optimizer_settings settings = options[index % OPTIONS];
    settings.rule = (enum ps_rule)(index / OPTIONS);
    settings.learning_rate.rate = 0.37;
    settings.momentum = ps_rule_uses(settings.rule, PS_USES_MOMENTUM) ? 0.9 : 0;
    settings.rho = 0.95;
    settings.beta_1 = 0.9;
    settings.beta_2 = 0.999;
    settings.nonfinite = PS_NONFINITE_ALLOW;
    return settings;
}

bool rule_case(size_t index, enum ps_dtype dtype, struct ps_optimizer_settings *settings)
{
    size_t found = 0;
    for (size_t i = 0; i < OPTIONS * PS_RULE_COUNT; i++) {
        *settings = any_case(i);
        if (ps_optimizer_settings_check(settings, dtype, NULL) != PS_OK)
            continue;
        if (found == index)
            return true;
        found++;
    }
    return false;
}

void rule_case_step(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                    struct ps_optimizer_step *step)
{
    struct ps_gradient_scan scan = {.square_sum = 100};
    enum ps_status status =
        ps_optimizer_prepare(settings, dtype, 3, UINT64_C(0x123456789abcdef0), &scan, step, NULL);
    (void)status; /* Cannot fail: non-finite elements are allowed. */
}

/* Steele, Lea and Flood's SplitMix64. */
static uint64_t next(uint64_t *seed)
{
    uint64_t x = (*seed += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* One in four is an edge, one in four any bits at all, the rest of ordinary size. */
#define FLOAT_NUMBER(suffix, T, BITS, tiny, least, greatest)                                      \
    static T number_##suffix(uint64_t *seed)                                                      \
    {                                                                                             \
        const T edges[] = {0,          (T)-0.0,  tiny,      -tiny,       least,        least / 2, \
                           -least / 4, greatest, -greatest, (T)INFINITY, (T)-INFINITY, (T)NAN,    \
                           1,          -1};                                                       \
        uint64_t choice = next(seed);                                                             \
        BITS bits = (BITS)next(seed);                                                             \
        T any;                                                                                    \
        memcpy(&any, &bits, sizeof any);                                                          \
        if (choice % 4 == 0)                                                                      \
            return edges[choice / 4 % (sizeof edges / sizeof edges[0])];                          \
        if (choice % 4 == 1)                                                                      \
            return any;                                                                           \
        return (T)((double)(int64_t)next(seed) * 0x1p-62);                                        \
    }
FLOAT_NUMBER(f32, float, uint32_t, FLT_TRUE_MIN, FLT_MIN, FLT_MAX)
FLOAT_NUMBER(f64, double, uint64_t, DBL_TRUE_MIN, DBL_MIN, DBL_MAX)
#undef FLOAT_NUMBER

#define WHOLE_NUMBER(suffix, T, least, greatest)                                                 \
    static T number_##suffix(uint64_t *seed)                                                     \
    {                                                                                            \
        const T edges[] = {0, 1, (T)-1, least, least + 1, greatest, greatest - 1, greatest / 2}; \
        uint64_t choice = next(seed);                                                            \
        if (choice % 4 == 0)                                                                     \
            return edges[choice / 4 % (sizeof edges / sizeof edges[0])];                         \
        if (choice % 4 == 1)                                                                     \
            return (T)(next(seed) % 64);                                                         \
        return (T)next(seed);                                                                    \
    }
#define SIGNED_NUMBER(suffix, T, U, least, greatest) WHOLE_NUMBER(suffix, T, least, greatest)
#define UNSIGNED_NUMBER(suffix, T, twin, TWIN, greatest) WHOLE_NUMBER(suffix, T, 0, greatest)
PS_SIGNED_TABLE(SIGNED_NUMBER)
PS_UNSIGNED_TABLE(UNSIGNED_NUMBER)
#undef SIGNED_NUMBER
#undef UNSIGNED_NUMBER
#undef WHOLE_NUMBER

void rule_case_fill(uint64_t seed, enum ps_dtype dtype, void *array, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (dtype) {
#define FILL(TAG, suffix, T, SUM, label)          \
    case TAG:                                     \
        ((T *)array)[i] = number_##suffix(&seed); \
        break;
            PS_DTYPE_TABLE(FILL)
#undef FILL
        case PS_DTYPE_COUNT:
            return;
        }
    }
}

/* An element's bits, the same ones for every NaN. */
static uint64_t bits_at(enum ps_dtype dtype, const void *array, size_t i)
{
    size_t size = ps_dtype_size(dtype);
    uint64_t bits = 0;
    float f32 = 0;
    double f64 = 0;
    memcpy(&bits, (const char *)array + i * size, size);
    memcpy(&f32, &bits, sizeof f32);
    memcpy(&f64, &bits, sizeof f64);
    bool nan = (dtype == PS_F32 && isnan(f32)) || (dtype == PS_F64 && isnan(f64));
    return nan ? UINT64_MAX : bits;
}

bool rule_case_equal(enum ps_dtype dtype, const void *left, const void *right, size_t count)
{
    if (memcmp(left, right, count * ps_dtype_size(dtype)) == 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        if (bits_at(dtype, left, i) != bits_at(dtype, right, i))
            return false;
    }
    return true;
}

uint64_t rule_case_hash(uint64_t hash, enum ps_dtype dtype, const void *array, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bits_at(dtype, array, i)) * UINT64_C(0x100000001b3);
    return hash;
}
