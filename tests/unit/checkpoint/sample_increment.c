/* SPDX-License-Identifier: Apache-2.0 */
/* Rows made of their keys and generations, and compared byte for byte. */
#include "sample_increment.h"

#include "base/row_hash.h"
#include "checkpoint/checksum.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void fill_array(struct sample_rows *rows, uint32_t array, const struct sample_row *list);
static void assert_array(struct ps_checkpoint_reader *reader, size_t i, uint32_t array,
                         const struct sample_rows *expected);

void sample_rows_init(struct sample_rows *rows, const char *name, enum ps_dtype dtype,
                      uint32_t width, const struct sample_row *list, size_t count)
{
    *rows = (struct sample_rows){
        .parameter = {.name = ps_bytes_of_text(name),
                      .dtype = dtype,
                      .count = count * width,
                      .version = 7,
                      .step = 6,
                      .id = 5,
                      .state_count = width > 1 ? 2 : 1,
                      .is_table = true,
                      .state_is_one = {false, width > 1},
                      .width = width,
                      .rows = count},
    };
    for (uint32_t array = 0; array < ps_array_count(&rows->parameter); array++) {
        uint64_t bytes = ps_array_bytes(&rows->parameter, array);
        rows->arrays[array] = malloc(bytes + 1);
        ck_assert_ptr_nonnull(rows->arrays[array]);
        fill_array(rows, array, list);
        rows->runs[array] = (struct ps_bytes){rows->arrays[array], bytes};
        ps_array_set_view(&rows->parameter, array, ps_view_of(&rows->runs[array]));
    }
}

static void fill_array(struct sample_rows *rows, uint32_t array, const struct sample_row *list)
{
    const struct ps_checkpoint_parameter *parameter = &rows->parameter;
    uint64_t row_bytes = ps_array_row_bytes(parameter, array);
    uint8_t *to = rows->arrays[array];
    for (uint64_t row = 0; row < parameter->rows; row++, to += row_bytes) {
        uint64_t seed = (uint64_t)list[row].generation << 8 | array;
        if (array == ps_array_of_keys(parameter))
            memcpy(to, &list[row].key, sizeof list[row].key);
        else
            for (uint64_t byte = 0; byte < row_bytes; byte++)
                to[byte] = (uint8_t)ps_row_hash(list[row].key + byte / 8, seed + byte % 8);
    }
}

void sample_rows_fini(struct sample_rows *rows)
{
    for (size_t array = 0; array < PS_ARRAYS_CARRIED_MAX; array++)
        free(rows->arrays[array]);
    *rows = (struct sample_rows){0};
}

void sample_rows_remove(struct sample_rows *rows, const uint64_t *keys, size_t count)
{
    size_t last = PS_ARRAYS_CARRIED_MAX - 1;
    rows->parameter.carry = PS_CARRY_ROWS;
    if (count == 0)
        return;
    rows->arrays[last] = malloc(count * sizeof *keys);
    ck_assert_ptr_nonnull(rows->arrays[last]);
    memcpy(rows->arrays[last], keys, count * sizeof *keys);
    rows->runs[last] = (struct ps_bytes){rows->arrays[last], count * sizeof *keys};
    rows->parameter.removed = ps_view_of(&rows->runs[last]);
}

struct ps_checkpoint_facts sample_base_facts(void)
{
    return (struct ps_checkpoint_facts){.uuid = SAMPLE_BASE,
                                        .index = 1,
                                        .shard_count = 2,
                                        .epoch = 3,
                                        .position = 10,
                                        .unix_ns = 1,
                                        .history = {{[3] = 1}},
                                        .job = "j"};
}

struct ps_checkpoint_facts sample_own_facts(void)
{
    struct ps_checkpoint_facts facts = sample_base_facts();
    memcpy(facts.uuid, SAMPLE_OWN, sizeof facts.uuid);
    facts.position = 20;
    facts.base = SAMPLE_BASE;
    return facts;
}

void sample_increment_write(const struct ps_files *files, const char *folder,
                            const struct ps_checkpoint_facts *facts,
                            const struct ps_checkpoint_parameter *parameters, size_t count,
                            char path[1024])
{
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    enum ps_status status = ps_checkpoint_write(files, folder, facts, parameters, count,
                                                ps_allocator_heap(), &place, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
    if (path != NULL)
        memcpy(path, place.path, sizeof place.path);
}

void sample_rows_assert(struct ps_checkpoint_reader *reader, size_t i,
                        const struct sample_rows *expected)
{
    const struct ps_checkpoint_parameter *found = ps_checkpoint_parameter(reader, i);
    const struct ps_checkpoint_parameter *wanted = &expected->parameter;
    ck_assert(ps_bytes_equal(found->name, wanted->name));
    ck_assert_int_eq(found->dtype, wanted->dtype);
    ck_assert(found->is_table);
    ck_assert_uint_eq(found->width, wanted->width);
    ck_assert_uint_eq(found->rows, wanted->rows);
    ck_assert_uint_eq(found->count, wanted->count);
    ck_assert_uint_eq(found->state_count, wanted->state_count);
    ck_assert_uint_eq(found->removed.size, 0);
    for (uint32_t array = 0; array < ps_array_count(found); array++)
        assert_array(reader, i, array, expected);
}

/* Parts of 1, 4, 7, 10... bytes, so that they begin and end anywhere within rows; their sums,
 * joined, are the array's. */
static void assert_array(struct ps_checkpoint_reader *reader, size_t i, uint32_t array,
                         const struct sample_rows *expected)
{
    uint64_t bytes = ps_array_bytes(&expected->parameter, array);
    uint8_t *whole = malloc(bytes + 1);
    uint8_t *parts = malloc(bytes + 1);
    struct ps_error error = {0};
    uint32_t joined = 0;
    ck_assert(whole != NULL && parts != NULL);
    const struct ps_checkpoint_piece pieces[] = {{whole, bytes / 3},
                                                 {whole + bytes / 3, bytes - bytes / 3}};
    ck_assert_msg(ps_checkpoint_read_array(reader, i, (int32_t)array - 1, pieces, 2, &error) ==
                      PS_OK,
                  "%s", error.text);
    ck_assert(bytes == 0 || memcmp(whole, expected->arrays[array], bytes) == 0);
    for (uint64_t done = 0, step = 1; done < bytes; done += step, step += 3) {
        step = step < bytes - done ? step : bytes - done;
        const struct ps_checkpoint_piece piece = {parts + done, step};
        uint32_t crc32c = 0;
        ck_assert_int_eq(
            ps_checkpoint_read_part(reader, i, (int32_t)array - 1, done, &piece, 1, &crc32c, NULL),
            PS_OK);
        ps_checkpoint_forget_part(reader, i, (int32_t)array - 1, done, step);
        joined = ps_checksum_crc32c_join(joined, crc32c, step);
    }
    ck_assert(bytes == 0 || memcmp(parts, whole, bytes) == 0);
    ck_assert_int_eq(ps_checkpoint_check_array(reader, i, (int32_t)array - 1, joined, NULL), PS_OK);
    ck_assert_int_eq(ps_checkpoint_check_array(reader, i, (int32_t)array - 1, ~joined, NULL),
                     PS_ERR_CORRUPT);
    free(whole);
    free(parts);
}
