/* SPDX-License-Identifier: Apache-2.0 */
/* Dealing is a counting sort: two passes over the keys, and no comparison. */
#include "client/row_deal.h"

#include "base/assert.h"
#include "base/row_hash.h"

#include <inttypes.h>
#include <string.h>

/* The hashes fall into so many parts for each bucket but the first, which has one. */
#define BUCKET_PARTS 4

static enum ps_status deal_by_shard(const struct ps_partition *partition, const uint64_t *keys,
                                    size_t count, struct ps_row_dealt *dealt,
                                    struct ps_error *error);

/* One shard has every key, but of ranges, which end somewhere. Jobs of one server are common, and
 * there is nothing to hash for them. */
enum ps_status ps_row_deal(const struct ps_allocator *memory, const struct ps_partition *partition,
                           const uint64_t *keys, size_t count, struct ps_row_dealt *dealt,
                           struct ps_error *error)
{
    uint32_t shard_count = partition->shard_count;
    *dealt = (struct ps_row_dealt){.shard_count = shard_count};
    if (count > PS_ROW_CUT_KEYS_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "%zu keys in one call: at most %zu go", count,
                       PS_ROW_CUT_KEYS_MAX);
    dealt->order = ps_plain(memory, count * sizeof *dealt->order);
    /* Two more: while rows are dealt, entry i + 1 is where the next row of shard i goes. */
    dealt->starts = ps_zeroed_array(memory, (size_t)shard_count + 2, sizeof *dealt->starts);
    enum ps_status status = PS_OK;
    if (dealt->order == NULL || dealt->starts == NULL) {
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu keys", count);
    } else if (shard_count == 1 && partition->kind != PS_PARTITION_RANGE) {
        for (size_t i = 0; i < count; i++)
            dealt->order[i] = (uint32_t)i;
        dealt->starts[1] = count;
    } else {
        status = deal_by_shard(partition, keys, count, dealt, error);
    }
    if (status != PS_OK)
        ps_row_deal_fini(memory, dealt);
    return status;
}

/* Also of a deal that got only one of its two arrays. */
void ps_row_deal_fini(const struct ps_allocator *memory, struct ps_row_dealt *dealt)
{
    ps_release(memory, dealt->starts);
    ps_release(memory, dealt->order);
    *dealt = (struct ps_row_dealt){0};
}

/* Said here, before anything is sent: the server would say it of each message by itself. */
static enum ps_status refuse_key(const struct ps_partition *partition, uint64_t key,
                                 struct ps_error *error)
{
    /* Beyond given ranges there is no key. */
    PS_ASSERT(partition->kind == PS_PARTITION_RANGE);
    return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                   "key %" PRIu64 ": the table's keys are below %" PRIu64, key,
                   partition->keys_max);
}

/* Counts become places: entry i + 1 is where group i begins, until its rows are dealt. */
static void sum_up(size_t *starts, uint32_t groups)
{
    for (uint32_t i = 0; i < groups; i++)
        starts[i + 2] += starts[i + 1];
}

/* Shards are computed twice rather than kept: that is cheaper than memory for them. */
static enum ps_status deal_by_shard(const struct ps_partition *partition, const uint64_t *keys,
                                    size_t count, struct ps_row_dealt *dealt,
                                    struct ps_error *error)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t shard = ps_partition_shard(partition, keys[i]);
        if (shard == dealt->shard_count)
            return refuse_key(partition, keys[i], error);
        dealt->starts[shard + 2]++;
    }
    sum_up(dealt->starts, dealt->shard_count);
    for (size_t i = 0; i < count; i++) {
        uint32_t shard = ps_partition_shard(partition, keys[i]);
        dealt->order[dealt->starts[shard + 1]++] = (uint32_t)i;
    }
    PS_ASSERT(dealt->starts[dealt->shard_count] == count);
    return PS_OK;
}

/* Hashes are made once, since a shard that is dealt again has many rows. */
void ps_row_deal_buckets(const uint64_t *keys, uint64_t seed, const uint32_t *from, size_t count,
                         uint32_t bucket_count, uint32_t *buckets, size_t *starts, uint32_t *to)
{
    PS_ASSERT(bucket_count > 0 && bucket_count <= UINT32_MAX / BUCKET_PARTS);
    uint64_t parts = (uint64_t)bucket_count * BUCKET_PARTS - (BUCKET_PARTS - 1);
    memset(starts, 0, ((size_t)bucket_count + 2) * sizeof *starts);
    for (size_t i = 0; i < count; i++) {
        uint64_t upper_half = ps_row_hash(keys[from[i]], seed) >> 32;
        uint64_t part = (upper_half * parts) >> 32;
        buckets[i] = (uint32_t)((part + BUCKET_PARTS - 1) / BUCKET_PARTS);
        starts[buckets[i] + 2]++;
    }
    sum_up(starts, bucket_count);
    /* A row goes behind those of its bucket that came before it. */
    for (size_t i = 0; i < count; i++)
        to[starts[buckets[i] + 1]++] = from[i];
    PS_ASSERT(starts[bucket_count] == count);
}
