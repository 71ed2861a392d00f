/* SPDX-License-Identifier: Apache-2.0 */
/* The heads are those of checkpoint/journal_record.c, which tests of their own hold to the bytes of
 * docs/journal-format.md. Everything else is done here anew, so that journals of older versions
 * stay readable after the server's writer has changed. */
#include "tests/support/checkpoint/journal_maker.h"

#include "checkpoint/checksum.h"
#include "checkpoint/journal_segments.h"

#include <stdlib.h>
#include <string.h>

static void begin_segment(struct journal_maker *maker);
static enum ps_status put_segment(struct journal_maker *maker, struct ps_error *error);
static void make_room(struct journal_maker *maker, size_t size);

enum ps_status journal_maker_begin(struct journal_maker *maker, const struct ps_files *files,
                                   const char *folder, const struct ps_journal_facts *facts,
                                   uint32_t format, uint64_t segment_bytes, struct ps_error *error)
{
    *maker = (struct journal_maker){.files = files,
                                    .folder = folder,
                                    .facts = *facts,
                                    .life = {.format = format},
                                    .segment_bytes = segment_bytes,
                                    .position = facts->position};
    if (format != PS_JOURNAL_FORMAT_1)
        maker->life.salt = (uint32_t)(facts->epoch * 2654435761u + facts->position * 40503u + 77u);
    PS_TRY(files->make_folder(files->self, folder, error));
    begin_segment(maker);
    return PS_OK;
}

enum ps_status journal_maker_write(struct journal_maker *maker, const struct ps_record *records,
                                   size_t count, struct ps_error *error)
{
    uint64_t durable = maker->position;
    if (maker->size >= maker->segment_bytes) {
        PS_TRY(put_segment(maker, error));
        maker->life.salt += maker->life.format != PS_JOURNAL_FORMAT_1;
        begin_segment(maker);
    }
    for (size_t i = 0; i < count; i++)
        journal_maker_add(maker, &records[i], durable);
    journal_maker_pad(maker);
    return PS_OK;
}

enum ps_status journal_maker_end(struct journal_maker *maker, struct ps_error *error)
{
    enum ps_status status = maker->bytes != NULL ? put_segment(maker, error) : PS_OK;
    free(maker->bytes);
    maker->bytes = NULL;
    return status;
}

/* The first record is a flush of its own: it is durable before the file has its name. */
static void begin_segment(struct journal_maker *maker)
{
    uint8_t bytes[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    struct ps_bytes content = {bytes, ps_journal_segment_write(&maker->facts, &maker->life, bytes)};
    struct ps_record record = {.type = PS_RECORD_SEGMENT,
                               .position = maker->position + 1,
                               .epoch = maker->facts.epoch,
                               .content = ps_view_of(&content)};
    ps_journal_segment_history(&maker->facts, &record);
    maker->size = 0;
    maker->first = record.position;
    journal_maker_add(maker, &record, maker->position);
    journal_maker_pad(maker);
}

void journal_maker_add(struct journal_maker *maker, const struct ps_record *record,
                       uint64_t durable)
{
    const struct ps_view *content = &record->content;
    uint32_t crc32c = 0;
    for (size_t i = 0; i < content->piece_count; i++)
        crc32c = ps_checksum_crc32c(crc32c, content->pieces[i]);
    make_room(maker, PS_JOURNAL_HEAD_BYTES_MAX + content->size + PS_JOURNAL_ALIGNMENT);
    maker->size +=
        ps_journal_head_write(record, &maker->life, durable, crc32c, maker->bytes + maker->size);
    for (size_t i = 0; i < content->piece_count; i++) {
        struct ps_bytes piece = content->pieces[i];
        if (piece.size > 0)
            memcpy(maker->bytes + maker->size, piece.data, piece.size);
        maker->size += piece.size;
    }
    size_t padding = ps_journal_padding(content->size);
    memset(maker->bytes + maker->size, 0, padding);
    maker->size += padding;
    maker->end = maker->size;
    if (record->type == PS_RECORD_PUSH)
        maker->position = record->position;
}

void journal_maker_pad(struct journal_maker *maker)
{
    size_t rest = -maker->size % PS_JOURNAL_BLOCK_BYTES;
    if (maker->life.format == PS_JOURNAL_FORMAT_1 || rest == 0)
        return;
    make_room(maker, rest);
    memset(maker->bytes + maker->size, 0, rest);
    maker->size += rest;
}

static enum ps_status put_segment(struct journal_maker *maker, struct ps_error *error)
{
    const struct ps_files *files = maker->files;
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_file file;
    struct ps_journal_segment segment = {maker->facts.epoch, maker->first};
    PS_TRY(ps_journal_path_write(maker->folder, segment, path, error));
    PS_TRY(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, error));
    struct ps_bytes bytes = {maker->bytes, maker->size};
    enum ps_status status = files->write(files->self, file, bytes, error);
    if (status == PS_OK)
        status = files->sync(files->self, file, error);
    files->close(files->self, file);
    return status == PS_OK ? files->sync_folder(files->self, maker->folder, error) : status;
}

static void make_room(struct journal_maker *maker, size_t size)
{
    if (maker->capacity - maker->size >= size)
        return;
    maker->capacity = 2 * maker->capacity + size;
    uint8_t *bytes = realloc(maker->bytes, maker->capacity);
    if (bytes == NULL)
        abort();
    maker->bytes = bytes;
}
