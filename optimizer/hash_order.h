/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a push's rows: by the hashes of their keys, so that the rows of one key stand side
 * by side, as they came, and the table is walked from one end to the other. Clients send rows in
 * this order and servers put them into it: what is in order already takes a look and no more.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   none.
 * Memory:   borrowed for the call.
 */
#ifndef PS_OPTIMIZER_HASH_ORDER_H
#define PS_OPTIMIZER_HASH_ORDER_H

#include <stdint.h>

/* Most hashes that are put in order at once. */
#define PS_HASH_ORDER_MAX ((1u << 31) - 1)

/* Puts 0 .. count - 1 into `order` by their hashes, equal ones as they came. `scratch` is room for
 * 2 * count words. However the hashes were chosen, the time is count log count at most. */
void ps_hash_order(const uint64_t *hashes, uint32_t count, uint32_t *order, uint64_t *scratch);

#endif
