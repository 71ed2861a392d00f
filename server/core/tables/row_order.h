/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of a batch's keys: by stripe, to read; by hash, to have equal keys beside each other in
 * the order of their arrival.
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

/* Puts 0 .. count - 1 into `order` by their hashes, equal ones as they came. `scratch` is room for
 * 2 * count words. However the hashes were chosen, the time is count log count at most. */
void ps_row_order_by_hash(const uint64_t *hashes, uint32_t count, uint32_t *order,
                          uint64_t *scratch);

#endif
