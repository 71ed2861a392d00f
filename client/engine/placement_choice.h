/* SPDX-License-Identifier: Apache-2.0 */
/* Which placement a job gets: the number under which its fullest shard is smallest. Whoever
 * initialises a job asks this once, with all parameters at hand; everybody else is told the number
 * (docs/placement.md).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   some for the call, 16 bytes for each parameter.
 */
#ifndef PS_CLIENT_PLACEMENT_CHOICE_H
#define PS_CLIENT_PLACEMENT_CHOICE_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"

/* One whole parameter. */
struct ps_placed {
    struct ps_bytes name;
    uint64_t size;
};

/* The same for the same parameters, in whatever order. PS_PLACEMENT_CLASSIC when no other number
 * takes a tenth of its bytes off the fullest shard. */
PS_MUST_USE enum ps_status ps_placement_choose(const struct ps_placed *parameters, size_t count,
                                               uint32_t shard_count,
                                               const struct ps_allocator *memory,
                                               uint64_t *placement, struct ps_error *error);

/* The bytes of each of `shard_count` shards under `placement`. */
void ps_placement_loads(const struct ps_placed *parameters, size_t count, uint64_t placement,
                        uint32_t shard_count, uint64_t *loads);

#endif
