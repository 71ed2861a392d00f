/* SPDX-License-Identifier: Apache-2.0 */
/* Many gradients become one: added in the order of their workers' ranks, in the parameter's own
 * type, and then divided. So the bits depend on what was contributed and not on when it came.
 *
 *   sum       g0 + g1 + ...
 *   average   (g0 + g1 + ...) / how many
 *   weighted  (w0 g0 + w1 g1 + ...) / (w0 + w1 + ...)
 *
 * Threads:  pure; different blocks may be combined by different threads.
 * Blocking: never.
 * Errors:   none; a sum that is too large is infinite.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_SERVER_CORE_COMBINE_H
#define PS_SERVER_CORE_COMBINE_H

#include "server/core/rounds/contributions.h"

/* Writes block `i` of what the contributions make of each other to `to`, which has the size of that
 * block. At least one is held. */
void ps_combine_block(const struct ps_contributions *contributions,
                      const struct ps_parameter_spec *spec, size_t i, void *to);

#endif
