/* SPDX-License-Identifier: Apache-2.0 */
/* base/file_real.c on a file system that shuts itself down in the midst of a sync, as XFS does
 * after an I/O error: that call still says success, and every later one fails. The system's calls
 * are hidden by ours, which do that. */
#include "base/file.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool shuts_down, is_shut_down;
static struct temp_folder folder;
static char path[600];
static struct ps_error error;
static const struct ps_files *files;

static int sync_it(long number, int descriptor)
{
    is_shut_down = shuts_down;
    return is_shut_down ? 0 : (int)syscall(number, descriptor);
}

int fsync(int descriptor)
{
    return sync_it(SYS_fsync, descriptor);
}

int fdatasync(int descriptor)
{
    return sync_it(SYS_fdatasync, descriptor);
}

int fstat(int descriptor, struct stat *facts)
{
    errno = EIO;
    return is_shut_down ? -1 : fstatat(descriptor, "", facts, AT_EMPTY_PATH);
}

static void begin(void)
{
    shuts_down = is_shut_down = false;
    temp_folder_init(&folder);
    temp_folder_path(&folder, "file", path, sizeof path);
    files = ps_files_real();
}

static void end(void)
{
    shuts_down = is_shut_down = false;
    temp_folder_fini(&folder);
}

START_TEST(a_file_whose_file_system_shut_down_is_not_synced)
{
    struct ps_file file = {-1};
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, &error), PS_OK);
    ck_assert_int_eq(files->sync(files->self, file, &error), PS_OK);
    shuts_down = true;

    ck_assert_int_eq(files->sync(files->self, file, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    ck_assert_ptr_nonnull(strstr(error.text, strerror(EIO)));
    files->close(files->self, file);
}
END_TEST

START_TEST(a_folder_whose_file_system_shut_down_is_not_synced)
{
    ck_assert_int_eq(files->sync_folder(files->self, folder.path, &error), PS_OK);
    shuts_down = true;

    ck_assert_int_eq(files->sync_folder(files->self, folder.path, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, folder.path));
    ck_assert_ptr_nonnull(strstr(error.text, strerror(EIO)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file_sync");
    TCase *tests = tcase_create("file_sync");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_file_whose_file_system_shut_down_is_not_synced);
    tcase_add_test(tests, a_folder_whose_file_system_shut_down_is_not_synced);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
