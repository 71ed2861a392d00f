/* Lists of blocks. A count per list makes a pull one atomic operation whatever its size; a count
 * per block lets an update copy only what somebody else still holds. */
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

/* A list without blocks. */
static struct ps_blocks *create_list(struct ps_parameter_spec *spec)
{
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
    blocks->pieces = (struct ps_bytes *)&blocks->entries[block_count];
    return blocks;
}

static bool take_block(struct ps_blocks *blocks, size_t i)
{
    const struct ps_parameter_spec *spec = blocks->spec;
    size_t rest = blocks->size - i * PS_BLOCK_BYTES;
    size_t size = rest < PS_BLOCK_BYTES ? rest : PS_BLOCK_BYTES;
    const struct ps_block_source *source = spec->block_source;
    bool from_source = source != NULL &&
                       (size == PS_BLOCK_BYTES || (source->takes_tails && blocks->block_count > 1));
    struct ps_block *block =
        from_source ? source->take(source->self) : take_from_heap(spec->memory, size);
    if (block == NULL)
        return false;
    atomic_store_explicit(&block->references, 1, memory_order_relaxed);
    atomic_store_explicit(&block->digest, 0, memory_order_relaxed);
    blocks->entries[i].block = block;
    blocks->pieces[i] = (struct ps_bytes){block->data, size};
    return true;
}

/* One allocation that ends with the content, so that an overrun is one of the allocation. */
static struct ps_block *take_from_heap(const struct ps_allocator *memory, size_t size)
{
    struct ps_block *block = ps_plain(memory, sizeof *block + size);
    if (block != NULL)
        *block = (struct ps_block){.data = (uint8_t *)(block + 1)};
    return block;
}

static void share_block(const struct ps_blocks *from, struct ps_blocks *to, size_t i)
{
    struct ps_block *block = from->entries[i].block;
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    to->entries[i] = from->entries[i];
    to->pieces[i] = from->pieces[i];
}

static void release_block(const struct ps_blocks *blocks, struct ps_block *block)
{
    if (block == NULL)
        return;
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
    if (ps_blocks_shared(blocks))
        return;
    size_t end = bytes < blocks->size ? (size_t)bytes / PS_BLOCK_BYTES : blocks->block_count;
    /* Backwards to where an earlier call ended. */
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

/* The same for a block: somebody has it in another list. */
static bool is_held(struct ps_block *block)
{
    return atomic_load_explicit(&block->references, memory_order_acquire) > 1;
}

struct ps_view ps_blocks_view(const struct ps_blocks *blocks)
{
    return (struct ps_view){
        .pieces = blocks->pieces, .piece_count = blocks->block_count, .size = blocks->size};
}

/* Whoever asks holds the list, so nobody writes the block meanwhile; two who ask at once find the
 * same. */
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

/* For a writer: what was known of the content is over. */
static void *open_block(struct ps_block_entry *entry, uint64_t version)
{
    PS_ASSERT(!is_held(entry->block));
    entry->version = version;
    atomic_store_explicit(&entry->block->digest, 0, memory_order_relaxed);
    return entry->block->data;
}

void *ps_blocks_write(struct ps_blocks *blocks, size_t i, uint64_t version)
{
    PS_ASSERT(i < blocks->block_count);
    PS_ASSERT(!ps_blocks_shared(blocks));
    return open_block(&blocks->entries[i], version);
}

void *ps_blocks_part(const struct ps_blocks *blocks, size_t i)
{
    PS_ASSERT(i < blocks->block_count);
    PS_ASSERT(!is_held(blocks->entries[i].block));
    return blocks->entries[i].block->data;
}

static bool is_in_place(struct ps_blocks *blocks, const bool *touched)
{
    if (ps_blocks_shared(blocks))
        return false;
    for (size_t i = 0; i < blocks->block_count; i++)
        if ((touched == NULL || touched[i]) && is_held(blocks->entries[i].block))
            return false;
    return true;
}

struct ps_blocks *ps_blocks_begin_update(struct ps_blocks *blocks, const bool *touched)
{
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

struct ps_block_update ps_blocks_update(struct ps_blocks *from, struct ps_blocks *to, size_t i,
                                        uint64_t version)
{
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

void ps_blocks_end_update(struct ps_blocks *from, struct ps_blocks *to)
{
    if (to == from)
        return;
    for (size_t i = 0; i < to->block_count; i++)
        PS_ASSERT(to->entries[i].block != NULL);
    ps_blocks_release(from);
}

void ps_blocks_abandon_update(struct ps_blocks *from, struct ps_blocks *to)
{
    if (to != from)
        ps_blocks_release(to);
}
