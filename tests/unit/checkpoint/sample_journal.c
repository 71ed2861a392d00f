/* SPDX-License-Identifier: Apache-2.0 */
/* Journals written and compared. */
#include "sample_journal.h"

#include "base/random.h"
#include "checkpoint/journal_segments.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MAX 200
#define PIECES 4

/* A record with the memory behind it. */
struct made {
    struct ps_record record;
    char name[32];
    char client_id[32];
    struct ps_bytes pieces[PIECES];
    uint8_t *content; /* owned */
};

/* `made` must stay where it is. */
static void make_record(struct made *made, const struct sample_shape *shape, uint64_t position)
{
    struct ps_random random;
    ps_random_init(&random, position);
    int name_size = snprintf(made->name, sizeof made->name, "layer/%" PRIu64, position % 17);
    int id_size = snprintf(made->client_id, sizeof made->client_id, "client-%" PRIu64, position);
    bool anonymous = shape->anonymous || position % 3 == 0;
    size_t size = (size_t)ps_random_below(&random, shape->content_bytes_max);
    made->content = malloc(size + 1);
    ck_assert_ptr_nonnull(made->content);
    for (size_t i = 0; i < size; i++)
        made->content[i] = (uint8_t)(ps_random_next(&random) | 1);
    size_t half = size / 2;
    size_t odd = half / 3;
    made->pieces[0] = (struct ps_bytes){made->content, odd};
    made->pieces[1] = (struct ps_bytes){made->content + odd, half - odd};
    made->pieces[2] = (struct ps_bytes){NULL, 0};
    made->pieces[3] = (struct ps_bytes){made->content + half, size - half};
    made->record = (struct ps_record){
        .type = PS_RECORD_PUSH,
        .position = position,
        .epoch = shape->epoch,
        .name = {(const uint8_t *)made->name, (size_t)name_size},
        .dtype = (enum ps_dtype)(position % PS_DTYPE_COUNT),
        .version = ps_random_next(&random),
        .client_id = {(const uint8_t *)made->client_id, anonymous ? 0 : (size_t)id_size},
        .session = anonymous ? 0 : ps_random_next(&random),
        .sequence = anonymous ? 0 : ps_random_next(&random),
        .content = {made->pieces, PIECES, size},
    };
}

struct ps_journal_writer *sample_writer(const struct ps_files *files, uint64_t epoch,
                                        uint64_t position, uint64_t segment_bytes)
{
    return sample_writer_from(files, epoch - 1, epoch, position, segment_bytes);
}

struct ps_journal_writer *sample_writer_from(const struct ps_files *files, uint64_t previous,
                                             uint64_t epoch, uint64_t position,
                                             uint64_t segment_bytes)
{
    struct ps_journal_facts facts = {.index = 2,
                                     .shard_count = 5,
                                     .epoch = epoch,
                                     .position = position,
                                     .previous_epoch = previous};
    struct ps_journal_writer *writer = NULL;
    struct ps_error error = {0};
    /* Small buffers, so that records go on in the next write. */
    const struct ps_journal_setup setup = {.segment_bytes = segment_bytes, .buffer_bytes = 8192};
    enum ps_status status = ps_journal_writer_open(files, SAMPLE_FOLDER, &facts, &setup,
                                                   ps_allocator_heap(), &writer, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
    return writer;
}

/* Where records go. */
typedef enum ps_status (*write_fn)(void *to, const struct ps_record *records, size_t count);

static enum ps_status append(write_fn write, void *to, const struct sample_shape *shape,
                             uint64_t first, uint64_t last, size_t batch)
{
    struct made *made = calloc(BATCH_MAX, sizeof *made);
    struct ps_record *records = calloc(BATCH_MAX, sizeof *records);
    ck_assert(made != NULL && records != NULL && batch <= BATCH_MAX);
    enum ps_status status = PS_OK;
    while (first <= last && status == PS_OK) {
        size_t count = 0;
        for (; count < batch && first <= last; count++, first++) {
            make_record(&made[count], shape, first);
            records[count] = made[count].record;
        }
        status = write(to, records, count);
        for (size_t i = 0; i < count; i++)
            free(made[i].content);
    }
    free(records);
    free(made);
    return status;
}

static enum ps_status to_writer(void *to, const struct ps_record *records, size_t count)
{
    return ps_journal_write(to, records, count, NULL);
}

static enum ps_status to_maker(void *to, const struct ps_record *records, size_t count)
{
    return journal_maker_write(to, records, count, NULL);
}

enum ps_status sample_append(struct ps_journal_writer *writer, const struct sample_shape *shape,
                             uint64_t first, uint64_t last, size_t batch)
{
    return append(to_writer, writer, shape, first, last, batch);
}

void sample_maker(struct journal_maker *maker, const struct ps_files *files,
                  const struct sample_shape *shape, uint64_t previous, uint64_t position,
                  uint64_t segment_bytes)
{
    const struct ps_journal_facts facts = {.index = 2,
                                           .shard_count = 5,
                                           .epoch = shape->epoch,
                                           .position = position,
                                           .previous_epoch = previous};
    ck_assert_int_eq(journal_maker_begin(maker, files, SAMPLE_FOLDER, &facts, shape->format,
                                         segment_bytes, NULL),
                     PS_OK);
}

void sample_make(struct journal_maker *maker, const struct sample_shape *shape, uint64_t first,
                 uint64_t last, size_t batch)
{
    ck_assert_int_eq(append(to_maker, maker, shape, first, last, batch), PS_OK);
}

void sample_journal(const struct ps_files *files, const struct sample_shape *shape, uint64_t first,
                    uint64_t last, size_t batch, uint64_t segment_bytes)
{
    if (shape->format != 0) {
        struct journal_maker maker;
        sample_maker(&maker, files, shape, shape->epoch - 1, first - 1, segment_bytes);
        sample_make(&maker, shape, first, last, batch);
        ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
        return;
    }
    struct ps_journal_writer *writer = sample_writer(files, shape->epoch, first - 1, segment_bytes);
    ck_assert_int_eq(sample_append(writer, shape, first, last, batch), PS_OK);
    ck_assert_uint_eq(ps_journal_writer_position(writer), last);
    ps_journal_writer_close(writer);
}

void sample_assert_row(const struct ps_journal_row *row, const struct sample_shape *shape,
                       uint64_t position)
{
    struct made made;
    make_record(&made, shape, position);
    const struct ps_record *found = &row->record;
    ck_assert_int_eq(found->type, PS_RECORD_PUSH);
    ck_assert_uint_eq(found->position, position);
    if (shape->epoch != 0)
        ck_assert_uint_eq(found->epoch, shape->epoch);
    ck_assert(ps_bytes_equal(found->name, made.record.name));
    ck_assert(ps_bytes_equal(found->client_id, made.record.client_id));
    ck_assert_int_eq(found->dtype, made.record.dtype);
    ck_assert_uint_eq(found->version, made.record.version);
    ck_assert_uint_eq(found->session, made.record.session);
    ck_assert_uint_eq(found->sequence, made.record.sequence);
    ck_assert_uint_eq(found->content.size, made.record.content.size);
    ck_assert_uint_eq(found->content.piece_count, 1);
    ck_assert_ptr_eq(found->content.pieces, &row->piece);
    struct ps_bytes expected = {made.content, found->content.size};
    ck_assert(ps_bytes_equal(row->piece, expected));
    free(made.content);
}

struct sample_result sample_read_on(const struct ps_files *files, const struct sample_shape *shape,
                                    uint64_t position, const struct ps_allocator *memory)
{
    struct sample_result result = {.last = position};
    struct ps_journal_reader *reader = NULL;
    result.status = ps_journal_reader_open(files, SAMPLE_FOLDER, position, UINT64_MAX, memory,
                                           &reader, &result.error);
    while (result.status == PS_OK) {
        struct ps_journal_row row = {0};
        result.status = ps_journal_next(reader, &row, &result.cut, &result.damage, &result.error);
        if (result.status == PS_OK)
            sample_assert_row(&row, shape, ++result.last);
        ps_journal_row_release(&row);
    }
    if (reader != NULL) {
        result.epoch = ps_journal_reader_epoch(reader);
        result.durable = ps_journal_reader_durable(reader);
    }
    ps_journal_reader_close(reader);
    return result;
}

const char *sample_segment(uint64_t epoch, uint64_t first, char path[128])
{
    char name[PS_JOURNAL_NAME_BYTES];
    ps_journal_name_write((struct ps_journal_segment){epoch, first}, name);
    (void)snprintf(path, 128, "%s/%s", SAMPLE_FOLDER, name);
    return path;
}

/* No content of a sample has a zero in it, and a head that ends in zeros is as long as its record.
 */
size_t sample_end(struct ps_bytes segment)
{
    size_t size = segment.size;
    while (size > 0 && segment.data[size - 1] == 0)
        size--;
    return size + ps_journal_padding(size);
}
