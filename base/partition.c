/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of tables' partitions. The shard of a key and the range of a shard say the same
 * thing from both sides, and each is computed by itself: no list of ranges is kept anywhere. */
#include "base/partition.h"

#include "base/assert.h"
#include "base/row_hash.h"

#include <inttypes.h>

static uint32_t hashed_shard(const struct ps_partition *partition, uint64_t key);
/* Keys of one chunk stay together, whatever the number of shards: a vector that is cut into chunks
 * is read as such. */
static uint32_t ranged_shard(const struct ps_partition *partition, uint64_t key);
static uint32_t given_shard(const struct ps_partition *partition, uint64_t key);

/* How the chunks of a range partition are dealt out. */
struct deal {
    uint64_t chunk; /* keys of one */
    uint64_t count; /* of chunks */
    uint64_t each;  /* that every shard has */
    uint64_t more;  /* the first so many shards have one more */
};

static struct deal deal_of(const struct ps_partition *partition)
{
    struct deal deal = {.chunk = partition->chunk > 0 ? partition->chunk : 1};
    PS_ASSERT(partition->keys_max > 0 && partition->shard_count > 0);
    /* The last chunk may be short. */
    deal.count = (partition->keys_max - 1) / deal.chunk + 1;
    deal.each = deal.count / partition->shard_count;
    deal.more = deal.count % partition->shard_count;
    return deal;
}

/* Equal bounds are allowed: the shard between them has no keys, as in a range partition with fewer
 * chunks than shards. */
enum ps_status ps_partition_check(const struct ps_partition *partition, struct ps_error *error)
{
    if (partition->shard_count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a partition over no shards");
    switch (partition->kind) {
    case PS_PARTITION_HASH:
        return PS_OK;
    case PS_PARTITION_RANGE:
        if (partition->keys_max == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "a partition in ranges without keys_max");
        return PS_OK;
    case PS_PARTITION_GIVEN:
        break;
    default:
        return ps_fail(error, PS_ERR_BAD_INPUT, "there is no partition %u",
                       (unsigned)partition->kind);
    }
    if (partition->bound_count + 1 != partition->shard_count)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%zu bounds for %" PRIu32 " shards: one fewer go",
                       partition->bound_count, partition->shard_count);
    for (size_t i = 1; i < partition->bound_count; i++)
        if (partition->bounds[i] < partition->bounds[i - 1])
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "bounds must rise: %" PRIu64 " stands behind %" PRIu64,
                           partition->bounds[i], partition->bounds[i - 1]);
    return PS_OK;
}

/* One switch for each question, so that a fourth kind does not compile before it has both
 * answers. */
uint32_t ps_partition_shard(const struct ps_partition *partition, uint64_t key)
{
    PS_ASSERT(partition->shard_count > 0);
    switch (partition->kind) {
    case PS_PARTITION_HASH:
        return hashed_shard(partition, key);
    case PS_PARTITION_RANGE:
        return ranged_shard(partition, key);
    case PS_PARTITION_GIVEN:
        return given_shard(partition, key);
    }
    return partition->shard_count;
}

/* The high half of a product takes the place of a division: it falls as evenly. 32 bits of each are
 * multiplied at a time, since no type here holds 128. */
static uint32_t hashed_shard(const struct ps_partition *partition, uint64_t key)
{
    uint64_t hash = ps_row_hash(key, 0);
    uint64_t low = (hash & UINT32_MAX) * partition->shard_count;
    uint64_t high = (hash >> 32) * partition->shard_count;
    return (uint32_t)((high + (low >> 32)) >> 32);
}

static uint32_t ranged_shard(const struct ps_partition *partition, uint64_t key)
{
    if (key >= partition->keys_max)
        return partition->shard_count;
    const struct deal deal = deal_of(partition);
    uint64_t chunk = key / deal.chunk;
    /* Chunks of the shards that have one more come first. */
    uint64_t in_longer = deal.more * (deal.each + 1);
    if (chunk < in_longer)
        return (uint32_t)(chunk / (deal.each + 1));
    return (uint32_t)(deal.more + (chunk - in_longer) / deal.each);
}

/* The number of bounds that are not above the key. Of equal bounds the last decides: the shards
 * between them have no keys. */
static uint32_t given_shard(const struct ps_partition *partition, uint64_t key)
{
    size_t low = 0, high = partition->bound_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (partition->bounds[middle] <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Where the keys of a shard of a range partition begin; of the shard behind the last: keys_max. */
static uint64_t range_start(const struct ps_partition *partition, uint32_t shard)
{
    const struct deal deal = deal_of(partition);
    uint64_t chunks = shard * deal.each + (shard < deal.more ? shard : deal.more);
    /* The product of all chunks may be above every key. */
    return chunks < deal.count ? chunks * deal.chunk : partition->keys_max;
}

/* Exclusive ends become inclusive ones. */
static struct ps_key_range range_of(uint64_t first, uint64_t end)
{
    return (struct ps_key_range){first, end > first ? end - 1 : first, end == first};
}

struct ps_key_range ps_partition_range(const struct ps_partition *partition, uint32_t shard)
{
    PS_ASSERT(shard < partition->shard_count);
    /* What a server may not have is refused there; hashed keys it takes as they come. */
    if (partition->kind == PS_PARTITION_HASH)
        return (struct ps_key_range){.first = 0, .last = UINT64_MAX};
    if (partition->kind == PS_PARTITION_RANGE)
        return range_of(range_start(partition, shard), range_start(partition, shard + 1));
    PS_ASSERT(partition->kind == PS_PARTITION_GIVEN);
    uint64_t first = shard == 0 ? 0 : partition->bounds[shard - 1];
    if (shard == partition->bound_count)
        return (struct ps_key_range){.first = first, .last = UINT64_MAX};
    return range_of(first, partition->bounds[shard]);
}
