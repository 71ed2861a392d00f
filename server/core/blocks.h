/* One version of one array of a parameter (its values or a state), cut into blocks and counted by
 * reference: the copy-on-write that makes pulls and snapshots free.
 *
 * Whoever holds a reference may read for as long as he likes. Only the parameter writes, under its
 * lock, and only while it holds the one reference; otherwise it writes into a new array, block by
 * block (copy, then update, while the block is in the cache) and swaps it in.
 *
 * Threads:  references from any thread; writing as said above.
 * Blocking: never.
 * Errors:   NULL when memory is refused.
 * Memory:   one allocation per block and one for the array; all go with the last reference.
 */
#ifndef PS_SERVER_CORE_BLOCKS_H
#define PS_SERVER_CORE_BLOCKS_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "server/core/parameter_spec.h"

struct ps_blocks {
    _Atomic uint32_t references;
    struct ps_parameter_spec *spec; /* a reference of its own: keeps the name alive */
    size_t block_count;
    size_t size;              /* bytes of all blocks together */
    struct ps_bytes pieces[]; /* the blocks; all but the last have PS_BLOCK_BYTES */
};

/* Returns an array for the parameter of `spec` with undefined content and one reference; end it
 * with ps_blocks_release. */
struct ps_blocks *ps_blocks_create(struct ps_parameter_spec *spec);

/* One more reference; returns `blocks`. */
struct ps_blocks *ps_blocks_acquire(struct ps_blocks *blocks);
void ps_blocks_release(struct ps_blocks *blocks);

/* True while somebody else holds a reference. Only the holder may ask. What is false stays false
 * for as long as the holder gives out no reference. */
bool ps_blocks_shared(struct ps_blocks *blocks);

/* The content; valid while the caller's reference is. */
struct ps_view ps_blocks_view(const struct ps_blocks *blocks);

/* Block `i` for writing. The caller must hold the one reference. */
void *ps_blocks_write(struct ps_blocks *blocks, size_t i);

#endif
