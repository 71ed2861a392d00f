/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/rows_output.c: rows are asked for once, the same of every array before the next, and
 * stand in the file array by array, with the sums of what stands there. */
#include "checkpoint/checksum.h"
#include "checkpoint/rows_output.h"
#include "run_suite.h"
#include "sample_table.h"
#include "tests/support/fault_files.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define PATH "folder/file"

/* Rows that are read between two arrays at most: the writer's step, of rows of 4 bytes. */
#define STEP_ROWS_MAX ((uint64_t)1 << 16)

static struct memory_files *disk;
static struct ps_write_behind *thread;
static struct ps_block_output blocks;
static struct ps_summed_output output;
static struct sample_table table;
static uint64_t told[PS_CHECKPOINT_ARRAYS_MAX];

/* Every array of the same width has been asked for the rows that are told of one. */
static void see_written(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    const bool *wide = self;
    uint64_t rows = bytes / ps_array_row_bytes(&table.parameter, array);
    ck_assert_uint_eq(parameter, 3);
    ck_assert_uint_gt(bytes, told[array]);
    told[array] = bytes;
    bool is_all = bytes == ps_array_bytes(&table.parameter, array);
    for (uint32_t i = 0; i < ps_array_count(&table.parameter) && !is_all; i++)
        if (ps_array_is_wide(&table.parameter, i) == *wide)
            ck_assert_uint_eq(table.next[i], rows * ps_array_row_bytes(&table.parameter, i));
}

static void set_up(void)
{
    disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    ck_assert_int_eq(files->make_folder(files->self, "folder", NULL), PS_OK);
    memset(told, 0, sizeof told);
}

static void tear_down(void)
{
    ps_block_output_fini(&blocks);
    ps_write_behind_destroy(thread);
    thread = NULL;
    sample_table_fini(&table);
    memory_files_destroy(disk);
}

static void begin(const struct ps_files *files, bool behind)
{
    struct ps_file file;
    if (behind)
        ck_assert_int_eq(
            ps_write_behind_create(files, "writes", ps_allocator_heap(), &thread, NULL), PS_OK);
    ck_assert_int_eq(ps_block_output_init(&blocks, files, thread, 0, ps_allocator_heap(), NULL),
                     PS_OK);
    ck_assert_int_eq(files->open(files->self, PATH, PS_FILE_CREATE_DIRECT, &file, NULL), PS_OK);
    ps_block_output_open(&blocks, file);
    output = (struct ps_summed_output){.blocks = &blocks};
}

/* The arrays of one width at `*at`, which goes on behind them. */
static void expect_arrays(struct ps_bytes content, size_t *at, bool wide, const uint32_t *crc32c)
{
    for (uint32_t i = 0; i < ps_array_count(&table.parameter); i++) {
        if (ps_array_is_wide(&table.parameter, i) != wide)
            continue;
        struct ps_bytes array = {table.arrays[i], ps_array_bytes(&table.parameter, i)};
        ck_assert_uint_le(*at + array.size, content.size);
        ck_assert_int_eq(memcmp(content.data + *at, array.data, array.size), 0);
        ck_assert_uint_eq(crc32c[i], ps_checksum_crc32c(0, array));
        ck_assert_uint_eq(told[i], array.size);
        *at += array.size;
    }
}

/* Small enough for the buffer, and larger; with a state for whole rows, and of wide elements. */
static const struct {
    enum ps_dtype dtype;
    uint64_t rows;
    uint32_t width, states;
} cases[] = {
    {PS_F32, 301, 5, 2},    {PS_F32, 65535, 16, 1}, {PS_F32, 65535, 32, 2}, {PS_F64, 65535, 9, 1},
    {PS_F32, 700, 4096, 0}, {PS_F64, 170, 4096, 2}, {PS_F32, 0, 16, 1},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

START_TEST(arrays_stand_behind_each_other_with_their_sums)
{
    static const uint8_t before[1001] = {1, 2, 3};
    uint32_t crc32c[PS_CHECKPOINT_ARRAYS_MAX + 1] = {0};
    uint32_t unused = 0;
    struct ps_bytes content;
    bool wide = true;
    const struct ps_checkpoint_watcher watcher = {see_written, &wide};
    sample_table_init(&table, "t", cases[_i % CASES].dtype, cases[_i % CASES].rows,
                      cases[_i % CASES].width, cases[_i % CASES].states);
    begin(memory_files_files(disk), _i >= CASES);
    ck_assert_int_eq(
        ps_summed_output_put(&output, (struct ps_bytes){before, sizeof before}, &unused, NULL),
        PS_OK);
    for (int i = 0; i < 2; i++) {
        wide = i == 0;
        ck_assert_int_eq(
            ps_rows_output_write(&output, &table.parameter, 3, wide, &watcher, crc32c, NULL),
            PS_OK);
    }
    ck_assert_int_eq(ps_summed_output_put(&output, (struct ps_bytes){before, 7}, &unused, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_block_output_end(&blocks, NULL), PS_OK);

    ck_assert(memory_files_get(disk, PATH, &content));
    size_t at = sizeof before;
    ck_assert_int_eq(memcmp(content.data, before, at), 0);
    expect_arrays(content, &at, true, crc32c);
    expect_arrays(content, &at, false, crc32c);
    ck_assert_uint_eq(content.size, at + 7);
    ck_assert_uint_eq(output.bytes, content.size);
    ck_assert_uint_eq(output.crc32, ps_checksum_crc32(0, content));
}
END_TEST

/* A source that fails, as one on a dead device does. */
static enum ps_status fail_late(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    (void)self;
    (void)array;
    memset(to, 0, size);
    return offset < STEP_ROWS_MAX ? PS_OK : ps_fail(error, PS_ERR_UNAVAILABLE, "dead");
}

START_TEST(a_failure_of_the_source_or_the_disk_is_said)
{
    uint32_t crc32c[PS_CHECKPOINT_ARRAYS_MAX + 1] = {0};
    struct fault_files fault = {
        .under = memory_files_files(disk), .calls = FAULT_WRITE, .fail_at = _i == 0 ? -1 : _i - 1};
    struct ps_files faulty = fault_files_files(&fault);
    sample_table_init(&table, "t", PS_F32, 65535, 32, 1);
    if (_i == 0)
        table.parameter.source.read = fail_late;
    begin(&faulty, false);
    ck_assert_int_eq(ps_rows_output_write(&output, &table.parameter, 0, false, NULL, crc32c, NULL),
                     _i == 0 ? PS_ERR_UNAVAILABLE : PS_ERR_IO);
    ps_block_output_close(&blocks);
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows_output");
    TCase *tests = tcase_create("rows_output");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, arrays_stand_behind_each_other_with_their_sums, 0, 2 * CASES);
    tcase_add_loop_test(tests, a_failure_of_the_source_or_the_disk_is_said, 0, 8);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
