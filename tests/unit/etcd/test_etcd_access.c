/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_access.c: which options go together, copies with every allocation refused once, and
 * where a password comes from. */
#include "etcd/etcd_access.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_etcd_access user = {.user = "root", .password = "secret"};

START_TEST(a_password_goes_over_http_only_when_told)
{
    struct ps_error error = {0};
    struct ps_etcd_access access = user;

    ck_assert_int_eq(ps_etcd_access_check(&access, false, NULL), PS_OK);
    ck_assert_int_eq(ps_etcd_access_check(&access, true, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "--etcd-insecure-password"));
    ck_assert_ptr_null(strstr(error.text, "secret"));
    access.insecure_password = true;
    ck_assert_int_eq(ps_etcd_access_check(&access, true, NULL), PS_OK);
    access = (struct ps_etcd_access){.user = "root", .password_file = "/x"};
    ck_assert_int_eq(ps_etcd_access_check(&access, true, NULL), PS_ERR_BAD_INPUT);
    access = (struct ps_etcd_access){.user = "nobody"};
    ck_assert_int_eq(ps_etcd_access_check(&access, true, NULL), PS_OK);
}
END_TEST

START_TEST(halves_and_doubles_are_refused)
{
    const struct ps_etcd_access wrong[] = {
        {.certificate = "/c"},
        {.key = "/k"},
        {.user = "root", .password = "a", .password_file = "/b"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(ps_etcd_access_check(&wrong[i], false, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(copies_are_whole_or_refused)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_etcd_access all = {"u", "p", "f", "a", "c", "k", true};
    struct ps_etcd_access copy;

    enum ps_status status = ps_etcd_access_copy(&all, &memory, &copy, NULL);

    ck_assert_int_eq(status, _i < 6 ? PS_ERR_NO_MEMORY : PS_OK);
    if (status == PS_OK) {
        ck_assert_str_eq(copy.user, "u");
        ck_assert_str_eq(copy.key, "k");
        ck_assert(copy.insecure_password);
    }
    ps_etcd_access_release(&copy, &memory);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* What the password is when its file has `text`; NULL: there is no file. */
static void expect_password(const char *text, const char *password)
{
    struct temp_folder folder;
    char path[600];
    temp_folder_init(&folder);
    (void)temp_folder_path(&folder, "password", path, sizeof path);
    FILE *file = text != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
    }
    const struct ps_etcd_access access = {.user = "root", .password_file = path};
    char *found = NULL;

    enum ps_status status = ps_etcd_password(&access, ps_allocator_heap(), &found, NULL);

    ck_assert_int_eq(status, password != NULL ? PS_OK : PS_ERR_NOT_FOUND);
    if (password != NULL)
        ck_assert_str_eq(found, password);
    ps_etcd_password_release(found, ps_allocator_heap());
    temp_folder_fini(&folder);
}

START_TEST(a_password_is_the_first_line_of_its_file)
{
    expect_password("secret", "secret");
    expect_password("secret\n", "secret");
    expect_password("sec ret\r\nmore\n", "sec ret");
    expect_password("", "");
    expect_password(NULL, NULL);
}
END_TEST

START_TEST(a_user_may_have_no_password)
{
    const struct ps_etcd_access nothing = {.user = "root"};
    char *found = NULL;

    ck_assert_int_eq(ps_etcd_password(&user, ps_allocator_heap(), &found, NULL), PS_OK);
    ck_assert_str_eq(found, "secret");
    ps_etcd_password_release(found, ps_allocator_heap());
    ck_assert_int_eq(ps_etcd_password(&nothing, ps_allocator_heap(), &found, NULL), PS_OK);
    ck_assert_str_eq(found, "");
    ps_etcd_password_release(found, ps_allocator_heap());
    ps_etcd_password_release(NULL, ps_allocator_heap());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("etcd_access");
    TCase *tests = tcase_create("etcd_access");
    tcase_add_test(tests, a_password_goes_over_http_only_when_told);
    tcase_add_test(tests, halves_and_doubles_are_refused);
    tcase_add_loop_test(tests, copies_are_whole_or_refused, 0, 7);
    tcase_add_test(tests, a_password_is_the_first_line_of_its_file);
    tcase_add_test(tests, a_user_may_have_no_password);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
