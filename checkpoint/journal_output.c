/* Copies into one buffer while the other is written. The invariant: at most one write is at work,
 * from the buffer that is not being filled, and `size` is a multiple of the block at every flush. */
#include "checkpoint/journal_output.h"

#include "base/assert.h"
#include "checkpoint/journal_record.h"

#include <string.h>

/* A write below this is made by the caller: the other thread would have to be woken for it. */
#define BEHIND_BYTES_LEAST ((size_t)256 << 10)

static enum ps_status hand_over(struct ps_journal_output *output, bool sync,
                                struct ps_error *error);
static enum ps_status write_now(struct ps_journal_output *output, struct ps_bytes bytes, bool sync,
                                struct ps_error *error);

enum ps_status ps_journal_output_init(struct ps_journal_output *output,
                                      const struct ps_files *files, size_t buffer_bytes,
                                      bool behind, const struct ps_allocator *memory,
                                      struct ps_error *error)
{
    size_t bytes = buffer_bytes > 0 ? buffer_bytes : PS_JOURNAL_BUFFER_BYTES;
    PS_ASSERT(bytes % PS_JOURNAL_BLOCK_BYTES == 0);
    *output = (struct ps_journal_output){.memory = memory, .files = files, .buffer_bytes = bytes};
    output->block = ps_plain(memory, 2 * bytes + PS_JOURNAL_BLOCK_BYTES);
    if (output->block == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for its buffers");
    /* The allocator aligns for numbers, not for disks. */
    size_t beyond = (uintptr_t)output->block % PS_JOURNAL_BLOCK_BYTES;
    output->buffers[0] = output->block + (beyond > 0 ? PS_JOURNAL_BLOCK_BYTES - beyond : 0);
    output->buffers[1] = output->buffers[0] + bytes;
    enum ps_status status = PS_OK;
    if (behind)
        status = ps_write_behind_create(files, "journal-write", memory, &output->behind, error);
    if (status != PS_OK)
        ps_journal_output_fini(output);
    return status;
}

void ps_journal_output_fini(struct ps_journal_output *output)
{
    if (output->memory == NULL)
        return;
    ps_journal_output_close(output);
    ps_write_behind_destroy(output->behind);
    ps_release(output->memory, output->block);
    *output = (struct ps_journal_output){0};
}

void ps_journal_output_open(struct ps_journal_output *output, struct ps_file file)
{
    PS_ASSERT(!output->is_open);
    output->file = file;
    output->is_open = true;
    output->unsynced = false;
    output->used = 0;
    output->size = 0;
}

/* Whatever the write at work comes to: nobody was told that it is durable, and nobody will be. */
void ps_journal_output_close(struct ps_journal_output *output)
{
    if (!output->is_open)
        return;
    (void)!ps_journal_output_wait(output, NULL);
    output->files->close(output->files->self, output->file);
    output->is_open = false;
    output->used = 0;
}

enum ps_status ps_journal_output_put(struct ps_journal_output *output, struct ps_bytes bytes,
                                     struct ps_error *error)
{
    PS_ASSERT(output->is_open);
    while (bytes.size > 0) {
        size_t room = output->buffer_bytes - output->used;
        size_t part = bytes.size < room ? bytes.size : room;
        memcpy(output->buffers[output->filling] + output->used, bytes.data, part);
        output->used += part;
        bytes.data += part;
        bytes.size -= part;
        /* A record may go on in the next write: the sync of the last one covers them all. */
        if (output->used == output->buffer_bytes)
            PS_TRY(hand_over(output, false, error));
    }
    return PS_OK;
}

enum ps_status ps_journal_output_flush(struct ps_journal_output *output, struct ps_error *error)
{
    PS_ASSERT(output->is_open);
    /* A reader finds the next write by these zeros. */
    size_t beyond = output->used % PS_JOURNAL_BLOCK_BYTES;
    size_t zeros = beyond > 0 ? PS_JOURNAL_BLOCK_BYTES - beyond : 0;
    memset(output->buffers[output->filling] + output->used, 0, zeros);
    output->used += zeros;
    return hand_over(output, true, error);
}

/* The other buffer is free once the write before has ended. */
static enum ps_status hand_over(struct ps_journal_output *output, bool sync, struct ps_error *error)
{
    PS_TRY(ps_journal_output_wait(output, error));
    struct ps_bytes bytes = {output->buffers[output->filling], output->used};
    PS_ASSERT(bytes.size % PS_JOURNAL_BLOCK_BYTES == 0);
#ifdef PS_MUTATE_SKIP_JOURNAL_SYNC
    /* The promise itself, which the build for mutation tests takes away. */
    sync = false;
#endif
    output->size += bytes.size;
    output->used = 0;
    if (bytes.size == 0 && !(sync && output->unsynced))
        return PS_OK;
    if (output->behind == NULL || bytes.size < BEHIND_BYTES_LEAST)
        return write_now(output, bytes, sync, error);
    ps_write_behind_begin(output->behind, output->file, bytes, sync);
    output->unsynced = !sync;
    output->filling = 1 - output->filling;
    return PS_OK;
}

static enum ps_status write_now(struct ps_journal_output *output, struct ps_bytes bytes, bool sync,
                                struct ps_error *error)
{
    const struct ps_files *files = output->files;
    if (bytes.size > 0)
        PS_TRY(files->write(files->self, output->file, bytes, error));
    output->unsynced = !sync;
    return sync ? files->sync(files->self, output->file, error) : PS_OK;
}

bool ps_journal_output_busy(const struct ps_journal_output *output)
{
    return output->behind != NULL && ps_write_behind_busy(output->behind);
}

enum ps_status ps_journal_output_wait(struct ps_journal_output *output, struct ps_error *error)
{
    return output->behind != NULL ? ps_write_behind_wait(output->behind, error) : PS_OK;
}
