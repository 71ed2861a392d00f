/* SPDX-License-Identifier: Apache-2.0 */
/* One element of a parameter's float type becomes one element of an encoding: the other direction
 * of decode.rule.h, rounded once, to nearest even.
 *
 *   ps_encode_<type>_<wire>(element)       type: f32 f64, wire: bf16 f16
 *   ps_scale_int8_<type>(greatest)         the scale of a group, from its greatest magnitude
 *   ps_encode_int8_<type>(scale, element)  the nearest quantum, in [-127, 127]
 *
 * What is too large for float16 or bfloat16 becomes infinite, as in any IEEE conversion; a NaN
 * becomes the quiet NaN of its sign.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ENCODE_RULE_H
#define PS_OPTIMIZER_ENCODE_RULE_H

#include "optimizer/decode.rule.h"

/* A double that is about to be rounded to fewer than 23 bits of fraction: toward zero, with the
 * last bit set when anything was lost ("round to odd"). Rounding that to nearest even gives what
 * rounding the double would have given. */
PS_RULE float ps_narrow_f64(double element)
{
    float nearest = (float)element;
    uint32_t bits = ps_bits_from_float(nearest);
    double back = (double)nearest;
    uint32_t is_farther = fabs(back) > fabs(element) ? 1U : 0U;
    uint32_t is_other = back != element ? 1U : 0U;
    uint32_t odd = (bits - is_farther) | is_other;
    return element != element ? nearest : ps_float_from_bits(odd);
}

PS_RULE float ps_narrow_f32(float element)
{
    return element;
}

PS_RULE uint16_t ps_round_bf16(float element)
{
    uint32_t bits = ps_bits_from_float(element);
    uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    uint32_t quiet = ((bits >> 16) & 0x8000U) | 0x7fc0U;
    return (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

PS_RULE uint16_t ps_round_f16(float element)
{
    uint32_t bits = ps_bits_from_float(element);
    uint32_t sign = (bits >> 16) & 0x8000U;
    int32_t magnitude = (int32_t)(bits & 0x7fffffffU);
    /* From 2^-14 on the fraction loses 13 bits; a carry out of it is right in the exponent. */
    int32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112 << 23)) >> 13;
    /* Below, what counts is a multiple of 2^-24: the last bit of the sum with a half. */
    float sum = ps_float_from_bits((uint32_t)magnitude) + 0.5F;
    int32_t subnormal = (int32_t)(ps_bits_from_float(sum) - 0x3f000000U);
    int32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    int32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    /* 65,520 and above lies nearer to 65,536, which there is not. */
    return (uint16_t)(sign | (uint32_t)(magnitude < 0x477ff000 ? finite : special));
}

#define ENCODE_TO(suffix, T, f)                            \
    PS_RULE uint16_t ps_encode_##suffix##_bf16(T element)  \
    {                                                      \
        return ps_round_bf16(ps_narrow_##suffix(element)); \
    }                                                      \
    PS_RULE uint16_t ps_encode_##suffix##_f16(T element)   \
    {                                                      \
        return ps_round_f16(ps_narrow_##suffix(element));  \
    }                                                      \
    PS_RULE float ps_scale_int8_##suffix(T greatest)       \
    {                                                      \
        return (float)(greatest / (T)127);                 \
    }
PS_FLOAT_TABLE(ENCODE_TO)
#undef ENCODE_TO

/* The sum with 1.5 * 2^23 (2^52 for a double) has no room for a fraction: it rounds to nearest
 * even. A scale that was itself rounded can push a quotient a little beyond 127; a NaN becomes
 * 127. */
#define QUANTUM(suffix, T, magic)                                  \
    PS_RULE int8_t ps_encode_int8_##suffix(float scale, T element) \
    {                                                              \
        T quotient = element / (scale != 0 ? (T)scale : (T)1);     \
        T below = quotient < (T)127 ? quotient : (T)127;           \
        T held = below > (T)-127 ? below : (T)-127;                \
        T whole = (held + (T)(magic)) - (T)(magic);                \
        return (int8_t)(int32_t)(scale != 0 ? whole : (T)0);       \
    }
QUANTUM(f32, float, 12582912.0F)
QUANTUM(f64, double, 6755399441055744.0)
#undef QUANTUM

#endif
