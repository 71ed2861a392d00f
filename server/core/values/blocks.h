/* SPDX-License-Identifier: Apache-2.0 */
/* One version of one array of a parameter (its values or a state): a list of blocks. Lists and
 * blocks are counted by reference: the copy-on-write that makes pulls and snapshots free.
 *
 * Whoever holds a list may read it as long as it is held, which costs one atomic operation.
 * Only the parameter writes, under its lock: in place where nobody else holds the block, otherwise
 * into a new block of a new list (reading the old one), which then takes the old list's place.
 * Lists of different versions share the blocks in which they agree.
 *
 * Each entry of a list knows the parameter's version at which its block was last written. A list
 * that was loaded from a checkpoint says the checkpoint's version: no block changed after it.
 *
 * Threads:  references from any thread; writing as said above.
 * Blocking: never.
 * Errors:   NULL when memory is refused.
 * Memory: whole blocks come from the block source of the spec (block_source.h), shorter ones (an
 *           array's last, or its only one) from its allocator, unless the source takes tails. All
 *           go with the last reference.
 */
#ifndef PS_SERVER_CORE_BLOCKS_H
#define PS_SERVER_CORE_BLOCKS_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "server/core/values/block_source.h"
#include "server/core/values/parameter_spec.h"

#include <stdbool.h>

struct ps_block_entry {
    struct ps_block *block; /* a reference; NULL only within an update */
    uint64_t version;       /* of the parameter, when it was last written */
};

struct ps_blocks {
    _Atomic uint32_t references;
    struct ps_parameter_spec *spec; /* a reference of its own: keeps the name alive */
    size_t block_count;
    size_t size;             /* bytes of all blocks together */
    struct ps_bytes *pieces; /* the blocks' bytes; all but the last have PS_BLOCK_BYTES */
    struct ps_block_entry entries[];
};

/* Returns an array for the parameter of `spec` with undefined content, written at version 0, and
 * one reference; end it with ps_blocks_release. */
struct ps_blocks *ps_blocks_create(struct ps_parameter_spec *spec);

/* One more reference; returns `blocks`. */
struct ps_blocks *ps_blocks_acquire(struct ps_blocks *blocks);
void ps_blocks_release(struct ps_blocks *blocks);

/* True while somebody else holds a reference. Only the holder may ask. What is false stays false
 * for as long as the holder gives out no reference. */
bool ps_blocks_shared(struct ps_blocks *blocks);

/* The caller will not read the first `bytes` again, nor what it asks for later in the same way with
 * more: whole blocks among them go at once when nobody else holds the list. */
void ps_blocks_let_go(struct ps_blocks *blocks, uint64_t bytes);

/* The content; valid while the caller's reference is. */
struct ps_view ps_blocks_view(const struct ps_blocks *blocks);

/* What ps_digest_block says of block `i`. It reads the block unless somebody has asked before; what
 * it finds is remembered with the block, by all lists that have it, until it is written. */
uint64_t ps_blocks_digest(const struct ps_blocks *blocks, size_t i);

/* Has somebody asked? */
bool ps_blocks_digest_known(const struct ps_blocks *blocks, size_t i);

/* Block `i` for writing, at `version`. The caller must hold the one reference of the list, and the
 * list that of the block: as after create. */
void *ps_blocks_write(struct ps_blocks *blocks, size_t i, uint64_t version);

/* Block `i` of such a list, for several threads that write different bytes of it. At which version
 * was said before, by ps_blocks_write. */
void *ps_blocks_part(const struct ps_blocks *blocks, size_t i);

/* ---- An update: begin, then update every block that is touched, then end ---- */

/* Returns the list to write into: `blocks` itself when nobody else holds what will be written, or a
 * new one, with everything allocated that the update needs. NULL when memory is refused. The caller
 * holds `blocks` and gives no reference out until the end.
 *
 * touched   borrowed; a flag per block, NULL: all are
 */
struct ps_blocks *ps_blocks_begin_update(struct ps_blocks *blocks, const bool *touched);

/* A block within an update: its content, and where the new content goes. That is the same place, or
 * another, whose content is undefined: then every byte of it is written. */
struct ps_block_update {
    const uint8_t *from;
    uint8_t *to;
    size_t size;
};

/* Block `i` of `to`, which was touched, for writing at `version`. Once for each block. */
struct ps_block_update ps_blocks_update(struct ps_blocks *from, struct ps_blocks *to, size_t i,
                                        uint64_t version);

/* Takes `from` when `to` is another: the caller holds `to` now. */
void ps_blocks_end_update(struct ps_blocks *from, struct ps_blocks *to);

/* Instead, before any block was updated: takes `to` when it is another. */
void ps_blocks_abandon_update(struct ps_blocks *from, struct ps_blocks *to);

#endif
