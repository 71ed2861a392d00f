/* SPDX-License-Identifier: Apache-2.0 */
/* One element of an encoded gradient becomes one element of the parameter's float type.
 *
 * Conversions are whole-number arithmetic, and where a value must be rounded, one IEEE operation
 * (a double to a float, or a product). No conversion instruction is named: the hardware's would do
 * where it gives the same bits, but the same source serves machines without one.
 *
 *   ps_decode_<wire>_<type>(element)         wire: f32 f64 bf16 f16, type: f32 f64
 *   ps_decode_int8_<type>(scale, quantum)    the product is rounded once, in the parameter's type
 *
 * bfloat16, float16 and float32 fit either type exactly, subnormals, zeros of both signs and
 * infinities included; float64 is rounded to nearest even for a float32 parameter and becomes
 * infinite beyond its range. A NaN stays one (which of its bits survive is not promised).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_DECODE_RULE_H
#define PS_OPTIMIZER_DECODE_RULE_H

#include "optimizer/rule.h"

#include <string.h>

/* X(wire, C type that holds one element as it lies on the wire) */
#define PS_WIRE_TABLE(X) \
    X(f32, float)        \
    X(f64, double)       \
    X(bf16, uint16_t)    \
    X(f16, uint16_t)

PS_RULE float ps_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PS_RULE uint32_t ps_bits_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

PS_RULE float ps_widen_f32(float element)
{
    return element;
}

PS_RULE double ps_widen_f64(double element)
{
    return element;
}

PS_RULE float ps_widen_bf16(uint16_t element)
{
    return ps_float_from_bits((uint32_t)element << 16);
}

PS_RULE float ps_widen_f16(uint16_t element)
{
    uint32_t sign = ((uint32_t)element & 0x8000U) << 16;
    uint32_t magnitude = (uint32_t)element & 0x7fffU;
    /* The exponent's bias grows from 15 to 127; all ones stay all ones. */
    uint32_t normal = (magnitude << 13) + (112U << 23);
    uint32_t special = (magnitude << 13) + (224U << 23);
    /* A subnormal is a count of 2^-24: the product is exact, and normal as a float. */
    uint32_t subnormal = ps_bits_from_float((float)(int32_t)magnitude * 5.9604644775390625e-8F);
    uint32_t finite = magnitude < 0x400U ? subnormal : normal;
    return ps_float_from_bits(sign | (magnitude < 0x7c00U ? finite : special));
}

#define DECODE_FROM(wire, W)                         \
    PS_RULE float ps_decode_##wire##_f32(W element)  \
    {                                                \
        return (float)ps_widen_##wire(element);      \
    }                                                \
    PS_RULE double ps_decode_##wire##_f64(W element) \
    {                                                \
        return (double)ps_widen_##wire(element);     \
    }
PS_WIRE_TABLE(DECODE_FROM)
#undef DECODE_FROM

PS_RULE float ps_decode_int8_f32(float scale, int8_t quantum)
{
    return scale * (float)quantum;
}

PS_RULE double ps_decode_int8_f64(float scale, int8_t quantum)
{
    return (double)scale * (double)quantum;
}

#endif
