/* SPDX-License-Identifier: Apache-2.0 */
/* server/device_record.c: three failures within ten minutes, on a disk that fails, too. */
#include "server/device_record.h"

#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/data"
#define FILE_NAME "/data/device-GPU-1.failures"

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_error error;

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    ck_assert_int_eq(files->make_folder(files->self, FOLDER, NULL), PS_OK);
}

static void tear_down(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

static void fail_at(uint64_t unix_seconds)
{
    ck_assert_int_eq(
        ps_device_record_add(files, FOLDER, "GPU-1", unix_seconds, "illegal address", &error),
        PS_OK);
}

static enum ps_status check(void)
{
    return ps_device_record_check(files, FOLDER, "GPU-1", &error);
}

static void put(const char *text)
{
    memory_files_put(disk, FILE_NAME, ps_bytes_of_text(text));
}

START_TEST(a_device_without_failures_is_good)
{
    ck_assert_int_eq(check(), PS_OK);
}
END_TEST

START_TEST(the_third_failure_within_ten_minutes_makes_it_bad)
{
    fail_at(1000);
    fail_at(1300);
    ck_assert_int_eq(check(), PS_OK);

    fail_at(1600);

    ck_assert_int_eq(check(), PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(error.text,
                     "GPU-1 failed 3 times within 600 s: to use it again remove " FILE_NAME
                     " (illegal address)");
    ck_assert_int_eq(ps_device_record_check(files, FOLDER, "GPU-2", &error), PS_OK);
}
END_TEST

START_TEST(three_failures_over_a_longer_time_do_not)
{
    fail_at(1000);
    fail_at(1300);
    fail_at(1601);
    ck_assert_int_eq(check(), PS_OK);

    fail_at(1602);

    ck_assert_int_eq(check(), PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(a_bad_device_stays_bad_until_the_file_is_removed)
{
    for (uint64_t i = 0; i < 5; i++)
        fail_at(1000 + i);
    ck_assert_int_eq(check(), PS_ERR_UNAVAILABLE);

    ck_assert_int_eq(files->remove(files->self, FILE_NAME, NULL), PS_OK);

    ck_assert_int_eq(check(), PS_OK);
    fail_at(1010);
    ck_assert_int_eq(check(), PS_OK);
}
END_TEST

START_TEST(a_clock_that_was_set_back_proves_nothing)
{
    fail_at(5000);
    fail_at(5001);
    fail_at(1000);

    ck_assert_int_eq(check(), PS_OK);
}
END_TEST

START_TEST(only_the_first_line_of_a_text_is_kept)
{
    char longest[1000];
    struct ps_bytes content;
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    ck_assert_int_eq(
        ps_device_record_add(files, FOLDER, "GPU-1", 7, "first\nsecond 8 third", &error), PS_OK);
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(ps_device_record_add(files, FOLDER, "GPU-1", i, longest, &error), PS_OK);

    ck_assert(memory_files_get(disk, FILE_NAME, &content));
    ck_assert_uint_lt(content.size, 700);
    ck_assert_int_eq(check(), PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(a_file_that_is_none_of_ours_counts_for_nothing)
{
    static const char *const texts[] = {"",
                                        "\n\n\n",
                                        "a\nb\nc\n",
                                        "1\n2\n3\n",
                                        " 1 x\n 2 x\n 3 x\n",
                                        "-1 x\n-2 x\n-3 x\n",
                                        "1 x\n1 x",
                                        "99999999999999999999999 x\n"};
    put(texts[_i]);

    ck_assert_int_eq(check(), PS_OK);
    fail_at(1000);
    ck_assert_int_eq(check(), PS_OK);
}
END_TEST

/* Fails the first call of the disk, then the second, and so on: the record is the old or the new
 * one. */
START_TEST(a_disk_that_fails_leaves_the_old_record)
{
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    enum ps_status status = PS_ERR_IO;
    fail_at(1000);
    fail_at(1001);
    for (int64_t at = 0; status != PS_OK; at++) {
        knobs->seen = 0;
        knobs->fail_at = at;

        status = ps_device_record_add(files, FOLDER, "GPU-1", 1002, "again", &error);

        knobs->fail_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_IO);
        ck_assert_int_lt(at, 20);
        enum ps_status checked = check();
        ck_assert(checked == PS_OK || checked == PS_ERR_UNAVAILABLE);
        ck_assert(status != PS_OK || checked == PS_ERR_UNAVAILABLE || at < 4);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_record");
    TCase *tests = tcase_create("record");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_device_without_failures_is_good);
    tcase_add_test(tests, the_third_failure_within_ten_minutes_makes_it_bad);
    tcase_add_test(tests, three_failures_over_a_longer_time_do_not);
    tcase_add_test(tests, a_bad_device_stays_bad_until_the_file_is_removed);
    tcase_add_test(tests, a_clock_that_was_set_back_proves_nothing);
    tcase_add_test(tests, only_the_first_line_of_a_text_is_kept);
    tcase_add_loop_test(tests, a_file_that_is_none_of_ours_counts_for_nothing, 0, 8);
    tcase_add_test(tests, a_disk_that_fails_leaves_the_old_record);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
