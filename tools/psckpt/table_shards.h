/* SPDX-License-Identifier: Apache-2.0 */
/* Tables over shards: the parts that several shards have of one, put together, and the parts that
 * other shards would have.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for a configuration that is no table's, a key twice, or a key that no
 *           shard has; PS_ERR_BAD_INPUT for bounds of another number of shards, or more rows than a
 *           shard may have; PS_ERR_NO_MEMORY.
 * Memory:   what is made lives in the rooms of the state that it is put into: 8 bytes for each row,
 *           which is read where it lies (table_source.h).
 */
#ifndef PS_TOOLS_TABLE_SHARDS_H
#define PS_TOOLS_TABLE_SHARDS_H

#include "base/partition.h"
#include "base/table_settings.h"
#include "tools/psckpt/shard_state.h"

/* What one shard has of a table. */
struct table_part {
    const struct ps_checkpoint_parameter *row; /* borrowed, of a sealed state */
    uint32_t shard;
};

/* Who has which key. Does not move: the partition points at the settings' bounds. */
struct table_owners {
    struct ps_table_settings settings;
    struct ps_partition partition;
};

/* Those of a table's configuration, with so many shards. */
PS_MUST_USE enum ps_status table_owners_read(const struct ps_checkpoint_parameter *table,
                                             uint32_t shard_count,
                                             const struct ps_allocator *memory,
                                             struct table_owners *owners, struct ps_error *error);

/* Makes `*row` the table of all parts, which are of one kind, with a source that reads their rows:
 * the parts outlive it. Rows of keys that fall to another shard are left out: nobody asks that
 * shard for them. The version and the step are the highest of the parts, and rows keep their age,
 * in versions and in time (table_ages.h). */
PS_MUST_USE enum ps_status table_join(struct shard_state *joined, const struct table_part *parts,
                                      size_t count, uint32_t shard_count,
                                      struct ps_checkpoint_parameter *row, struct ps_error *error);

/* Puts the part of `table`, which is one that table_join made or one in arrays, that each shard has
 * behind the shard's other parameters, for which `parameters` has space: every shard gets one, if
 * without rows, with a source that reads it; what the table's rows lie in outlives it. A shard may
 * have as many rows as rows_max says, or as the fullest shard of a joined table had. */
PS_MUST_USE enum ps_status table_spread(const struct ps_checkpoint_parameter *table,
                                        struct shard_state *shards, uint32_t shard_count,
                                        struct ps_error *error);

#endif
