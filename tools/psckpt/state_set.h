/* SPDX-License-Identifier: Apache-2.0 */
/* The states of all shards below a path, or of one checkpoint file: what most commands begin with.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   those of recovery.h and shard_folders.h. What was passed over is said on standard
 *           error.
 * Memory:   owned until state_set_fini.
 */
#ifndef PS_TOOLS_STATE_SET_H
#define PS_TOOLS_STATE_SET_H

#include "tools/psckpt/psckpt_commands.h"
#include "tools/psckpt/recovery.h"

struct state_set {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct shard_state *states;        /* owned, each of them too */
    size_t count;
};

/* `to` is for sets of one shard only: positions are a shard's own. */
PS_MUST_USE enum ps_status state_set_load(struct state_set *set, const struct psckpt *tool,
                                          const char *path, uint64_t to, struct ps_error *error);

/* An empty set of `count` initialised states. */
PS_MUST_USE enum ps_status state_set_make(struct state_set *set, const struct ps_allocator *memory,
                                          size_t count, struct ps_error *error);

/* Writes each state as DIR/shard-<index>, or DIR/JOB/shard-<index>, and says so. */
PS_MUST_USE enum ps_status state_set_write(struct state_set *set, const struct psckpt *tool,
                                           const char *folder, struct ps_error *error);

/* Accepts a zeroed set. */
void state_set_fini(struct state_set *set);

/* Reads --to as a number of shards. PS_ERR_BAD_INPUT when there are never so many. */
PS_MUST_USE enum ps_status state_set_shards(const char *text, uint32_t *count,
                                            struct ps_error *error);

/* Reads --to as a number; `*number` is `fallback` when it was not given. PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status state_set_number(const char *text, uint64_t fallback, uint64_t *number,
                                            struct ps_error *error);

#endif
