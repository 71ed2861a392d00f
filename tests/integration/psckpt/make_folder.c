/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a data folder of two shards with the real writers, for test_psckpt.py:
 *
 *   make_folder DIR [JOB]
 *
 * Whole parameters "w0".."w5" (f32, 4 elements, sgd with rate 1) lie where clients look for them;
 * "big" (f32, 10 elements, momentum) is cut in two; "count" (i64, 2 elements, sgd) is whole.
 * Element i of a parameter begins as i, those of a range as their place in the whole.
 *
 * Each shard has a checkpoint of epoch 7 at position 10 (nothing pushed yet is in it) and journals:
 * positions 11 to 30 of epoch 7, of which those behind 20 are of an owner that had lost the shard,
 * and 21 to 40 of epoch 8. The journal of epoch 7 is of format 1, the other one as servers write
 * it today. The push at position p goes to the shard's parameters in turn, with
 * every element 1 (epoch 7 behind 20: 100); its id is {"trainer", 5, p}. */
#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/journal.h"
#include "tests/support/checkpoint/journal_maker.h"
#include "tools/optimizer_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS 2
#define BEGIN 10
#define OLD_EPOCH 7
#define PARAMETERS_MAX 9

struct shard {
    char names[PARAMETERS_MAX][16];
    uint8_t configs[PARAMETERS_MAX][1024];
    double bytes[PARAMETERS_MAX][2][10];
    struct ps_bytes pieces[PARAMETERS_MAX][2];
    struct ps_checkpoint_parameter rows[PARAMETERS_MAX];
    size_t count;
};

static void require(enum ps_status status, const struct ps_error *error)
{
    if (status == PS_OK)
        return;
    (void)fprintf(stderr, "make_folder: %s\n", error->text);
    exit(EXIT_FAILURE);
}

static void add(struct shard *shard, const char *name, enum ps_dtype dtype, uint64_t first,
                uint64_t count, const char *optimizer)
{
    size_t p = shard->count++;
    struct ps_buffer config;
    struct ps_error error = {0};
    (void)snprintf(shard->names[p], sizeof shard->names[p], "%s", name);
    ps_buffer_init_fixed(&config, (char *)shard->configs[p], sizeof shard->configs[p]);
    require(ps_optimizer_choice(optimizer, 1, 0, &config, &error), &error);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *at = (uint8_t *)shard->bytes[p][0] + i * ps_dtype_size(dtype);
        if (dtype == PS_F32)
            memcpy(at, &(float){(float)(first + i)}, sizeof(float));
        else
            memcpy(at, &(int64_t){(int64_t)(first + i)}, sizeof(int64_t));
    }
    size_t size = (size_t)count * ps_dtype_size(dtype);
    for (size_t i = 0; i < 2; i++)
        shard->pieces[p][i] = (struct ps_bytes){(uint8_t *)shard->bytes[p][i], size};
    shard->rows[p] = (struct ps_checkpoint_parameter){
        .name = ps_bytes_of_text(shard->names[p]),
        .dtype = dtype,
        .count = count,
        .config = {shard->configs[p], config.size},
        .id = ps_hash_fnv1a32(ps_bytes_of_text(name)),
        .state_count = strcmp(optimizer, "momentum") == 0,
        .values = ps_view_of(&shard->pieces[p][0]),
        .states = {ps_view_of(&shard->pieces[p][1])},
    };
}

static void fill(struct shard *shard, uint32_t index)
{
    for (int i = 0; i < 6; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%d", i);
        if (ps_hash_shard(ps_bytes_of_text(name), SHARDS) == index)
            add(shard, name, PS_F32, 0, 4, "sgd");
    }
    if (ps_hash_shard(ps_bytes_of_text("count"), SHARDS) == index)
        add(shard, "count", PS_I64, 0, 2, "sgd");
    add(shard, index == 0 ? "big#0/2" : "big#1/2", PS_F32, 5 * index, 5, "momentum");
}

static void write_checkpoint(const struct shard *shard, uint32_t index, const char *folder,
                             const char *job)
{
    struct ps_checkpoint_facts facts = {.index = index,
                                        .shard_count = SHARDS,
                                        .epoch = 7,
                                        .position = BEGIN,
                                        .unix_ns = 1700000000000000000u,
                                        .job = job};
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    (void)snprintf(facts.uuid, sizeof facts.uuid, "00000000-0000-4000-8000-00000000000%u",
                   (unsigned)(index % 10));
    require(ps_checkpoint_write(ps_files_real(), folder, &facts, shard->rows, shard->count,
                                ps_allocator_heap(), &place, &error),
            &error);
}

/* Where a shard's pushes go: the server's own writer or, for an owner of an older version, the
 * maker of journals of format 1. */
struct output {
    struct ps_journal_writer *writer; /* NULL: the maker */
    struct journal_maker maker;
};

static void write_push(const struct shard *shard, struct output *output, uint64_t epoch,
                       uint64_t position, int value)
{
    size_t p = (size_t)(position - BEGIN - 1) % shard->count;
    const struct ps_checkpoint_parameter *row = &shard->rows[p];
    double bytes[10] = {0};
    for (uint64_t i = 0; i < row->count; i++) {
        uint8_t *at = (uint8_t *)bytes + i * ps_dtype_size(row->dtype);
        if (row->dtype == PS_F32)
            memcpy(at, &(float){(float)value}, sizeof(float));
        else
            memcpy(at, &(int64_t){value}, sizeof(int64_t));
    }
    const struct ps_bytes piece = {(const uint8_t *)bytes, row->values.size};
    const struct ps_record record = {
        .type = PS_RECORD_PUSH,
        .position = position,
        .epoch = epoch,
        .name = row->name,
        .dtype = row->dtype,
        .version = (position - BEGIN - 1) / shard->count + 1,
        .client_id = ps_bytes_of_text("trainer"),
        .session = 5,
        .sequence = position,
        .content = ps_view_of(&piece),
    };
    struct ps_error error = {0};
    if (output->writer != NULL)
        require(ps_journal_write(output->writer, &record, 1, &error), &error);
    else
        require(journal_maker_write(&output->maker, &record, 1, &error), &error);
}

static void write_journal(const struct shard *shard, uint32_t index, const char *folder,
                          uint64_t epoch, uint64_t first, uint64_t last)
{
    const struct ps_journal_facts facts = {.index = index,
                                           .shard_count = SHARDS,
                                           .epoch = epoch,
                                           .position = first - 1,
                                           .previous_epoch = OLD_EPOCH};
    const struct ps_journal_setup setup = {.segment_bytes = 6 * PS_JOURNAL_BLOCK_BYTES};
    struct output output = {0};
    struct ps_error error = {0};
    if (epoch == OLD_EPOCH)
        require(journal_maker_begin(&output.maker, ps_files_real(), folder, &facts,
                                    PS_JOURNAL_FORMAT_1, 1024, &error),
                &error);
    else
        require(ps_journal_writer_open(ps_files_real(), folder, &facts, &setup, ps_allocator_heap(),
                                       &output.writer, &error),
                &error);
    for (uint64_t position = first; position <= last; position++)
        write_push(shard, &output, epoch, position, epoch == OLD_EPOCH && position > 20 ? 100 : 1);
    ps_journal_writer_close(output.writer);
    require(journal_maker_end(&output.maker, &error), &error);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return EXIT_FAILURE;
    const char *job = argc > 2 ? argv[2] : "";
    for (uint32_t index = 0; index < SHARDS; index++) {
        struct shard *shard = calloc(1, sizeof *shard);
        char folder[1024];
        if (shard == NULL)
            return EXIT_FAILURE;
        (void)snprintf(folder, sizeof folder, "%s%s%s/shard-%u", argv[1], job[0] ? "/" : "", job,
                       (unsigned)index);
        fill(shard, index);
        write_checkpoint(shard, index, folder, job);
        write_journal(shard, index, folder, OLD_EPOCH, BEGIN + 1, 30);
        write_journal(shard, index, folder, 8, 21, 40);
        free(shard);
    }
    return EXIT_SUCCESS;
}
