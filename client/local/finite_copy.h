/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a gradient and looks on the way whether all of its elements are finite, so that a server
 * that shares the memory need not read it once more for that.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the caller's; the two do not overlap.
 */
#ifndef PS_CLIENT_FINITE_COPY_H
#define PS_CLIENT_FINITE_COPY_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* Whole numbers are finite. `size` is a multiple of the element's; neither side need be aligned. */
bool ps_finite_copy(void *to, const void *from, size_t size, enum ps_dtype dtype);

#endif
