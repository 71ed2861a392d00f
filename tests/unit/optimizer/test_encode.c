/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding one element: back and forth over every 16-bit pattern, and rounding against a reference
 * that takes the number apart. */
#include "expect.h"

#include "optimizer/encode.rule.h"

#include <float.h>
#include <stdlib.h>

static bool is_nan16(uint16_t pattern, int fraction_bits)
{
    return (pattern & 0x7fff) > (((1 << (15 - fraction_bits)) - 1) << fraction_bits);
}

static void every_pattern_of_float16_comes_back(struct expect *expect)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t pattern = (uint16_t)i;
        uint16_t quiet = (uint16_t)((i & 0x8000) | 0x7e00);
        uint16_t expected = is_nan16(pattern, 10) ? quiet : pattern;
        EXPECT(expect, ps_encode_f32_f16(ps_decode_f16_f32(pattern)) == expected);
        EXPECT(expect, ps_encode_f64_f16(ps_decode_f16_f64(pattern)) == expected);
    }
}

static void every_pattern_of_bfloat16_comes_back(struct expect *expect)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t pattern = (uint16_t)i;
        uint16_t quiet = (uint16_t)((i & 0x8000) | 0x7fc0);
        uint16_t expected = is_nan16(pattern, 7) ? quiet : pattern;
        EXPECT(expect, ps_encode_f32_bf16(ps_decode_bf16_f32(pattern)) == expected);
        EXPECT(expect, ps_encode_f64_bf16(ps_decode_bf16_f64(pattern)) == expected);
    }
}

/* `value` to the nearest number of so many bits of fraction and such a least exponent. */
static double nearest(double value, int fraction_bits, int exponent_min, double greatest)
{
    int exponent;
    (void)frexp(value, &exponent);
    exponent = exponent - 1 > exponent_min ? exponent - 1 : exponent_min;
    double rounded =
        ldexp(nearbyint(ldexp(value, fraction_bits - exponent)), exponent - fraction_bits);
    return fabs(rounded) > greatest ? copysign((double)INFINITY, value) : rounded;
}

static void check_double(struct expect *expect, double value)
{
    EXPECT(expect, ps_decode_f16_f64(ps_encode_f64_f16(value)) == nearest(value, 10, -14, 65504));
    EXPECT(expect,
           ps_decode_bf16_f64(ps_encode_f64_bf16(value)) == nearest(value, 7, -126, 0x1.fep127));
}

static void check_float(struct expect *expect, float value)
{
    EXPECT(expect,
           ps_decode_f16_f64(ps_encode_f32_f16(value)) == nearest((double)value, 10, -14, 65504));
    EXPECT(expect, ps_decode_bf16_f64(ps_encode_f32_bf16(value)) ==
                       nearest((double)value, 7, -126, 0x1.fep127));
}

/* Halfway between each two neighbours, and as little beside it as the type can say. */
static void ties_go_to_the_even_neighbour_and_nothing_else_does(struct expect *expect)
{
    for (uint32_t i = 0; i < 0x7c00; i++) {
        double low = ps_decode_f16_f64((uint16_t)i);
        double high = i + 1 < 0x7c00 ? ps_decode_f16_f64((uint16_t)(i + 1)) : 65536;
        double tie = low + (high - low) / 2;
        double around[] = {tie, nextafter(tie, 0), nextafter(tie, 1e9), low, -tie};
        for (size_t j = 0; j < sizeof around / sizeof around[0]; j++)
            check_double(expect, around[j]);
        check_float(expect, (float)tie);
        check_float(expect, nextafterf((float)tie, 0));
        check_float(expect, nextafterf((float)-tie, -1e9F));
    }
    for (uint32_t i = 0; i < 0x7f7f; i++) {
        double low = ps_decode_bf16_f64((uint16_t)i);
        double tie = low + (ps_decode_bf16_f64((uint16_t)(i + 1)) - low) / 2;
        check_double(expect, tie);
        check_double(expect, nextafter(tie, 0));
        check_double(expect, -nextafter(tie, 1e300));
        check_float(expect, (float)tie);
        check_float(expect, nextafterf((float)tie, 0));
    }
}

static void random_numbers_of_every_size_are_rounded_once(struct expect *expect)
{
    uint64_t state = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 200000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double value = ldexp((double)(int64_t)state, -63 - (int)(state >> 20 & 63) + 24);
        check_double(expect, value);
        check_float(expect, (float)value);
    }
}

static void what_is_too_large_becomes_infinite(struct expect *expect)
{
    EXPECT(expect, ps_encode_f32_f16(65519.996F) == 0x7bff);
    EXPECT(expect, ps_encode_f32_f16(65520) == 0x7c00);
    EXPECT(expect, ps_encode_f64_f16(nextafter(65520, 0)) == 0x7bff);
    EXPECT(expect, ps_encode_f64_f16(-1e300) == 0xfc00);
    EXPECT(expect, ps_encode_f64_f16((double)-INFINITY) == 0xfc00);
    EXPECT(expect, ps_encode_f32_bf16(FLT_MAX) == 0x7f80);
    EXPECT(expect, ps_encode_f64_bf16(1e300) == 0x7f80);
    EXPECT(expect, ps_encode_f64_bf16((double)FLT_MAX) == 0x7f80);
}

static void zeros_keep_their_sign(struct expect *expect)
{
    EXPECT(expect, ps_encode_f32_f16(-0.0F) == 0x8000);
    EXPECT(expect, ps_encode_f64_bf16(-1e-300) == 0x8000);
    EXPECT(expect, ps_encode_f64_f16(1e-300) == 0);
}

static void a_quantum_is_never_more_than_half_a_scale_off(struct expect *expect)
{
    for (int i = -1000; i <= 1000; i++) {
        float scale = ps_scale_int8_f32(1.7F);
        float value = 1.7F * (float)i / 1000;
        int8_t quantum = ps_encode_int8_f32(scale, value);
        EXPECT(expect, fabsf(ps_decode_int8_f32(scale, quantum) - value) <= scale * 0.500001F);
        EXPECT(expect, quantum >= -127);
        EXPECT(expect, ps_encode_int8_f64(scale, (double)value) == quantum);
    }
}

static void the_greatest_magnitude_of_a_group_becomes_127(struct expect *expect)
{
    const float greatest[] = {1, 0.3F, FLT_MAX, FLT_MIN, 1e-40F, 12345.678F};
    for (size_t i = 0; i < sizeof greatest / sizeof greatest[0]; i++) {
        float scale = ps_scale_int8_f32(greatest[i]);
        EXPECT(expect, ps_encode_int8_f32(scale, greatest[i]) == 127);
        EXPECT(expect, ps_encode_int8_f32(scale, -greatest[i]) == -127);
    }
}

static void a_group_without_a_scale_is_all_zeros(struct expect *expect)
{
    EXPECT(expect, ps_scale_int8_f32(0) == 0);
    EXPECT(expect, ps_scale_int8_f32(1.4e-45F) == 0);
    EXPECT(expect, ps_encode_int8_f32(0, 1.4e-45F) == 0);
    EXPECT(expect, ps_encode_int8_f64(0, 1) == 0);
}

static void quanta_of_what_is_not_finite_are_still_quanta(struct expect *expect)
{
    EXPECT(expect, ps_encode_int8_f32(1, INFINITY) == 127);
    EXPECT(expect, ps_encode_int8_f32(1, -INFINITY) == -127);
    EXPECT(expect, ps_encode_int8_f32(INFINITY, 5) == 0);
    EXPECT(expect, abs(ps_encode_int8_f32(NAN, NAN)) == 127);
}

int main(void)
{
    struct expect expect = {0};
    ps_optimizer_enter_thread();
    EXPECT_RUN(&expect, every_pattern_of_float16_comes_back);
    EXPECT_RUN(&expect, every_pattern_of_bfloat16_comes_back);
    EXPECT_RUN(&expect, ties_go_to_the_even_neighbour_and_nothing_else_does);
    EXPECT_RUN(&expect, random_numbers_of_every_size_are_rounded_once);
    EXPECT_RUN(&expect, what_is_too_large_becomes_infinite);
    EXPECT_RUN(&expect, zeros_keep_their_sign);
    EXPECT_RUN(&expect, a_quantum_is_never_more_than_half_a_scale_off);
    EXPECT_RUN(&expect, the_greatest_magnitude_of_a_group_becomes_127);
    EXPECT_RUN(&expect, a_group_without_a_scale_is_all_zeros);
    EXPECT_RUN(&expect, quanta_of_what_is_not_finite_are_still_quanta);
    return expect_end(&expect);
}
