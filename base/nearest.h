/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name that somebody most likely meant.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_NEAREST_H
#define PS_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* The fewest insertions, removals, replacements and swaps of neighbours that make one text of the
 * other. Only the first 63 bytes of each count. */
size_t ps_text_distance(const char *a, const char *b);

/* Of `distance` between what was typed and a name: close enough to be a slip of the finger. */
bool ps_text_is_near(const char *typed, size_t distance);

#endif
