/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a file that is written past the system's cache: two buffers, of which one
 * is filled while the other is written. The journal's segments and checkpoints go to the disk this
 * way.
 *
 * Every write but a last one begins and ends at a multiple of PS_FILE_DIRECT_BYTES, from memory
 * that is aligned to it, and no block that was flushed is written again: a write that a crash cuts
 * short cannot harm an earlier one. Two buffers and one write at a time keep a disk busy as well as
 * anything does (docs/performance.md, "The journal past the cache"); small writes are made by the
 * caller, since waking another thread takes longer than the copying that it would save.
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
    struct ps_file file;
    bool is_open;
    bool unsynced;  /* the file was given bytes that no sync has followed */
    uint64_t size;  /* of the file up to where the buffer belongs */
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

/* Lends both buffers, of `buffer_bytes` each, to whoever writes to several places of the file
 * (file_runs.h). What was put is written but for `*rest` bytes, less than a block, which lie at the
 * beginning of buffers[0] and belong to `output->size` in the file. Until resume nothing but write
 * is called. */
PS_MUST_USE enum ps_status ps_block_output_lend(struct ps_block_output *output, uint8_t *buffers[2],
                                                size_t *rest, struct ps_error *error);

/* Waits for what was begun before, and begins to write these pieces, of whole blocks, anywhere
 * behind what was put; they stay as they are until the next write or wait. */
PS_MUST_USE enum ps_status ps_block_output_write(struct ps_block_output *output,
                                                 const struct ps_write_piece *pieces, size_t count,
                                                 struct ps_error *error);

/* Takes the buffers back, behind a wait: all before `offset`, a multiple of a block, is written;
 * `rest`, less than a block, belongs there, and what is put next comes behind it. */
void ps_block_output_resume(struct ps_block_output *output, uint64_t offset, struct ps_bytes rest);

/* PS_OK: what was flushed is on the disk. */
PS_MUST_USE enum ps_status ps_block_output_wait(struct ps_block_output *output,
                                                struct ps_error *error);

#endif
