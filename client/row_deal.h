/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a caller's rows go to which shard, and which of a shard's go together: positions of the
 * caller, sorted. Within a group the caller's order stays. It decides nothing for a read; of a push
 * it is the order in which the server sums the gradients of one key, and floats that are summed in
 * another order are another sum.
 *
 * Threads:  pure but for the memory.
 * Blocking: never.
 * Errors:   PS_ERR_OUT_OF_RANGE: a key that no shard has, or too many. PS_ERR_NO_MEMORY.
 * Memory:   of the allocator. Nothing is to be released after a failure.
 */
#ifndef PS_CLIENT_ROW_DEAL_H
#define PS_CLIENT_ROW_DEAL_H

#include "base/alloc.h"
#include "base/partition.h"
#include "base/status.h"
#include "optimizer/hash_order.h"

/* Most keys of one call. */
#define PS_ROW_CUT_KEYS_MAX ((size_t)PS_HASH_ORDER_MAX)

/* Rows by shard. */
struct ps_row_dealt {
    uint32_t *order; /* owned; the caller's positions, shard by shard */
    size_t *starts;  /* owned; of each shard in it, and the end */
    uint32_t shard_count;
};

PS_MUST_USE enum ps_status ps_row_deal(const struct ps_allocator *memory,
                                       const struct ps_partition *partition, const uint64_t *keys,
                                       size_t count, struct ps_row_dealt *dealt,
                                       struct ps_error *error);
void ps_row_deal_fini(const struct ps_allocator *memory, struct ps_row_dealt *dealt);

/* Deals the positions `from` once more, into buckets by the hashes of their keys under `seed`, from
 * the lowest: all positions of a key come into one bucket, and buckets have nearly the same number
 * of different keys, the first one a quarter of it: whoever sends it soon gives the server
 * something to do. They stand one behind the other in `to`; starts[i] is where bucket i begins, and
 * starts[bucket_count] is `count`. `starts` has room for bucket_count + 2, `buckets` is scratch
 * with room for `count`. A seed other than that of the shards, under which all keys of one shard
 * have similar hashes. */
void ps_row_deal_buckets(const uint64_t *keys, uint64_t seed, const uint32_t *from, size_t count,
                         uint32_t bucket_count, uint32_t *buckets, size_t *starts, uint32_t *to);

#endif
