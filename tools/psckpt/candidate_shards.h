/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that tables count until they get a row (docs/tables.md), in the states of shards.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for records that no server writes; PS_ERR_NO_MEMORY.
 * Memory:   what is made lives in the rooms of the state that it is put into.
 */
#ifndef PS_TOOLS_CANDIDATE_SHARDS_H
#define PS_TOOLS_CANDIDATE_SHARDS_H

#include "checkpoint/checkpoint.h"
#include "tools/psckpt/sha256.h"
#include "tools/psckpt/shard_state.h"

/* Puts the candidates of all `states`, which are the shards of one job, into those of `shards` that
 * have their keys. As of rows, keys that another shard of the job has are left out, and each keeps
 * its age in versions. */
PS_MUST_USE enum ps_status candidate_shards_merge(const struct shard_state *states,
                                                  size_t state_count, struct shard_state *shards,
                                                  uint32_t shard_count, struct ps_error *error);

/* Gives the candidates of a table as a table of one column, `*counted`, of which PS_U32 counts are
 * the values: in rising order of keys, of all `states`, which are the shards of one job, and of
 * `joined`, which has been made of them. `table` is in `joined`; clocks are such that each key
 * keeps its age in versions there. Without candidates it has no rows. What it is made of lives as
 * long as `joined`. PS_ERR_CORRUPT also for a key that is counted twice. */
PS_MUST_USE enum ps_status candidate_shards_table(const struct shard_state *states,
                                                  size_t state_count, struct shard_state *joined,
                                                  const struct ps_checkpoint_parameter *table,
                                                  struct ps_checkpoint_parameter *counted,
                                                  struct ps_error *error);

/* Adds the candidates of all `states` to a digest, the same in whatever order and on whatever
 * shards they stand; nothing when there are none. */
PS_MUST_USE enum ps_status candidate_shards_add(const struct shard_state *states,
                                                size_t state_count, struct sha256 *hash,
                                                struct ps_error *error);

#endif
