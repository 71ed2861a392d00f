/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table that lie in several states, as one table: whoever writes a checkpoint reads
 * them by rising keys, and nothing is copied before.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   said at the function; reading cannot fail.
 * Memory:   a source lives in a room of a state, with 8 bytes for each row, and borrows the parts.
 */
#ifndef PS_TOOLS_TABLE_SOURCE_H
#define PS_TOOLS_TABLE_SOURCE_H

#include "tools/psckpt/table_shards.h"

struct table_source {
    const struct table_part *parts; /* borrowed */
    size_t part_count;
    uint64_t version; /* of the table: clocks of an older part move up by what it is behind */
    uint64_t rows;
    uint64_t *places; /* by row, keys rising: which part's, and which of its rows */
};

/* An empty source over these parts, with space for `rows` rows, in a room of `state`. NULL with
 * `error` filled when memory is refused. */
struct table_source *table_source_make(struct shard_state *state, const struct table_part *parts,
                                       size_t part_count, uint64_t version, uint64_t rows,
                                       struct ps_error *error);

/* Puts all rows of the parts into the source, those that are their shard's by `owners` (NULL: every
 * row), as many as it has space for: each part is sorted, and no two of them own the same key.
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status table_source_merge(struct table_source *source,
                                              const struct table_owners *owners,
                                              const struct ps_allocator *memory,
                                              struct ps_error *error);

/* Is row `row` of the part one that its shard is asked for? */
bool table_source_is_own(const struct table_owners *owners, const struct table_part *part,
                         uint64_t row);

uint64_t table_source_key(const struct table_source *source, uint64_t row);

/* As a checkpoint's writer has it; the source outlives it. Any bytes may be asked for, as often as
 * somebody likes. */
struct ps_checkpoint_source table_source_of(struct table_source *source);

#endif
