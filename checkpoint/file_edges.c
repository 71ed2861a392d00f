/* SPDX-License-Identifier: Apache-2.0 */
/* Few edges wait at a time: two for each large table whose keys are written later, and those
 * between two runs that are written now. So a search goes over all of them, and the room for them
 * is known before the file is begun. */
#include "checkpoint/file_edges.h"

#include "base/assert.h"

#include <string.h>

#define BLOCK ((size_t)PS_FILE_DIRECT_BYTES)

enum ps_status ps_file_edges_init(struct ps_file_edges *edges, size_t capacity,
                                  const struct ps_files *files, const struct ps_allocator *memory,
                                  struct ps_error *error)
{
    *edges = (struct ps_file_edges){.memory = memory, .files = files, .capacity = capacity};
    edges->edges = ps_zeroed_array(memory, capacity, sizeof *edges->edges);
    /* The allocator aligns for numbers, not for disks. */
    edges->blocks = ps_plain(memory, (capacity + 1) * BLOCK);
    if (edges->edges == NULL || edges->blocks == NULL) {
        ps_file_edges_fini(edges);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the edges of %zu parts of a file",
                       capacity);
    }
    uint8_t *first = edges->blocks + (BLOCK - (uintptr_t)edges->blocks % BLOCK) % BLOCK;
    for (size_t i = 0; i < capacity; i++)
        edges->edges[i].bytes = first + i * BLOCK;
    return PS_OK;
}

/* What still waits belongs to a file that was given up: whoever has one that is whole has called
 * end. */
void ps_file_edges_fini(struct ps_file_edges *edges)
{
    if (edges->memory == NULL)
        return;
    PS_ASSERT(edges->count <= edges->capacity);
    ps_release(edges->memory, edges->edges);
    ps_release(edges->memory, edges->blocks);
    *edges = (struct ps_file_edges){0};
}

/* The one with this block, or a new one. */
static struct ps_file_edge *find(struct ps_file_edges *edges, uint64_t offset)
{
    PS_ASSERT(offset % BLOCK == 0);
    for (size_t i = 0; i < edges->count; i++)
        if (edges->edges[i].offset == offset)
            return &edges->edges[i];
    PS_ASSERT(edges->count < edges->capacity);
    struct ps_file_edge *edge = &edges->edges[edges->count++];
    edge->offset = offset;
    edge->filled = 0;
    return edge;
}

/* The last one takes its place, and with it the memory of the one that goes. */
static void forget(struct ps_file_edges *edges, struct ps_file_edge *edge)
{
    struct ps_file_edge gone = *edge;
    PS_ASSERT(edges->count > 0);
    *edge = edges->edges[--edges->count];
    edges->edges[edges->count] = gone;
}

/* Bytes that were put twice would be seen as soon as the block has more than there are in it, or at
 * the end as a block that was never whole. */
enum ps_status ps_file_edges_put(struct ps_file_edges *edges, struct ps_file file, uint64_t offset,
                                 struct ps_bytes bytes, struct ps_error *error)
{
    size_t place = (size_t)(offset % BLOCK);
    PS_ASSERT(bytes.size <= BLOCK - place);
    /* A part that ends with a block has nothing there for the next one. */
    if (bytes.size == 0)
        return PS_OK;
    struct ps_file_edge *edge = find(edges, offset - place);
    PS_ASSERT(bytes.size <= BLOCK - edge->filled);
    memcpy(edge->bytes + place, bytes.data, bytes.size);
    edge->filled += bytes.size;
    if (edge->filled < BLOCK)
        return PS_OK;
    /* Its memory is free for the next edge, which comes after the write. */
    const struct ps_file_edge whole = *edge;
    forget(edges, edge);
    return edges->files->write_over(edges->files->self, file, whole.offset,
                                    (struct ps_bytes){whole.bytes, BLOCK}, error);
}

/* As a file ends anywhere, so does its last block: that write takes the file back into the system's
 * cache, which the sync behind it covers. */
enum ps_status ps_file_edges_end(struct ps_file_edges *edges, struct ps_file file, uint64_t size,
                                 struct ps_error *error)
{
    if (edges->count == 0)
        return PS_OK;
    const struct ps_file_edge *last = &edges->edges[0];
    /* A block within the file would have had all of its bytes by now. */
    PS_ASSERT(edges->count == 1 && last->offset + last->filled == size);
    edges->count = 0;
    return edges->files->write_over(edges->files->self, file, last->offset,
                                    (struct ps_bytes){last->bytes, last->filled}, error);
}
