/* SPDX-License-Identifier: Apache-2.0 */
/* The first values of a table's row: a pure function of the settings and the key. So a row that a
 * replay makes again, or that a reader asks for before anybody pushed to it, has the same bits.
 *
 * Element e of the row takes the random words that Philox gives for the counter (key, e / 4, n) and
 * the seed: of them word e % 4, n = 0, 1, ... A uniform value is low + (high - low) u, with
 * u = (word + 0.5) 2^-32; a normal one low + high (u_0 + ... + u_11 - 6), since the bit contract
 * has no log and no cos: no value is farther than six deviations away. In double, rounded once.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   written into the caller's array.
 */
#ifndef PS_OPTIMIZER_FIRST_VALUES_H
#define PS_OPTIMIZER_FIRST_VALUES_H

#include "base/dtype.h"
#include "base/table_settings.h"

#include <stddef.h>
#include <stdint.h>

/* Writes `width` elements to `values`, which may have any alignment. */
void ps_first_values(const struct ps_table_settings *settings, enum ps_dtype dtype, uint64_t key,
                     size_t width, void *values);

#endif
