/* SPDX-License-Identifier: Apache-2.0 */
/* The names of ranges: a client cuts a large parameter into ranges, and stores each as a parameter
 * of its own, "w#1/3" for the second of three (docs/placement.md).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the result points into the name.
 */
#ifndef PS_BASE_RANGE_NAME_H
#define PS_BASE_RANGE_NAME_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* Takes a name apart: "w#1/3" gives base "w", k 1, n 3. False for whole parameters' names. */
bool ps_range_name_split(struct ps_bytes name, struct ps_bytes *base, uint32_t *k, uint32_t *n);

#endif
