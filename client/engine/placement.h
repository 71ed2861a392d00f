/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a parameter live: whole on one shard, or cut into ranges over several.
 * docs/wire.md says the same rule for clients in other languages.
 *
 * A parameter lives whole on the shard that its name has by the job's number (base/hash.h), unless
 * the parameter is larger than the split size and N > 1. Then it is cut into n = min(N, elements)
 * ranges; range k lives on shard k under the name "NAME#k/n". Ranges hold whole elements, in order;
 * the first `elements mod n` ranges hold one element more than the others.
 *
 * Threads:  pure functions.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a name that is empty, too long, or looks like a range.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_PLACEMENT_H
#define PS_CLIENT_PLACEMENT_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdint.h>

/* Room for "#4095/4096". */
#define PS_RANGE_SUFFIX_BYTES_MAX 10

/* What all clients of a job place by. */
struct ps_layout {
    uint64_t split_bytes; /* larger parameters are cut */
    uint64_t placement;   /* the job's number; 0: not known, which is placed as 1 is */
    uint32_t shard_count; /* not 0 */
};

/* One parameter as its clients see it. */
struct ps_placement {
    uint64_t number; /* the job's */
    uint32_t shard_count;
    uint32_t range_count; /* 1: whole */
    uint64_t element_count;
    size_t element_size;
};

/* One of its ranges. */
struct ps_range {
    uint32_t shard;
    size_t offset; /* bytes from the start of the parameter */
    size_t size;   /* bytes */
};

/* How `size` bytes (a multiple of `element_size`) are laid out. */
struct ps_placement ps_placement_of(size_t size, size_t element_size,
                                    const struct ps_layout *layout);

/* Range k (below range_count) of the parameter called `name`. */
struct ps_range ps_placement_range(const struct ps_placement *placement, struct ps_bytes name,
                                   uint32_t k);

/* Writes the name that range k is stored under (without NUL) and returns its length: `name`
 * itself for a whole parameter. ps_placement_check_name must have accepted `name`. */
size_t ps_placement_name(const struct ps_placement *placement, struct ps_bytes name, uint32_t k,
                         char text[PS_NAME_BYTES_MAX]);

/* A name that ends like a range's ("#3/8") is refused: it could meet a range of another
 * parameter. A parameter that is cut must leave room for the suffix. */
PS_MUST_USE enum ps_status ps_placement_check_name(struct ps_bytes name, bool cut,
                                                   struct ps_error *error);

#endif
