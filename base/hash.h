/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, 32 bits (Fowler, Noll, Vo): it decides which shard a parameter lives on, so it is part
 * of the public contract and never changes.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_HASH_H
#define PS_BASE_HASH_H

#include "base/bytes.h"

#include <stdint.h>

uint32_t ps_hash_fnv1a32(struct ps_bytes bytes);

/* The shard that a whole parameter called `name` lives on, of `shard_count` (not 0). */
uint32_t ps_hash_shard(struct ps_bytes name, uint32_t shard_count);

#endif
