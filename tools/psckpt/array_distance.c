/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict comes from the bits, the figure beside it from double: a script asks whether two
 * states are one, a person how far they are apart. A tolerance would have to be chosen by somebody
 * who knows the model. */
#include "tools/psckpt/array_distance.h"

#include <math.h>
#include <string.h>

/* Generated from the table of element types, so that a new type cannot be forgotten here. The bytes
 * are copied out, since a piece of a file need not be aligned for its type. Through double a 64-bit
 * integer above 2^53 loses its last bits: the figure is for people, while the verdict comes from
 * the bits. Of NaN and anything else the difference is NaN. */
static double difference_at(enum ps_dtype dtype, const uint8_t *a, const uint8_t *b)
{
#define DIFFERENCE(TAG, suffix, T, SUM, label)     \
    case TAG: {                                    \
        T left;                                    \
        T right;                                   \
        memcpy(&left, a, sizeof left);             \
        memcpy(&right, b, sizeof right);           \
        return fabs((double)left - (double)right); \
    }
    switch (dtype) {
        PS_DTYPE_TABLE(DIFFERENCE)
    case PS_DTYPE_COUNT:
        break;
    }
#undef DIFFERENCE
    return 0;
}

/* Equal runs are the common case and cost one memcmp. A NaN takes over the largest difference and
 * stays there, because any later comparison with NaN is false: an operator must see it. */
void array_distance_add(enum ps_dtype dtype, const uint8_t *a, const uint8_t *b, size_t size,
                        uint64_t offset, struct array_distance *distance)
{
    size_t width = ps_dtype_size(dtype);
    if (memcmp(a, b, size) == 0)
        return;
    for (size_t at = 0; at < size; at += width) {
        if (memcmp(a + at, b + at, width) == 0)
            continue;
        if (!distance->differs)
            distance->first = (offset + at) / width;
        distance->differs = true;
        double now = difference_at(dtype, a + at, b + at);
        if (isnan(now) || now > distance->largest)
            distance->largest = now;
    }
}

/* Bits decide what differs: two NaNs of the same bits are equal, 0 and -0 are not. Pieces hold
 * whole elements: blocks, arrays, and ranges of them. Pieces of the two views may be cut at
 * different places (blocks of a live snapshot, ranges of several shards), so two cursors advance by
 * what both have. Lengths were compared before, so both views end together. */
struct array_distance array_distance_of(enum ps_dtype dtype, struct ps_view a, struct ps_view b)
{
    struct array_distance distance = {0};
    struct ps_view_cursor cursors[2] = {{.view = a}, {.view = b}};
    struct ps_bytes runs[2] = {{0}};
    for (uint64_t at = 0; at < a.size;) {
        for (size_t i = 0; i < 2; i++)
            if (runs[i].size == 0)
                runs[i] = ps_view_next(&cursors[i], SIZE_MAX);
        size_t size = runs[0].size < runs[1].size ? runs[0].size : runs[1].size;
        array_distance_add(dtype, runs[0].data, runs[1].data, size, at, &distance);
        for (size_t i = 0; i < 2; i++) {
            runs[i].data += size;
            runs[i].size -= size;
        }
        at += size;
    }
    return distance;
}
