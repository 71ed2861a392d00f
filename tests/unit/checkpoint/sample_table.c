/* SPDX-License-Identifier: Apache-2.0 */
/* Random rows, written by pieces and compared as a whole. */
#include "sample_table.h"

#include "base/random.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    struct sample_table *table = self;
    (void)error;
    ck_assert_uint_lt(array, ps_array_count(&table->parameter));
    ck_assert_uint_eq(offset, table->next[array]);
    ck_assert_uint_gt(size, 0);
    ck_assert_uint_le(offset + size, ps_array_bytes(&table->parameter, array));
    memcpy(to, table->arrays[array] + offset, size);
    table->next[array] += size;
    return PS_OK;
}

void sample_table_init(struct sample_table *table, const char *name, enum ps_dtype dtype,
                       uint64_t rows, uint32_t width, uint32_t state_count)
{
    struct ps_random random;
    ps_random_init(&random, rows + width);
    *table = (struct sample_table){
        .parameter = {.name = ps_bytes_of_text(name),
                      .dtype = dtype,
                      .count = rows * width,
                      .version = 7,
                      .step = 6,
                      .id = 5,
                      .state_count = state_count,
                      .is_table = true,
                      .state_is_one = {false, width > 1},
                      .width = width,
                      .rows = rows,
                      .source = {.read = read_rows, .self = table}},
    };
    for (uint32_t array = 0; array < ps_array_count(&table->parameter); array++) {
        uint64_t bytes = ps_array_bytes(&table->parameter, array);
        table->arrays[array] = malloc(bytes + 1);
        ck_assert_ptr_nonnull(table->arrays[array]);
        for (uint64_t i = 0; i < bytes; i++)
            table->arrays[array][i] = (uint8_t)ps_random_next(&random);
    }
    /* The first two bytes of a key are its row. */
    uint8_t *keys = table->arrays[ps_array_of_keys(&table->parameter)];
    ck_assert_uint_le(rows, 65536);
    for (uint64_t row = 0; row < rows; row++) {
        keys[row * 8] = (uint8_t)row;
        keys[row * 8 + 1] = (uint8_t)(row >> 8);
    }
}

void sample_table_fini(struct sample_table *table)
{
    for (size_t array = 0; array < PS_CHECKPOINT_ARRAYS_MAX; array++)
        free(table->arrays[array]);
    *table = (struct sample_table){0};
}

void sample_table_assert_equal(const struct sample_table *table,
                               struct ps_checkpoint_reader *reader, size_t i)
{
    const struct ps_checkpoint_parameter *expected = &table->parameter;
    const struct ps_checkpoint_parameter *found = ps_checkpoint_parameter(reader, i);
    ck_assert(ps_bytes_equal(found->name, expected->name));
    ck_assert(found->is_table);
    ck_assert_int_eq(found->dtype, expected->dtype);
    ck_assert_uint_eq(found->rows, expected->rows);
    ck_assert_uint_eq(found->width, expected->width);
    ck_assert_uint_eq(found->count, expected->count);
    ck_assert(!found->shape.is_given);
    ck_assert_uint_eq(found->version, expected->version);
    ck_assert_uint_eq(found->state_count, expected->state_count);
    for (uint32_t state = 0; state < found->state_count; state++)
        ck_assert_int_eq(found->state_is_one[state], expected->state_is_one[state]);
    for (uint32_t array = 0; array < ps_array_count(found); array++) {
        uint64_t bytes = ps_array_bytes(found, array);
        uint8_t *read = malloc(bytes + 1);
        ck_assert_ptr_nonnull(read);
        struct ps_checkpoint_piece pieces[] = {{read, bytes / 3},
                                               {read + bytes / 3, bytes - bytes / 3}};
        ck_assert_int_eq(ps_checkpoint_read_array(reader, i, (int32_t)array - 1, pieces, 2, NULL),
                         PS_OK);
        ck_assert(bytes == 0 || memcmp(read, table->arrays[array], bytes) == 0);
        free(read);
    }
}
