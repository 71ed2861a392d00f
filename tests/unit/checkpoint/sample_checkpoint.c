/* SPDX-License-Identifier: Apache-2.0 */
/* Random parameters, written and compared. */
#include "sample_checkpoint.h"

#include "base/random.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAYS_MAX (1 + PS_STATES_MAX)
#define PIECES 3 /* of every array */
#define CONFIG_BYTES_MAX 40

static void fill_parameter(struct sample *sample, size_t i, size_t elements_max,
                           struct ps_random *random, uint8_t *bytes);
static struct ps_view cut(const uint8_t *bytes, size_t size, struct ps_bytes *pieces);
static enum ps_status read_parameter(const struct sample *sample,
                                     struct ps_checkpoint_reader *reader, size_t i);
static const struct ps_checkpoint_parameter *find(const struct sample *sample,
                                                  const struct ps_checkpoint_parameter *found);
static enum ps_status read_array(struct ps_checkpoint_reader *reader, size_t i, int32_t state,
                                 struct ps_view expected);

void sample_init(struct sample *sample, size_t count, size_t elements_max, uint64_t seed)
{
    struct ps_random random;
    ps_random_init(&random, seed);
    *sample = (struct sample){.count = count};
    sample->facts = (struct ps_checkpoint_facts){.uuid = "0f47ac10-58cc-4372-a567-0e02b2c3d479",
                                                 .index = 3,
                                                 .shard_count = 8,
                                                 .epoch = 0xfedcba9876543210,
                                                 .position = 18446744073709551615u,
                                                 .unix_ns = 1799999999123456789u,
                                                 .job = "job \"one\" / ö"};
    size_t stride = CONFIG_BYTES_MAX + elements_max * 8 * ARRAYS_MAX;
    sample->parameters = calloc(count + 1, sizeof *sample->parameters);
    sample->bytes = calloc(count + 1, stride);
    sample->pieces = calloc((count + 1) * ARRAYS_MAX * PIECES, sizeof *sample->pieces);
    sample->names = calloc(count + 1, sizeof *sample->names);
    ck_assert(sample->parameters && sample->bytes && sample->pieces && sample->names);
    for (size_t i = 0; i < (count + 1) * stride; i++)
        sample->bytes[i] = (uint8_t)ps_random_next(&random);
    for (size_t i = 0; i < count; i++)
        fill_parameter(sample, i, elements_max, &random, sample->bytes + i * stride);
    sample->facts.sessions = (struct ps_bytes){sample->bytes, count % 3 * 7};
}

void sample_fini(struct sample *sample)
{
    free(sample->parameters);
    free(sample->bytes);
    free(sample->pieces);
    free(sample->names);
    *sample = (struct sample){0};
}

static void fill_parameter(struct sample *sample, size_t i, size_t elements_max,
                           struct ps_random *random, uint8_t *bytes)
{
    struct ps_checkpoint_parameter *parameter = &sample->parameters[i];
    struct ps_bytes *pieces = sample->pieces + i * ARRAYS_MAX * PIECES;
    /* Numbers backwards, so that the writer has to sort. */
    int length =
        snprintf(sample->names[i], sizeof sample->names[i], "layer\n%06zu.\"ö\\", 999999 - i);
    parameter->name = (struct ps_bytes){(const uint8_t *)sample->names[i], (size_t)length};
    parameter->dtype = (enum ps_dtype)(i % PS_DTYPE_COUNT);
    parameter->count = 1 + (i * 292003 + i * i) % elements_max;
    /* Some have a shape of their own, some are a range of a larger parameter. */
    if (i % 4 > 1)
        parameter->shape = (struct ps_shape){
            .is_given = true, .rank = 3, .lengths = {1, parameter->count, i % 4 - 1}};
    parameter->config = (struct ps_bytes){bytes, i % CONFIG_BYTES_MAX};
    parameter->version = ps_random_next(random);
    parameter->step = ps_random_next(random);
    parameter->id = ps_random_next(random);
    parameter->state_count = (uint32_t)(i / PS_DTYPE_COUNT % (PS_STATES_MAX + 1));

    size_t size = parameter->count * ps_dtype_size(parameter->dtype);
    bytes += CONFIG_BYTES_MAX;
    parameter->values = cut(bytes, size, pieces);
    for (uint32_t state = 0; state < parameter->state_count; state++) {
        bytes += elements_max * 8;
        pieces += PIECES;
        parameter->states[state] = cut(bytes, size, pieces);
    }
}

static struct ps_view cut(const uint8_t *bytes, size_t size, struct ps_bytes *pieces)
{
    size_t first = size / 3;
    pieces[0] = (struct ps_bytes){bytes, first};
    pieces[1] = (struct ps_bytes){NULL, 0};
    pieces[2] = (struct ps_bytes){bytes + first, size - first};
    return (struct ps_view){pieces, PIECES, size};
}

struct ps_checkpoint_place sample_write(const struct sample *sample, const struct ps_files *files)
{
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    enum ps_status status = ps_checkpoint_write(files, "ck", &sample->facts, sample->parameters,
                                                sample->count, ps_allocator_heap(), &place, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
    return place;
}

void sample_assert_equal(const struct sample *sample, const struct ps_files *files,
                         const char *path)
{
    ck_assert_int_eq(sample_read(sample, files, path, ps_allocator_heap()), PS_OK);
}

enum ps_status sample_read(const struct sample *sample, const struct ps_files *files,
                           const char *path, const struct ps_allocator *memory)
{
    struct ps_checkpoint_reader *reader = NULL;
    enum ps_status status = ps_checkpoint_open(files, path, memory, &reader, NULL);
    if (status != PS_OK)
        return status;
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    ck_assert_str_eq(facts->uuid, sample->facts.uuid);
    ck_assert_str_eq(facts->job, sample->facts.job);
    ck_assert_uint_eq(facts->index, sample->facts.index);
    ck_assert_uint_eq(facts->shard_count, sample->facts.shard_count);
    ck_assert_uint_eq(facts->epoch, sample->facts.epoch);
    ck_assert_uint_eq(facts->position, sample->facts.position);
    ck_assert_uint_eq(facts->unix_ns, sample->facts.unix_ns);
    ck_assert(ps_bytes_equal(facts->sessions, sample->facts.sessions));
    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), sample->count);
    for (size_t i = 0; i < sample->count && status == PS_OK; i++)
        status = read_parameter(sample, reader, i);
    ps_checkpoint_close(reader);
    return status;
}

static enum ps_status read_parameter(const struct sample *sample,
                                     struct ps_checkpoint_reader *reader, size_t i)
{
    const struct ps_checkpoint_parameter *found = ps_checkpoint_parameter(reader, i);
    const struct ps_checkpoint_parameter *expected = find(sample, found);
    ck_assert(ps_bytes_equal(found->name, expected->name));
    ck_assert(ps_bytes_equal(found->config, expected->config));
    ck_assert_int_eq(found->dtype, expected->dtype);
    ck_assert_uint_eq(found->count, expected->count);
    ck_assert(ps_shape_equal(&found->shape, &expected->shape));
    ck_assert_uint_eq(found->version, expected->version);
    ck_assert_uint_eq(found->step, expected->step);
    ck_assert_uint_eq(found->id, expected->id);
    ck_assert_uint_eq(found->state_count, expected->state_count);
    for (int32_t state = -1; state < (int32_t)found->state_count; state++) {
        struct ps_view view = state < 0 ? expected->values : expected->states[state];
        enum ps_status status = read_array(reader, i, state, view);
        if (status != PS_OK)
            return status;
    }
    return PS_OK;
}

/* Names carry the number of the parameter. */
static const struct ps_checkpoint_parameter *find(const struct sample *sample,
                                                  const struct ps_checkpoint_parameter *found)
{
    unsigned long number = strtoul((const char *)found->name.data + sizeof "layer\n" - 1, NULL, 10);
    ck_assert_uint_le(number, 999999);
    ck_assert_uint_lt(999999 - number, sample->count);
    return &sample->parameters[999999 - number];
}

/* Into pieces of another cut than it was written from. */
static enum ps_status read_array(struct ps_checkpoint_reader *reader, size_t i, int32_t state,
                                 struct ps_view expected)
{
    uint8_t *bytes = malloc(expected.size + 1);
    uint8_t *wanted = malloc(expected.size + 1);
    ck_assert(bytes && wanted);
    size_t half = expected.size / 2;
    struct ps_checkpoint_piece pieces[] = {{bytes, half}, {bytes + half, expected.size - half}};
    enum ps_status status = ps_checkpoint_read_array(reader, i, state, pieces, 2, NULL);
    ps_view_copy(expected, 0, wanted, expected.size);
    if (status == PS_OK)
        ck_assert_mem_eq(bytes, wanted, expected.size);
    free(bytes);
    free(wanted);
    return status;
}
