/* SPDX-License-Identifier: Apache-2.0 */
/* The pointers of all shards that a command works on, planned together and then changed together.
 *
 * Threads:  one.
 * Blocking: for the store, until --timeout.
 * Errors:   those of published.h.
 * Memory:   owned until publication_close.
 */
#ifndef PS_TOOLS_PUBLICATION_H
#define PS_TOOLS_PUBLICATION_H

#include "tools/psckpt/pointer_change.h"
#include "tools/psckpt/psckpt_commands.h"
#include "tools/psckpt/shard_folders.h"
#include "tools/psckpt/state_set.h"

struct publication {
    struct published from;
    struct published elsewhere; /* where the new pointers go, when that is another store */
    struct published *to;       /* one of the two; NULL: there is no store */
    const struct ps_allocator *memory;
    struct pointer_change *changes; /* owned; one per state */
    size_t count;
};

/* Opens etcd, or the store of the data folder `folder`. With `out`, a new data folder, and without
 * etcd, the pointers go to a store that is made there. Without etcd and a store `to` is NULL. */
PS_MUST_USE enum ps_status publication_open(struct publication *publication,
                                            const struct psckpt *tool, const char *folder,
                                            const char *out, struct ps_error *error);

/* PS_ERR_BAD_INPUT without a store: then nobody would know of what the command does. */
PS_MUST_USE enum ps_status publication_needs_store(const struct publication *publication,
                                                   const char *folder, struct ps_error *error);

/* Plans a change for each state, which was loaded from the folder of its number: nobody owns any of
 * the shards. */
PS_MUST_USE enum ps_status publication_plan(struct publication *publication,
                                            const struct state_set *set,
                                            const struct shard_folders *folders,
                                            struct ps_error *error);

/* Writes the states into --out, then makes the changes, if there is a store; otherwise it says how
 * it is done later. */
PS_MUST_USE enum ps_status publication_write(struct publication *publication,
                                             const struct psckpt *tool, struct state_set *set,
                                             struct ps_error *error);

/* Says what changes, and changes it. With `document`, and --output json, as a document on standard
 * output; without one, and --output json, as text on standard error. */
PS_MUST_USE enum ps_status publication_make(const struct publication *publication,
                                            const struct psckpt *tool, bool document,
                                            struct ps_error *error);

/* Accepts a zeroed struct. */
void publication_close(struct publication *publication);

#endif
