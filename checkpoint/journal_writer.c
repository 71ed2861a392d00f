/* SPDX-License-Identifier: Apache-2.0 */
/* Appends records to the segments of one epoch.
 *
 * Heads and contents are copied into the buffers of block_output.c, which writes whole blocks.
 * One flush makes any number of records durable with one sync, which is how many pushes share the
 * price of one; the records of the next flush may be copied meanwhile.
 *
 * After any failure the writer is dead: the kernel may have dropped what it could not write, and a
 * later sync of the same file would report success. It is revived by making a new file, behind the
 * last position that is durable. The invariant: `position` <= `flushed` <= `written`; they are what
 * is durable, what the last flush covers, and what was appended. */
#include "checkpoint/journal.h"

#include "base/assert.h"
#include "base/random.h"
#include "checkpoint/block_output.h"
#include "checkpoint/checksum.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_segments.h"
#include "checkpoint/journal_spares.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ps_journal_writer {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    char *folder;                      /* owned */
    struct ps_journal_facts facts;
    struct ps_journal_setup setup;

    struct ps_write_behind *behind; /* owned; NULL: the caller writes */
    struct ps_block_output output;
    struct ps_journal_life life;       /* of the present segment */
    struct ps_journal_segment segment; /* the present one's name */
    bool unnamed;                      /* its file still has the temporary name */
    bool begun;                        /* and its first flush has begun */
    bool left;                         /* it has lost its name: nothing more goes to it */
    uint64_t spares_from;              /* segments before this one are not written over */
    uint64_t position;                 /* the last one that is durable */
    uint64_t flushed;                  /* the last one of the last flush */
    uint64_t written;                  /* the last one that was appended */
    struct ps_error death;             /* PS_OK while the writer lives */
};

static enum ps_status make_output(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status begin(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status check_free(const struct ps_journal_writer *writer, struct ps_error *error);
static void remove_segment(const struct ps_journal_writer *writer);
static enum ps_status append(struct ps_journal_writer *writer, const struct ps_record *records,
                             size_t record_count, struct ps_error *error);
static enum ps_status flush(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status settle(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status die(struct ps_journal_writer *writer, const struct ps_error *reason,
                          struct ps_error *error);
static enum ps_status repeat_records(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status repeat_record(struct ps_journal_writer *writer,
                                    struct ps_journal_reader *reader, struct ps_error *error);
static enum ps_status begin_segment(struct ps_journal_writer *writer, struct ps_error *error);
static void go_ahead(struct ps_journal_writer *writer);
static enum ps_status name_segment(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status write_paths(const struct ps_journal_writer *writer,
                                  char path[PS_JOURNAL_PATH_BYTES],
                                  char temporary[PS_JOURNAL_TEMPORARY_PATH_BYTES],
                                  struct ps_error *error);
static enum ps_status put_first_record(struct ps_journal_writer *writer, struct ps_error *error);
static enum ps_status put_record(struct ps_journal_writer *writer, const struct ps_record *record,
                                 struct ps_error *error);

/* Everything is allocated here: writing allocates nothing, so a server that runs out of memory can
 * still make its last pushes durable. */
enum ps_status ps_journal_writer_open(const struct ps_files *files, const char *folder,
                                      const struct ps_journal_facts *facts,
                                      const struct ps_journal_setup *setup,
                                      const struct ps_allocator *memory,
                                      struct ps_journal_writer **writer, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && facts != NULL && setup != NULL);
    PS_ASSERT(memory != NULL && writer != NULL);
    if (facts->position == UINT64_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "journal: there is no position left");
    struct ps_journal_writer *opened = ps_zeroed(memory, sizeof *opened);
    if (opened == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a writer");
    opened->memory = memory;
    opened->files = files;
    opened->facts = *facts;
    opened->setup = *setup;
    if (setup->segment_bytes == 0)
        opened->setup.segment_bytes = PS_JOURNAL_SEGMENT_BYTES;
    opened->position = opened->flushed = opened->written = facts->position;
    opened->folder = ps_copy_text(memory, folder, strlen(folder));
    enum ps_status status = PS_OK;
    if (opened->folder == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "journal: no memory for a writer");
    if (status == PS_OK)
        status = make_output(opened, error);
    if (status == PS_OK)
        status = begin(opened, error);
    if (status != PS_OK) {
        ps_journal_writer_close(opened);
        return status;
    }
    *writer = opened;
    return PS_OK;
}

/* The simulator and the tests have no thread behind: their disks are in memory, and theirs. */
static enum ps_status make_output(struct ps_journal_writer *writer, struct ps_error *error)
{
    if (writer->setup.behind)
        PS_TRY(ps_write_behind_create(writer->files, "journal-write", writer->memory,
                                      &writer->behind, error));
    return ps_block_output_init(&writer->output, writer->files, writer->behind,
                                writer->setup.buffer_bytes, writer->memory, error);
}

/* Without a sync: whatever was acknowledged has been synced, and what was not may be lost. */
void ps_journal_writer_close(struct ps_journal_writer *writer)
{
    if (writer == NULL)
        return;
    ps_block_output_fini(&writer->output);
    ps_write_behind_destroy(writer->behind);
    ps_release(writer->memory, writer->folder);
    ps_release(writer->memory, writer);
}

uint64_t ps_journal_writer_position(const struct ps_journal_writer *writer)
{
    PS_ASSERT(writer != NULL);
    return writer->position;
}

/* PS_OK: a file of that segment's name is there. */
static enum ps_status find(const struct ps_journal_writer *writer,
                           struct ps_journal_segment segment, char path[PS_JOURNAL_PATH_BYTES],
                           struct ps_error *error)
{
    const struct ps_files *files = writer->files;
    struct ps_file file;
    PS_TRY(ps_journal_path_write(writer->folder, segment, path, error));
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &file, error));
    files->close(files->self, file);
    return PS_OK;
}

/* Writes to a file that was removed go well, and are lost with it. */
bool ps_journal_writer_look(struct ps_journal_writer *writer)
{
    char path[PS_JOURNAL_PATH_BYTES];
    writer->left |=
        !writer->unnamed && find(writer, writer->segment, path, NULL) == PS_ERR_NOT_FOUND;
    /* A failure is found again by the segment that is begun there. */
    if (writer->left)
        (void)writer->files->make_folder(writer->files->self, writer->folder, NULL);
    return !writer->left;
}

/* Makes the first segment of the epoch durable before anything is served: its name is what tells
 * every reader that the former epoch ends here. The name comes when the content is on the disk,
 * with all that is repeated: it hides the former epoch's records. */
static enum ps_status begin(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_TRY(writer->files->make_folder(writer->files->self, writer->folder, error));
    PS_TRY(check_free(writer, error));
    enum ps_status status = begin_segment(writer, error);
    if (status == PS_OK && writer->facts.repeat_to > writer->written)
        status = repeat_records(writer, error);
    if (status == PS_OK)
        status = flush(writer, error);
    if (status == PS_OK)
        status = settle(writer, error);
    if (status != PS_OK)
        remove_segment(writer);
    return status;
}

/* The name is looked at first because rename replaces what is there. */
static enum ps_status check_free(const struct ps_journal_writer *writer, struct ps_error *error)
{
    const struct ps_journal_segment segment = {writer->facts.epoch, writer->position + 1};
    char path[PS_JOURNAL_PATH_BYTES];
    enum ps_status status = find(writer, segment, path, error);
    if (status == PS_OK)
        return ps_fail(error, PS_ERR_EXISTS, "journal: %s is there already", path);
    return status == PS_ERR_NOT_FOUND ? PS_OK : status;
}

/* The epoch did not begin. Should the file come back after a crash, it is an empty epoch, which
 * does no harm. */
static void remove_segment(const struct ps_journal_writer *writer)
{
    char path[PS_JOURNAL_PATH_BYTES];
    char temporary[PS_JOURNAL_TEMPORARY_PATH_BYTES];
    if (write_paths(writer, path, temporary, NULL) != PS_OK)
        return;
    (void)writer->files->remove(writer->files->self, temporary, NULL);
    (void)writer->files->remove(writer->files->self, path, NULL);
}

enum ps_status ps_journal_append(struct ps_journal_writer *writer, const struct ps_record *records,
                                 size_t record_count, struct ps_error *error)
{
    PS_ASSERT(writer != NULL);
    PS_ASSERT(records != NULL || record_count == 0);
    struct ps_error reason = writer->death;
    enum ps_status status = reason.status;
    if (status == PS_OK)
        status = append(writer, records, record_count, &reason);
    return status == PS_OK ? PS_OK : die(writer, &reason, error);
}

/* Between a flush and the next the caller may append: that is what the second buffer is for. */
enum ps_status ps_journal_flush(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer != NULL);
    struct ps_error reason = writer->death;
    enum ps_status status = reason.status;
    if (status == PS_OK)
        status = flush(writer, &reason);
    return status == PS_OK ? PS_OK : die(writer, &reason, error);
}

/* What was appended and not flushed is not waited for: nobody has begun to write it. */
enum ps_status ps_journal_wait(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer != NULL);
    struct ps_error reason = writer->death;
    enum ps_status status = reason.status;
    if (status == PS_OK)
        status = settle(writer, &reason);
    return status == PS_OK ? PS_OK : die(writer, &reason, error);
}

/* For callers with one batch at a time: tools, tests, the simulator. */
enum ps_status ps_journal_write(struct ps_journal_writer *writer, const struct ps_record *records,
                                size_t record_count, struct ps_error *error)
{
    PS_TRY(ps_journal_append(writer, records, record_count, error));
    PS_TRY(ps_journal_flush(writer, error));
    return ps_journal_wait(writer, error);
}

/* The reason of the first failure is repeated: later ones would only be its consequences. */
static enum ps_status die(struct ps_journal_writer *writer, const struct ps_error *reason,
                          struct ps_error *error)
{
    PS_ASSERT(reason->status != PS_OK);
    writer->death = *reason;
    /* The system may hold pages of the file that failed for clean although they are not on the
     * disk: it is never written again, not as another segment either. */
    writer->spares_from = writer->segment.first + 1;
    ps_block_output_close(&writer->output);
    return ps_fail(error, reason->status, "%s", reason->text);
}

/* The file that failed may be the one of this very name, when nothing in it became durable. It is
 * replaced by rename and not removed: at no time is the epoch without a segment, or a reader would
 * go on into a former epoch. What the dead writer had gathered is dropped: those records are given
 * to it again. */
enum ps_status ps_journal_writer_revive(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer != NULL);
    /* A living one has a file that may still be written to. */
    PS_ASSERT(writer->death.status != PS_OK && !writer->output.is_open);
    /* Also what was flushed and never settled: the disk may have it or not. */
    writer->flushed = writer->written = writer->position;
    enum ps_status status = begin_segment(writer, error);
    if (status == PS_OK)
        status = flush(writer, error);
    if (status == PS_OK)
        status = settle(writer, error);
    if (status != PS_OK) {
        ps_block_output_close(&writer->output);
        return status;
    }
    writer->death = (struct ps_error){0};
    return PS_OK;
}

/* Reads what was there from former epochs, through the ordinary reader, so that only verified
 * records of the epochs that count are repeated. */
static enum ps_status repeat_records(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer->facts.epoch > 0);
    struct ps_journal_reader *reader = NULL;
    PS_TRY(ps_journal_reader_open_of(writer->files, writer->folder, writer->written,
                                     writer->facts.epoch - 1, &writer->facts.history,
                                     writer->memory, &reader, error));
    enum ps_status status = PS_OK;
    while (status == PS_OK && writer->written < writer->facts.repeat_to)
        status = repeat_record(writer, reader, error);
    ps_journal_reader_close(reader);
    return status;
}

/* The record gets this epoch: it is part of this epoch's file now. One that recovery could read a
 * moment ago, and that cannot be read now, is lost state: CORRUPT. */
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
    ps_journal_row_release(&row);
    if (status == PS_OK)
        writer->written = position;
    return status;
}

/* A segment is closed before a flush and never within one, so a flush is always in one file and one
 * sync suffices. The asserts are the journal's order: no gap, no repetition, no other epoch's
 * record. */
static enum ps_status append(struct ps_journal_writer *writer, const struct ps_record *records,
                             size_t record_count, struct ps_error *error)
{
    /* Full segments are closed lazily, by the first append behind them: an idle journal has no
     * empty segment. */
    if (record_count > 0 && writer->written == writer->flushed &&
        (writer->left || writer->output.size >= writer->setup.segment_bytes)) {
        PS_TRY(settle(writer, error));
        ps_block_output_close(&writer->output);
        PS_TRY(begin_segment(writer, error));
    }
    /* Copied, and summed on the way: nothing of the caller's is needed when this returns. */
    for (size_t i = 0; i < record_count; i++) {
        PS_ASSERT(records[i].type != PS_RECORD_SEGMENT);
        PS_ASSERT(records[i].epoch == writer->facts.epoch);
        PS_ASSERT(records[i].position == writer->written + 1);
        PS_TRY(put_record(writer, &records[i], error));
        writer->written = records[i].position;
    }
    return PS_OK;
}

/* What the flush before covers is settled first: its segment gets its name before more is
 * written to it. */
static enum ps_status flush(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_TRY(settle(writer, error));
    /* Nothing new, and no segment that waits for its first flush. */
    if (writer->written == writer->flushed && !writer->unnamed)
        return PS_OK;
    PS_TRY(ps_block_output_flush(&writer->output, error));
    writer->flushed = writer->written;
    writer->begun = true;
    /* A small flush is on the disk already. */
    bool busy = writer->behind != NULL && ps_write_behind_busy(writer->behind);
    return busy ? PS_OK : settle(writer, error);
}

/* From here on the records of the last flush are durable, and their segment has its name: the two
 * become true together, or a reader would look for records in a file that it cannot find. */
static enum ps_status settle(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer->position <= writer->flushed && writer->flushed <= writer->written);
    PS_TRY(ps_block_output_wait(&writer->output, error));
    /* A segment without its first flush is not there yet. */
    if (writer->unnamed && writer->begun)
        PS_TRY(name_segment(writer, error));
    writer->position = writer->flushed;
    return PS_OK;
}

/* Makes the next segment under a temporary name, with its first record; the first flush gives it
 * its own. */
static enum ps_status begin_segment(struct ps_journal_writer *writer, struct ps_error *error)
{
    char path[PS_JOURNAL_PATH_BYTES];
    char temporary[PS_JOURNAL_TEMPORARY_PATH_BYTES];
    struct ps_file file;
    /* Everything before is durable: a segment that is followed by another one is whole. */
    PS_ASSERT(!writer->output.is_open && writer->written == writer->position);
    writer->segment = (struct ps_journal_segment){writer->facts.epoch, writer->position + 1};
    writer->left = false;
    PS_TRY(write_paths(writer, path, temporary, error));
    struct ps_journal_segment from = {writer->facts.epoch, writer->spares_from};
    PS_TRY(ps_journal_spare_open(writer->files, writer->folder, from, temporary,
                                 writer->setup.direct, &file, error));
    ps_block_output_open(&writer->output, file);
    if (writer->setup.ahead)
        go_ahead(writer);
    writer->unnamed = true;
    writer->begun = false;
    /* 0 would be the checksum of format 1. */
    writer->life = (struct ps_journal_life){.format = PS_JOURNAL_FORMAT};
    while (writer->life.salt == 0)
        ps_random_system(&writer->life.salt, sizeof writer->life.salt);
    return put_first_record(writer, error);
}

/* A file whose size is not known is written as one that has all its blocks: at worst it grows with
 * each flush. */
static void go_ahead(struct ps_journal_writer *writer)
{
    const struct ps_files *files = writer->files;
    uint64_t there = 0;
    if (files->size(files->self, writer->output.file, &there, NULL) == PS_OK)
        ps_block_output_go_ahead(&writer->output, there);
}

/* In one step, whatever stood under the name: a segment that failed with nothing durable in it. */
static enum ps_status name_segment(struct ps_journal_writer *writer, struct ps_error *error)
{
    PS_ASSERT(writer->unnamed && writer->begun);
    const struct ps_files *files = writer->files;
    char path[PS_JOURNAL_PATH_BYTES];
    char temporary[PS_JOURNAL_TEMPORARY_PATH_BYTES];
    PS_TRY(write_paths(writer, path, temporary, error));
    PS_TRY(files->rename(files->self, temporary, path, error));
    PS_TRY(files->sync_folder(files->self, writer->folder, error));
    writer->unnamed = false;
    return PS_OK;
}

/* The temporary name is the final one with a suffix: after a crash it says whose it was. */
static enum ps_status write_paths(const struct ps_journal_writer *writer,
                                  char path[PS_JOURNAL_PATH_BYTES],
                                  char temporary[PS_JOURNAL_TEMPORARY_PATH_BYTES],
                                  struct ps_error *error)
{
    PS_TRY(ps_journal_path_write(writer->folder, writer->segment, path, error));
    (void)snprintf(temporary, PS_JOURNAL_TEMPORARY_PATH_BYTES, "%s%s", path, PS_JOURNAL_TEMPORARY);
    return PS_OK;
}

/* Copied like all others: it is on the disk with the first flush, under the temporary name. */
static enum ps_status put_first_record(struct ps_journal_writer *writer, struct ps_error *error)
{
    uint8_t bytes[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    size_t size = ps_journal_segment_write(&writer->facts, &writer->life, bytes);
    struct ps_bytes content = {bytes, size};
    /* Its position is that of the push behind it, which has it as well. */
    struct ps_record record = {.type = PS_RECORD_SEGMENT,
                               .position = writer->segment.first,
                               .epoch = writer->facts.epoch,
                               .content = ps_view_of(&content)};
    ps_journal_segment_history(&writer->facts, &record);
    return put_record(writer, &record, error);
}

/* Head, content, zeros. The content is summed before it is copied, since the head goes before it
 * and carries the sum. */
static enum ps_status put_record(struct ps_journal_writer *writer, const struct ps_record *record,
                                 struct ps_error *error)
{
    static const uint8_t zeros[PS_JOURNAL_ALIGNMENT] = {0};
    uint8_t head[PS_JOURNAL_HEAD_BYTES_MAX];
    const struct ps_view *content = &record->content;
    size_t content_bytes = 0;
    uint32_t crc32c = 0;
    for (size_t i = 0; i < content->piece_count; i++) {
        crc32c = ps_checksum_crc32c(crc32c, content->pieces[i]);
        content_bytes += content->pieces[i].size;
    }
    PS_ASSERT(content_bytes == content->size);
    /* What was durable is written into each head as of now: the flush under way may have ended, of
     * which the next settle will know. */
    size_t head_bytes =
        ps_journal_head_write(record, &writer->life, writer->position, crc32c, head);
    PS_TRY(ps_block_output_put(&writer->output, (struct ps_bytes){head, head_bytes}, error));
    for (size_t i = 0; i < content->piece_count; i++)
        PS_TRY(ps_block_output_put(&writer->output, content->pieces[i], error));
    struct ps_bytes padding = {zeros, ps_journal_padding(content_bytes)};
    return ps_block_output_put(&writer->output, padding, error);
}
