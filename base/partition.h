/* SPDX-License-Identifier: Apache-2.0 */
/* Which shard has a key of a table. Clients send by this rule, and a server refuses by it the keys
 * that are not its own; docs/wire.md says the same rule for clients in other languages. The rule is
 * a part of the public contract: another one would hide every row that servers have already.
 *
 * Hashed keys fall to shards at random, so that keys which are asked for together are spread. Of
 * them a server looks at some of each request, and keeps what its journal brings. In ranges,
 * neighbours stay together: keys 0 to keys_max - 1 are counted in chunks, every shard has as many
 * chunks as the others, and the first shards have one more where the chunks do not divide evenly.
 * Given ranges begin where the table's owner says.
 *
 * Threads:  pure functions.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a partition that makes no sense.
 * Memory:   bounds are borrowed for as long as the partition is used.
 */
#ifndef PS_BASE_PARTITION_H
#define PS_BASE_PARTITION_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are those of the wire. */
enum ps_partition_kind { PS_PARTITION_HASH = 0, PS_PARTITION_RANGE = 1, PS_PARTITION_GIVEN = 2 };

struct ps_partition {
    enum ps_partition_kind kind;
    uint32_t shard_count;
    uint64_t keys_max;      /* of RANGE: keys are below it */
    uint64_t chunk;         /* of RANGE: keys of one chunk; 0: 1 */
    const uint64_t *bounds; /* of GIVEN: the first keys of shards 1, 2 ..; those below are 0's */
    size_t bound_count;
};

/* The keys that a shard may have, both ends included: no other way holds the highest key. */
struct ps_key_range {
    uint64_t first; /* of an empty range: where it would begin */
    uint64_t last;
    bool is_empty;
};

/* Says what is wrong, if anything is: keys_max is needed, bounds must rise, and there must be one
 * fewer of them than shards. */
PS_MUST_USE enum ps_status ps_partition_check(const struct ps_partition *partition,
                                              struct ps_error *error);

/* The partition must be sound. The number of shards, where no shard has the key. */
uint32_t ps_partition_shard(const struct ps_partition *partition, uint64_t key);

/* Of hashed keys every shard may have any. */
struct ps_key_range ps_partition_range(const struct ps_partition *partition, uint32_t shard);

#endif
