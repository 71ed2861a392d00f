/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing here is the product's: Philox is written from its paper (Salmon et al., 2011, ten
 * rounds), and ranges are dealt out one after the other instead of being computed. */
#include "tests/sim/sim_table_first.h"

#include "base/assert.h"

#define NORMAL_TERMS 12

/* ---- First values ---- */

/* The word at `place` of four. */
static uint32_t philox(uint64_t seed, uint64_t key, uint32_t group, uint32_t turn, uint32_t place)
{
    uint32_t words[4] = {(uint32_t)key, (uint32_t)(key >> 32), group, turn};
    uint32_t low = (uint32_t)seed;
    uint32_t high = (uint32_t)(seed >> 32);
    PS_ASSERT(place < 4);
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)words[0] * 0xD2511F53u;
        uint64_t right = (uint64_t)words[2] * 0xCD9E8D57u;
        words[0] = (uint32_t)(right >> 32) ^ words[1] ^ low;
        words[2] = (uint32_t)(left >> 32) ^ words[3] ^ high;
        words[1] = (uint32_t)right;
        words[3] = (uint32_t)left;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return words[place];
}

static double uniform(uint64_t seed, uint64_t key, uint32_t element, uint32_t turn)
{
    return ((double)philox(seed, key, element / 4, turn, element % 4) + 0.5) / 4294967296.0;
}

static double first_value(const struct sim_first *first, uint64_t key, uint32_t element)
{
    double sum = 0.0;
    switch (first->init) {
    case PS_TABLE_CONSTANT:
        return first->low;
    case PS_TABLE_UNIFORM:
        return first->low + (first->high - first->low) * uniform(first->seed, key, element, 0);
    case PS_TABLE_NORMAL:
        for (uint32_t turn = 0; turn < NORMAL_TERMS; turn++)
            sum += uniform(first->seed, key, element, turn);
        return first->low + first->high * (sum - 6.0);
    default:
        return 0.0;
    }
}

void sim_first_values(const struct sim_first *first, uint64_t key, uint32_t width, double *to)
{
    for (uint32_t element = 0; element < width; element++)
        to[element] = first_value(first, key, element);
}

/* ---- Ranges ---- */

/* Chunk by chunk: shards have equally many, and the first ones one more where that does not go
 * out evenly. */
static uint64_t dealt_start(const struct sim_ranges *ranges, uint32_t shard)
{
    uint64_t chunks = (ranges->keys_max + ranges->chunk - 1) / ranges->chunk;
    uint64_t start = 0;
    for (uint32_t i = 0; i < shard; i++)
        start += chunks / ranges->shard_count + (i < chunks % ranges->shard_count ? 1 : 0);
    start *= ranges->chunk;
    return start < ranges->keys_max ? start : ranges->keys_max;
}

bool sim_ranges_allow(const struct sim_ranges *ranges, uint32_t shard, uint64_t key)
{
    PS_ASSERT(shard < ranges->shard_count);
    if (ranges->kind == PS_TABLE_RANGE)
        return key >= dealt_start(ranges, shard) && key < dealt_start(ranges, shard + 1);
    if (ranges->kind == PS_TABLE_HASH)
        return true;
    bool from = shard == 0 || key >= ranges->bounds[shard - 1];
    bool to = shard + 1 == ranges->shard_count || key < ranges->bounds[shard];
    return from && to;
}
