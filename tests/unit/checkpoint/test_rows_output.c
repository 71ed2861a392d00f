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

static struct memory_files *disk;
static struct ps_write_behind *thread;
static struct ps_block_output blocks;
static struct ps_summed_output output;
static struct ps_file_edges edges;
static struct sample_table table;
static uint64_t told[PS_CHECKPOINT_ARRAYS_MAX];

/* All of them have been asked for the rows that are told of one. */
static void see_written(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    uint64_t rows = bytes / ps_array_row_bytes(&table.parameter, array);
    (void)self;
    ck_assert_uint_eq(parameter, 3);
    ck_assert_uint_gt(bytes, told[array]);
    told[array] = bytes;
    for (uint32_t i = 0; i < ps_array_count(&table.parameter); i++)
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
    ps_summed_output_fini(&output);
    ps_block_output_fini(&blocks);
    ps_file_edges_fini(&edges);
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
    ck_assert_int_eq(ps_file_edges_init(&edges, PS_ROWS_EDGES_EACH + PS_ROWS_EDGES_BESIDE, files,
                                        ps_allocator_heap(), NULL),
                     PS_OK);
    blocks.edges = &edges;
    ck_assert_int_eq(
        ps_summed_output_init(&output, &blocks, PS_ROWS_PARTS_EACH, ps_allocator_heap(), NULL),
        PS_OK);
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

/* With a state for whole rows, with wide elements, and with rows that are longer than a block. */
static const struct {
    enum ps_dtype dtype;
    uint64_t rows;
    uint32_t width, states;
} cases[] = {
    {PS_F32, 65535, 16, 1}, {PS_F32, 65535, 32, 2}, {PS_F64, 65535, 9, 1},
    {PS_F32, 700, 4096, 0}, {PS_F64, 170, 4096, 2}, {PS_I64, 65531, 8, 0},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

/* Wide arrays first, whose place is left out; something between. */
START_TEST(arrays_stand_where_they_belong_with_their_sums)
{
    static const uint8_t other[1001] = {1, 2, 3};
    uint32_t crc32c[PS_CHECKPOINT_ARRAYS_MAX + 1] = {0};
    uint32_t unused = 0;
    struct ps_bytes content;
    struct ps_rows_place wide;
    const struct ps_checkpoint_watcher watcher = {see_written, NULL};
    sample_table_init(&table, "t", cases[_i % CASES].dtype, cases[_i % CASES].rows,
                      cases[_i % CASES].width, cases[_i % CASES].states);
    const struct ps_bytes between = {other, sizeof other};
    ck_assert(ps_rows_output_is_large(&table.parameter));
    begin(memory_files_files(disk), _i >= CASES);
    ck_assert_int_eq(ps_summed_output_put(&output, between, &unused, NULL), PS_OK);
    ck_assert_int_eq(ps_rows_output_leave_wide(&output, &table.parameter, &wide, NULL), PS_OK);
    ck_assert_int_eq(ps_summed_output_put(&output, between, &unused, NULL), PS_OK);
    ck_assert_int_eq(
        ps_rows_output_write(&output, &table.parameter, 3, &wide, &watcher, crc32c, NULL), PS_OK);
    ck_assert_int_eq(ps_summed_output_put(&output, (struct ps_bytes){other, 7}, &unused, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_block_output_end(&blocks, NULL), PS_OK);
    ck_assert_int_eq(ps_file_edges_end(&edges, blocks.file, output.bytes, NULL), PS_OK);

    ck_assert(memory_files_get(disk, PATH, &content));
    size_t at = sizeof other;
    ck_assert_int_eq(memcmp(content.data, other, sizeof other), 0);
    expect_arrays(content, &at, true, crc32c);
    ck_assert_int_eq(memcmp(content.data + at, other, sizeof other), 0);
    at += sizeof other;
    expect_arrays(content, &at, false, crc32c);
    ck_assert_uint_eq(content.size, at + 7);
    ck_assert_uint_eq(output.bytes, content.size);
    ck_assert_uint_eq(ps_summed_output_crc32(&output), ps_checksum_crc32(0, content));
}
END_TEST

START_TEST(small_tables_and_other_parameters_are_not_large)
{
    sample_table_init(&table, "t", PS_F32, 65535, 16, 0);
    ck_assert(ps_rows_output_is_large(&table.parameter));
    table.parameter.carry = PS_CARRY_AS_BASE;
    ck_assert(!ps_rows_output_is_large(&table.parameter));
    table.parameter.carry = PS_CARRY_WHOLE;
    table.parameter.source.read = NULL;
    ck_assert(!ps_rows_output_is_large(&table.parameter));
    sample_table_fini(&table);
    sample_table_init(&table, "t", PS_F32, 300, 16, 2);
    ck_assert(!ps_rows_output_is_large(&table.parameter));
}
END_TEST

/* A source that fails, as one on a dead device does. */
static enum ps_status fail_late(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    (void)self;
    (void)array;
    memset(to, 0, size);
    return offset < 65536 ? PS_OK : ps_fail(error, PS_ERR_UNAVAILABLE, "dead");
}

START_TEST(a_failure_of_the_source_or_the_disk_is_said)
{
    uint32_t crc32c[PS_CHECKPOINT_ARRAYS_MAX + 1] = {0};
    struct fault_files fault = {
        .under = memory_files_files(disk), .calls = FAULT_WRITE, .fail_at = _i == 0 ? -1 : _i - 1};
    struct ps_files faulty = fault_files_files(&fault);
    struct ps_rows_place wide;
    sample_table_init(&table, "t", PS_F32, 65535, 32, 1);
    if (_i == 0)
        table.parameter.source.read = fail_late;
    begin(&faulty, false);
    ck_assert_int_eq(ps_rows_output_leave_wide(&output, &table.parameter, &wide, NULL), PS_OK);
    ck_assert_int_eq(ps_rows_output_write(&output, &table.parameter, 0, &wide, NULL, crc32c, NULL),
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
    tcase_add_loop_test(tests, arrays_stand_where_they_belong_with_their_sums, 0, 2 * CASES);
    tcase_add_test(tests, small_tables_and_other_parameters_are_not_large);
    tcase_add_loop_test(tests, a_failure_of_the_source_or_the_disk_is_said, 0, 8);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
