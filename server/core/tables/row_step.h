/* SPDX-License-Identifier: Apache-2.0 */
/* One step of the rule for rows that lie apart. Every element gets the bits that it would get in a
 * dense parameter, however the rows are grouped.
 *
 * Threads:  whoever may write the rows.
 * Blocking: never.
 * Errors:   none.
 * Memory:   two small arrays on the stack.
 */
#ifndef PS_SERVER_CORE_ROW_STEP_H
#define PS_SERVER_CORE_ROW_STEP_H

#include "optimizer/optimizer.h"
#include "server/core/tables/row_shape.h"

/* Steps `count` different rows; gradients[i * width] is the first element of rows[i]'s gradient. */
void ps_row_step(const struct ps_row_shape *shape, const struct ps_optimizer_step *step,
                 uint8_t *const *rows, uint32_t count, const uint8_t *gradients);

#endif
