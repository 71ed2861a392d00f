/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of blocks, cut from slabs of large pages (base/slab.h).
 *
 * Free blocks are used again before a new slab is asked for. Memory that is touched for the first
 * time is slow, in a virtual machine 1 to 2 ms for a megabyte, and it would be the pushes that wait
 * for it. So slabs that are wholly free are kept:
 *
 * - PS_POOL_SLACK_SLABS in any case;
 * - what was in use at once lately, together with what is in use: pushes take their blocks anew and
 *   again. Lately is while PS_POOL_PERIOD_TAKES blocks were taken, and once as many before;
 * - from the first snapshot on, made ready before it, as many as the snapshot holds blocks. Of
 *   those that nobody needed from one snapshot to the next, half go back; when all were needed, it
 *   is as many as are held again. Without snapshots they stay until ps_block_pool_relax.
 *
 * All others go back to where they came from; of the last two kinds, what is more than
 * PS_POOL_READY_SLABS_MAX.
 *
 * Threads:  any, but for create and destroy.
 * Blocking: for a lock held for a few instructions; for the kernel when a slab is taken or given.
 * Errors:   NULL when memory is refused.
 * Memory:   destroy may come before the last block is back: the last one takes the pool with it.
 */
#ifndef PS_SERVER_CORE_BLOCK_POOL_H
#define PS_SERVER_CORE_BLOCK_POOL_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/metrics.h"
#include "server/core/values/block_source.h"

#include <stdbool.h>

/* 128 MiB. */
#define PS_POOL_SLACK_SLABS 64

/* 1 GiB. */
#define PS_POOL_READY_SLABS_MAX 512

/* 2 GiB of blocks. */
#define PS_POOL_PERIOD_TAKES 8192

struct ps_block_pool;

/* `memory` is borrowed and outlives the last block; `metrics` is borrowed until destroy, and may be
 * NULL. Returns NULL when memory is refused; end it with ps_block_pool_destroy. */
struct ps_block_pool *ps_block_pool_create(const struct ps_allocator *memory,
                                           struct ps_metrics *metrics);

/* Where slabs come from, if not from the system. */
struct ps_slab_source {
    void *(*take)(void *self); /* PS_SLAB_BYTES, or NULL when memory is refused */
    void (*give)(void *self, void *slab);
    void *self;
};

/* The same over slabs of `source`, which is copied. It takes tails (block_source.h), and gets
 * nothing ready for snapshots. */
struct ps_block_pool *ps_block_pool_create_over(const struct ps_slab_source *source,
                                                const struct ps_allocator *memory);

/* Takes `pool`. Nothing may be taken from it any more. NULL is allowed. */
void ps_block_pool_destroy(struct ps_block_pool *pool);

/* Valid as long as the pool. */
const struct ps_block_source *ps_block_pool_source(const struct ps_block_pool *pool);

/* For a shard that will be loaded: adds one slab while less than `bytes` are free, and returns true
 * while there is more to do. What is made ready so stays until it was used. */
bool ps_block_pool_prepare(struct ps_block_pool *pool, uint64_t bytes);

/* There will be no snapshot for a while: gives back all but the slack. What pushes then need again,
 * they take again. */
void ps_block_pool_relax(struct ps_block_pool *pool);

struct ps_block_pool_state {
    uint64_t bytes_used;     /* of blocks that are out */
    uint64_t bytes_reserved; /* of slabs: those blocks and what is free */
};
struct ps_block_pool_state ps_block_pool_look(struct ps_block_pool *pool);

#endif
