/* FNV-1a and the placement made of it. */
#include "base/hash.h"

#include "base/assert.h"

uint32_t ps_hash_fnv1a32(struct ps_bytes bytes)
{
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
