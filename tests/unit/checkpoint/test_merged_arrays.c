/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/merged_arrays.c: tables read out of two files, against what they must be. */
#include "base/random.h"
#include "base/thread.h"
#include "checkpoint/checkpoint.h"
#include "run_suite.h"
#include "sample_increment.h"
#include "tests/support/memory_files.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096

static struct memory_files *disk;
static const struct ps_files *files;
static struct sample_row base_list[ROWS_MAX], own_list[ROWS_MAX], merged_list[2 * ROWS_MAX];
static uint64_t removed[ROWS_MAX];
static size_t base_count, own_count, removed_count, merged_count;

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    base_count = own_count = removed_count = merged_count = 0;
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

static bool is_changed(uint64_t key)
{
    for (size_t i = 0; i < own_count; i++)
        if (own_list[i].key == key)
            return true;
    for (size_t i = 0; i < removed_count; i++)
        if (removed[i] == key)
            return true;
    return false;
}

/* What both files together must have. */
static void merge_lists(void)
{
    merged_count = 0;
    for (size_t i = 0; i < base_count; i++)
        if (!is_changed(base_list[i].key))
            merged_list[merged_count++] = base_list[i];
    for (size_t i = 0; i < own_count; i++)
        merged_list[merged_count++] = own_list[i];
}

/* Writes both files with what the lists say, and compares what is read with what follows. */
static void assert_merged(enum ps_dtype dtype, uint32_t width)
{
    struct sample_rows base, own, merged;
    struct ps_checkpoint_facts base_facts = sample_base_facts();
    struct ps_checkpoint_facts own_facts = sample_own_facts();
    struct ps_checkpoint_reader *reader = NULL;
    struct ps_error error = {0};
    char path[1024];
    merge_lists();
    sample_rows_init(&base, "t", dtype, width, base_list, base_count);
    sample_rows_init(&own, "t", dtype, width, own_list, own_count);
    sample_rows_remove(&own, removed, removed_count);
    sample_rows_init(&merged, "t", dtype, width, merged_list, merged_count);
    sample_increment_write(files, "ck", &base_facts, &base.parameter, 1, NULL);
    sample_increment_write(files, "ck", &own_facts, &own.parameter, 1, path);

    ck_assert_msg(ps_checkpoint_open(files, path, ps_allocator_heap(), &reader, &error) == PS_OK,
                  "%s", error.text);

    sample_rows_assert(reader, 0, &merged);
    ck_assert_uint_eq(ps_checkpoint_parameter_own(reader, 0)->rows, own_count);
    ck_assert_uint_eq(ps_checkpoint_parameter_own(reader, 0)->removed.size, removed_count * 8);
    ps_checkpoint_close(reader);
    ck_assert_int_eq(ps_checkpoint_verify(files, path, ps_allocator_heap(), &error), PS_OK);
    sample_rows_fini(&base);
    sample_rows_fini(&own);
    sample_rows_fini(&merged);
}

/* Keys 0 and the highest among them. */
static void make_base(size_t count)
{
    for (size_t i = 0; i < count; i++)
        base_list[i] = (struct sample_row){i == 1 ? UINT64_MAX : i * 3, 1};
    base_count = count;
}

static void change(uint64_t key)
{
    own_list[own_count++] = (struct sample_row){key, 2};
}

static void assert_merged_of_all_sorts(void)
{
    assert_merged(PS_F32, 1);
    assert_merged(PS_F32, 16);
    assert_merged(PS_F64, 1);
    assert_merged(PS_F64, 3);
}

START_TEST(rows_that_changed_are_the_files_own)
{
    make_base(100);
    change(0);
    change(UINT64_MAX);
    change(150);
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(rows_that_are_new_stand_behind_all)
{
    make_base(100);
    change(1);
    change(4);
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(rows_that_went_are_not_there)
{
    make_base(100);
    removed[removed_count++] = 0;
    removed[removed_count++] = UINT64_MAX;
    removed[removed_count++] = 99;
    removed[removed_count++] = 1; /* of the base no key */
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(a_row_that_went_and_came_again_is_there_once)
{
    make_base(100);
    removed[removed_count++] = 30;
    removed[removed_count++] = 60;
    change(30);
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(of_a_table_that_did_not_change_all_rows_are_the_bases)
{
    make_base(100);
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(of_a_table_that_changed_altogether_none_is)
{
    make_base(100);
    for (size_t i = 0; i < base_count; i++)
        change(base_list[base_count - 1 - i].key);
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(all_rows_may_have_gone)
{
    make_base(100);
    for (size_t i = 0; i < base_count; i++)
        removed[removed_count++] = base_list[i].key;
    assert_merged_of_all_sorts();
}
END_TEST

START_TEST(either_file_may_have_no_rows)
{
    assert_merged_of_all_sorts();
    change(0);
    assert_merged_of_all_sorts();
    own_count = 0;
    removed[removed_count++] = 0;
    assert_merged_of_all_sorts();
}
END_TEST

/* Of any share of rows any share changed, went and came, in any order. */
START_TEST(random_tables_are_what_they_must_be)
{
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i);
    uint64_t share = ps_random_next(&random) % 101;
    size_t count = ps_random_next(&random) % (_i % 5 == 0 ? ROWS_MAX / 2 : 200);
    for (size_t i = 0; i < count; i++)
        base_list[i] = (struct sample_row){i * 0x9E3779B97F4A7C15u, 1};
    base_count = count;
    for (size_t i = 0; i < count; i++) {
        if (ps_random_next(&random) % 100 >= share)
            continue;
        uint64_t fate = ps_random_next(&random) % 4;
        if (fate > 1)
            removed[removed_count++] = base_list[i].key;
        if (fate < 3)
            change(base_list[i].key);
    }
    for (uint64_t news = ps_random_next(&random) % 20; news > 0; news--)
        change(news);
    for (size_t i = own_count; i > 1; i--) {
        size_t other = ps_random_next(&random) % i;
        struct sample_row row = own_list[i - 1];
        own_list[i - 1] = own_list[other];
        own_list[other] = row;
    }
    assert_merged(_i % 2 == 0 ? PS_F32 : PS_I64, 1 + (uint32_t)(ps_random_next(&random) % 20));
}
END_TEST

/* More bytes than are read at a time, in one row and in many. */
START_TEST(rows_longer_than_a_part_and_more_than_a_part_of_them)
{
    make_base(5);
    change(6);
    removed[removed_count++] = 9;
    assert_merged(PS_F64, 150000);
    own_count = removed_count = 0;
    make_base(ROWS_MAX);
    for (uint64_t key = 0; key < ROWS_MAX; key += 7)
        change(key * 3);
    assert_merged(PS_F32, 300);
}
END_TEST

/* One of several that read the same table, each its own parts of every array. */
struct reading {
    struct ps_checkpoint_reader *reader;
    const struct sample_rows *expected;
    size_t first; /* its first part; then every READERS-th */
    size_t wrong;
};

#define READERS 4

static void read_parts(void *argument)
{
    struct reading *reading = argument;
    const struct ps_checkpoint_parameter *wanted = &reading->expected->parameter;
    uint8_t bytes[1000];
    for (uint32_t array = 0; array < ps_array_count(wanted); array++) {
        uint64_t size = ps_array_bytes(wanted, array);
        for (uint64_t at = reading->first * sizeof bytes; at < size; at += READERS * sizeof bytes) {
            const struct ps_checkpoint_piece piece = {
                bytes, size - at < sizeof bytes ? (size_t)(size - at) : sizeof bytes};
            uint32_t crc32c = 0;
            enum ps_status status = ps_checkpoint_read_part(reading->reader, 0, (int32_t)array - 1,
                                                            at, &piece, 1, &crc32c, NULL);
            reading->wrong += status != PS_OK ||
                              memcmp(bytes, reading->expected->arrays[array] + at, piece.size) != 0;
        }
    }
}

/* As a recovery does, out of files of a disk. */
START_TEST(several_threads_read_one_table)
{
    struct sample_rows base, own, merged;
    struct ps_checkpoint_facts base_facts = sample_base_facts();
    struct ps_checkpoint_facts own_facts = sample_own_facts();
    struct ps_checkpoint_reader *reader = NULL;
    struct ps_thread threads[READERS];
    struct reading readings[READERS];
    struct temp_folder folder;
    char path[1024];
    temp_folder_init(&folder);
    make_base(2000);
    for (uint64_t key = 3; key < 6000; key += 9)
        change(key);
    merge_lists();
    sample_rows_init(&base, "t", PS_F32, 5, base_list, base_count);
    sample_rows_init(&own, "t", PS_F32, 5, own_list, own_count);
    sample_rows_remove(&own, NULL, 0);
    sample_rows_init(&merged, "t", PS_F32, 5, merged_list, merged_count);
    (void)temp_folder_path(&folder, "ck", path, sizeof path);
    sample_increment_write(ps_files_real(), path, &base_facts, &base.parameter, 1, NULL);
    sample_increment_write(ps_files_real(), path, &own_facts, &own.parameter, 1, path);
    ck_assert_int_eq(ps_checkpoint_open(ps_files_real(), path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);

    for (size_t i = 0; i < READERS; i++) {
        readings[i] = (struct reading){reader, &merged, i, 0};
        ck_assert_int_eq(ps_thread_start(&threads[i], "reader", read_parts, &readings[i], NULL),
                         PS_OK);
    }
    for (size_t i = 0; i < READERS; i++) {
        ps_thread_join(&threads[i]);
        ck_assert_uint_eq(readings[i].wrong, 0);
    }

    ps_checkpoint_close(reader);
    sample_rows_fini(&base);
    sample_rows_fini(&own);
    sample_rows_fini(&merged);
    temp_folder_fini(&folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merged_arrays");
    TCase *tests = tcase_create("merged_arrays");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, rows_that_changed_are_the_files_own);
    tcase_add_test(tests, rows_that_are_new_stand_behind_all);
    tcase_add_test(tests, rows_that_went_are_not_there);
    tcase_add_test(tests, a_row_that_went_and_came_again_is_there_once);
    tcase_add_test(tests, of_a_table_that_did_not_change_all_rows_are_the_bases);
    tcase_add_test(tests, of_a_table_that_changed_altogether_none_is);
    tcase_add_test(tests, all_rows_may_have_gone);
    tcase_add_test(tests, either_file_may_have_no_rows);
    tcase_add_loop_test(tests, random_tables_are_what_they_must_be, 0, 60);
    tcase_add_test(tests, rows_longer_than_a_part_and_more_than_a_part_of_them);
    tcase_add_test(tests, several_threads_read_one_table);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
