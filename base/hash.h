/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a (Fowler, Noll, Vo), in 32 bits and in 64: the two rules by which a whole parameter has its
 * shard. Both are part of the public contract and never change (docs/placement.md).
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

uint64_t ps_hash_fnv1a64(struct ps_bytes bytes);

/* The placement of a job whose parameters lie by the classic rule. So they do while a job has none,
 * which is 0. Every other number is a seed. */
#define PS_PLACEMENT_CLASSIC 1

/* The shard that a whole parameter called `name` lives on, of `shard_count` (not 0), by the classic
 * rule. */
uint32_t ps_hash_shard(struct ps_bytes name, uint32_t shard_count);

/* The same in a job with another placement, by the name's ps_hash_fnv1a64. */
uint32_t ps_hash_placed_shard(uint64_t hash, uint64_t placement, uint32_t shard_count);

#endif
