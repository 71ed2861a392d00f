/* SPDX-License-Identifier: Apache-2.0 */
/* The rules on whole numbers, edge by edge. */
#include "expect.h"
#include "push.h"
#include "rule_cases.h"

#include "optimizer/philox.h"

#include <math.h>
#include <string.h>

static struct ps_optimizer_settings sgd(double rate)
{
    return (struct ps_optimizer_settings){.rule = PS_RULE_SGD, .learning_rate = {.rate = rate}};
}

/* One element through one push of the given settings. */
#define ONE_ELEMENT(TAG, suffix, T, SUM, label)                                              \
    static T one_##suffix(const struct ps_optimizer_settings *settings, T value, T gradient) \
    {                                                                                        \
        struct pushed_parameter parameter = {                                                \
            .settings = settings, .dtype = TAG, .count = 1, .values = &value};               \
        return push(&parameter, &gradient) == PS_OK ? value : (T)99;                         \
    }
PS_DTYPE_TABLE(ONE_ELEMENT)
#undef ONE_ELEMENT

static void sgd_rounds_ties_to_even(struct expect *expect)
{
    const struct ps_optimizer_settings half = sgd(0.5);

    EXPECT(expect, one_i32(&half, 10, 3) == 8);
    EXPECT(expect, one_i32(&half, 10, 1) == 10);
    EXPECT(expect, one_i32(&half, 10, 5) == 8);
    EXPECT(expect, one_i32(&half, 10, -3) == 12);
}

static void sgd_at_rate_1_is_exact_and_saturates(struct expect *expect)
{
    const struct ps_optimizer_settings one = sgd(1);

    EXPECT(expect, one_i32(&one, INT32_MIN + 1, 5) == INT32_MIN);
    EXPECT(expect, one_i32(&one, INT32_MAX, -1) == INT32_MAX);
    EXPECT(expect, one_i32(&one, 0, INT32_MIN) == INT32_MAX);
    EXPECT(expect, one_u32(&one, 3, 5) == 0);
    EXPECT(expect, one_u32(&one, UINT32_MAX, (uint32_t)-1) == UINT32_MAX);
    EXPECT(expect, one_u32(&one, 3, (uint32_t)-5) == 8);
    EXPECT(expect, one_i64(&one, 0, INT64_MIN) == INT64_MAX);
    EXPECT(expect, one_i64(&one, INT64_MIN, 1) == INT64_MIN);
    EXPECT(expect, one_i64(&one, 0, (INT64_C(1) << 53) + 1) == -(INT64_C(1) << 53) - 1);
    EXPECT(expect, one_u64(&one, UINT64_MAX, (uint64_t)-1) == UINT64_MAX);
    EXPECT(expect, one_u64(&one, 5, 6) == 0);
    EXPECT(expect, one_u64(&one, 0, (uint64_t)INT64_MIN) == UINT64_C(1) << 63);
}

static void sgd_with_a_huge_rate_is_clamped(struct expect *expect)
{
    const struct ps_optimizer_settings huge = sgd(1e300);
    const struct ps_optimizer_settings large = sgd(1e30);

    EXPECT(expect, one_i32(&huge, 5, 7) == INT32_MIN);
    EXPECT(expect, one_i32(&huge, 5, -7) == INT32_MAX);
    EXPECT(expect, one_i64(&large, 100, 7) == 100 - INT64_MAX);
    EXPECT(expect, one_i64(&large, -100, -7) == INT64_MAX - 99);
    EXPECT(expect, one_u64(&large, UINT64_MAX, 7) == UINT64_MAX - (uint64_t)INT64_MAX);
}

static void an_unsigned_gradient_only_lowers(struct expect *expect)
{
    struct ps_optimizer_settings one = sgd(1);
    one.gradient_unsigned = true;
    struct ps_optimizer_settings half = sgd(0.5);
    half.gradient_unsigned = true;

    EXPECT(expect, one_u32(&one, 3, (uint32_t)-5) == 0);
    EXPECT(expect, one_u64(&one, UINT64_MAX, UINT64_MAX - 1) == 1);
    EXPECT(expect, one_u32(&half, UINT32_MAX, UINT32_MAX) == UINT32_MAX / 2);
    EXPECT(expect, one_u64(&half, 100, 7) == 96);
}

static void add_saturates_unless_it_shall_wrap(struct expect *expect)
{
    const struct ps_optimizer_settings held = {.rule = PS_RULE_ADD};
    const struct ps_optimizer_settings wraps = {.rule = PS_RULE_ADD, .overflow = PS_OVERFLOW_WRAP};

    EXPECT(expect, one_i32(&held, INT32_MAX, 1) == INT32_MAX);
    EXPECT(expect, one_i32(&held, INT32_MIN, -1) == INT32_MIN);
    EXPECT(expect, one_i32(&held, INT32_MIN, INT32_MAX) == -1);
    EXPECT(expect, one_u32(&held, UINT32_MAX, 2) == UINT32_MAX);
    EXPECT(expect, one_i64(&held, INT64_MAX, INT64_MAX) == INT64_MAX);
    EXPECT(expect, one_i64(&held, INT64_MIN, INT64_MIN) == INT64_MIN);
    EXPECT(expect, one_u64(&held, UINT64_MAX - 1, 1) == UINT64_MAX);
    EXPECT(expect, one_i32(&wraps, INT32_MAX, 1) == INT32_MIN);
    EXPECT(expect, one_u32(&wraps, UINT32_MAX, 2) == 1);
    EXPECT(expect, one_i64(&wraps, INT64_MIN, -1) == INT64_MAX);
    EXPECT(expect, one_u64(&wraps, UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
}

static void add_on_floats_is_one_ieee_addition(struct expect *expect)
{
    const struct ps_optimizer_settings add = {.rule = PS_RULE_ADD};

    EXPECT(expect, one_f32(&add, 0.1F, 0.2F) == 0.1F + 0.2F);
    EXPECT(expect, one_f64(&add, 0.1, 0.2) == 0.1 + 0.2);
}

static void assign_max_and_min_do_what_they_say(struct expect *expect)
{
    const struct ps_optimizer_settings assign = {.rule = PS_RULE_ASSIGN};
    const struct ps_optimizer_settings greatest = {.rule = PS_RULE_MAX};
    const struct ps_optimizer_settings least = {.rule = PS_RULE_MIN};

#define EACH(TAG, suffix, T, SUM, label)                         \
    EXPECT(expect, one_##suffix(&assign, (T)3, (T)5) == (T)5);   \
    EXPECT(expect, one_##suffix(&greatest, (T)3, (T)5) == (T)5); \
    EXPECT(expect, one_##suffix(&greatest, (T)5, (T)3) == (T)5); \
    EXPECT(expect, one_##suffix(&least, (T)3, (T)5) == (T)3);    \
    EXPECT(expect, one_##suffix(&least, (T)5, (T)3) == (T)3);
    PS_DTYPE_TABLE(EACH)
#undef EACH
    EXPECT(expect, one_i64(&greatest, INT64_MIN, -1) == -1);
    EXPECT(expect, one_u64(&least, UINT64_MAX, UINT64_MAX - 1) == UINT64_MAX - 1);
}

static void add_that_shall_fail_names_the_first_overflow(struct expect *expect)
{
    const struct ps_optimizer_settings fails = {.rule = PS_RULE_ADD, .overflow = PS_OVERFLOW_FAIL};
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    const int32_t values[] = {1, INT32_MAX, INT32_MIN};
    const int32_t good[] = {INT32_MAX - 1, INT32_MIN, INT32_MAX};
    const int32_t bad[] = {INT32_MAX - 1, 1, -1};
    const uint64_t counts[] = {0, UINT64_MAX};
    const uint64_t ones[] = {1, 1};
    size_t index = 9;

    EXPECT(expect, ps_optimizer_prepare(&fails, PS_I32, 1, 0, &scan, &step, NULL) == PS_OK);
    EXPECT(expect, !ps_optimizer_overflows(&step, values, good, 3, &index));
    EXPECT(expect, ps_optimizer_overflows(&step, values, bad, 3, &index) && index == 1);
    EXPECT(expect, ps_optimizer_prepare(&fails, PS_U64, 1, 0, &scan, &step, NULL) == PS_OK);
    EXPECT(expect, ps_optimizer_overflows(&step, counts, ones, 2, &index) && index == 1);
}

static void add_that_saturates_never_says_overflow(struct expect *expect)
{
    const struct ps_optimizer_settings held = {.rule = PS_RULE_ADD};
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    const int32_t greatest = INT32_MAX;
    size_t index = 0;

    EXPECT(expect, ps_optimizer_prepare(&held, PS_I32, 1, 0, &scan, &step, NULL) == PS_OK);
    EXPECT(expect, !ps_optimizer_overflows(&step, &greatest, &greatest, 1, &index));
}

static bool philox_gives(const uint32_t in[4], uint64_t key, const uint32_t out[4])
{
    struct ps_philox counter;
    memcpy(counter.word, in, sizeof counter.word);
    struct ps_philox random = ps_philox_random(counter, key);
    return memcmp(random.word, out, sizeof random.word) == 0;
}

static void philox_gives_the_published_numbers(struct expect *expect)
{
    const uint32_t zero[] = {0, 0, 0, 0};
    const uint32_t zero_out[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    const uint32_t ones[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    const uint32_t ones_out[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    const uint32_t pi[] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    const uint32_t pi_out[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};

    EXPECT(expect, philox_gives(zero, 0, zero_out));
    EXPECT(expect, philox_gives(ones, UINT64_MAX, ones_out));
    EXPECT(expect, philox_gives(pi, UINT64_C(0x299f31d0a4093822), pi_out));
}

/* Exact for every sum and difference of two 64-bit numbers. */
__extension__ typedef __int128 exact;

static exact clamp(exact x, exact least, exact greatest)
{
    if (x < least)
        return least;
    return x > greatest ? greatest : x;
}

#define CASES 4099

/* What sgd subtracts, by the definition. */
static exact definition_of_step(double rate, exact gradient)
{
    double target = nearbyint(rate * (double)gradient);
    if (target >= 0x1p63)
        return INT64_MAX;
    return target < -0x1p63 ? INT64_MIN : (exact)target;
}

#define AGAINST_EXACT(TAG, suffix, T, TWIN, least, greatest)                             \
    static bool add_is_exact_##suffix(void)                                              \
    {                                                                                    \
        const struct ps_optimizer_settings add = {.rule = PS_RULE_ADD};                  \
        T values[CASES], before[CASES], gradient[CASES];                                 \
        rule_case_fill(TAG, TAG, values, CASES);                                         \
        rule_case_fill(TAG + 9, TAG, gradient, CASES);                                   \
        memcpy(before, values, sizeof values);                                           \
        struct pushed_parameter parameter = {                                            \
            .settings = &add, .dtype = TAG, .count = CASES, .values = values};           \
        bool same = push(&parameter, gradient) == PS_OK;                                 \
        for (int i = 0; i < CASES; i++)                                                  \
            same &= values[i] == clamp((exact)before[i] + gradient[i], least, greatest); \
        return same;                                                                     \
    }                                                                                    \
    static bool sgd_is_exact_##suffix(double rate)                                       \
    {                                                                                    \
        const struct ps_optimizer_settings settings = sgd(rate);                         \
        T values[CASES], before[CASES], gradient[CASES];                                 \
        rule_case_fill(TAG, TAG, values, CASES);                                         \
        rule_case_fill(TAG + 9, TAG, gradient, CASES);                                   \
        memcpy(before, values, sizeof values);                                           \
        struct pushed_parameter parameter = {                                            \
            .settings = &settings, .dtype = TAG, .count = CASES, .values = values};      \
        bool same = push(&parameter, gradient) == PS_OK;                                 \
        for (int i = 0; i < CASES; i++) {                                                \
            exact g = (TWIN)gradient[i];                                                 \
            exact d = rate == 1 ? g : definition_of_step(rate, g);                       \
            same &= values[i] == clamp((exact)before[i] - d, least, greatest);           \
        }                                                                                \
        return same;                                                                     \
    }
AGAINST_EXACT(PS_I32, i32, int32_t, int32_t, INT32_MIN, INT32_MAX)
AGAINST_EXACT(PS_U32, u32, uint32_t, int32_t, 0, UINT32_MAX)
AGAINST_EXACT(PS_I64, i64, int64_t, int64_t, INT64_MIN, INT64_MAX)
AGAINST_EXACT(PS_U64, u64, uint64_t, int64_t, 0, UINT64_MAX)
#undef AGAINST_EXACT

static void random_sums_equal_exact_arithmetic(struct expect *expect)
{
    EXPECT(expect, add_is_exact_i32());
    EXPECT(expect, add_is_exact_u32());
    EXPECT(expect, add_is_exact_i64());
    EXPECT(expect, add_is_exact_u64());
}

static void random_sgd_steps_equal_exact_arithmetic(struct expect *expect)
{
    static const double rates[] = {0, 1, 0.5, 0.37, 1 + 1e-15, 3, 1e9, 1e300};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        EXPECT(expect, sgd_is_exact_i32(rates[i]));
        EXPECT(expect, sgd_is_exact_u32(rates[i]));
        EXPECT(expect, sgd_is_exact_i64(rates[i]));
        EXPECT(expect, sgd_is_exact_u64(rates[i]));
    }
}

#define TRIALS 100000

/* How often a gradient of 1 at rate 0.3 lowered one of many zeros. */
static long lowered(uint64_t seed, int32_t values[TRIALS])
{
    struct ps_optimizer_settings settings = sgd(0.3);
    settings.rounding = PS_ROUNDING_STOCHASTIC;
    settings.seed = seed;
    struct pushed_parameter parameter = {
        .settings = &settings, .dtype = PS_I32, .count = TRIALS, .values = values};
    static int32_t gradient[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        gradient[i] = 1;
        values[i] = 0;
    }
    if (push(&parameter, gradient) != PS_OK)
        return -1;
    long sum = 0;
    for (int i = 0; i < TRIALS; i++)
        sum -= values[i];
    return sum;
}

static void stochastic_rounding_is_unbiased(struct expect *expect)
{
    static int32_t values[TRIALS];
    const double sigma = sqrt(0.3 * 0.7 * TRIALS);

    EXPECT(expect, fabs((double)lowered(1, values) - 0.3 * TRIALS) < 4 * sigma);
    EXPECT(expect, fabs((double)lowered(2, values) - 0.3 * TRIALS) < 4 * sigma);
}

static void stochastic_rounding_depends_on_the_seed_alone(struct expect *expect)
{
    static int32_t once[TRIALS];
    static int32_t again[TRIALS];
    static int32_t other[TRIALS];
    (void)lowered(1, once);
    (void)lowered(1, again);
    (void)lowered(2, other);

    EXPECT(expect, memcmp(once, again, sizeof once) == 0);
    EXPECT(expect, memcmp(once, other, sizeof once) != 0);
}

/* One push of stochastic SGD as step `number` of parameter `id`. */
static void push_as(uint64_t number, uint64_t id, int32_t values[64])
{
    struct ps_optimizer_settings settings = sgd(0.5);
    settings.rounding = PS_ROUNDING_STOCHASTIC;
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    int32_t gradient[64];
    for (int i = 0; i < 64; i++) {
        gradient[i] = 1;
        values[i] = 0;
    }
    if (ps_optimizer_prepare(&settings, PS_I32, number, id, &scan, &step, NULL) == PS_OK)
        ps_optimizer_apply(&step, 0, 64, values, NULL, gradient);
}

static void stochastic_rounding_differs_by_step_and_parameter(struct expect *expect)
{
    int32_t first[64];
    int32_t next_step[64];
    int32_t next_parameter[64];
    push_as(1, 1, first);
    push_as(2, 1, next_step);
    push_as(1, 2, next_parameter);

    EXPECT(expect, memcmp(first, next_step, sizeof first) != 0);
    EXPECT(expect, memcmp(first, next_parameter, sizeof first) != 0);
}

int main(void)
{
    struct expect expect = {0};
    EXPECT_RUN(&expect, sgd_rounds_ties_to_even);
    EXPECT_RUN(&expect, sgd_at_rate_1_is_exact_and_saturates);
    EXPECT_RUN(&expect, sgd_with_a_huge_rate_is_clamped);
    EXPECT_RUN(&expect, an_unsigned_gradient_only_lowers);
    EXPECT_RUN(&expect, add_saturates_unless_it_shall_wrap);
    EXPECT_RUN(&expect, add_on_floats_is_one_ieee_addition);
    EXPECT_RUN(&expect, assign_max_and_min_do_what_they_say);
    EXPECT_RUN(&expect, add_that_shall_fail_names_the_first_overflow);
    EXPECT_RUN(&expect, add_that_saturates_never_says_overflow);
    EXPECT_RUN(&expect, philox_gives_the_published_numbers);
    EXPECT_RUN(&expect, stochastic_rounding_is_unbiased);
    EXPECT_RUN(&expect, stochastic_rounding_depends_on_the_seed_alone);
    EXPECT_RUN(&expect, stochastic_rounding_differs_by_step_and_parameter);
    EXPECT_RUN(&expect, random_sums_equal_exact_arithmetic);
    EXPECT_RUN(&expect, random_sgd_steps_equal_exact_arithmetic);
    return expect_end(&expect);
}
