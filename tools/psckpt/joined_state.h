/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a job as its clients see them: ranges "NAME#k/n" joined (docs/placement.md).
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   said at the function.
 * Memory:   a joined state views the arrays of the states that it was made of, which outlive it.
 *           Its tables have sources that read their rows there (parameter_room_take_tables).
 */
#ifndef PS_TOOLS_JOINED_STATE_H
#define PS_TOOLS_JOINED_STATE_H

#include "tools/psckpt/shard_state.h"

/* Fills `joined`, an initialised empty state, with the parameters of all `states`. A joined one has
 * the lowest version and the lowest step of its ranges; `*uneven` counts those whose ranges
 * differed.
 *
 * PS_ERR_CORRUPT      a range is missing, ranges do not fit together, or a name is there twice
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status joined_state_make(const struct shard_state *states, size_t state_count,
                                             struct shard_state *joined, size_t *uneven,
                                             struct ps_error *error);

/* Are these the shards 0 to n-1 of one job of n shards, each once? PS_ERR_BAD_INPUT says which one
 * is missing or foreign. */
PS_MUST_USE enum ps_status joined_state_complete(const struct shard_state *states,
                                                 size_t state_count, struct ps_error *error);

#endif
