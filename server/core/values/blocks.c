/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of blocks. Two counts say who may write what. The list's count makes a pull, a snapshot or
 * a delta one atomic operation, however large the parameter is. The block's count lets an update
 * copy only what another list still has. The invariant that both keep: a block is written only by
 * whoever holds the one reference of a list that holds the one reference of that block; so a reader
 * never sees a version that is half of one update and half of the next. */
#include "server/core/values/blocks.h"

#include "base/assert.h"
#include "proto/digest.h"

static struct ps_blocks *create_list(struct ps_parameter_spec *spec);
static bool take_block(struct ps_blocks *blocks, size_t i);
static struct ps_block *take_from_heap(const struct ps_allocator *memory, size_t size);
static void share_block(const struct ps_blocks *from, struct ps_blocks *to, size_t i);
static void release_block(const struct ps_blocks *blocks, struct ps_block *block);
static void free_list(struct ps_blocks *blocks);
static bool is_held(struct ps_block *block);
static void *open_block(struct ps_block_entry *entry, uint64_t version);

/* All blocks or none: a list with holes would be a parameter that fails at its first push. */
struct ps_blocks *ps_blocks_create(struct ps_parameter_spec *spec)
{
    struct ps_blocks *blocks = create_list(spec);
    if (blocks == NULL)
        return NULL;
    for (size_t i = 0; i < blocks->block_count; i++) {
        if (!take_block(blocks, i)) {
            free_list(blocks);
            return NULL;
        }
    }
    return blocks;
}

/* A list without blocks. Entries and pieces are one allocation with the list itself: a pull takes a
 * reference to all three, and the view that it hands to the network points into them for as long as
 * it holds it. */
static struct ps_blocks *create_list(struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->count > 0);
    size_t size = ps_parameter_spec_bytes(spec);
    size_t block_count = (size + PS_BLOCK_BYTES - 1) / PS_BLOCK_BYTES;
    size_t entries_bytes = block_count * sizeof(struct ps_block_entry);
    struct ps_blocks *blocks = ps_zeroed(spec->memory, sizeof *blocks + entries_bytes +
                                                           block_count * sizeof blocks->pieces[0]);
    if (blocks == NULL)
        return NULL;
    atomic_init(&blocks->references, 1);
    blocks->spec = ps_parameter_spec_acquire(spec);
    blocks->block_count = block_count;
    blocks->size = size;
    /* Behind the entries, in the same allocation. */
    blocks->pieces = (struct ps_bytes *)&blocks->entries[block_count];
    return blocks;
}

/* Whole blocks come from the pool. A short one (a small parameter, the tail of an array) comes from
 * the heap, since a quarter of a megabyte for a bias of 4 KiB would be most of a model's memory; a
 * source for devices takes tails too, because an array there must be one kind of memory. */
static bool take_block(struct ps_blocks *blocks, size_t i)
{
    const struct ps_parameter_spec *spec = blocks->spec;
    size_t rest = blocks->size - i * PS_BLOCK_BYTES;
    size_t size = rest < PS_BLOCK_BYTES ? rest : PS_BLOCK_BYTES;
    PS_ASSERT(i < blocks->block_count && blocks->entries[i].block == NULL);
    PS_ASSERT(rest > 0);
    const struct ps_block_source *source = spec->block_source;
    bool from_source = source != NULL &&
                       (size == PS_BLOCK_BYTES || (source->takes_tails && blocks->block_count > 1));
    struct ps_block *block =
        from_source ? source->take(source->self) : take_from_heap(spec->memory, size);
    if (block == NULL)
        return false;
    /* Relaxed is enough: nobody else knows the block yet, and the list that carries it is published
     * with an acquire and release of its own. */
    atomic_store_explicit(&block->references, 1, memory_order_relaxed);
    atomic_store_explicit(&block->digest, 0, memory_order_relaxed);
    blocks->entries[i].block = block;
    blocks->pieces[i] = (struct ps_bytes){block->data, size};
    return true;
}

/* One allocation that ends with the content, so that an overrun is one of the allocation. */
static struct ps_block *take_from_heap(const struct ps_allocator *memory, size_t size)
{
    PS_ASSERT(size > 0);
    struct ps_block *block = ps_plain(memory, sizeof *block + size);
    if (block != NULL)
        *block = (struct ps_block){.data = (uint8_t *)(block + 1)};
    return block;
}

/* The version of the entry goes along: a delta counts from when the block was written, not from
 * when a list got it. */
static void share_block(const struct ps_blocks *from, struct ps_blocks *to, size_t i)
{
    struct ps_block *block = from->entries[i].block;
    PS_ASSERT(block != NULL && to->entries[i].block == NULL);
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    to->entries[i] = from->entries[i];
    to->pieces[i] = from->pieces[i];
}

static void release_block(const struct ps_blocks *blocks, struct ps_block *block)
{
    if (block == NULL)
        return;
    /* Release, so that our reads of the block come before it is given away; acquire, so that
     * whoever is the last sees the reads of all others done before it writes or frees. */
    uint32_t before = atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    if (block->source != NULL)
        block->source->give(block->source->self, block);
    else
        ps_release(blocks->spec->memory, block);
}

static void free_list(struct ps_blocks *blocks)
{
    PS_ASSERT(atomic_load_explicit(&blocks->references, memory_order_relaxed) <= 1);
    const struct ps_allocator *memory = blocks->spec->memory;
    for (size_t i = 0; i < blocks->block_count; i++)
        release_block(blocks, blocks->entries[i].block);
    ps_parameter_spec_release(blocks->spec);
    ps_release(memory, blocks);
}

struct ps_blocks *ps_blocks_acquire(struct ps_blocks *blocks)
{
    uint32_t before = atomic_fetch_add_explicit(&blocks->references, 1, memory_order_relaxed);
    PS_ASSERT(before > 0);
    return blocks;
}

void ps_blocks_release(struct ps_blocks *blocks)
{
    if (blocks == NULL)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&blocks->references, 1, memory_order_acq_rel);
    PS_ASSERT(before > 0);
    if (before == 1)
        free_list(blocks);
}

void ps_blocks_let_go(struct ps_blocks *blocks, uint64_t bytes)
{
    PS_ASSERT(atomic_load_explicit(&blocks->references, memory_order_relaxed) > 0);
    if (ps_blocks_shared(blocks))
        return;
    /* The block that is read half is kept. */
    size_t end = bytes < blocks->size ? (size_t)bytes / PS_BLOCK_BYTES : blocks->block_count;
    /* Backwards to where an earlier call ended: a checkpoint lets go piece by piece, and walking
     * from the front each time would be quadratic for an array that is the whole shard. */
    for (size_t i = end; i > 0 && blocks->entries[i - 1].block != NULL; i--) {
        release_block(blocks, blocks->entries[i - 1].block);
        blocks->entries[i - 1].block = NULL;
    }
}

bool ps_blocks_shared(struct ps_blocks *blocks)
{
    /* Acquire: what the last other holder read, it read before we write. */
    return atomic_load_explicit(&blocks->references, memory_order_acquire) > 1;
}

/* The same for a block: somebody has it in another list. A block that is held here is copied on
 * write. Asking for the list is not enough: an update shares the blocks that it does not touch with
 * the list before, and a reader of that one still reads them. */
static bool is_held(struct ps_block *block)
{
    return atomic_load_explicit(&block->references, memory_order_acquire) > 1;
}

struct ps_view ps_blocks_view(const struct ps_blocks *blocks)
{
    PS_ASSERT(blocks->block_count > 0);
    return (struct ps_view){
        .pieces = blocks->pieces, .piece_count = blocks->block_count, .size = blocks->size};
}

/* Whoever asks holds the list, so nobody writes the block meanwhile; two who ask at once find the
 * same. The digest is kept with the block and not with the list, so that a block that no push
 * touches is read once, by whichever pull comes first, and never again for later versions. */
uint64_t ps_blocks_digest(const struct ps_blocks *blocks, size_t i)
{
    PS_ASSERT(i < blocks->block_count);
    struct ps_block *block = blocks->entries[i].block;
    uint64_t digest = atomic_load_explicit(&block->digest, memory_order_relaxed);
    if (digest == 0) {
        digest = ps_digest_block(blocks->pieces[i]);
        atomic_store_explicit(&block->digest, digest, memory_order_relaxed);
    }
    return digest;
}

bool ps_blocks_digest_known(const struct ps_blocks *blocks, size_t i)
{
    PS_ASSERT(i < blocks->block_count);
    return atomic_load_explicit(&blocks->entries[i].block->digest, memory_order_relaxed) != 0;
}

/* For a writer: what was known of the content is over. Forgets the digest before the first byte
 * changes. The order matters to nobody who keeps the rules, since a block with a reader is never
 * opened; it matters to the next delta, which must not find the digest of the content before. */
static void *open_block(struct ps_block_entry *entry, uint64_t version)
{
    PS_ASSERT(!is_held(entry->block));
    PS_ASSERT(version >= entry->version);
    entry->version = version;
    atomic_store_explicit(&entry->block->digest, 0, memory_order_relaxed);
    return entry->block->data;
}

/* For a list that was just made: nobody else has it, and its content is to be written as a whole.
 * */
void *ps_blocks_write(struct ps_blocks *blocks, size_t i, uint64_t version)
{
    PS_ASSERT(i < blocks->block_count);
    PS_ASSERT(!ps_blocks_shared(blocks));
    return open_block(&blocks->entries[i], version);
}

/* Several threads may ask for one block at once; the version was set before, by one of them. */
void *ps_blocks_part(const struct ps_blocks *blocks, size_t i)
{
    PS_ASSERT(i < blocks->block_count);
    PS_ASSERT(!is_held(blocks->entries[i].block));
    return blocks->entries[i].block->data;
}

/* One block that somebody else holds is enough for a new list: the update moves the other blocks
 * over, so that what is copied is that one block. */
static bool is_in_place(struct ps_blocks *blocks, const bool *touched)
{
    if (ps_blocks_shared(blocks))
        return false;
    for (size_t i = 0; i < blocks->block_count; i++)
        if ((touched == NULL || touched[i]) && is_held(blocks->entries[i].block))
            return false;
    return true;
}

/* Everything that can fail happens here, before the push takes its place in the journal and before
 * the first element changes: an update that ran out of memory half-way could neither go on nor be
 * taken back. */
struct ps_blocks *ps_blocks_begin_update(struct ps_blocks *blocks, const bool *touched)
{
    PS_ASSERT(atomic_load_explicit(&blocks->references, memory_order_relaxed) > 0);
    if (is_in_place(blocks, touched))
        return blocks;
    struct ps_blocks *to = create_list(blocks->spec);
    if (to == NULL)
        return NULL;
    /* Asked once: a holder who leaves meanwhile must not make us share and move at once. */
    bool shared = ps_blocks_shared(blocks);
    for (size_t i = 0; i < blocks->block_count; i++) {
        if (touched != NULL && !touched[i])
            share_block(blocks, to, i);
        else if (!shared && !is_held(blocks->entries[i].block))
            to->pieces[i] = blocks->pieces[i]; /* ours alone: ps_blocks_update moves it */
        else if (!take_block(to, i)) {
            free_list(to);
            return NULL;
        }
    }
    return to;
}

/* The content may be read and written at the same place, which is what a rule in place does; where
 * the block is a fresh one, the arithmetic reads the old one and writes the new, so that copying is
 * never a pass of its own. */
struct ps_block_update ps_blocks_update(struct ps_blocks *from, struct ps_blocks *to, size_t i,
                                        uint64_t version)
{
    PS_ASSERT(from->block_count == to->block_count && from->size == to->size);
    PS_ASSERT(i < to->block_count);
    struct ps_block_entry *source = &from->entries[i];
    struct ps_block_entry *entry = &to->entries[i];
    PS_ASSERT(source->block != NULL);
    const uint8_t *content = source->block->data;
    if (entry->block == NULL) {
        *entry = *source;
        source->block = NULL;
    }
    return (struct ps_block_update){content, open_block(entry, version), to->pieces[i].size};
}

/* From here on the caller's list is `to`. The one before lives on with whoever reads it, and takes
 * its blocks along when the last of them has gone. */
void ps_blocks_end_update(struct ps_blocks *from, struct ps_blocks *to)
{
    if (to == from)
        return;
    for (size_t i = 0; i < to->block_count; i++)
        PS_ASSERT(to->entries[i].block != NULL);
    ps_blocks_release(from);
}

/* No block was moved yet, so `from` is still whole: begin only allocated. A list that is NULL was
 * handed on by a commit: nothing is left of that update to give back. */
void ps_blocks_abandon_update(struct ps_blocks *from, struct ps_blocks *to)
{
    PS_ASSERT(from == NULL ? to == NULL : from->entries[0].block != NULL);
    if (to != from)
        ps_blocks_release(to);
}
