/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the table's type and the order of arrival: the order is part of a float sum's bits. For
 * rules to which a sum means nothing, what the rule would have made of one gradient after the
 * other.
 *
 * A worker whose batch has a key many times pushes many gradients of it, and the optimizer must see
 * their sum once: two steps of Adagrad with half a gradient each are not one step with the whole.
 */
#include "server/core/tables/row_repeats.h"

#include "base/assert.h"

#include <stddef.h>
#include <string.h>

/* Whole numbers are added in the type that wraps. A gradient is read with memcpy, since it may lie
 * at any address of a message. A NaN is neither greater nor less, and leaves what is there. */
#define REPEAT(TAG, suffix, T, SUM, label)                                                \
    static void repeat_##suffix(enum ps_row_repeats repeats, T *joined, const char *next, \
                                size_t width)                                             \
    {                                                                                     \
        for (size_t i = 0; i < width; i++) {                                              \
            T more;                                                                       \
            memcpy(&more, next + i * sizeof more, sizeof more);                           \
            if (repeats == PS_ROW_SUM)                                                    \
                joined[i] = (T)((SUM)joined[i] + (SUM)more);                              \
            else if (repeats == PS_ROW_GREATEST ? more > joined[i] : more < joined[i])    \
                joined[i] = more;                                                         \
        }                                                                                 \
    }
PS_DTYPE_TABLE(REPEAT)
#undef REPEAT

/* By the table's own answer and not by the rule of the moment: a push is read without a lock, and
 * the settings may change before it is applied. */
void ps_row_repeat(enum ps_row_repeats repeats, const struct ps_row_layout *layout, void *joined,
                   const void *next)
{
    PS_ASSERT(joined != NULL && next != NULL);
    PS_ASSERT(layout->width > 0);
    if (repeats == PS_ROW_LAST) {
        memcpy(joined, next, layout->width * ps_dtype_size(layout->dtype));
        return;
    }
    switch (layout->dtype) {
#define CASE(TAG, suffix, T, SUM, label)                       \
    case TAG:                                                  \
        repeat_##suffix(repeats, joined, next, layout->width); \
        return;
        PS_DTYPE_TABLE(CASE)
#undef CASE
    case PS_DTYPE_COUNT:
        break;
    }
    PS_ASSERT(0 && "unknown element type");
}
