/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that encode and decode. This file is compiled once for each instruction set, under the
 * table name PS_ENCODING_LOOPS_TABLE; what one element becomes is in decode.rule.h and
 * encode.rule.h. */
#include "optimizer/encoding_loops.h"

#include "optimizer/encode.rule.h"

/* X(wire, type): every pair of a plain encoding and a float type. */
#define EVERY_PAIR(X)              \
    X(f32, float, f32, float)      \
    X(f64, double, f32, float)     \
    X(bf16, uint16_t, f32, float)  \
    X(f16, uint16_t, f32, float)   \
    X(f32, float, f64, double)     \
    X(f64, double, f64, double)    \
    X(bf16, uint16_t, f64, double) \
    X(f16, uint16_t, f64, double)

/* Messages have no alignment: elements are copied out and in, which compilers turn into
 * unaligned loads and stores. */
#define LOAD(wire, W)                                                                 \
    static inline W load_##wire(const void *encoded, size_t i)                        \
    {                                                                                 \
        W element;                                                                    \
        memcpy(&element, (const char *)encoded + i * sizeof element, sizeof element); \
        return element;                                                               \
    }                                                                                 \
    static inline void store_##wire(void *encoded, size_t i, W element)               \
    {                                                                                 \
        memcpy((char *)encoded + i * sizeof element, &element, sizeof element);       \
    }
PS_WIRE_TABLE(LOAD)
#undef LOAD

/* A conversion between the float types is that of decoding, whichever way it goes.
 * Encoding to the own type is no change at all; the function is there so that the table below
 * has no holes. */
PS_RULE float ps_encode_f32_f32(float element)
{
    return element;
}

PS_RULE double ps_encode_f32_f64(float element)
{
    return ps_decode_f32_f64(element);
}

PS_RULE float ps_encode_f64_f32(double element)
{
    return ps_decode_f64_f32(element);
}

PS_RULE double ps_encode_f64_f64(double element)
{
    return element;
}

/* Both ways of a pair stand together. `restrict` holds: content and elements are never the same
 * memory. */
#define CONVERT(wire, W, suffix, T)                                               \
    static void decode_##wire##_##suffix(const void *restrict from, size_t count, \
                                         void *restrict to)                       \
    {                                                                             \
        T *restrict element = to;                                                 \
        for (size_t i = 0; i < count; i++)                                        \
            element[i] = ps_decode_##wire##_##suffix(load_##wire(from, i));       \
    }                                                                             \
    static void encode_##suffix##_##wire(const void *restrict from, size_t count, \
                                         void *restrict to)                       \
    {                                                                             \
        const T *restrict element = from;                                         \
        for (size_t i = 0; i < count; i++)                                        \
            store_##wire(to, i, ps_encode_##suffix##_##wire(element[i]));         \
    }
/* Sixteen loops; of the pairs that change nothing, which content is never sent through, the
 * tests make use. */
EVERY_PAIR(CONVERT)
#undef CONVERT
#undef EVERY_PAIR

/* Counts instead of leaving at the first: a loop without a way out is what a compiler makes
 * vectors of, and gradients are nearly always finite. */
static bool all_finite_16(const void *encoded, size_t count, uint16_t exponent)
{
    /* A count of up to 2^16 at a time, so that the lanes are as narrow as the elements. */
    for (size_t first = 0; first < count; first += UINT16_MAX) {
        /* The last block is short. */
        size_t rest = count - first < UINT16_MAX ? count - first : UINT16_MAX;
        const char *from = (const char *)encoded + first * sizeof exponent;
        uint16_t strange = 0;
        /* A sum of ones in sixteen bits cannot wrap within 65,535 elements. */
        for (size_t i = 0; i < rest; i++)
            strange = (uint16_t)(strange + ((load_f16(from, i) & exponent) == exponent));
        if (strange != 0)
            return false;
    }
    return true;
}

/* Magnitudes are compared as whole numbers, in which infinity and the NaNs are the greatest. */
#define GROUP(suffix, T, BITS)                                                                \
    static T greatest_##suffix(const T *element, size_t count)                                \
    {                                                                                         \
        BITS greatest = 0;                                                                    \
        for (size_t i = 0; i < count; i++) {                                                  \
            T positive = ps_absolute_##suffix(element[i]);                                    \
            BITS bits;                                                                        \
            memcpy(&bits, &positive, sizeof bits);                                            \
            greatest = bits > greatest ? bits : greatest;                                     \
        }                                                                                     \
        T magnitude;                                                                          \
        memcpy(&magnitude, &greatest, sizeof magnitude);                                      \
        return magnitude;                                                                     \
    }                                                                                         \
    static bool encode_group_##suffix(const void *restrict elements, size_t count,            \
                                      void *restrict scale, void *restrict quanta)            \
    {                                                                                         \
        const T *restrict element = elements;                                                 \
        int8_t *restrict quantum = quanta;                                                    \
        const float chosen = ps_scale_int8_##suffix(greatest_##suffix(element, count));       \
        memcpy(scale, &chosen, sizeof chosen);                                                \
        for (size_t i = 0; i < count; i++)                                                    \
            quantum[i] = ps_encode_int8_##suffix(chosen, element[i]);                         \
        return isfinite(chosen);                                                              \
    }                                                                                         \
    static void decode_group_##suffix(float scale, const void *restrict quanta, size_t count, \
                                      void *restrict elements)                                \
    {                                                                                         \
        const int8_t *restrict quantum = quanta;                                              \
        T *restrict element = elements;                                                       \
        for (size_t i = 0; i < count; i++)                                                    \
            element[i] = ps_decode_int8_##suffix(scale, quantum[i]);                          \
    }
/* Signed numbers of the width: the sign bit of a magnitude is clear, so that they order like the
 * magnitudes, and vectors compare signed numbers. */
GROUP(f32, float, int32_t)
GROUP(f64, double, int64_t)
#undef GROUP

/* The name of the table as text, for tests that say which set failed. */
#define WORD(word) #word
#define TEXT(macro) WORD(macro)
/* A table of float types: whole numbers have no encodings. */
#define TYPES(way)                                 \
    {                                              \
        [PS_F32] = way##_f32, [PS_F64] = way##_f64 \
    }
/* Encoding is named the other way round: from the type to the wire. */
#define TYPES_TO(wire)                                             \
    {                                                              \
        [PS_F32] = encode_f32_##wire, [PS_F64] = encode_f64_##wire \
    }

const struct ps_encoding_loops PS_ENCODING_LOOPS_TABLE = {
    .name = TEXT(PS_ENCODING_LOOPS_TABLE),
    .decode =
        {
            [PS_ENCODING_FLOAT32] = TYPES(decode_f32),
            [PS_ENCODING_FLOAT64] = TYPES(decode_f64),
            [PS_ENCODING_BFLOAT16] = TYPES(decode_bf16),
            [PS_ENCODING_FLOAT16] = TYPES(decode_f16),
        },
    .encode =
        {
            [PS_ENCODING_FLOAT32] = TYPES_TO(f32),
            [PS_ENCODING_FLOAT64] = TYPES_TO(f64),
            [PS_ENCODING_BFLOAT16] = TYPES_TO(bf16),
            [PS_ENCODING_FLOAT16] = TYPES_TO(f16),
        },
    .all_finite_16 = all_finite_16,
    .decode_group = TYPES(decode_group),
    .encode_group = TYPES(encode_group),
};
