/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead in large pieces where records are small, and straight to where the content goes
 * where they are large.
 *
 * A journal may be gigabytes of records of 200 bytes or of 64 MiB each. One buffer of 256 KiB
 * serves both: heads and small contents are copied out of it, large contents go past it. Nothing in
 * the window is verified but by the checksums that its callers ask for. */
#include "checkpoint/journal_window.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"

#include <string.h>

/* Read ahead: enough that system calls do not count, and still in the processor's cache when it is
 * summed. */
#define WINDOW_BYTES ((size_t)256 << 10)

/* A copy of this size goes past the buffer; after it only so much is read ahead: most of a window
 * would be the next content, read twice. */
#define LARGE_BYTES ((size_t)64 << 10)
#define LITTLE_BYTES (2 * PS_JOURNAL_PEEK_BYTES_MAX)

static enum ps_status fill(struct ps_journal_window *window, uint64_t offset,
                           struct ps_error *error);
static struct ps_bytes held(const struct ps_journal_window *window, uint64_t offset);
static enum ps_status read_exactly(const struct ps_journal_window *window, uint64_t offset,
                                   uint8_t *to, size_t size, struct ps_error *error);
static bool all_zeros(struct ps_bytes bytes);

_Static_assert(PS_JOURNAL_BLOCK_BYTES <= PS_JOURNAL_PEEK_BYTES_MAX,
               "the zeros behind a flush are seen at once");

enum ps_status ps_journal_window_init(struct ps_journal_window *window,
                                      const struct ps_files *files,
                                      const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(window != NULL && files != NULL && memory != NULL);
    *window = (struct ps_journal_window){.memory = memory, .files = files};
    window->buffer = ps_plain(memory, WINDOW_BYTES);
    if (window->buffer == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for reading");
    return PS_OK;
}

/* A window whose init failed has an allocator and no buffer; both may be given back. */
void ps_journal_window_fini(struct ps_journal_window *window)
{
    ps_journal_window_close(window);
    if (window->memory != NULL)
        ps_release(window->memory, window->buffer);
    window->buffer = NULL;
}

/* What was known of the file goes with it; the next one is another segment of another life. */
void ps_journal_window_close(struct ps_journal_window *window)
{
    if (window->is_open)
        window->files->close(window->files->self, window->file);
    window->is_open = false;
    window->filled = 0;
    window->life = (struct ps_journal_life){0};
}

enum ps_status ps_journal_window_open(struct ps_journal_window *window, const char *path,
                                      struct ps_error *error)
{
    const struct ps_files *files = window->files;
    ps_journal_window_close(window);
    window->ahead_little = false;
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &window->file, error));
    window->is_open = true;
    return files->size(files->self, window->file, &window->file_bytes, error);
}

/* The bytes stay valid until the next call: a peek never copies. It may be shorter than asked for
 * only at the end of the file. */
enum ps_status ps_journal_window_peek(struct ps_journal_window *window, uint64_t offset,
                                      size_t size_max, struct ps_bytes *bytes,
                                      struct ps_error *error)
{
    PS_ASSERT(window->is_open);
    PS_ASSERT(size_max <= PS_JOURNAL_PEEK_BYTES_MAX);
    PS_ASSERT(offset <= window->file_bytes);
    uint64_t left = window->file_bytes - offset;
    size_t size = left < size_max ? (size_t)left : size_max;
    /* A head that is cut by the buffer's end is read anew from its beginning. */
    if (held(window, offset).size < size)
        PS_TRY(fill(window, offset, error));
    *bytes = (struct ps_bytes){held(window, offset).data, size};
    return PS_OK;
}

/* Reads ahead from `offset` on. */
static enum ps_status fill(struct ps_journal_window *window, uint64_t offset,
                           struct ps_error *error)
{
    size_t size = window->ahead_little ? LITTLE_BYTES : WINDOW_BYTES;
    uint64_t left = window->file_bytes - offset;
    size = left < size ? (size_t)left : size;
    window->filled = 0;
    PS_TRY(read_exactly(window, offset, window->buffer, size, error));
    window->begin = offset;
    window->filled = size;
    window->ahead_little = false;
    return PS_OK;
}

/* What the buffer has from `offset` on. */
static struct ps_bytes held(const struct ps_journal_window *window, uint64_t offset)
{
    if (offset < window->begin || offset - window->begin >= window->filled)
        return (struct ps_bytes){window->buffer, 0};
    size_t skipped = (size_t)(offset - window->begin);
    return (struct ps_bytes){window->buffer + skipped, window->filled - skipped};
}

enum ps_status ps_journal_window_copy(struct ps_journal_window *window, uint64_t offset,
                                      uint8_t *to, size_t size, uint32_t *crc32c,
                                      struct ps_error *error)
{
    PS_ASSERT(window->is_open);
    PS_ASSERT(offset <= window->file_bytes && size <= window->file_bytes - offset);
    /* Decided once for the whole copy, by its size and not by what the buffer happens to hold. */
    bool large = size >= LARGE_BYTES;
    /* What the buffer has is taken first; the rest is read into it (small) or straight to the
     * destination (large), in steps of a window so that the checksum finds the bytes in the
     * cache. */
    while (size > 0) {
        struct ps_bytes here = held(window, offset);
        if (here.size == 0 && !large) {
            PS_TRY(fill(window, offset, error));
            here = held(window, offset);
        }
        size_t part = here.size > 0 ? here.size : WINDOW_BYTES;
        part = size < part ? size : part;
        if (here.size > 0)
            memcpy(to, here.data, part);
        else
            PS_TRY(read_exactly(window, offset, to, part, error));
        *crc32c = ps_checksum_crc32c(*crc32c, (struct ps_bytes){to, part});
        to += part;
        offset += part;
        size -= part;
    }
    /* Behind a large content stands most likely another: only a head's worth is read ahead then. */
    window->ahead_little = large;
    return PS_OK;
}

/* The size was taken when the file was opened. A file that shrinks under a reader is not damage in
 * it: somebody is changing the folder, and reading again may help. */
static enum ps_status read_exactly(const struct ps_journal_window *window, uint64_t offset,
                                   uint8_t *to, size_t size, struct ps_error *error)
{
    size_t got = 0;
    PS_TRY(window->files->read(window->files->self, window->file, offset, to, size, &got, error));
    if (got != size)
        return ps_fail(error, PS_ERR_IO, "journal: a segment has become shorter");
    return PS_OK;
}

/* What is wrong with a record is said by `*bad`, and is not a failure: whether it is the torn end
 * of a journal or damage is for the caller to find out. */
enum ps_status ps_journal_window_content(struct ps_journal_window *window, uint64_t offset,
                                         const struct ps_journal_head *head, uint8_t *to,
                                         const char **bad, struct ps_error *error)
{
    uint64_t from = offset + head->head_bytes;
    uint64_t padding_at = from + head->content_bytes;
    struct ps_bytes padding;
    uint32_t crc32c = 0;
    if (head->record_bytes > window->file_bytes - offset) {
        *bad = "the segment ends within it";
        return PS_OK;
    }
    PS_TRY(ps_journal_window_copy(window, from, to, (size_t)head->content_bytes, &crc32c, error));
    if (crc32c != head->content_crc32c) {
        *bad = "its content is damaged";
        return PS_OK;
    }
    PS_TRY(ps_journal_window_peek(window, padding_at, ps_journal_padding(head->content_bytes),
                                  &padding, error));
    /* The zeros are covered by no checksum and are compared one by one: a bit that fell over in
     * them is a sign of a bad disk, too. */
    if (!all_zeros(padding))
        *bad = "the zeros behind it are damaged";
    return PS_OK;
}

/* Mostly the first byte answers: it is that of the next record's magic. */
static bool all_zeros(struct ps_bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        if (bytes.data[i] != 0)
            return false;
    return true;
}

/* The end of the file is where no head is whole. While the life is not known the reader is at the
 * file's beginning, where the head has no salt. */
enum ps_status ps_journal_window_head(struct ps_journal_window *window, uint64_t offset,
                                      struct ps_journal_head *head,
                                      enum ps_journal_verdict *verdict, struct ps_error *error)
{
    struct ps_bytes bytes;
    bool known = window->life.format != 0;
    PS_TRY(ps_journal_window_peek(window, offset, PS_JOURNAL_HEAD_BYTES_MAX, &bytes, error));
    *verdict = ps_journal_head_read(bytes, known ? &window->life : NULL, head);
    return PS_OK;
}

/* Every flush of format 2 ends at a block's end. A record begins with its magic, so nothing that
 * begins with zeros is passed over wrongly; a block that is not all there was never a flush's. */
enum ps_status ps_journal_window_pass_zeros(struct ps_journal_window *window, uint64_t *offset,
                                            struct ps_error *error)
{
    PS_ASSERT(window->is_open && *offset <= window->file_bytes);
    uint64_t rest = -*offset % PS_JOURNAL_BLOCK_BYTES;
    struct ps_bytes bytes;
    if (window->life.format != PS_JOURNAL_FORMAT || rest == 0 ||
        rest > window->file_bytes - *offset)
        return PS_OK;
    PS_TRY(ps_journal_window_peek(window, *offset, (size_t)rest, &bytes, error));
    if (all_zeros(bytes))
        *offset += rest;
    return PS_OK;
}

/* The file stays open, and its life known: only bytes that lie behind the last record may have
 * changed. */
void ps_journal_window_forget(struct ps_journal_window *window)
{
    window->filled = 0;
}
