/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for one decoded message. Every block begins with a link to the one taken before it, so
 * that giving everything back is one walk and the arena needs no table that could itself be
 * refused. */
#include "proto/arena.h"

#include "base/assert.h"

#include <stdint.h>

/* The member's alignment rounds the struct up to a multiple of it, so `block + 1` is aligned for
 * anything. */
struct block {
    _Alignas(max_align_t) struct block *before;
};

void ps_arena_init(struct ps_arena *arena, const struct ps_allocator *memory, size_t size_max)
{
    PS_ASSERT(arena != NULL && memory != NULL);
    *arena = (struct ps_arena){.memory = memory, .left = size_max};
}

void *ps_arena_take(struct ps_arena *arena, size_t size)
{
    struct block *block = NULL;
    /* The cap counts what was asked for, not the links: the caller's bound stays the caller's
     * arithmetic. */
    if (size <= arena->left && size <= SIZE_MAX - sizeof *block)
        block = ps_plain(arena->memory, sizeof *block + size);
    if (block == NULL) {
        arena->refused = true;
        return NULL;
    }
    arena->left -= size;
    block->before = arena->blocks;
    arena->blocks = block;
    return block + 1;
}

/* The blocks outlive the arena, which is a local variable of the decoder; the decoded message
 * carries them from here on. */
void *ps_arena_detach(struct ps_arena *arena)
{
    void *blocks = arena->blocks;
    arena->blocks = NULL;
    return blocks;
}

void ps_arena_release(struct ps_arena *arena)
{
    ps_arena_release_blocks(arena->memory, ps_arena_detach(arena));
}

void ps_arena_release_blocks(const struct ps_allocator *memory, void *blocks)
{
    struct block *block = blocks;
    while (block != NULL) {
        struct block *before = block->before;
        ps_release(memory, block);
        block = before;
    }
}
