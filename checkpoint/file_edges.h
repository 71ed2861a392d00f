/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a file in which one part ends and another begins, where the parts are written at
 * different times (block_output.h, file_runs.h). Writes past the system's cache are of whole
 * blocks, so such a block waits here until all of its bytes are there.
 *
 *     put(4096 to 4106)             ... by whoever writes what ends there
 *     put(5000 to 8191)             ... by whoever writes what begins there, at any time
 *     put(4106 to 4999)             ... by a third: the block is whole, and is written
 *     end                           ... the file's last block, which need not be whole
 *
 * No byte is put twice, so that a block is whole when as many bytes were put as it has: nobody
 * notes which.
 *
 * Threads:  one.
 * Blocking: put and end for the disk.
 * Errors:   those of the file system; PS_ERR_NO_MEMORY of init.
 * Memory:   a block for each edge that waits, taken by init; nothing later allocates.
 */
#ifndef PS_CHECKPOINT_FILE_EDGES_H
#define PS_CHECKPOINT_FILE_EDGES_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"

/* One block: whose it is in the file, and how many of its bytes are there. */
struct ps_file_edge {
    uint64_t offset;
    size_t filled;
    uint8_t *bytes;
};

struct ps_file_edges {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_files *files;      /* borrowed */
    uint8_t *blocks;                   /* owned */
    struct ps_file_edge *edges;        /* owned; the first `count` wait */
    size_t count;
    size_t capacity;
};

/* For so many edges that wait at a time. */
PS_MUST_USE enum ps_status ps_file_edges_init(struct ps_file_edges *edges, size_t capacity,
                                              const struct ps_files *files,
                                              const struct ps_allocator *memory,
                                              struct ps_error *error);
void ps_file_edges_fini(struct ps_file_edges *edges); /* accepts a zeroed one */

/* Bytes of one block, at `offset` in the file, which nobody has put before; of none it does
 * nothing. A block that is whole by them is written, and waits no more: no other write is at work.
 * */
PS_MUST_USE enum ps_status ps_file_edges_put(struct ps_file_edges *edges, struct ps_file file,
                                             uint64_t offset, struct ps_bytes bytes,
                                             struct ps_error *error);

/* All bytes of a file of `size` bytes were put: writes the last block, if that one is not whole. */
PS_MUST_USE enum ps_status ps_file_edges_end(struct ps_file_edges *edges, struct ps_file file,
                                             uint64_t size, struct ps_error *error);

#endif
