/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of one set of the whole model (etcd/registry_sets.h), below a data folder.
 *
 * Threads:  one.
 * Blocking: for the disk, and for the store until its deadline.
 * Errors:   PS_ERR_NOT_FOUND when the set or a file of it is not there; those of etcd/kv.h and of
 *           checkpoint/checkpoint.h.
 * Memory:   owned until model_set_fini.
 */
#ifndef PS_TOOLS_MODEL_SET_H
#define PS_TOOLS_MODEL_SET_H

#include "tools/psckpt/psckpt_commands.h"
#include "tools/psckpt/shard_folders.h"
#include "tools/psckpt/state_set.h"

struct model_set {
    const struct ps_allocator *memory;  /* borrowed; outlives this */
    struct ps_checkpoint_place *places; /* owned; by index, with the paths where they were found */
    uint32_t shard_count;
};

/* Finds the set `name`: its rows in the store, each file in the folder of its shard or where the
 * row says. Where nobody is asked, the newest file of each folder that names the set. */
PS_MUST_USE enum ps_status model_set_find(struct model_set *set, const struct psckpt *tool,
                                          struct published *published,
                                          const struct shard_folders *folders, const char *name,
                                          struct ps_error *error);

/* Accepts a zeroed one. */
void model_set_fini(struct model_set *set);

/* The states of the set --set, below `path`: as state_set_load. */
PS_MUST_USE enum ps_status model_set_load(struct state_set *states, const struct psckpt *tool,
                                          const char *path, struct ps_error *error);

#endif
