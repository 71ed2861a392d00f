/* SPDX-License-Identifier: Apache-2.0 */
/* base/file.c: whole files on any file system. */
#include "base/file.h"

#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct temp_folder folder;
static char path[600];

static void begin(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "file", path, sizeof path);
}

static void end(void)
{
    temp_folder_fini(&folder);
}

static enum ps_status put(const struct ps_files *files, const char *content)
{
    return ps_file_replace(files, folder.path, path, ps_bytes_of_text(content), NULL);
}

static void assert_content(const char *expected)
{
    uint8_t *content = NULL;
    size_t size = 0;
    ck_assert_int_eq(
        ps_file_read_all(ps_files_real(), path, 100, ps_allocator_heap(), &content, &size, NULL),
        PS_OK);
    ck_assert_str_eq((const char *)content, expected);
    ck_assert_uint_eq(size, strlen(expected));
    ps_release(ps_allocator_heap(), content);
}

START_TEST(replaced_file_has_the_new_content)
{
    ck_assert_int_eq(put(ps_files_real(), "first"), PS_OK);
    assert_content("first");
    ck_assert_int_eq(put(ps_files_real(), ""), PS_OK);
    assert_content("");
}
END_TEST

START_TEST(leftover_of_a_crash_is_no_obstacle)
{
    char leftover[600];
    struct ps_file file;
    const struct ps_files *files = ps_files_real();
    temp_folder_path(&folder, "file.tmp", leftover, sizeof leftover);
    ck_assert_int_eq(files->open(NULL, leftover, PS_FILE_CREATE_NEW, &file, NULL), PS_OK);
    files->close(NULL, file);

    ck_assert_int_eq(put(files, "new"), PS_OK);

    assert_content("new");
    ck_assert_int_eq(files->open(NULL, leftover, PS_FILE_READ, &file, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

/* Calls of a replace: remove, open, write, sync, rename, sync folder; even turns crash. */
START_TEST(any_failure_leaves_the_old_file_or_the_new_one)
{
    ck_assert_int_eq(put(ps_files_real(), "old"), PS_OK);
    struct fault_files fault = {.under = ps_files_real(),
                                .calls = FAULT_CHANGES,
                                .fail_at = _i / 2,
                                .stays_down = _i % 2 == 0,
                                .tears = true};
    const struct ps_files files = fault_files_files(&fault);

    enum ps_status status = put(&files, "new content");

    bool harmless = !fault.fired || _i == 1;
    ck_assert_int_eq(status, harmless ? PS_OK : PS_ERR_IO);
    ck_assert(fault.fired || _i >= 12);
    bool renamed = harmless || _i >= 10;
    assert_content(renamed ? "new content" : "old");
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

START_TEST(failed_replace_cleans_up)
{
    struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_SYNC, .fail_at = 0};
    const struct ps_files files = fault_files_files(&fault);

    ck_assert_int_eq(put(&files, "new"), PS_ERR_IO);

    struct ps_file file;
    strcat(path, ".tmp");
    ck_assert_int_eq(files.open(files.self, path, PS_FILE_READ, &file, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(path_that_is_too_long_is_refused)
{
    char name[5000];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';

    ck_assert_int_eq(
        ps_file_replace(ps_files_real(), folder.path, name, ps_bytes_of_text("x"), NULL),
        PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(file_larger_than_allowed_is_refused)
{
    uint8_t *content = NULL;
    size_t size = 0;
    struct ps_error error;
    ck_assert_int_eq(put(ps_files_real(), "12345"), PS_OK);

    ck_assert_int_eq(
        ps_file_read_all(ps_files_real(), path, 4, ps_allocator_heap(), &content, &size, &error),
        PS_ERR_OUT_OF_RANGE);

    ck_assert_ptr_nonnull(strstr(error.text, "5 bytes, more than the limit of 4"));
    ck_assert_ptr_null(content);
}
END_TEST

START_TEST(missing_file_is_not_found)
{
    uint8_t *content = NULL;
    size_t size = 0;

    ck_assert_int_eq(
        ps_file_read_all(ps_files_real(), path, 4, ps_allocator_heap(), &content, &size, NULL),
        PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(any_failure_of_reading_leaks_nothing)
{
    ck_assert_int_eq(put(ps_files_real(), "x"), PS_OK);
    struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_ANY, .fail_at = _i};
    const struct ps_files files = fault_files_files(&fault);
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    uint8_t *content = NULL;
    size_t size = 0;

    enum ps_status status = ps_file_read_all(&files, path, 10, &memory, &content, &size, NULL);

    ck_assert_int_eq(status, fault.fired ? PS_ERR_IO : PS_OK);
    ck_assert(fault.fired || _i == 3);
    ps_release(&memory, content);
    ck_assert_int_eq(heap.live, 0);
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

START_TEST(refused_allocation_is_told)
{
    ck_assert_int_eq(put(ps_files_real(), "x"), PS_OK);
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    uint8_t *content = NULL;
    size_t size = 0;

    ck_assert_int_eq(ps_file_read_all(ps_files_real(), path, 10, &memory, &content, &size, NULL),
                     PS_ERR_NO_MEMORY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file");
    TCase *tests = tcase_create("file");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, replaced_file_has_the_new_content);
    tcase_add_test(tests, leftover_of_a_crash_is_no_obstacle);
    tcase_add_loop_test(tests, any_failure_leaves_the_old_file_or_the_new_one, 0, 13);
    tcase_add_test(tests, failed_replace_cleans_up);
    tcase_add_test(tests, path_that_is_too_long_is_refused);
    tcase_add_test(tests, file_larger_than_allowed_is_refused);
    tcase_add_test(tests, missing_file_is_not_found);
    tcase_add_loop_test(tests, any_failure_of_reading_leaks_nothing, 0, 4);
    tcase_add_test(tests, refused_allocation_is_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
