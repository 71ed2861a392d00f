/* SPDX-License-Identifier: Apache-2.0 */
/* Copies into one buffer while the other is written.
 *
 * The invariant: at most one write is at work, from the buffer that is not being filled, and `size`
 * is a multiple of the block at every flush. A third buffer was tried and brought nothing: a disk
 * that is slower than the copying is never idle with two, and one that is faster waits for the
 * copying, whatever the number. */
#include "checkpoint/block_output.h"

#include "base/assert.h"

#include <string.h>

/* A write below this is made by the caller: the other thread would have to be woken for it. */
#define BEHIND_BYTES_LEAST ((size_t)256 << 10)

/* Zeros that are written ahead of small flushes, and what is small: a sixteenth, so that they take
 * the disk's time once in sixteen flushes at most. */
#define AHEAD_BYTES ((size_t)1 << 20)
#define SMALL_BYTES (AHEAD_BYTES / 16)

static enum ps_status hand_over(struct ps_block_output *output, bool sync, struct ps_error *error);
#ifdef PS_MUTATE_SKIP_BLOCK_PADDING
static enum ps_status flush_rewriting(struct ps_block_output *output, struct ps_error *error);
#endif
static enum ps_status write_now(struct ps_block_output *output, const struct ps_write_piece *pieces,
                                size_t count, bool sync, struct ps_error *error);
static void write_ahead(struct ps_block_output *output);

enum ps_status ps_block_output_init(struct ps_block_output *output, const struct ps_files *files,
                                    struct ps_write_behind *behind, size_t buffer_bytes,
                                    const struct ps_allocator *memory, struct ps_error *error)
{
    size_t bytes = buffer_bytes > 0 ? buffer_bytes : PS_BLOCK_OUTPUT_BYTES;
    PS_ASSERT(bytes % PS_FILE_DIRECT_BYTES == 0);
    uint8_t *block = ps_plain(memory, 2 * bytes + PS_FILE_DIRECT_BYTES);
    if (block == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the buffers of a file");
    /* The allocator aligns for numbers, not for disks. */
    size_t beyond = (uintptr_t)block % PS_FILE_DIRECT_BYTES;
    uint8_t *first = block + (beyond > 0 ? PS_FILE_DIRECT_BYTES - beyond : 0);
    *output = (struct ps_block_output){.memory = memory,
                                       .files = files,
                                       .behind = behind,
                                       .block = block,
                                       .buffers = {first, first + bytes},
                                       .buffer_bytes = bytes};
    return PS_OK;
}

/* The thread behind is the caller's, and may write for the next output. */
void ps_block_output_fini(struct ps_block_output *output)
{
    /* A failed init has left zeros. */
    if (output->memory == NULL)
        return;
    ps_block_output_close(output);
    ps_release(output->memory, output->block);
    *output = (struct ps_block_output){0};
}

/* The buffers stay from file to file: a journal has a new one every second or so. */
void ps_block_output_open(struct ps_block_output *output, struct ps_file file)
{
    PS_ASSERT(!output->is_open);
    output->file = file;
    output->is_open = true;
    output->unsynced = false;
    output->used = 0;
    output->foreign = 0;
    output->size = 0;
    output->there = UINT64_MAX;
#ifdef PS_MUTATE_SKIP_BLOCK_PADDING
    output->begun_block = false;
#endif
}

void ps_block_output_go_ahead(struct ps_block_output *output, uint64_t there)
{
    PS_ASSERT(output->is_open);
    output->there = there;
}

/* Whatever the write at work comes to: nobody was told that it is durable, and nobody will be. */
void ps_block_output_close(struct ps_block_output *output)
{
    if (!output->is_open)
        return;
    (void)!ps_block_output_wait(output, NULL);
    output->files->close(output->files->self, output->file);
    output->is_open = false;
    output->used = 0;
}

/* For values that are read from a device: they are made where they are written from. */
uint8_t *ps_block_output_room(struct ps_block_output *output, size_t *size)
{
    PS_ASSERT(output->is_open && output->used < output->buffer_bytes);
    *size = output->buffer_bytes - output->used;
    return output->buffers[output->filling] + output->used;
}

/* What does not fit goes on in the next write: the sync of the last one covers them all. */
enum ps_status ps_block_output_made(struct ps_block_output *output, size_t size,
                                    struct ps_error *error)
{
    /* More would have been made beyond the buffer. */
    PS_ASSERT(size <= output->buffer_bytes - output->used);
    output->used += size;
#ifdef PS_MUTATE_SKIP_BLOCK_PADDING
    if (output->used == output->buffer_bytes && output->edges == NULL)
        return flush_rewriting(output, error);
#endif
    return output->used == output->buffer_bytes ? hand_over(output, false, error) : PS_OK;
}

/* The one copy of a gradient on its way to the disk. */
enum ps_status ps_block_output_put(struct ps_block_output *output, struct ps_bytes bytes,
                                   struct ps_error *error)
{
    while (bytes.size > 0) {
        size_t room = 0;
        uint8_t *to = ps_block_output_room(output, &room);
        size_t part = bytes.size < room ? bytes.size : room;
        memcpy(to, bytes.data, part);
        PS_TRY(ps_block_output_made(output, part, error));
        bytes.data += part;
        bytes.size -= part;
    }
    return PS_OK;
}

enum ps_status ps_block_output_flush(struct ps_block_output *output, struct ps_error *error)
{
    PS_ASSERT(output->is_open);
#ifdef PS_MUTATE_SKIP_BLOCK_PADDING
    return flush_rewriting(output, error);
#endif
    /* A reader finds the next write by these zeros. */
    size_t beyond = output->used % PS_FILE_DIRECT_BYTES;
    size_t zeros = beyond > 0 ? PS_FILE_DIRECT_BYTES - beyond : 0;
    memset(output->buffers[output->filling] + output->used, 0, zeros);
    output->used += zeros;
#ifdef PS_MUTATE_SKIP_JOURNAL_SYNC
    /* The journal's promise itself, which the build for mutation tests takes away. */
    return hand_over(output, false, error);
#else
    return hand_over(output, true, error);
#endif
}

/* The last piece ends anywhere, which takes the file back into the system's cache: the sync that
 * the caller makes covers that as well. */
enum ps_status ps_block_output_end(struct ps_block_output *output, struct ps_error *error)
{
    PS_ASSERT(output->is_open);
    PS_TRY(hand_over(output, false, error));
    return ps_block_output_wait(output, error);
}

#ifdef PS_MUTATE_SKIP_BLOCK_PADDING
/* Goes on in the block that the flush before has begun, and so writes it again: a crash in between
 * can take what was acknowledged with it. Only the build for mutation tests does that. */
static enum ps_status flush_rewriting(struct ps_block_output *output, struct ps_error *error)
{
    const struct ps_files *files = output->files;
    PS_TRY(ps_block_output_wait(output, error));
    uint8_t *buffer = output->buffers[output->filling];
    size_t tail = output->used % PS_FILE_DIRECT_BYTES;
    size_t whole = output->used - tail;
    size_t written = whole + (tail > 0 ? PS_FILE_DIRECT_BYTES : 0);
    size_t again = output->begun_block ? PS_FILE_DIRECT_BYTES : 0;
    memset(buffer + output->used, 0, written - output->used);
    if (again > 0)
        PS_TRY(files->write_over(files->self, output->file, output->size,
                                 (struct ps_bytes){buffer, again}, error));
    if (written > again)
        PS_TRY(files->write_over(files->self, output->file, output->size + again,
                                 (struct ps_bytes){buffer + again, written - again}, error));
    memmove(buffer, buffer + whole, tail);
    output->size += whole;
    output->used = tail;
    output->begun_block = tail > 0;
    return files->sync(files->self, output->file, error);
}
#endif

/* Behind a place that the output was told to go to. A first block that is not all ours goes among
 * the edges, and not into the piece. */
static enum ps_status leave_first_block(struct ps_block_output *output,
                                        struct ps_write_piece *piece, struct ps_error *error)
{
    size_t foreign = output->foreign;
    size_t first =
        piece->bytes.size < PS_FILE_DIRECT_BYTES ? piece->bytes.size : PS_FILE_DIRECT_BYTES;
    if (foreign == 0)
        return PS_OK;
    PS_ASSERT(foreign <= first);
    const struct ps_bytes ours = {piece->bytes.data + foreign, first - foreign};
    *piece = (struct ps_write_piece){piece->offset + first,
                                     {piece->bytes.data + first, piece->bytes.size - first}};
    output->foreign = 0;
    return ps_file_edges_put(output->edges, output->file, output->size + foreign, ours, error);
}

/* The other buffer is free once the write before has ended. */
static enum ps_status hand_over(struct ps_block_output *output, bool sync, struct ps_error *error)
{
    PS_TRY(ps_block_output_wait(output, error));
    struct ps_write_piece piece = {output->size, {output->buffers[output->filling], output->used}};
    PS_TRY(leave_first_block(output, &piece, error));
    output->size += output->used;
    output->used = 0;
    if (piece.bytes.size == 0 && !(sync && output->unsynced))
        return PS_OK;
    if (output->behind == NULL || piece.bytes.size < BEHIND_BYTES_LEAST)
        return write_now(output, &piece, 1, sync, error);
    ps_write_behind_begin(output->behind, output->file, &piece, 1, sync);
    output->unsynced = !sync;
    output->filling = 1 - output->filling;
    return PS_OK;
}

/* Nothing is at work: whoever calls has waited. An empty write with a sync is for what a full
 * buffer before has left to be synced. */
static enum ps_status write_now(struct ps_block_output *output, const struct ps_write_piece *pieces,
                                size_t count, bool sync, struct ps_error *error)
{
    PS_ASSERT(output->is_open);
    const struct ps_files *files = output->files;
    for (size_t i = 0; i < count; i++)
        if (pieces[i].bytes.size > 0)
            PS_TRY(files->write_over(files->self, output->file, pieces[i].offset, pieces[i].bytes,
                                     error));
    if (sync && pieces[0].bytes.size <= SMALL_BYTES && output->size >= output->there)
        write_ahead(output);
    output->unsynced = !sync;
    return sync ? files->sync(files->self, output->file, error) : PS_OK;
}

/* From the buffer that nobody uses now. A disk without room for the zeros may have some for what
 * they are for, so their failure is none: the file grows with each flush again, and a disk that is
 * broken says so at the sync. */
static void write_ahead(struct ps_block_output *output)
{
    const struct ps_files *files = output->files;
    size_t size = AHEAD_BYTES < output->buffer_bytes ? AHEAD_BYTES : output->buffer_bytes;
    struct ps_bytes zeros = {output->buffers[1 - output->filling], size};
    memset(output->buffers[1 - output->filling], 0, size);
    bool wrote = files->write_over(files->self, output->file, output->size, zeros, NULL) == PS_OK;
    output->there = wrote ? output->size + size : UINT64_MAX;
}

/* The end of what was put waits among the edges, with its beginning, if that is the same block. */
enum ps_status ps_block_output_go_to(struct ps_block_output *output, uint64_t place,
                                     struct ps_error *error)
{
    size_t whole = output->used / PS_FILE_DIRECT_BYTES * PS_FILE_DIRECT_BYTES;
    size_t from = whole > 0 ? whole : output->foreign;
    const uint8_t *rest = output->buffers[output->filling] + from;
    PS_ASSERT(output->is_open && output->edges != NULL);
    PS_ASSERT(place >= ps_block_output_place(output));
    PS_TRY(ps_block_output_wait(output, error));
    PS_TRY(ps_file_edges_put(output->edges, output->file, output->size + from,
                             (struct ps_bytes){rest, output->used - from}, error));
    output->used = whole;
    if (whole > 0)
        PS_TRY(hand_over(output, false, error));
    /* Nothing is in the buffers, which may be somebody else's until the next byte is put. */
    PS_TRY(ps_block_output_wait(output, error));
    output->foreign = (size_t)(place % PS_FILE_DIRECT_BYTES);
    output->used = output->foreign;
    output->size = place - output->foreign;
    return PS_OK;
}

/* As hand_over does it, of somebody else's pieces. Without a sync: the file's end has one. */
enum ps_status ps_block_output_write(struct ps_block_output *output,
                                     const struct ps_write_piece *pieces, size_t count,
                                     struct ps_error *error)
{
    PS_TRY(ps_block_output_wait(output, error));
    if (count == 0)
        return PS_OK;
    if (output->behind == NULL)
        return write_now(output, pieces, count, false, error);
    ps_write_behind_begin(output->behind, output->file, pieces, count, false);
    output->unsynced = true;
    return PS_OK;
}

/* Without a thread every write has ended when its call returned. */
enum ps_status ps_block_output_wait(struct ps_block_output *output, struct ps_error *error)
{
    return output->behind != NULL ? ps_write_behind_wait(output->behind, error) : PS_OK;
}
