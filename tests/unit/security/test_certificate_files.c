/* SPDX-License-Identifier: Apache-2.0 */
/* security/certificate_files.c: which files are taken, and in what words others are refused. */
#include "security/certificate_files.h"

#include "made_certificate.h"
#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

static struct memory_files *disk;
static struct made_certificate good;
static struct ps_error error;
static const struct ps_certificate_paths paths = {"/t/chain.pem", "/t/key.pem", "/t/ca.pem"};

static void put(const char *path, const char *text)
{
    memory_files_put(disk, path, ps_bytes_of_text(text));
}

static void set_up(void)
{
    disk = memory_files_create(1);
    made_certificate_init(&good, MADE_NOW_S - 100, MADE_NOW_S + 1000);
    put(paths.chain, good.chain);
    put(paths.key, good.key);
    put(paths.authorities, good.chain);
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

static enum ps_status read_at(int64_t now_s, struct ps_certificates **set)
{
    return ps_certificates_read(&paths, memory_files_files(disk), ps_allocator_heap(), now_s, set,
                                &error);
}

static void expect_refusal(const char *text)
{
    struct ps_certificates *set = NULL;
    ck_assert_int_eq(read_at(MADE_NOW_S, &set), PS_ERR_BAD_INPUT);
    ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

START_TEST(a_pair_that_fits_is_taken_with_its_times)
{
    struct ps_certificates *set;

    ck_assert_msg(read_at(MADE_NOW_S, &set) == PS_OK, "%s", error.text);

    ck_assert_str_eq(set->chain, good.chain);
    ck_assert_str_eq(set->key, good.key);
    ck_assert_str_eq(set->authorities, good.chain);
    ck_assert_int_eq(set->not_before_s, MADE_NOW_S - 100);
    ck_assert_int_eq(set->not_after_s, MADE_NOW_S + 1000);
    ck_assert_ptr_eq(ps_certificates_acquire(set), set);
    ps_certificates_release(set);
    ps_certificates_release(set);
    ps_certificates_release(NULL);
    ck_assert_ptr_null(ps_certificates_acquire(NULL));
}
END_TEST

START_TEST(a_chain_of_several_is_taken)
{
    struct made_certificate above;
    struct ps_certificates *set;
    char both[3 * sizeof above.chain];
    made_certificate_init(&above, MADE_NOW_S - 5, MADE_NOW_S + 5);
    (void)snprintf(both, sizeof both, "a comment\n%s%s", good.chain, above.chain);
    put(paths.chain, both);

    ck_assert_msg(read_at(MADE_NOW_S, &set) == PS_OK, "%s", error.text);

    ck_assert_int_eq(set->not_after_s, MADE_NOW_S + 1000);
    ps_certificates_release(set);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_named)
{
    struct ps_certificates *set;
    const struct ps_certificate_paths other = {"/t/chain.pem", "/t/none.pem", NULL};

    ck_assert_int_eq(ps_certificates_read(&other, memory_files_files(disk), ps_allocator_heap(),
                                          MADE_NOW_S, &set, &error),
                     PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/t/none.pem"));
}
END_TEST

static const struct {
    const char *path;
    const char *content;
    const char *words;
} bad_files[] = {
    {"/t/chain.pem", "", "/t/chain.pem: no certificate in PEM"},
    {"/t/chain.pem", "garbage", "/t/chain.pem: no certificate in PEM"},
    {"/t/chain.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
     "/t/chain.pem: a certificate that cannot be read"},
    {"/t/chain.pem", "-----BEGIN CERTIFICATE-----\n!!!!\n", "/t/chain.pem: "},
    {"/t/key.pem", "", "/t/key.pem: no private key"},
    {"/t/key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
     "/t/key.pem: no private key"},
    {"/t/ca.pem", "", "/t/ca.pem: no certificate in PEM"},
    {"/t/ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
     "/t/ca.pem: a certificate that cannot be read"},
};

START_TEST(what_is_not_pem_is_refused_with_the_path)
{
    put(bad_files[_i].path, bad_files[_i].content);

    expect_refusal(bad_files[_i].words);
}
END_TEST

START_TEST(the_key_of_another_certificate_is_refused)
{
    struct made_certificate other;
    made_certificate_init(&other, MADE_NOW_S - 100, MADE_NOW_S + 1000);
    put(paths.key, other.key);

    expect_refusal("/t/key.pem: the key is not that of the certificate");
}
END_TEST

START_TEST(a_certificate_that_is_over_or_early_is_refused)
{
    struct ps_certificates *set;

    ck_assert_int_eq(read_at(MADE_NOW_S + 1001, &set), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "has expired, 1 s ago"));
    ck_assert_int_eq(read_at(MADE_NOW_S - 101, &set), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "not valid yet, for another 1 s"));
}
END_TEST

START_TEST(sets_are_equal_when_all_bytes_are)
{
    struct made_certificate other;
    struct ps_certificates *first;
    struct ps_certificates *same;
    struct ps_certificates *renewed;
    made_certificate_init(&other, MADE_NOW_S - 100, MADE_NOW_S + 2000);
    ck_assert_int_eq(read_at(MADE_NOW_S, &first), PS_OK);
    ck_assert_int_eq(read_at(MADE_NOW_S, &same), PS_OK);
    put(paths.authorities, other.chain);
    ck_assert_int_eq(read_at(MADE_NOW_S, &renewed), PS_OK);

    ck_assert(ps_certificates_equal(first, same));
    ck_assert(!ps_certificates_equal(first, renewed));

    ps_certificates_release(first);
    ps_certificates_release(same);
    ps_certificates_release(renewed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("certificate_files");
    TCase *tests = tcase_create("certificate_files");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_pair_that_fits_is_taken_with_its_times);
    tcase_add_test(tests, a_chain_of_several_is_taken);
    tcase_add_test(tests, a_file_that_is_not_there_is_named);
    tcase_add_loop_test(tests, what_is_not_pem_is_refused_with_the_path, 0,
                        sizeof bad_files / sizeof bad_files[0]);
    tcase_add_test(tests, the_key_of_another_certificate_is_refused);
    tcase_add_test(tests, a_certificate_that_is_over_or_early_is_refused);
    tcase_add_test(tests, sets_are_equal_when_all_bytes_are);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
