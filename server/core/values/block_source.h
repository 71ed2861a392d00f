/* SPDX-License-Identifier: Apache-2.0 */
/* Where the blocks of parameters come from: an interface, so that they may come from a pool of
 * large pages (block_pool.h), from the heap (no source at all), or from memory that a device copies
 * into by itself (device_store.h).
 *
 * A block is a run of bytes with a count of its references. Nobody but the source knows how its
 * memory was made: it is read through ps_blocks_view, written through ps_blocks_write and
 * ps_blocks_update alone (blocks.h), and goes back to the source that gave it.
 *
 * Threads:  take and give from any thread.
 * Blocking: take, for the kernel.
 * Errors:   NULL when memory is refused.
 * Memory:   a block belongs to whoever took it until it is given back.
 */
#ifndef PS_SERVER_CORE_BLOCK_SOURCE_H
#define PS_SERVER_CORE_BLOCK_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ps_block {
    _Atomic uint32_t references;          /* lists that have it; kept by blocks.c */
    const struct ps_block_source *source; /* that it goes back to; NULL: the heap */
    uint8_t *data;                        /* PS_BLOCK_BYTES; less from the heap */
    _Atomic uint64_t digest;              /* ps_digest_block of it; 0: not known. blocks.c */
};

struct ps_block_source {
    /* A block of PS_BLOCK_BYTES, content undefined, or NULL when memory is refused. */
    struct ps_block *(*take)(void *self);
    void (*give)(void *self, struct ps_block *block);
    /* Somebody is about to hold `bytes` of blocks for a while; those that change will be written
     * anew. A good moment to have memory ready, so that no update waits for it. May take long;
     * NULL: nothing can be done. */
    void (*expect_copies)(void *self, uint64_t bytes);
    /* Also the last, shorter block of an array that has whole ones comes from here. */
    bool takes_tails;
    void *self;
};

#endif
