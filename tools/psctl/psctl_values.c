/* SPDX-License-Identifier: Apache-2.0 */
/* A case for each kind of type, so that a type which is added to base/dtype.h is printed, too. The
 * kinds are those of base/dtype.h: whole numbers with a sign and without, and floats. */
#include "tools/psctl/psctl_values.h"

#include <inttypes.h>
#include <stdio.h>

/* Digits are as many as give the same bits back: what is printed can be put into a program. */
#define TEXT_SIGNED(suffix, T, U, least, greatest)               \
    case PS_DTYPE_##suffix:                                      \
        (void)snprintf(text, PSCTL_VALUE_TEXT_BYTES, "%" PRId64, \
                       (int64_t)((const T *)content)[i]);        \
        return;
#define TEXT_UNSIGNED(suffix, T, twin, TWIN, greatest)           \
    case PS_DTYPE_##suffix:                                      \
        (void)snprintf(text, PSCTL_VALUE_TEXT_BYTES, "%" PRIu64, \
                       (uint64_t)((const T *)content)[i]);       \
        return;
#define TEXT_FLOAT(suffix, T, f)                                                                  \
    case PS_DTYPE_##suffix:                                                                       \
        (void)snprintf(text, PSCTL_VALUE_TEXT_BYTES, "%.*g", sizeof(T) == sizeof(float) ? 9 : 17, \
                       (double)((const T *)content)[i]);                                          \
        return;
void psctl_value_text(enum ps_dtype dtype, const void *content, uint64_t i,
                      char text[PSCTL_VALUE_TEXT_BYTES])
{
    /* Of a type that is none nothing is printed. */
    text[0] = '\0';
    /* Types are those of the server's answer, which the client has checked. */
    switch (dtype) {
        PS_SIGNED_TABLE(TEXT_SIGNED)
        PS_UNSIGNED_TABLE(TEXT_UNSIGNED)
        PS_FLOAT_TABLE(TEXT_FLOAT)
    case PS_DTYPE_COUNT:
        break;
    }
}
#undef TEXT_SIGNED
#undef TEXT_UNSIGNED
#undef TEXT_FLOAT

/* The writer knows which numbers JSON can say. Whole numbers of 64 bits are written with all of
 * their digits: a reader that keeps them in floats loses the last ones. */
#define JSON_SIGNED(suffix, T, U, least, greatest)        \
    case PS_DTYPE_##suffix:                               \
        ps_json_int(json, NULL, ((const T *)content)[i]); \
        return;
#define JSON_UNSIGNED(suffix, T, twin, TWIN, greatest)     \
    case PS_DTYPE_##suffix:                                \
        ps_json_uint(json, NULL, ((const T *)content)[i]); \
        return;
#define JSON_FLOAT(suffix, T, f)                                   \
    case PS_DTYPE_##suffix:                                        \
        ps_json_real(json, NULL, (double)((const T *)content)[i]); \
        return;
void psctl_value_json(struct ps_json_writer *json, enum ps_dtype dtype, const void *content,
                      uint64_t i)
{
    /* Without a name: values stand in an array. */
    switch (dtype) {
        PS_SIGNED_TABLE(JSON_SIGNED)
        PS_UNSIGNED_TABLE(JSON_UNSIGNED)
        PS_FLOAT_TABLE(JSON_FLOAT)
    case PS_DTYPE_COUNT:
        break;
    }
}
#undef JSON_SIGNED
#undef JSON_UNSIGNED
#undef JSON_FLOAT
