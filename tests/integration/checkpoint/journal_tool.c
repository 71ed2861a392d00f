/* SPDX-License-Identifier: Apache-2.0 */
/* Writes journals whose content foreign_journal.py knows, and reads them as a server does:
 *
 *     journal_tool write FOLDER FORMAT EPOCH POSITION COUNT BATCH SEGMENT-BYTES PREVIOUS-EPOCH
 *         [HISTORY]
 *     journal_tool read FOLDER POSITION
 *
 * FORMAT is 1 or 2 for the journals of tests/support/checkpoint/journal_maker.h, 0 for what the
 * server writes. HISTORY is what all 16 bytes of it are; 0: not known. Record p has the name
 * "p<p mod 5>", type p mod 6, 3 p mod 41 bytes of value p mod 256 as content, version p + 7, and
 * unless p is a multiple of 3 the id "client", session p + 1, sequence p + 2. `read` prints a line
 * "position epoch" per record and at last how it ended: "end CUT", or the word of the failure with
 * segment, offset and position. */
#include "checkpoint/journal.h"
#include "tests/support/checkpoint/journal_maker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MAX 64
#define CONTENT_MAX 41

struct batch {
    struct ps_record records[BATCH_MAX];
    struct ps_bytes pieces[BATCH_MAX];
    char names[BATCH_MAX][8];
    uint8_t contents[BATCH_MAX][CONTENT_MAX];
};

static void make_record(struct batch *batch, size_t i, uint64_t epoch, uint64_t position)
{
    size_t size = 3 * position % CONTENT_MAX;
    bool anonymous = position % 3 == 0;
    (void)snprintf(batch->names[i], sizeof batch->names[i], "p%u", (unsigned)(position % 5));
    memset(batch->contents[i], (int)(position % 256), size);
    batch->pieces[i] = (struct ps_bytes){batch->contents[i], size};
    batch->records[i] = (struct ps_record){
        .type = PS_RECORD_PUSH,
        .position = position,
        .epoch = epoch,
        .name = ps_bytes_of_text(batch->names[i]),
        .dtype = (enum ps_dtype)(position % PS_DTYPE_COUNT),
        .encoding = (enum ps_encoding)(position % PS_ENCODING_COUNT),
        .version = position + 7,
        .client_id = ps_bytes_of_text(anonymous ? "" : "client"),
        .session = anonymous ? 0 : position + 1,
        .sequence = anonymous ? 0 : position + 2,
        .content = ps_view_of(&batch->pieces[i]),
    };
}

/* Where the records go: one of the two is there. */
struct output {
    struct ps_journal_writer *writer;
    struct journal_maker maker;
};

/* What the command line asks for, in its order. */
struct wish {
    uint64_t format;
    uint64_t epoch;
    uint64_t position;
    uint64_t count;
    uint64_t batch;
    uint64_t segment_bytes;
    uint64_t previous;
    uint64_t history;
};

static enum ps_status open_output(struct output *output, const char *folder,
                                  const struct wish *wish, struct ps_error *error)
{
    struct ps_journal_facts facts = {.index = 1,
                                     .shard_count = 3,
                                     .epoch = wish->epoch,
                                     .position = wish->position,
                                     .previous_epoch = wish->previous};
    memset(facts.history.bytes, (int)wish->history, sizeof facts.history.bytes);
    if (wish->format != 0)
        return journal_maker_begin(&output->maker, ps_files_real(), folder, &facts,
                                   (uint32_t)wish->format, wish->segment_bytes, error);
    const struct ps_journal_setup setup = {.segment_bytes = wish->segment_bytes};
    return ps_journal_writer_open(ps_files_real(), folder, &facts, &setup, ps_allocator_heap(),
                                  &output->writer, error);
}

static enum ps_status write_batch(struct output *output, const struct batch *batch, size_t count,
                                  struct ps_error *error)
{
    if (output->writer != NULL)
        return ps_journal_write(output->writer, batch->records, count, error);
    return journal_maker_write(&output->maker, batch->records, count, error);
}

static enum ps_status write_journal(const char *folder, const struct wish *wish,
                                    struct ps_error *error)
{
    static struct batch batch;
    struct output output = {0};
    PS_TRY(open_output(&output, folder, wish, error));
    enum ps_status status = PS_OK;
    uint64_t last = wish->position + wish->count;
    for (uint64_t position = wish->position + 1; position <= last && status == PS_OK;) {
        size_t count = 0;
        for (; count < wish->batch && count < BATCH_MAX && position <= last; count++, position++)
            make_record(&batch, count, wish->epoch, position);
        status = write_batch(&output, &batch, count, error);
    }
    ps_journal_writer_close(output.writer);
    enum ps_status ended = journal_maker_end(&output.maker, error);
    return status != PS_OK ? status : ended;
}

static enum ps_status read_journal(const char *folder, uint64_t position, uint64_t *cut,
                                   struct ps_journal_damage *damage, struct ps_error *error)
{
    struct ps_journal_reader *reader = NULL;
    PS_TRY(ps_journal_reader_open(ps_files_real(), folder, position, UINT64_MAX,
                                  ps_allocator_heap(), &reader, error));
    enum ps_status status = PS_OK;
    while (status == PS_OK) {
        struct ps_journal_row row = {0};
        status = ps_journal_next(reader, &row, cut, damage, error);
        if (status == PS_OK)
            printf("%" PRIu64 " %" PRIu64 "\n", row.record.position, row.record.epoch);
        ps_journal_row_release(&row);
    }
    ps_journal_reader_close(reader);
    return status;
}

int main(int argc, char **argv)
{
    struct ps_error error = {0};
    if ((argc == 10 || argc == 11) && strcmp(argv[1], "write") == 0) {
        uint64_t numbers[8] = {0};
        for (int i = 0; i < argc - 3; i++)
            numbers[i] = strtoull(argv[3 + i], NULL, 10);
        const struct wish wish = {numbers[0], numbers[1], numbers[2], numbers[3],
                                  numbers[4], numbers[5], numbers[6], numbers[7]};
        if (write_journal(argv[2], &wish, &error) == PS_OK)
            return EXIT_SUCCESS;
        (void)fprintf(stderr, "%s\n", error.text);
        return EXIT_FAILURE;
    }
    if (argc != 4 || strcmp(argv[1], "read") != 0)
        return 2;
    struct ps_journal_damage damage = {0};
    uint64_t cut = 0;
    enum ps_status status =
        read_journal(argv[2], strtoull(argv[3], NULL, 10), &cut, &damage, &error);
    if (status == PS_ERR_NOT_FOUND)
        printf("end %" PRIu64 "\n", cut);
    else
        printf("%s %s %" PRIu64 " %" PRIu64 "\n", ps_status_word(status), damage.segment,
               damage.offset, damage.position);
    return EXIT_SUCCESS;
}
