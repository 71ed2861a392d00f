/* Arrays of blocks, counted by reference as a whole. A dense update touches every block, so one
 * count for the array says as much as one per block and costs one atomic operation per pull. */
#include "server/core/blocks.h"

#include "base/assert.h"

static void free_blocks(struct ps_blocks *blocks);

struct ps_blocks *ps_blocks_create(struct ps_parameter_spec *spec)
{
    const struct ps_allocator *memory = spec->memory;
    size_t size = ps_parameter_spec_bytes(spec);
    size_t block_count = (size + PS_BLOCK_BYTES - 1) / PS_BLOCK_BYTES;
    struct ps_blocks *blocks =
        ps_zeroed(memory, sizeof *blocks + block_count * sizeof blocks->pieces[0]);
    if (blocks == NULL)
        return NULL;
    atomic_init(&blocks->references, 1);
    blocks->spec = ps_parameter_spec_acquire(spec);
    blocks->block_count = block_count;
    blocks->size = size;

    for (size_t i = 0; i < block_count; i++) {
        size_t rest = size - i * PS_BLOCK_BYTES;
        blocks->pieces[i].size = rest < PS_BLOCK_BYTES ? rest : PS_BLOCK_BYTES;
        blocks->pieces[i].data = ps_plain(memory, blocks->pieces[i].size);
        if (blocks->pieces[i].data == NULL) {
            free_blocks(blocks);
            return NULL;
        }
    }
    return blocks;
}

static void free_blocks(struct ps_blocks *blocks)
{
    const struct ps_allocator *memory = blocks->spec->memory;
    for (size_t i = 0; i < blocks->block_count; i++)
        ps_release(memory, (void *)blocks->pieces[i].data);
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
        free_blocks(blocks);
}

bool ps_blocks_shared(struct ps_blocks *blocks)
{
    /* Acquire: what the last other holder read, it read before we write. */
    return atomic_load_explicit(&blocks->references, memory_order_acquire) > 1;
}

struct ps_view ps_blocks_view(const struct ps_blocks *blocks)
{
    return (struct ps_view){
        .pieces = blocks->pieces, .piece_count = blocks->block_count, .size = blocks->size};
}

void *ps_blocks_write(struct ps_blocks *blocks, size_t i)
{
    PS_ASSERT(i < blocks->block_count);
    PS_ASSERT(!ps_blocks_shared(blocks));
    return (void *)blocks->pieces[i].data;
}
