/* SPDX-License-Identifier: Apache-2.0 */
/* Whole parameters placed over a number of shards, as a client would place them
 * (docs/placement.md).
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a name that no client may use; PS_ERR_NO_MEMORY.
 * Memory:   the shards view the arrays of the whole state, and read its tables: it outlives them.
 */
#ifndef PS_TOOLS_SPREAD_STATE_H
#define PS_TOOLS_SPREAD_STATE_H

#include "tools/psckpt/shard_state.h"

/* Fills `shards`, `shard_count` initialised empty states. Each gets the facts of `whole`, with its
 * own index; sessions are not touched. */
PS_MUST_USE enum ps_status spread_state(const struct shard_state *whole, uint64_t split_bytes,
                                        struct shard_state *shards, uint32_t shard_count,
                                        struct ps_error *error);

#endif
