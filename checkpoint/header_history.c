/* SPDX-License-Identifier: Apache-2.0 */
/* A walk along the members of the metadata, which come first in the header and are texts, one and
 * all. It ends at the member that is looked for, which the writer puts before ps.parameters, the
 * one that is long. The bytes have a checksum, so that what does not look as expected was written
 * by somebody else, and is left to the reader of the whole header. */
#include "checkpoint/header_history.h"

#include "base/assert.h"
#include "checkpoint/header_format.h"
#include "checkpoint/header_reader.h"

#include <string.h>

static enum ps_status read_head(const struct ps_files *files, struct ps_file file,
                                const struct ps_allocator *memory, struct ps_history *history,
                                struct ps_error *error);
static enum ps_status read_whole(const struct ps_files *files, struct ps_file file, uint8_t *head,
                                 size_t size, struct ps_error *error);
static void find(struct ps_bytes head, struct ps_history *history);
static bool take_text(struct ps_bytes *rest, struct ps_bytes *text);
static bool take_letter(struct ps_bytes *rest, char letter);

enum ps_status ps_header_history_read(const struct ps_files *files, const char *path,
                                      const struct ps_allocator *memory, struct ps_history *history,
                                      struct ps_error *error)
{
    PS_ASSERT(files != NULL && path != NULL && memory != NULL && history != NULL);
    struct ps_file file;
    *history = (struct ps_history){{0}};
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &file, error));
    enum ps_status status = read_head(files, file, memory, history, error);
    files->close(files->self, file);
    return status;
}

/* All of it, because of the checksum: half a header cannot be told from a damaged one, and a number
 * with a flipped bit would make a stranger of the shard's own file. From the system's cache that is
 * a copy; from the disk what recovery would read anyway, should it come to this file.
 * The length is bounded by the file before memory is asked for it, as for every reader. */
static enum ps_status read_head(const struct ps_files *files, struct ps_file file,
                                const struct ps_allocator *memory, struct ps_history *history,
                                struct ps_error *error)
{
    uint8_t first[PS_HEADER_LENGTH_BYTES];
    uint64_t file_bytes = 0;
    size_t got = 0;
    size_t length = 0;
    PS_TRY(files->size(files->self, file, &file_bytes, error));
    PS_TRY(files->read(files->self, file, 0, first, sizeof first, &got, error));
    PS_TRY(ps_header_length((struct ps_bytes){first, got}, file_bytes, &length, error));
    size_t size = PS_HEADER_LENGTH_BYTES + length;
    uint8_t *head = ps_plain(memory, size);
    if (head == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a header of %zu bytes",
                       size);
    enum ps_status status = read_whole(files, file, head, size, error);
    if (status == PS_OK)
        status = ps_header_verify((struct ps_bytes){head, size}, error);
    if (status == PS_OK)
        find((struct ps_bytes){head, size}, history);
    ps_release(memory, head);
    return status;
}

/* Fewer bytes than the file had a moment ago: somebody cuts it, and what is left is as damaged as a
 * file that ends in its header. What it says is not guessed from the part that came. */
static enum ps_status read_whole(const struct ps_files *files, struct ps_file file, uint8_t *head,
                                 size_t size, struct ps_error *error)
{
    size_t got = 0;
    PS_TRY(files->read(files->self, file, 0, head, size, &got, error));
    return got == size ? PS_OK
                       : ps_fail(error, PS_ERR_CORRUPT,
                                 PS_CHECKPOINT_CORRUPT "the file has become shorter");
}

/* The first of two members of one name decides, as for who reads the whole: that one refuses the
 * file for the second.
 * Behind the beginning that ps_header_verify has compared: the checksum's digits, and then member
 * by member. A malformed history is not known here, and damage for who loads the file. */
static void find(struct ps_bytes head, struct ps_history *history)
{
    const size_t begin = PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS;
    struct ps_bytes rest = {head.data + begin, head.size - begin};
    struct ps_bytes key, value;
    char text[PS_UUID_BYTES] = "";
    bool more = take_letter(&rest, '"');
    while (more && take_letter(&rest, ',')) {
        more = take_text(&rest, &key) && take_letter(&rest, ':') && take_text(&rest, &value);
        if (!more || !ps_bytes_equal(key, ps_bytes_of_text(PS_HEADER_HISTORY)))
            continue;
        /* No letter of a uuid is escaped. */
        if (value.size == sizeof text - 1)
            memcpy(text, value.data, value.size);
        (void)ps_history_read(text, history);
        return;
    }
}

/* A text with its quotes; what is escaped stays so, since only lengths matter. False: none is
 * there, or it has no end. */
static bool take_text(struct ps_bytes *rest, struct ps_bytes *text)
{
    if (!take_letter(rest, '"'))
        return false;
    size_t size = 0;
    while (size < rest->size && rest->data[size] != '"')
        size += rest->data[size] == '\\' ? 2 : 1;
    if (size >= rest->size)
        return false;
    *text = (struct ps_bytes){rest->data, size};
    *rest = (struct ps_bytes){rest->data + size + 1, rest->size - size - 1};
    return true;
}

/* No space is passed over: the writer puts none, and what it did not write is not for this file. */
static bool take_letter(struct ps_bytes *rest, char letter)
{
    if (rest->size == 0 || rest->data[0] != (uint8_t)letter)
        return false;
    *rest = (struct ps_bytes){rest->data + 1, rest->size - 1};
    return true;
}
