/* SPDX-License-Identifier: Apache-2.0 */
/* One small read of a file that is opened for it. The reader of a whole segment reads the same
 * bytes through its window, and judges what is wrong with them; here nobody asks for the reason. */
#include "checkpoint/journal_first.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"

/* A segment's first record has neither client id nor name; that of format 1 is shorter. */
#define FIRST_BYTES_MAX (PS_JOURNAL_HEAD_BYTES + PS_JOURNAL_SEGMENT_CONTENT_BYTES)

static void take_first(struct ps_bytes bytes, struct ps_journal_segment segment,
                       struct ps_journal_first *first);

enum ps_status ps_journal_first_read(const struct ps_files *files, const char *path,
                                     struct ps_journal_segment segment,
                                     struct ps_journal_first *first, struct ps_error *error)
{
    PS_ASSERT(files != NULL && path != NULL && first != NULL);
    uint8_t bytes[FIRST_BYTES_MAX];
    struct ps_file file;
    size_t got = 0;
    /* Through the page cache like the reader's window, so that both see the same bytes. */
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &file, error));
    enum ps_status status = files->read(files->self, file, 0, bytes, sizeof bytes, &got, error);
    files->close(files->self, file);
    if (status == PS_OK)
        take_first((struct ps_bytes){bytes, got}, segment, first);
    return status;
}

/* Believes the record only if everything about it is right, including that it is where its file's
 * name says: a copied or renamed file must not void the epochs of others. */
static void take_first(struct ps_bytes bytes, struct ps_journal_segment segment,
                       struct ps_journal_first *first)
{
    struct ps_journal_head head;
    *first = (struct ps_journal_first){0};
    if (ps_journal_head_read(bytes, NULL, &head) != PS_JOURNAL_GOOD ||
        head.record.type != PS_RECORD_SEGMENT || head.head_bytes != PS_JOURNAL_HEAD_BYTES ||
        head.record_bytes > bytes.size)
        return;
    if (head.record.epoch != segment.epoch || head.record.position != segment.first)
        return;
    /* The head alone is not enough: salt and position stand in the content. */
    const uint8_t *content = bytes.data + head.head_bytes;
    const struct ps_bytes summed = {content, (size_t)head.content_bytes};
    if (ps_checksum_crc32c(0, summed) != head.content_crc32c)
        return;
    ps_journal_segment_read(&head, content, &first->facts, &first->life);
    first->whole = true;
}

/* A first record that cannot be read any more is damage, for the caller to report: nobody takes a
 * file for another segment and leaves it its name. */
enum ps_status ps_journal_first_is_same(const struct ps_files *files, const char *path,
                                        struct ps_journal_segment segment,
                                        const struct ps_journal_life *life, bool *same,
                                        struct ps_error *error)
{
    PS_ASSERT(life != NULL && same != NULL);
    struct ps_journal_first first;
    enum ps_status status = ps_journal_first_read(files, path, segment, &first, error);
    /* While the life is not known the name has to do: no file gets it a second time but when a dead
     * writer is revived, and then the former one had no record that counts. */
    if (status == PS_OK)
        *same = life->format == 0 || !first.whole || first.life.salt == life->salt;
    if (status == PS_ERR_NOT_FOUND)
        *same = false;
    return status == PS_ERR_NOT_FOUND ? PS_OK : status;
}

enum ps_status ps_journal_first_gone(struct ps_journal_segment segment, struct ps_error *error)
{
    char name[PS_JOURNAL_NAME_BYTES];
    ps_journal_name_write(segment, name);
    return ps_fail(error, PS_ERR_IO, "journal: %s has gone", name);
}
