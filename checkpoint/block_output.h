/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a file that is written past the system's cache: two buffers, of which one
 * is filled while the other is written. The journal's segments and checkpoints go to the disk this
 * way.
 *
 * Every write but a last one begins and ends at a multiple of PS_FILE_DIRECT_BYTES, from memory
 * that is aligned to it, and no block that was flushed is written again: a write that a crash cuts
 * short cannot harm an earlier one. Two buffers and one write at a time keep a disk busy as well as
 * anything does (docs/performance-disk.md, "The journal past the cache"); small writes are made by
 * the caller, since waking another thread takes longer than the copying that it would save.
 *
 * A file may have parts that are written by somebody else, or later: the output then goes on behind
 * them (go_to). Blocks that a part and something else share wait among its edges (file_edges.h).
 * The journal's segments have no such parts, and no edges.
 *
 * Threads:  one, besides that of the write behind.
 * Blocking: all but init and open wait for the disk.
 * Errors:   those of the file system. After a failure the file is given up: close the output.
 * Memory:   two buffers, owned, made by init: nothing later allocates.
 */
#ifndef PS_CHECKPOINT_BLOCK_OUTPUT_H
#define PS_CHECKPOINT_BLOCK_OUTPUT_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"
#include "base/write_behind.h"
#include "checkpoint/file_edges.h"

/* Bytes in one buffer unless told otherwise: four records of 1 MiB with their heads. */
#define PS_BLOCK_OUTPUT_BYTES (((size_t)4 << 20) + ((size_t)128 << 10))

struct ps_block_output {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    struct ps_write_behind *behind;    /* borrowed; NULL: the caller makes every write */
    uint8_t *block;                    /* owned; both buffers lie in it */
    uint8_t *buffers[2];
    size_t buffer_bytes; /* a multiple of PS_FILE_DIRECT_BYTES */
    size_t filling;      /* the buffer that is being filled */
    size_t used;         /* of that */
    size_t foreign;      /* bytes of that, less than a block, which are somebody else's: edges */
    struct ps_file_edges *edges; /* borrowed; NULL: the file is written from end to end */
    struct ps_file file;
    bool is_open;
    bool unsynced;  /* the file was given bytes that no sync has followed */
    uint64_t size;  /* of the file, up to where the buffer belongs */
    uint64_t there; /* the file has blocks up to here, or is not to be given any ahead */
#ifdef PS_MUTATE_SKIP_BLOCK_PADDING
    bool begun_block; /* the bytes in the buffer begin with a block that is in the file already */
#endif
};

/* `buffer_bytes`: 0 is the default. */
PS_MUST_USE enum ps_status ps_block_output_init(struct ps_block_output *output,
                                                const struct ps_files *files,
                                                struct ps_write_behind *behind, size_t buffer_bytes,
                                                const struct ps_allocator *memory,
                                                struct ps_error *error);
/* Closes as well. Accepts a zeroed one. */
void ps_block_output_fini(struct ps_block_output *output);

/* Begins with a file, which is now the output's. None may be open. */
void ps_block_output_open(struct ps_block_output *output, struct ps_file file);

/* The open file has blocks up to `there`. From now on a small flush that comes to their end writes
 * zeros behind itself, into which the next ones go: a write that makes a file grow takes twice as
 * long. So the file may end with more zeros than a block has. */
void ps_block_output_go_ahead(struct ps_block_output *output, uint64_t there);

/* Waits for the write at work, drops what was put and not flushed, closes the file. */
void ps_block_output_close(struct ps_block_output *output);

/* Where the next bytes may be made in place: at least one. Then say how many were. */
uint8_t *ps_block_output_room(struct ps_block_output *output, size_t *size);
PS_MUST_USE enum ps_status ps_block_output_made(struct ps_block_output *output, size_t size,
                                                struct ps_error *error);

/* Copies bytes behind those before; a buffer that is full is written. */
PS_MUST_USE enum ps_status ps_block_output_put(struct ps_block_output *output,
                                               struct ps_bytes bytes, struct ps_error *error);

/* Waits until what was flushed before is on the disk, then begins to write and sync what was put
 * since, with zeros up to the end of a block. The next put may follow at once. */
PS_MUST_USE enum ps_status ps_block_output_flush(struct ps_block_output *output,
                                                 struct ps_error *error);

/* Writes what was put since, without zeros and without a sync: nothing may follow but close. */
PS_MUST_USE enum ps_status ps_block_output_end(struct ps_block_output *output,
                                               struct ps_error *error);

/* Where the next byte that is put belongs in the file. */
static inline uint64_t ps_block_output_place(const struct ps_block_output *output)
{
    return output->size + output->used;
}

/* Writes what was put, and goes on at `place` of the file, behind all of it: what lies between is
 * written by somebody else, or later. For an output with edges, which take the parts of blocks. */
PS_MUST_USE enum ps_status ps_block_output_go_to(struct ps_block_output *output, uint64_t place,
                                                 struct ps_error *error);

/* Waits for what was begun before, and begins to write these pieces, of whole blocks, anywhere in
 * the file; they stay as they are until the next write or wait. */
PS_MUST_USE enum ps_status ps_block_output_write(struct ps_block_output *output,
                                                 const struct ps_write_piece *pieces, size_t count,
                                                 struct ps_error *error);

/* PS_OK: what was flushed is on the disk. */
PS_MUST_USE enum ps_status ps_block_output_wait(struct ps_block_output *output,
                                                struct ps_error *error);

#endif
