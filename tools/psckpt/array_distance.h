/* SPDX-License-Identifier: Apache-2.0 */
/* How two arrays of one type and length differ.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TOOLS_ARRAY_DISTANCE_H
#define PS_TOOLS_ARRAY_DISTANCE_H

#include "base/bytes.h"
#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing was compared yet. The index of the first element that differs is what one looks
 * for in a debugger. */
struct array_distance {
    bool differs;
    uint64_t first; /* element */
    double largest; /* NaN where one of two is none */
};

/* Compares `size` bytes, which begin `offset` bytes behind the first element. */
void array_distance_add(enum ps_dtype dtype, const uint8_t *a, const uint8_t *b, size_t size,
                        uint64_t offset, struct array_distance *distance);

/* Compares two views of one size. */
struct array_distance array_distance_of(enum ps_dtype dtype, struct ps_view a, struct ps_view b);

#endif
