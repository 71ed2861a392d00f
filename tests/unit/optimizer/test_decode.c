/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding one element: every 16-bit pattern against what IEEE 754 says it is worth. */
#include "expect.h"

#include "optimizer/decode.rule.h"

#include <float.h>

static bool same_bits(float left, float right)
{
    return ps_bits_from_float(left) == ps_bits_from_float(right);
}

static bool same_bits_wide(double left, double right)
{
    return memcmp(&left, &right, sizeof left) == 0;
}

/* What a number of 16 bits with so many bits of fraction is worth, from its parts. */
static double worth(uint16_t pattern, int fraction_bits)
{
    int exponent_max = (1 << (15 - fraction_bits)) - 1;
    int exponent = (pattern >> fraction_bits) & exponent_max;
    int fraction = pattern & ((1 << fraction_bits) - 1);
    int bias = exponent_max / 2;
    double magnitude;
    if (exponent == exponent_max)
        magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - bias - fraction_bits);
    else
        magnitude = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return pattern >= 0x8000 ? -magnitude : magnitude;
}

static void compare(struct expect *expect, double value, float narrow, double wide)
{
    if (isnan(value)) {
        EXPECT(expect, isnan(narrow));
        EXPECT(expect, isnan(wide));
        return;
    }
    EXPECT(expect, same_bits(narrow, (float)value));
    EXPECT(expect, same_bits_wide(wide, value));
}

static void every_pattern_of_float16_is_worth_what_ieee_says(struct expect *expect)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t pattern = (uint16_t)i;
        compare(expect, worth(pattern, 10), ps_decode_f16_f32(pattern), ps_decode_f16_f64(pattern));
    }
}

static void every_pattern_of_bfloat16_is_worth_what_ieee_says(struct expect *expect)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t pattern = (uint16_t)i;
        compare(expect, worth(pattern, 7), ps_decode_bf16_f32(pattern),
                ps_decode_bf16_f64(pattern));
    }
}

static void every_quantum_is_the_product_with_its_scale_rounded_once(struct expect *expect)
{
    const float scales[] = {0,       -0.0F, 1,       0.1F,           1.0F / 127,
                            FLT_MIN, 1e30F, FLT_MAX, FLT_MIN / 1024, 1.401298464e-45F,
                            -3.25F};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        for (int quantum = -128; quantum <= 127; quantum++) {
            /* 24 and 8 bits: exact as a double, so that rounding it is rounding once. */
            double product = (double)scales[i] * quantum;
            EXPECT(expect,
                   same_bits(ps_decode_int8_f32(scales[i], (int8_t)quantum), (float)product));
            EXPECT(expect, same_bits_wide(ps_decode_int8_f64(scales[i], (int8_t)quantum), product));
        }
    }
}

static void a_float64_is_rounded_to_nearest_even_for_a_float32_parameter(struct expect *expect)
{
    EXPECT(expect, same_bits(ps_decode_f64_f32(1 + 0x1p-24), 1));
    EXPECT(expect, same_bits(ps_decode_f64_f32(1 + 0x3p-24), 1 + 0x1p-22F));
    EXPECT(expect, same_bits(ps_decode_f64_f32(0x1p-149), 0x1p-149F));
    EXPECT(expect, same_bits(ps_decode_f64_f32(0x1p-150), 0));
    EXPECT(expect, same_bits(ps_decode_f64_f32(-0x1.8p-150), -0x1p-149F));
    EXPECT(expect, same_bits(ps_decode_f64_f32(1e300), INFINITY));
    EXPECT(expect, isnan(ps_decode_f64_f32((double)NAN)));
}

static void what_is_of_the_parameters_type_keeps_its_bits(struct expect *expect)
{
    const double values[] = {0, -0.0, 1.5, 0x1p-1074, -DBL_MAX, (double)INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        EXPECT(expect, same_bits_wide(ps_decode_f64_f64(values[i]), values[i]));
        EXPECT(expect, same_bits(ps_decode_f32_f32((float)values[i]), (float)values[i]));
    }
    EXPECT(expect, same_bits_wide(ps_decode_f32_f64(0.1F), (double)0.1F));
    EXPECT(expect, same_bits_wide(ps_decode_f32_f64(-0x1p-149F), -0x1p-149));
}

int main(void)
{
    struct expect expect = {0};
    ps_optimizer_enter_thread();
    EXPECT_RUN(&expect, every_pattern_of_float16_is_worth_what_ieee_says);
    EXPECT_RUN(&expect, every_pattern_of_bfloat16_is_worth_what_ieee_says);
    EXPECT_RUN(&expect, every_quantum_is_the_product_with_its_scale_rounded_once);
    EXPECT_RUN(&expect, a_float64_is_rounded_to_nearest_even_for_a_float32_parameter);
    EXPECT_RUN(&expect, what_is_of_the_parameters_type_keeps_its_bits);
    return expect_end(&expect);
}
