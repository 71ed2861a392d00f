/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a batch's keys in which they are read: by stripe.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   none.
 * Memory:   borrowed for the call.
 */
#ifndef PS_SERVER_CORE_ROW_ORDER_H
#define PS_SERVER_CORE_ROW_ORDER_H

#include "server/core/tables/row_stripes.h"

/* Puts 0 .. count - 1 into `order` by the stripe of their hashes. Those of stripe s stand from
 * begins[s] to before begins[s + 1]. */
void ps_row_order_by_stripe(const uint64_t *hashes, uint32_t count, uint32_t *order,
                            uint32_t begins[PS_ROW_STRIPES + 1]);

#endif
