/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of a shard, each group under its name. The lock is the caller's to take: what is
 * looked at, written to the journal and applied is one step of one group.
 *
 * Threads:  any; each function but init and fini with the lock held.
 * Blocking: never, but for the lock.
 * Errors:   each function lists its own.
 * Memory:   owns the groups; PS_CLOCKS_MAX of them, each bounded by PS_CLOCK_WORKERS_MAX.
 */
#ifndef PS_SERVER_CORE_CLOCKS_H
#define PS_SERVER_CORE_CLOCKS_H

#include "base/thread.h"
#include "server/core/clocks/clock_group.h"

struct ps_clocks {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_mutex lock;              /* PS_RANK_PARAMETER: within the cut, around the journal's */
    struct ps_clock_group *groups;     /* the newest first */
    uint32_t count;
    uint64_t removed_at; /* position of the last removal; 0: there was none in this life */
};

void ps_clocks_init(struct ps_clocks *clocks, const struct ps_allocator *memory);
void ps_clocks_fini(struct ps_clocks *clocks);

/* The shard is lost: every group goes. */
void ps_clocks_clear(struct ps_clocks *clocks);

/* NULL: there are none of that name. */
struct ps_clock_group *ps_clocks_find(const struct ps_clocks *clocks, struct ps_bytes name);

/* PS_ERR_NOT_FOUND, with a text that says how to make them. */
PS_MUST_USE enum ps_status ps_clocks_get(const struct ps_clocks *clocks, struct ps_bytes name,
                                         struct ps_clock_group **group, struct ps_error *error);

/* Those of that name, with room for so many workers: the present ones, or new ones, which are not
 * among the groups before ps_clocks_keep. PS_ERR_BAD_INPUT: no name, or not one; PS_ERR_BUSY: there
 * are PS_CLOCKS_MAX; PS_ERR_NO_MEMORY. On any of them nothing has changed. */
PS_MUST_USE enum ps_status ps_clocks_prepare(struct ps_clocks *clocks, struct ps_bytes name,
                                             uint32_t workers, struct ps_clock_group **group,
                                             struct ps_error *error);

/* Takes a group that was prepared; one that is kept already stays. */
void ps_clocks_keep(struct ps_clocks *clocks, struct ps_clock_group *group);

/* Gives back a group that was prepared and is not kept. */
void ps_clocks_give_up(struct ps_clocks *clocks, struct ps_clock_group *group);

/* The group goes, with its settings, its clocks and what was announced by it; `position` is that of
 * the record that says so. Set again under its name the clocks begin anew. */
void ps_clocks_remove(struct ps_clocks *clocks, struct ps_clock_group *group, uint64_t position);

/* How many more keys may be announced, by all clocks together. */
size_t ps_clocks_room(const struct ps_clocks *clocks);

/* Asserts every invariant. */
void ps_clocks_check(const struct ps_clocks *clocks);

#endif
