/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a (Fowler, Noll, Vo), and the placements made of it.
 *
 * All are part of the contract: clients place a parameter by the same function, so neither the
 * constants nor the modulo may ever change. FNV suits short names and is written in four lines in
 * any language that a client may be written in. */
#include "base/hash.h"

#include "base/assert.h"

uint32_t ps_hash_fnv1a32(struct ps_bytes bytes)
{
    /* The offset basis and prime of the 32 bit variant; the multiplication wraps by design. */
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes.size; i++)
        hash = (hash ^ bytes.data[i]) * 16777619u;
    return hash;
}

uint32_t ps_hash_shard(struct ps_bytes name, uint32_t shard_count)
{
    PS_ASSERT(shard_count > 0);
    return ps_hash_fnv1a32(name) % shard_count;
}

/* The same in 64 bits: names of a job must not meet before they are mixed with a number. */
uint64_t ps_hash_fnv1a64(struct ps_bytes bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes.size; i++)
        hash = (hash ^ bytes.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The finalizer of splitmix64 (Steele, Lea, Flood): hashes of names that differ in one letter, and
 * placements that differ by one, give shards that have nothing to do with each other. */
uint32_t ps_hash_placed_shard(uint64_t hash, uint64_t placement, uint32_t shard_count)
{
    PS_ASSERT(shard_count > 0);
    uint64_t mixed = hash + placement * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    return (uint32_t)(mixed % shard_count);
}
