/* SPDX-License-Identifier: Apache-2.0 */
/* Half floats are widened by the code that decodes gradients, small whole numbers by assignment.
 * Nothing is rounded: where no type of a parameter holds every value of a type, the type is not in
 * the table, and its tensors are refused. */
#include "tools/psckpt/tensor_type.h"

#include "optimizer/encoded.h"

#include <stdint.h>
#include <string.h>

/* Subnormals, infinities and NaN stay what they are. */
static void widen_float16(const void *from, size_t count, void *to)
{
    ps_decode_all(PS_ENCODING_FLOAT16, PS_F32, from, count, to);
}

static void widen_bfloat16(const void *from, size_t count, void *to)
{
    ps_decode_all(PS_ENCODING_BFLOAT16, PS_F32, from, count, to);
}

/* int32 holds every value of the four; a truth value is a byte, 0 or 1. Copied out one by one,
 * since a file aligns nothing. */
#define WIDEN(T)                                                                    \
    static void widen_##T(const void *from, size_t count, void *to)                 \
    {                                                                               \
        int32_t *numbers = to;                                                      \
        for (size_t i = 0; i < count; i++) {                                        \
            T number;                                                               \
            memcpy(&number, (const char *)from + i * sizeof number, sizeof number); \
            numbers[i] = number;                                                    \
        }                                                                           \
    }
WIDEN(int16_t)
WIDEN(uint16_t)
WIDEN(int8_t)
WIDEN(uint8_t)
#undef WIDEN

/* Those of parameters first, from their own table, so that a type that is added there is known here
 * as well. Whole numbers of 8 bits and more dimensions than one are mostly images or masks: no rule
 * ever steps through them, but a model that lacked them would not load. */
#define OWN(TAG, suffix, T, SUM, label) {label, sizeof(T), TAG, NULL},
static const struct tensor_type types[] = {PS_DTYPE_TABLE(OWN){"F16", 2, PS_F32, widen_float16},
                                           {"BF16", 2, PS_F32, widen_bfloat16},
                                           {"I16", 2, PS_I32, widen_int16_t},
                                           {"U16", 2, PS_I32, widen_uint16_t},
                                           {"I8", 1, PS_I32, widen_int8_t},
                                           {"U8", 1, PS_I32, widen_uint8_t},
                                           {"BOOL", 1, PS_I32, widen_uint8_t}};
#undef OWN

/* A walk over the table: a file has thousands of tensors, not millions. */
const struct tensor_type *tensor_type_find(const char *label)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].label, label) == 0)
            return &types[i];
    return NULL;
}
