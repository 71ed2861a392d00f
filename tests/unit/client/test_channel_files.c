/* SPDX-License-Identifier: Apache-2.0 */
/* client/channel/channel_files.c: which files go together, what may be in them, and when they
 * count as changed. */
#include "client/channel/channel_files.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEM "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"

static struct temp_folder folder;

static const char *write_file(const char *name, const char *text, char *path)
{
    (void)temp_folder_path(&folder, name, path, 600);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static void make_folder(void)
{
    temp_folder_init(&folder);
}

static void remove_folder(void)
{
    temp_folder_fini(&folder);
}

START_TEST(halves_are_refused)
{
    const struct ps_channel_files wrong[] = {
        {.paths = {[PS_FILE_CA] = "a", [PS_FILE_KEY] = "k"}},
        {.paths = {[PS_FILE_CA] = "a", [PS_FILE_CERTIFICATE] = "c"}},
        {.paths = {[PS_FILE_CERTIFICATE] = "c", [PS_FILE_KEY] = "k"}},
    };
    const struct ps_channel_files right[] = {
        {.server_name = NULL},
        {.paths = {[PS_FILE_CA] = "a"}},
        {.paths = {[PS_FILE_TOKEN] = "t"}},
        {.paths = {"a", "c", "k", "t"}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(ps_channel_files_check(&wrong[i], NULL), PS_ERR_BAD_INPUT);
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        ck_assert_int_eq(ps_channel_files_check(&right[i], NULL), PS_OK);
}
END_TEST

/* Reads a file of that kind and text. */
static enum ps_status read_as(enum ps_channel_file kind, const char *text, char *first,
                              size_t capacity)
{
    char path[600];
    struct ps_channel_files files = {.server_name = NULL};
    files.paths[kind] = write_file("file", text, path);
    struct ps_channel_secrets secrets;
    enum ps_status status = ps_channel_files_read(&files, ps_allocator_heap(), &secrets, NULL);
    if (status == PS_OK)
        (void)snprintf(first, capacity, "%s", secrets.texts[kind]);
    ps_channel_secrets_release(&secrets, ps_allocator_heap());
    return status;
}

START_TEST(a_token_is_one_line_that_a_header_takes)
{
    char text[100];

    ck_assert_int_eq(read_as(PS_FILE_TOKEN, "ab.c-1\n", text, sizeof text), PS_OK);
    ck_assert_str_eq(text, "ab.c-1");
    ck_assert_int_eq(read_as(PS_FILE_TOKEN, "", text, sizeof text), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(read_as(PS_FILE_TOKEN, "\nabc\n", text, sizeof text), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(read_as(PS_FILE_TOKEN, "a b\n", text, sizeof text), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(read_as(PS_FILE_TOKEN, "\xc3\xa4\n", text, sizeof text), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(certificates_and_keys_are_pem)
{
    char text[100];
    for (enum ps_channel_file kind = PS_FILE_CA; kind < PS_FILE_TOKEN; kind++) {
        ck_assert_int_eq(read_as(kind, PEM, text, sizeof text), PS_OK);
        ck_assert_str_eq(text, PEM);
        ck_assert_int_eq(read_as(kind, "rubbish\n", text, sizeof text), PS_ERR_BAD_INPUT);
    }
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    const struct ps_channel_files files = {.paths = {[PS_FILE_KEY] = "/nowhere/key.pem"}};
    struct ps_channel_secrets secrets;
    struct ps_error error = {0};

    ck_assert_int_eq(ps_channel_files_read(&files, ps_allocator_heap(), &secrets, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "tls_key: "));
    ck_assert_ptr_nonnull(strstr(error.text, "/nowhere/key.pem"));
    ps_channel_secrets_release(&secrets, ps_allocator_heap());
}
END_TEST

START_TEST(copies_are_whole_or_refused)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_channel_files all = {{"a", "c", "k", "t"}, "name"};
    struct ps_channel_files copy;

    enum ps_status status = ps_channel_files_copy(&all, &memory, &copy, NULL);

    ck_assert_int_eq(status, _i < 5 ? PS_ERR_NO_MEMORY : PS_OK);
    if (status == PS_OK) {
        ck_assert_str_eq(copy.paths[PS_FILE_TOKEN], "t");
        ck_assert_str_eq(copy.server_name, "name");
    }
    ps_channel_files_release(&copy, &memory);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(another_content_is_another_stamp)
{
    char path[600];
    struct ps_channel_files files = {.server_name = NULL};
    files.paths[PS_FILE_CA] = write_file("ca", PEM, path);
    struct ps_channel_stamps first, same, longer, gone;

    ps_channel_files_look(&files, &first);
    ps_channel_files_look(&files, &same);
    (void)write_file("ca", PEM PEM, path);
    ps_channel_files_look(&files, &longer);
    ck_assert_int_eq(remove(path), 0);
    ps_channel_files_look(&files, &gone);

    ck_assert(ps_channel_stamps_equal(&first, &same));
    ck_assert(!ps_channel_stamps_equal(&first, &longer));
    ck_assert(!ps_channel_stamps_equal(&longer, &gone));
}
END_TEST

START_TEST(addresses_of_this_host_are_known)
{
    static const char *const here[] = {"unix:/run/x", "localhost:1", "[::1]:80", "127.0.0.1:8000"};
    static const char *const elsewhere[] = {"10.0.0.1:1",      "127.evil.example:80", "[::2]:1",
                                            "localhost.x.y:1", "server:8000",         ""};
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++)
        ck_assert(ps_address_is_local(here[i]));
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        ck_assert(!ps_address_is_local(elsewhere[i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channel_files");
    TCase *tests = tcase_create("channel_files");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, halves_are_refused);
    tcase_add_test(tests, a_token_is_one_line_that_a_header_takes);
    tcase_add_test(tests, certificates_and_keys_are_pem);
    tcase_add_test(tests, a_missing_file_is_named);
    tcase_add_loop_test(tests, copies_are_whole_or_refused, 0, 6);
    tcase_add_test(tests, another_content_is_another_stamp);
    tcase_add_test(tests, addresses_of_this_host_are_known);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
