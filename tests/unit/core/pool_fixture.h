/* SPDX-License-Identifier: Apache-2.0 */
/* A pool in a test: taking a block and giving it back, as a parameter does.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   take returns NULL when there is no memory.
 * Memory:   the pool's.
 */
#ifndef PS_TESTS_UNIT_CORE_POOL_FIXTURE_H
#define PS_TESTS_UNIT_CORE_POOL_FIXTURE_H

#include "base/slab.h"
#include "server/core/values/block_pool.h"

#define PER_SLAB (PS_SLAB_BYTES / PS_BLOCK_BYTES)

static inline struct ps_block *take(struct ps_block_pool *pool)
{
    const struct ps_block_source *source = ps_block_pool_source(pool);
    return source->take(source->self);
}

static inline void give(struct ps_block *block)
{
    block->source->give(block->source->self, block);
}

#endif
