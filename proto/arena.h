/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for one decoded message: taken piece by piece up to a cap, given back all at once. With
 * it protobuf-c, which needs up to 44 times the size of a hostile message, stays within a bound.
 *
 * Threads:  an arena belongs to one thread.
 * Blocking: never.
 * Errors:   NULL when refused, by the cap or by the allocator behind; `refused` remembers it.
 * Memory:   everything taken lives until ps_arena_release.
 */
#ifndef PS_PROTO_ARENA_H
#define PS_PROTO_ARENA_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>

struct ps_arena {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    void *blocks;                      /* owned: what was taken */
    size_t left;                       /* bytes that may still be taken */
    bool refused;
};

/* An empty arena that gives at most `size_max` bytes. */
void ps_arena_init(struct ps_arena *arena, const struct ps_allocator *memory, size_t size_max);

/* `size` bytes of undefined content, aligned for anything. */
void *ps_arena_take(struct ps_arena *arena, size_t size);

/* The blocks leave the arena: whoever has them ends them with ps_arena_release_blocks. */
void *ps_arena_detach(struct ps_arena *arena);

void ps_arena_release(struct ps_arena *arena);
void ps_arena_release_blocks(const struct ps_allocator *memory, void *blocks);

#endif
