/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/file_runs.c: whatever is written side by side stands in the file as if it had been put
 * there one behind the other. */
#include "base/random.h"
#include "checkpoint/file_runs.h"
#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)PS_FILE_DIRECT_BYTES)
#define PATH "folder/file"
#define BYTES_MAX ((size_t)4 << 20)

static struct memory_files *disk;
static struct ps_write_behind *thread;
static struct ps_block_output output;
static struct ps_file_edges edges;
static uint8_t *expected;

static void set_up(void)
{
    disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    ck_assert_int_eq(files->make_folder(files->self, "folder", NULL), PS_OK);
    expected = malloc(BYTES_MAX);
    for (size_t i = 0; i < BYTES_MAX; i++)
        expected[i] = (uint8_t)(i * 7 + i / 251);
}

static void tear_down(void)
{
    ps_block_output_fini(&output);
    ps_file_edges_fini(&edges);
    ps_write_behind_destroy(thread);
    thread = NULL;
    memory_files_destroy(disk);
    free(expected);
}

static void begin(const struct ps_files *files, size_t buffer_bytes, bool behind)
{
    struct ps_file file;
    if (behind)
        ck_assert_int_eq(
            ps_write_behind_create(files, "writes", ps_allocator_heap(), &thread, NULL), PS_OK);
    ck_assert_int_eq(
        ps_block_output_init(&output, files, thread, buffer_bytes, ps_allocator_heap(), NULL),
        PS_OK);
    ck_assert_int_eq(
        ps_file_edges_init(&edges, PS_FILE_RUNS_MAX + 4, files, ps_allocator_heap(), NULL), PS_OK);
    output.edges = &edges;
    ck_assert_int_eq(files->open(files->self, PATH, PS_FILE_CREATE_DIRECT, &file, NULL), PS_OK);
    ps_block_output_open(&output, file);
}

static enum ps_status put(size_t from, size_t size)
{
    return ps_block_output_put(&output, (struct ps_bytes){expected + from, size}, NULL);
}

/* Rows of these runs, one behind the other from `from` on in what is expected, but for the first,
 * if `elsewhere` is where that is; as many at a time as have room, up to `step`. */
static enum ps_status write_runs(size_t from, const uint64_t *row_bytes, size_t count,
                                 uint64_t rows, uint64_t step, const size_t *elsewhere)
{
    struct ps_file_runs runs = {.count = count};
    size_t begins[PS_FILE_RUNS_MAX];
    for (size_t i = 0; i < count; i++) {
        begins[i] = i == 0 && elsewhere != NULL ? *elsewhere : from;
        from += begins[i] == from ? (size_t)(rows * row_bytes[i]) : 0;
        runs.runs[i] = ps_file_run_of(begins[i], rows * row_bytes[i], row_bytes[i]);
    }
    PS_TRY(ps_file_runs_begin(&runs, &output, from, NULL));
    for (uint64_t first = 0; first < rows;) {
        uint64_t some = rows - first < step ? rows - first : step;
        for (size_t i = 0; i < count; i++) {
            size_t room = 0;
            (void)ps_file_runs_room(&runs, i, &room);
            some = some < room / row_bytes[i] ? some : room / row_bytes[i];
        }
        if (some == 0)
            PS_TRY(ps_file_runs_turn(&runs, NULL));
        for (size_t i = 0; i < count && some > 0; i++) {
            size_t room = 0;
            memcpy(ps_file_runs_room(&runs, i, &room), expected + begins[i] + first * row_bytes[i],
                   some * row_bytes[i]);
            ps_file_runs_made(&runs, i, some * row_bytes[i]);
        }
        first += some;
    }
    return ps_file_runs_end(&runs, NULL);
}

static void expect_file(size_t size)
{
    struct ps_bytes content;
    ck_assert_int_eq(ps_block_output_end(&output, NULL), PS_OK);
    ck_assert_int_eq(ps_file_edges_end(&edges, output.file, size, NULL), PS_OK);
    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, size);
    ck_assert_int_eq(memcmp(content.data, expected, size), 0);
}

/* Runs of all sorts, shorter than a block and longer than the buffers, between other bytes. */
START_TEST(runs_stand_one_behind_the_other)
{
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i);
    begin(memory_files_files(disk), 40 * BLOCK, _i % 2 == 1);
    size_t at = 0;
    for (int turn = 0; turn < 6; turn++) {
        size_t before = ps_random_below(&random, 3) == 0 ? ps_random_below(&random, 3) * BLOCK
                                                         : ps_random_below(&random, 90000);
        uint64_t row_bytes[PS_FILE_RUNS_MAX];
        size_t count = 1 + ps_random_below(&random, PS_FILE_RUNS_MAX);
        uint64_t rows = 1 + ps_random_below(&random, _i % 3 == 0 ? 9 : 3000);
        uint64_t of_all = 0;
        for (size_t i = 0; i < count; i++) {
            row_bytes[i] = 4 * (1 + ps_random_below(&random, ps_random_below(&random, 2) * 30 + 2));
            of_all += row_bytes[i];
        }
        ck_assert_int_eq(put(at, before), PS_OK);
        at += before;
        ck_assert_int_eq(
            write_runs(at, row_bytes, count, rows, 1 + ps_random_below(&random, 300), NULL), PS_OK);
        at += (size_t)(rows * of_all);
    }
    ck_assert_int_eq(put(at, 1234), PS_OK);
    expect_file(at + 1234);
}
END_TEST

/* The places of two runs are left out, one right behind the other or not, and filled later, each
 * with runs that come then; blocks have parts of several. */
START_TEST(what_was_left_out_is_written_later)
{
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i + 1000);
    begin(memory_files_files(disk), 40 * BLOCK, _i % 2 == 1);
    size_t holes[2];
    uint64_t row_bytes[2][3];
    uint64_t rows[2];
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        size_t before = ps_random_below(&random, 2) == 0 ? 0 : ps_random_below(&random, 9000);
        ck_assert_int_eq(put(at, before), PS_OK);
        at += before;
        holes[i] = at;
        rows[i] = 1 + ps_random_below(&random, _i % 3 == 0 ? 9 : 5000);
        for (int k = 0; k < 3; k++)
            row_bytes[i][k] = 4 * (1 + ps_random_below(&random, 12));
        at += (size_t)(rows[i] * row_bytes[i][0]);
        ck_assert_int_eq(ps_block_output_go_to(&output, at, NULL), PS_OK);
    }
    for (int i = 0; i < 2; i++) {
        size_t before = ps_random_below(&random, 3) == 0 ? 0 : ps_random_below(&random, 200000);
        ck_assert_int_eq(put(at, before), PS_OK);
        at += before;
        ck_assert_int_eq(
            write_runs(at, row_bytes[i], 3, rows[i], 1 + ps_random_below(&random, 90), &holes[i]),
            PS_OK);
        at += (size_t)(rows[i] * (row_bytes[i][1] + row_bytes[i][2]));
    }
    size_t last = ps_random_below(&random, 2) * 777;
    ck_assert_int_eq(put(at, last), PS_OK);
    expect_file(at + last);
}
END_TEST

/* The longest row that is promised to have room. */
START_TEST(a_row_may_fill_the_buffers)
{
    const uint64_t row_bytes[3] = {30 * BLOCK, 4 * BLOCK - 8, 8};
    begin(memory_files_files(disk), 40 * BLOCK, true);
    ck_assert_int_eq(put(0, 77), PS_OK);
    ck_assert_int_eq(write_runs(77, row_bytes, 3, 11, 5, NULL), PS_OK);
    expect_file(77 + 34 * BLOCK * 11);
}
END_TEST

/* Each write in turn: what is told is the failure, and nothing hangs. */
START_TEST(a_failure_is_said)
{
    const uint64_t row_bytes[3] = {64, 8, 4};
    struct fault_files fault = {
        .under = memory_files_files(disk), .calls = FAULT_WRITE, .fail_at = _i / 2, .tears = true};
    struct ps_files faulty = fault_files_files(&fault);
    begin(&faulty, 40 * BLOCK, _i % 2 == 1);
    enum ps_status status = put(0, 5000);
    if (status == PS_OK)
        status = write_runs(5000, row_bytes, 3, 4000, 100, NULL);
    ck_assert_int_eq(status, PS_ERR_IO);
    ps_block_output_close(&output);
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file_runs");
    TCase *tests = tcase_create("file_runs");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, runs_stand_one_behind_the_other, 0, 60);
    tcase_add_loop_test(tests, what_was_left_out_is_written_later, 0, 60);
    tcase_add_test(tests, a_row_may_fill_the_buffers);
    tcase_add_loop_test(tests, a_failure_is_said, 0, 10);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
