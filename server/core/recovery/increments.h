/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints are increments: files that have what changed since a whole one, their base
 * (docs/recover.md). Each adds to the base alone, never to another increment.
 *
 * The base is the newest whole checkpoint that this server has written and published under this
 * claim. What is remembered of it are versions, and of tables a mark, from which on they keep the
 * keys of rows that go. Whenever a step of a save comes to nothing or is unclear the base is
 * forgotten, and the next checkpoint is whole: so nothing has to be thought through about what
 * became of a file.
 *
 * Threads:  that of the saver.
 * Blocking: prepare reads the versions of all rows, a tenth of a second for ten million.
 * Errors:   none: a checkpoint that cannot be an increment is whole.
 * Memory:   32 bytes for each parameter while there is a base, a parameter's configuration of then,
 *           and the keys of rows that went.
 */
#ifndef PS_SERVER_CORE_INCREMENTS_H
#define PS_SERVER_CORE_INCREMENTS_H

#include "checkpoint/checkpoint.h"
#include "server/core/recovery/snapshot.h"

struct ps_save_base;

struct ps_increments {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint32_t count_max;                /* between two whole ones; 0: every checkpoint is whole */
    uint32_t count;                    /* written since the base */
    uint32_t percent_max;              /* of a whole one's bytes; with more it is whole. 50, but
                                        * in a simulation, whose few parameters all change */
    struct ps_save_base *base;         /* owned; NULL: the next checkpoint is whole */
    struct ps_save_base *candidate;    /* owned; whole, and not published yet */
};

void ps_increments_init(struct ps_increments *increments, const struct ps_allocator *memory,
                        uint32_t count_max);
void ps_increments_fini(struct ps_increments *increments);

/* There is no base: the next checkpoint is whole. */
void ps_increments_forget(struct ps_increments *increments);

/* Decides what `snapshot`, which was taken marked in this generation of the shard, is written as.
 * True: an increment; each parameter says what goes into the file, and facts.base names the base,
 * borrowed from here until ps_increments_written. False: whole; without `may` always. The base is
 * forgotten then, and what is needed of this one as a base is remembered. Its own file is gone, it
 * has as many increments as may be, it is of another generation, or more than half would have to
 * be written: for any of these a checkpoint is whole. */
bool ps_increments_prepare(struct ps_increments *increments, struct ps_snapshot *snapshot,
                           uint64_t generation, bool may, const struct ps_files *files);

/* The file of that snapshot is there, at `place`, or NULL: it is not. */
void ps_increments_written(struct ps_increments *increments,
                           const struct ps_checkpoint_place *place);

/* The store names it. Without this, or what is the same with false, nothing builds on it. */
void ps_increments_published(struct ps_increments *increments, bool is_published);

#endif
