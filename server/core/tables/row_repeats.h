/* SPDX-License-Identifier: Apache-2.0 */
/* Several gradients of one key become one.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_ROW_REPEATS_H
#define PS_SERVER_CORE_ROW_REPEATS_H

#include "server/core/tables/row_table.h"

/* Joins `next`, which came behind all that are in `joined`. `next` may have any alignment. */
void ps_row_repeat(enum ps_row_repeats repeats, const struct ps_row_layout *layout, void *joined,
                   const void *next);

#endif
