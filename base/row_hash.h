/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of a table's keys. With seed 0 it decides which shard has a row (docs/tables.md), so it
 * is part of the public contract and never changes; with another seed it orders the rows of one
 * shard.
 *
 * For a given seed no two keys have the same hash: equal hashes are equal keys. The seed goes in
 * twice, so that keys that share a shard, or that somebody chose to share bits under one seed, are
 * spread under another.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_ROW_HASH_H
#define PS_BASE_ROW_HASH_H

#include <stdint.h>

/* The finaliser of SplitMix64 (Stafford's 13th mix), each of whose steps can be undone. */
static inline uint64_t ps_row_hash(uint64_t key, uint64_t seed)
{
    uint64_t x = key + seed * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27) ^ (seed << 32 | seed >> 32)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
