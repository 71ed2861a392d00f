/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a (Fowler, Noll, Vo), 32 bits, and the placement made of it.
 *
 * Both are part of the contract: clients place a parameter by the same function, so neither the
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
