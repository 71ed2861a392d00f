/* SPDX-License-Identifier: Apache-2.0 */
/* server/data_files.c: nothing is made on another file system than the data directory was on. A
 * link in the place of a folder stands for a disk that was taken away. */
#include "server/data_files.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct temp_folder folder;
static char mount[600], aside[600], data_dir[640], shard[700], file_path[760];
static char below[] = "/dev/shm/pserver-test-XXXXXX";
static struct ps_data_files data;
static struct ps_error error;

static void begin(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "mount", mount, sizeof mount);
    temp_folder_path(&folder, "aside", aside, sizeof aside);
    (void)snprintf(data_dir, sizeof data_dir, "%s/data", mount);
    (void)snprintf(shard, sizeof shard, "%s/job/shard-0", data_dir);
    (void)snprintf(file_path, sizeof file_path, "%s/file", shard);
    (void)snprintf(below + strlen(below) - 6, 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(below));
    ck_assert_int_eq(mkdir(mount, 0700), 0);
    ck_assert_int_eq(mkdir(data_dir, 0700), 0);
    ps_data_files_init(&data, data_dir);
}

static void end(void)
{
    ck_assert_int_eq(rmdir(below), 0); /* nothing was made in it */
    temp_folder_fini(&folder);
}

static bool is_one_file_system(void)
{
    struct stat here, there;
    return stat(folder.path, &here) != 0 || stat(below, &there) != 0 || here.st_dev == there.st_dev;
}

static enum ps_status make_folder(void)
{
    return data.files.make_folder(data.files.self, shard, &error);
}

static enum ps_status make_file(enum ps_file_mode mode)
{
    struct ps_file file;
    enum ps_status status = data.files.open(data.files.self, file_path, mode, &file, &error);
    if (status == PS_OK)
        data.files.close(data.files.self, file);
    return status;
}

START_TEST(a_folder_that_was_removed_is_made_anew)
{
    ck_assert_int_eq(rmdir(data_dir), 0);

    ck_assert_int_eq(make_folder(), PS_OK);
    ck_assert_int_eq(make_file(PS_FILE_CREATE_NEW), PS_OK);
    ck_assert_int_eq(make_file(PS_FILE_REUSE), PS_OK);
    ck_assert_int_eq(make_file(PS_FILE_APPEND), PS_OK);
}
END_TEST

START_TEST(nothing_is_made_below_a_disk_that_was_taken_away)
{
    if (is_one_file_system())
        return;
    ck_assert_int_eq(make_folder(), PS_OK);
    ck_assert_int_eq(rename(mount, aside), 0);
    ck_assert_int_eq(symlink(below, mount), 0);

    ck_assert_int_eq(make_folder(), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "is not on the file system"));
    ck_assert_int_eq(make_file(PS_FILE_CREATE_NEW), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "is not on the file system"));
    ck_assert_int_eq(make_file(PS_FILE_CREATE_DIRECT), PS_ERR_IO);
    ck_assert_int_eq(make_file(PS_FILE_APPEND), PS_ERR_IO);
    /* What is not there is said as ever. */
    ck_assert_int_eq(make_file(PS_FILE_READ), PS_ERR_NOT_FOUND);

    ck_assert_int_eq(unlink(mount), 0);
    ck_assert_int_eq(rename(aside, mount), 0);
    ck_assert_int_eq(make_file(PS_FILE_CREATE_NEW), PS_OK);
}
END_TEST

/* Shards may be spread over disks. */
START_TEST(a_shard_may_be_on_a_disk_of_its_own)
{
    char job[700];
    (void)snprintf(job, sizeof job, "%s/job", data_dir);
    ck_assert_int_eq(mkdir(job, 0700), 0);
    ck_assert_int_eq(symlink(below, shard), 0);

    ck_assert_int_eq(make_file(PS_FILE_CREATE_NEW), PS_OK);

    ck_assert_int_eq(unlink(file_path), 0);
}
END_TEST

START_TEST(an_unknown_file_system_refuses_nothing)
{
    ps_data_files_init(&data, aside);

    ck_assert_int_eq(make_folder(), PS_OK);
    ck_assert_int_eq(make_file(PS_FILE_CREATE_NEW), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data_files");
    TCase *tests = tcase_create("data_files");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_folder_that_was_removed_is_made_anew);
    tcase_add_test(tests, nothing_is_made_below_a_disk_that_was_taken_away);
    tcase_add_test(tests, a_shard_may_be_on_a_disk_of_its_own);
    tcase_add_test(tests, an_unknown_file_system_refuses_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
