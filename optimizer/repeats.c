/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the table's type and the order of arrival: the order is part of a float sum's bits. For
 * rules to which a sum means nothing, what the rule would have made of one gradient after the
 * other.
 *
 * A worker whose batch has a key many times pushes many gradients of it, and the optimizer must see
 * their sum once: two steps of Adagrad with half a gradient each are not one step with the whole.
 */
#include "optimizer/repeats.h"

#include "base/assert.h"

#include <string.h>

enum ps_row_repeats ps_row_repeats_of(enum ps_rule rule)
{
    switch (rule) {
    case PS_RULE_ASSIGN:
        return PS_ROW_LAST;
    case PS_RULE_MAX:
        return PS_ROW_GREATEST;
    case PS_RULE_MIN:
        return PS_ROW_LEAST;
    default:
        return PS_ROW_SUM;
    }
}

/* Whole numbers are added in the type that wraps. Elements are read and written with memcpy, since
 * they may lie at any address of a message. A NaN is neither greater nor less, and leaves what is
 * there. */
#define REPEAT(TAG, suffix, T, SUM, label)                                                   \
    static void repeat_##suffix(enum ps_row_repeats repeats, char *joined, const char *next, \
                                size_t width)                                                \
    {                                                                                        \
        for (size_t i = 0; i < width; i++) {                                                 \
            T one, more;                                                                     \
            memcpy(&one, joined + i * sizeof one, sizeof one);                               \
            memcpy(&more, next + i * sizeof more, sizeof more);                              \
            if (repeats == PS_ROW_SUM)                                                       \
                one = (T)((SUM)one + (SUM)more);                                             \
            else if (repeats == PS_ROW_GREATEST ? more > one : more < one)                   \
                one = more;                                                                  \
            memcpy(joined + i * sizeof one, &one, sizeof one);                               \
        }                                                                                    \
    }
PS_DTYPE_TABLE(REPEAT)
#undef REPEAT

/* By the table's own answer and not by the rule of the moment: a push is read without a lock, and
 * the settings may change before it is applied. */
void ps_row_repeat(enum ps_row_repeats repeats, enum ps_dtype dtype, size_t width, void *joined,
                   const void *next)
{
    PS_ASSERT(joined != NULL && next != NULL);
    if (repeats == PS_ROW_LAST) {
        memcpy(joined, next, width * ps_dtype_size(dtype));
        return;
    }
    switch (dtype) {
#define CASE(TAG, suffix, T, SUM, label)               \
    case TAG:                                          \
        repeat_##suffix(repeats, joined, next, width); \
        return;
        PS_DTYPE_TABLE(CASE)
#undef CASE
    case PS_DTYPE_COUNT:
        break;
    }
    PS_ASSERT(0 && "unknown element type");
}
