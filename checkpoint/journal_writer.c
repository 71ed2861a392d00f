/* Appends records to the segments of one epoch.
 *
 * Heads are built in a buffer of the writer's, contents stay where they lie: a batch goes to the
 * file as one view over heads, pieces of content and zeros. One call writes any number of records
 * and syncs once, which is how many pushes share the price of one sync.
 *
 * After any failure the writer is dead: the kernel may have dropped what it could not write, and a
 * later sync of the same file would report success. It is revived by making a new file, behind the
 * last position that is durable. The invariant: `position` is what was synced, `written` is what
 * was given to the file, and they are equal between two calls while the writer lives. */
#include "checkpoint/journal.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A batch ends when either is used up; a record may go on in the next one. 1,024 pieces are four
 * calls of writev (base/file_real.c), and 64 heads fit in the processor's first cache. */
#define BATCH_HEADS 64
#define BATCH_PIECES 1024

struct ps_journal_writer {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    char *folder;                      /* owned */
    struct ps_journal_facts facts;
    uint64_t segment_bytes; /* a segment of this size is full */

    struct ps_file file;
    bool is_open;
    uint64_t position;     /* the last one that is durable */
    uint64_t written;      /* the last one that was given to the file */
    uint64_t size;         /* of the segment */
    struct ps_error death; /* PS_OK while the writer lives */

    uint8_t *heads; /* owned: BATCH_HEADS */
    size_t head_count;
    struct ps_bytes *pieces; /* owned: BATCH_PIECES */
    size_t piece_count;
    size_t batch_bytes;
};

static const struct ps_journal_life life = {.format = PS_JOURNAL_FORMAT_1};

static enum ps_status begin(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status begin_repeating(struct ps_journal_writer *writer, struct ps_error *error);
static void remove_segment(const struct ps_journal_writer *writer);
static enum ps_status write_records(struct ps_journal_writer *writer,
                                    const struct ps_record *records, size_t record_count,
                                    struct ps_error *error);
static enum ps_status begin_segment(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status replace_segment(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status fill_segment(struct ps_journal_writer *writer, const char *temporary,
                                   struct ps_error *error);
static enum ps_status repeat_records(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status repeat_record(struct ps_journal_writer *writer,
                                    struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status begin_first_record(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status put_record(struct ps_journal_writer *writer, const struct ps_record *record,
                                 struct ps_error *error);
static enum ps_status put_piece(struct ps_journal_writer *writer, struct ps_bytes piece,
                                struct ps_error *error);
static enum ps_status flush(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status sync(struct ps_journal_writer *writer, struct ps_error *error);
static void close_segment(struct ps_journal_writer *writer);

/* Everything is allocated here: writing allocates nothing, so a server that runs out of memory can
 * still make its last pushes durable. */
enum ps_status ps_journal_writer_open(const struct ps_files *files, const char *folder,
                                      const struct ps_journal_facts *facts, uint64_t segment_bytes,
                                      const struct ps_allocator *memory,
                                      struct ps_journal_writer **writer, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && facts != NULL);
    PS_ASSERT(memory != NULL && writer != NULL);
    PS_ASSERT(segment_bytes > 0);
    if (facts->position == UINT64_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "journal: there is no position left");
    struct ps_journal_writer *opened = ps_zeroed(memory, sizeof *opened);
    if (opened == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a writer");
    opened->memory = memory;
    opened->files = files;
    opened->facts = *facts;
    opened->segment_bytes = segment_bytes;
    opened->position = facts->position;
    opened->written = facts->position;
    opened->folder = ps_copy_text(memory, folder, strlen(folder));
    opened->heads = ps_plain(memory, BATCH_HEADS * PS_JOURNAL_HEAD_BYTES_MAX);
    opened->pieces = ps_zeroed_array(memory, BATCH_PIECES, sizeof *opened->pieces);
    enum ps_status status = PS_OK;
    if (opened->folder == NULL || opened->heads == NULL || opened->pieces == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a writer");
    if (status == PS_OK)
        status = begin(opened, error);
    if (status != PS_OK) {
        ps_journal_writer_close(opened);
        return status;
    }
    *writer = opened;
    return PS_OK;
}

/* Without a sync: whatever was acknowledged has been synced, and what was not may be lost. */
void ps_journal_writer_close(struct ps_journal_writer *writer)
{
    if (writer == NULL)
        return;
    close_segment(writer);
    ps_release(writer->memory, writer->pieces);
    ps_release(writer->memory, writer->heads);
    ps_release(writer->memory, writer->folder);
    ps_release(writer->memory, writer);
}

uint64_t ps_journal_writer_position(const struct ps_journal_writer *writer)
{
    PS_ASSERT(writer != NULL);
    return writer->position;
}

/* Makes the first segment of the epoch durable before anything is served: its name is what tells
 * every reader that the former epoch ends here. */
static enum ps_status begin(struct ps_journal_writer *writer, struct ps_error *error)
{
    const struct ps_files *files = writer->files;
    PS_TRY(files->make_folder(files->self, writer->folder, error));
    if (writer->facts.repeat_to > writer->position)
        return begin_repeating(writer, error);
    enum ps_status status = begin_segment(writer, error);
    if (status == PS_OK)
        status = sync(writer, error);
    /* The segment was made and is not durable: without it the next attempt finds its name free. */
    if (status != PS_OK && writer->is_open)
        remove_segment(writer);
    return status;
}

/* Begins an epoch whose first records are repeated from former ones. The segment must not be there
 * under its name before what it repeats is on the disk: it would hide the former epoch's records,
 * and a crash at that moment would lose them. So it is made under another name and renamed, and the
 * name is checked first because rename replaces what is there. */
static enum ps_status begin_repeating(struct ps_journal_writer *writer, struct ps_error *error)
{
    const struct ps_files *files = writer->files;
    struct ps_journal_segment segment = {writer->facts.epoch, writer->position + 1};
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_file file;
    PS_TRY(ps_journal_path_write(writer->folder, segment, path, error));
    enum ps_status status = files->open(files->self, path, PS_FILE_READ, &file, error);
    if (status == PS_OK) {
        files->close(files->self, file);
        return ps_fail(error, PS_ERR_EXISTS, "journal: %s is there already", path);
    }
    if (status != PS_ERR_NOT_FOUND)
        return status;
    /* The same way as after a failed write: made aside, synced, renamed. */
    status = replace_segment(writer, error);
    if (status != PS_OK)
        remove_segment(writer);
    return status;
}

/* The epoch did not begin. Should the file come back after a crash, it is an empty epoch, which
 * does no harm. */
static void remove_segment(const struct ps_journal_writer *writer)
{
    struct ps_journal_segment segment = {writer->facts.epoch, writer->position + 1};
    char path[PS_JOURNAL_PATH_BYTES];
    if (ps_journal_path_write(writer->folder, segment, path, NULL) == PS_OK)
        (void)writer->files->remove(writer->files->self, path, NULL);
}

/* All or nothing for the caller: records of a failed call may or may not be on the disk, and are
 * written again after a revival, at the same positions. */
enum ps_status ps_journal_write(struct ps_journal_writer *writer, const struct ps_record *records,
                                size_t record_count, struct ps_error *error)
{
    PS_ASSERT(writer != NULL);
    PS_ASSERT(records != NULL || record_count == 0);
    /* The reason of the first failure is repeated: later ones would only be its consequences. */
    if (writer->death.status != PS_OK)
        return ps_fail(error, writer->death.status, "%s", writer->death.text);
    if (record_count == 0)
        return PS_OK;
    struct ps_error reason = {0};
    enum ps_status status = write_records(writer, records, record_count, &reason);
    if (status != PS_OK) {
        writer->death = reason;
        writer->death.status = status;
        close_segment(writer);
        return ps_fail(error, status, "%s", reason.text);
    }
    writer->position = writer->written;
    return PS_OK;
}

/* The file that failed may be the one of this very name, when nothing in it became durable. It is
 * replaced by rename and not removed: at no time is the epoch without a segment, or a reader would
 * go on into a former epoch. */
enum ps_status ps_journal_writer_revive(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer != NULL);
    PS_ASSERT(writer->death.status != PS_OK && !writer->is_open);
    PS_TRY(replace_segment(writer, error));
    writer->death = (struct ps_error){0};
    return PS_OK;
}

/* Makes the segment behind writer->position under another name, and renames it once synced. What
 * the dead writer had gathered is dropped: those records are given to it again. */
static enum ps_status replace_segment(struct ps_journal_writer *writer, struct ps_error *error)
{
    const struct ps_files *files = writer->files;
    struct ps_journal_segment segment = {writer->facts.epoch, writer->position + 1};
    char path[PS_JOURNAL_PATH_BYTES];
    char temporary[PS_JOURNAL_PATH_BYTES + sizeof PS_JOURNAL_TEMPORARY];
    PS_TRY(ps_journal_path_write(writer->folder, segment, path, error));
    (void)snprintf(temporary, sizeof temporary, "%s%s", path, PS_JOURNAL_TEMPORARY);
    writer->written = writer->position;
    writer->head_count = 0;
    writer->piece_count = 0;
    writer->batch_bytes = 0;
    enum ps_status status = fill_segment(writer, temporary, error);
    if (status == PS_OK)
        status = files->rename(files->self, temporary, path, error);
    if (status == PS_OK)
        status = files->sync_folder(files->self, writer->folder, error);
    if (status != PS_OK) {
        close_segment(writer);
        (void)files->remove(files->self, temporary, NULL);
        return status;
    }
    writer->position = writer->written;
    return PS_OK;
}

static enum ps_status fill_segment(struct ps_journal_writer *writer, const char *temporary,
                                   struct ps_error *error)
{
    const struct ps_files *files = writer->files;
    (void)files->remove(files->self, temporary, NULL); /* of a try that a crash cut short */
    PS_TRY(files->open(files->self, temporary, PS_FILE_CREATE_NEW, &writer->file, error));
    writer->is_open = true;
    writer->size = 0;
    PS_TRY(begin_first_record(writer, error));
    if (writer->facts.repeat_to > writer->written)
        PS_TRY(repeat_records(writer, error));
    return sync(writer, error);
}

/* Reads what was there from former epochs, through the ordinary reader, so that only verified
 * records of the epochs that count are repeated. */
static enum ps_status repeat_records(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer->facts.epoch > 0);
    struct ps_journal_reader *reader = NULL;
    PS_TRY(ps_journal_reader_open(writer->files, writer->folder, writer->written,
                                  writer->facts.epoch - 1, writer->memory, &reader, error));
    enum ps_status status = PS_OK;
    while (status == PS_OK && writer->written < writer->facts.repeat_to)
        status = repeat_record(writer, reader, error);
    ps_journal_reader_close(reader);
    return status;
}

/* The record gets this epoch: it is part of this epoch's file now. A record that could be read a
 * moment ago, by the recovery that decided to repeat it, and cannot be read now, is lost state:
 * CORRUPT. */
static enum ps_status repeat_record(struct ps_journal_writer *writer,
                                    struct ps_journal_reader *reader, struct ps_error *error)
{
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    uint64_t position = writer->written + 1;
    enum ps_status status = ps_journal_next(reader, &row, &cut, NULL, error);
    if (status == PS_ERR_NOT_FOUND || (status == PS_OK && row.record.position != position))
        status = ps_fail(error, PS_ERR_CORRUPT,
                         "journal: position %" PRIu64 " was there and is not any more", position);
    row.record.epoch = writer->facts.epoch;
    if (status == PS_OK)
        status = put_record(writer, &row.record, error);
    /* The content lies in the row. */
    if (status == PS_OK)
        status = flush(writer, error);
    ps_journal_row_release(&row);
    if (status == PS_OK)
        writer->written = position;
    return status;
}

/* A segment is closed before a write and never within one, so a batch is always in one file and one
 * sync suffices. The asserts are the journal's order: no gap, no repetition, no other epoch's
 * record. */
static enum ps_status write_records(struct ps_journal_writer *writer,
                                    const struct ps_record *records, size_t record_count,
                                    struct ps_error *error)
{
    /* Full segments are closed lazily, by the first write behind them: an idle journal has no empty
     * segment. */
    if (writer->size >= writer->segment_bytes) {
        close_segment(writer);
        PS_TRY(begin_segment(writer, error));
    }
    for (size_t i = 0; i < record_count; i++) {
        PS_ASSERT(records[i].type != PS_RECORD_SEGMENT);
        PS_ASSERT(records[i].epoch == writer->facts.epoch);
        PS_ASSERT(records[i].position == writer->written + 1);
        PS_TRY(put_record(writer, &records[i], error));
        writer->written = records[i].position;
    }
    PS_TRY(flush(writer, error));
    return sync(writer, error);
}

/* Makes the next segment with its first record. Its name is durable then, its content is not: that
 * follows with the sync of the records behind it, and an empty segment is a torn end. */
static enum ps_status begin_segment(struct ps_journal_writer *writer, struct ps_error *error)
{
    const struct ps_files *files = writer->files;
    PS_ASSERT(!writer->is_open);
    PS_ASSERT(writer->written == writer->position);
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_journal_segment segment = {writer->facts.epoch, writer->position + 1};
    PS_TRY(ps_journal_path_write(writer->folder, segment, path, error));
    PS_TRY(files->open(files->self, path, PS_FILE_CREATE_NEW, &writer->file, error));
    writer->is_open = true;
    writer->size = 0;
    PS_TRY(begin_first_record(writer, error));
    return files->sync_folder(files->self, writer->folder, error);
}

/* Flushed at once: the content lies on this function's stack. */
static enum ps_status begin_first_record(struct ps_journal_writer *writer, struct ps_error *error)
{
    uint8_t bytes[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    struct ps_bytes content = {bytes, ps_journal_segment_write(&writer->facts, &life, bytes)};
    struct ps_record record = {.type = PS_RECORD_SEGMENT,
                               .position = writer->position + 1,
                               .epoch = writer->facts.epoch,
                               .content = ps_view_of(&content)};
    PS_TRY(put_record(writer, &record, error));
    return flush(writer, error);
}

/* Adds one record to the batch: head, content where it lies, zeros. The content is summed here, on
 * the way past, since the head goes before it and carries the sum. */
static enum ps_status put_record(struct ps_journal_writer *writer, const struct ps_record *record,
                                 struct ps_error *error)
{
    static const uint8_t zeros[PS_JOURNAL_ALIGNMENT] = {0};
    const struct ps_view *content = &record->content;
    size_t content_bytes = 0;
    uint32_t crc32c = 0;
    for (size_t i = 0; i < content->piece_count; i++) {
        crc32c = ps_checksum_crc32c(crc32c, content->pieces[i]);
        content_bytes += content->pieces[i].size;
    }
    PS_ASSERT(content_bytes == content->size);
    /* Before the head is taken: after a flush all heads may be written over. */
    if (writer->head_count == BATCH_HEADS)
        PS_TRY(flush(writer, error));
    uint8_t *head = writer->heads + writer->head_count++ * PS_JOURNAL_HEAD_BYTES_MAX;
    size_t head_bytes = ps_journal_head_write(record, &life, writer->position, crc32c, head);
    PS_TRY(put_piece(writer, (struct ps_bytes){head, head_bytes}, error));
    for (size_t i = 0; i < content->piece_count; i++)
        PS_TRY(put_piece(writer, content->pieces[i], error));
    struct ps_bytes padding = {zeros, ps_journal_padding(content_bytes)};
    return put_piece(writer, padding, error);
}

/* An empty piece (no padding, no content) would waste a vector of writev. */
static enum ps_status put_piece(struct ps_journal_writer *writer, struct ps_bytes piece,
                                struct ps_error *error)
{
    if (piece.size == 0)
        return PS_OK;
    writer->pieces[writer->piece_count++] = piece;
    writer->batch_bytes += piece.size;
    return writer->piece_count == BATCH_PIECES ? flush(writer, error) : PS_OK;
}

/* The counters are reset also when the write fails: the writer is dead then, and its next file
 * begins with an empty batch. */
static enum ps_status flush(struct ps_journal_writer *writer, struct ps_error *error)
{
    struct ps_view batch = {writer->pieces, writer->piece_count, writer->batch_bytes};
    writer->size += writer->batch_bytes;
    writer->head_count = 0;
    writer->piece_count = 0;
    writer->batch_bytes = 0;
    if (batch.size == 0)
        return PS_OK;
    return writer->files->write_view(writer->files->self, writer->file, batch, error);
}

/* The promise itself, and so the place where the build for mutation tests takes it away. */
static enum ps_status sync(struct ps_journal_writer *writer, struct ps_error *error)
{
#ifdef PS_MUTATE_SKIP_JOURNAL_SYNC
    (void)writer;
    (void)error;
    return PS_OK;
#else
    return writer->files->sync(writer->files->self, writer->file, error);
#endif
}

/* A file that failed is closed as well, without another sync. */
static void close_segment(struct ps_journal_writer *writer)
{
    if (writer->is_open)
        writer->files->close(writer->files->self, writer->file);
    writer->is_open = false;
}
