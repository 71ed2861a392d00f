/* SPDX-License-Identifier: Apache-2.0 */
/* tests/support/fault_files.c: the file system that fails on demand. */
#include "tests/support/fault_files.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct temp_folder folder;
static char target[600];

static enum ps_status replace(struct fault_files *fault, const char *content)
{
    const struct ps_files files = fault_files_files(fault);
    return ps_file_replace(&files, folder.path, target, ps_bytes_of_text(content), NULL);
}

static void begin(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "file", target, sizeof target);
}

static void end(void)
{
    temp_folder_fini(&folder);
}

static void assert_content(const char *expected)
{
    uint8_t *content = NULL;
    size_t size = 0;
    ck_assert_int_eq(
        ps_file_read_all(ps_files_real(), target, 100, ps_allocator_heap(), &content, &size, NULL),
        PS_OK);
    ck_assert_str_eq((const char *)content, expected);
    ps_release(ps_allocator_heap(), content);
}

START_TEST(without_a_number_nothing_fails)
{
    struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_ANY, .fail_at = -1};

    ck_assert_int_eq(replace(&fault, "x"), PS_OK);

    ck_assert(!fault.fired);
    ck_assert_int_eq(fault.seen, 6);
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

START_TEST(only_chosen_kinds_are_counted_and_failed)
{
    struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_SYNC, .fail_at = 0};

    ck_assert_int_eq(replace(&fault, "x"), PS_ERR_IO);

    ck_assert(fault.fired);
    ck_assert_int_eq(fault.seen, 1);
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

START_TEST(torn_write_leaves_half_behind_after_a_crash)
{
    struct fault_files fault = {.under = ps_files_real(),
                                .calls = FAULT_WRITE,
                                .fail_at = 0,
                                .tears = true,
                                .stays_down = true};

    ck_assert_int_eq(replace(&fault, "abcdef"), PS_ERR_IO);

    strcat(target, ".tmp");
    assert_content("abc");
}
END_TEST

START_TEST(torn_write_goes_halfway_over_what_was_there)
{
    struct fault_files fault = {
        .under = ps_files_real(), .calls = FAULT_WRITE, .fail_at = -1, .tears = true};
    struct ps_files files = fault_files_files(&fault);
    struct ps_file file;
    ck_assert_int_eq(replace(&fault, "abcdef"), PS_OK);
    fault.fail_at = fault.seen;

    ck_assert_int_eq(files.open(files.self, target, PS_FILE_REUSE_DIRECT, &file, NULL), PS_OK);
    ck_assert_int_eq(files.write(files.self, file, ps_bytes_of_text("1234"), NULL), PS_ERR_IO);
    files.close(files.self, file);

    assert_content("12cdef");
}
END_TEST

START_TEST(crash_fails_every_later_call)
{
    struct fault_files fault = {
        .under = ps_files_real(), .calls = FAULT_RENAME, .fail_at = 0, .stays_down = true};
    struct ps_files files = fault_files_files(&fault);

    ck_assert_int_eq(replace(&fault, "x"), PS_ERR_IO);

    struct ps_file file;
    ck_assert_int_eq(files.open(files.self, target, PS_FILE_APPEND, &file, NULL), PS_ERR_IO);
    ck_assert_int_eq(files.list(files.self, folder.path, NULL, NULL, NULL), PS_ERR_IO);
    ck_assert_int_eq(files.make_folder(files.self, folder.path, NULL), PS_ERR_IO);
}
END_TEST

/* The pattern that other rooms sweep with: whatever fails, the old file or the new one is there. */
START_TEST(replace_survives_a_failure_of_any_call)
{
    struct fault_files none = {.under = ps_files_real(), .fail_at = -1};
    ck_assert_int_eq(replace(&none, "old"), PS_OK);
    struct fault_files fault = {.under = ps_files_real(),
                                .calls = FAULT_CHANGES,
                                .fail_at = _i / 2,
                                .stays_down = _i % 2 == 1};

    enum ps_status status = replace(&fault, "new");

    /* The first remove clears a leftover that is not there; its failure means nothing, unless
     * the machine is gone with it. */
    bool must_fail = fault.fired && (_i != 0);
    ck_assert_int_eq(status, must_fail ? PS_ERR_IO : PS_OK);
    /* Once renamed, only the folder's sync can fail: the new file is there then. */
    ck_assert(fault.fired || _i >= 12);
    assert_content(fault.fired && _i > 0 && _i < 10 ? "old" : "new");
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault_files");
    TCase *tests = tcase_create("fault_files");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, without_a_number_nothing_fails);
    tcase_add_test(tests, only_chosen_kinds_are_counted_and_failed);
    tcase_add_test(tests, torn_write_leaves_half_behind_after_a_crash);
    tcase_add_test(tests, torn_write_goes_halfway_over_what_was_there);
    tcase_add_test(tests, crash_fails_every_later_call);
    tcase_add_loop_test(tests, replace_survives_a_failure_of_any_call, 0, 14);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
