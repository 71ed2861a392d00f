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

/* The seed that orders the rows of a table on its shards, from the id of the parameter, which is
 * FNV-1a-32 of its name. A salt, so that a parameter whose id is 0 does not order its rows by the
 * hash that chose their shard. A client that sends rows in this order saves its servers work; no
 * result depends on it. */
static inline uint64_t ps_row_order_seed(uint64_t id)
{
    return id ^ 0xD1B54A32D192ED03u;
}

/* An odd number for a table of hashes at this address, which nobody outside can know: the system
 * draws the addresses of each process anew. The upper bits of a hash's product with it say where in
 * the table it goes, so that hashes which somebody chose to have one place are spread over all of
 * it (Dietzfelbinger et al., "A reliable randomized algorithm for the closest-pair problem", 1997).
 */
static inline uint64_t ps_row_hash_spread(const void *table)
{
    return ps_row_hash((uint64_t)(uintptr_t)table, 0x5D588B656C078965u) | 1;
}

#endif
