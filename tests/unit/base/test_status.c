/* SPDX-License-Identifier: Apache-2.0 */
/* base/status.c: the table of failures. */
#include "base/status.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_status_has_a_word_of_its_own)
{
    for (int a = 0; a < PS_STATUS_COUNT; a++) {
        ck_assert_uint_gt(strlen(ps_status_word((enum ps_status)a)), 0);
        ck_assert_uint_gt(strlen(ps_status_sentence((enum ps_status)a)), 0);
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(ps_status_word((enum ps_status)a), ps_status_word((enum ps_status)b));
    }
}
END_TEST

START_TEST(only_success_needs_nothing)
{
    for (int i = 0; i < PS_STATUS_COUNT; i++) {
        bool done = ps_status_remedy((enum ps_status)i) == PS_REMEDY_DONE;
        ck_assert_int_eq(done, i == PS_OK);
    }
}
END_TEST

START_TEST(remedies_are_those_of_the_table)
{
    ck_assert_int_eq(ps_status_remedy(PS_ERR_UNAVAILABLE), PS_REMEDY_RETRY);
    ck_assert_int_eq(ps_status_remedy(PS_ERR_TIMEOUT), PS_REMEDY_UNKNOWN);
    ck_assert_int_eq(ps_status_remedy(PS_ERR_NOT_OWNER), PS_REMEDY_REROUTE);
    ck_assert_int_eq(ps_status_remedy(PS_ERR_BAD_INPUT), PS_REMEDY_REJECT);
    ck_assert_int_eq(ps_status_remedy(PS_ERR_CORRUPT), PS_REMEDY_STOP);
}
END_TEST

START_TEST(fail_fills_the_error_and_returns_its_status)
{
    struct ps_error error = {.status = PS_OK};

    ck_assert_int_eq(ps_fail(&error, PS_ERR_BUSY, "%d of %s", 3, "four"), PS_ERR_BUSY);

    ck_assert_int_eq(error.status, PS_ERR_BUSY);
    ck_assert_str_eq(error.text, "3 of four");
}
END_TEST

START_TEST(nobody_has_to_listen)
{
    ck_assert_int_eq(ps_fail(NULL, PS_ERR_BUSY, "unheard"), PS_ERR_BUSY);
}
END_TEST

START_TEST(a_refusal_says_its_bound_until_the_error_is_used_again)
{
    struct ps_error error;

    ck_assert_int_eq(ps_refuse(&error, PS_ERR_BUSY, PS_REFUSED_STAGING, 70, "full: %d", 9),
                     PS_ERR_BUSY);
    ck_assert_int_eq(error.refusal, PS_REFUSED_STAGING);
    ck_assert_uint_eq(error.retry_ms, 70);
    ck_assert_str_eq(error.text, "full: 9");

    (void)ps_fail(&error, PS_ERR_BUSY, "something else");
    ck_assert_int_eq(error.refusal, PS_REFUSED_NOT);
    ck_assert_uint_eq(error.retry_ms, 0);
    ck_assert_int_eq(ps_refuse(NULL, PS_ERR_BUSY, PS_REFUSED_WORK, 0, "unheard"), PS_ERR_BUSY);
}
END_TEST

START_TEST(a_long_text_keeps_its_begin_and_what_is_said_behind_a_long_name)
{
    struct ps_error error;
    char name[513];
    char expected[sizeof error.text];

    (void)ps_fail(&error, PS_ERR_BUSY, "%01000d", 7);
    ck_assert_uint_eq(strlen(error.text), sizeof error.text - 1);
    ck_assert_str_eq(error.text + sizeof error.text - 3, "07");

    /* The length that just fits, and one more. */
    memset(name, 'n', sizeof name - 1);
    for (int more = 0; more < 2; more++) {
        (void)ps_fail(&error, PS_ERR_BUSY, "Name: %.*s, is full", 240 + more, name);
        snprintf(expected, sizeof expected, "Name: %.*s%s%.*s, is full", more == 0 ? 0 : 57, name,
                 more == 0 ? "" : "...", more == 0 ? 240 : 180, name);
        ck_assert_str_eq(error.text, expected);
    }

    /* Two of the longest names, and what is said of the second one. */
    name[512] = '\0';
    (void)ps_fail(&error, PS_ERR_BUSY, "Name: %s, %s, is full", name, name);
    ck_assert_int_eq(strncmp(error.text, "Name: nnn", 9), 0);
    ck_assert_ptr_nonnull(strstr(error.text, "n...n"));
    ck_assert_str_eq(error.text + strlen(error.text) - 9, ", is full");
}
END_TEST

static enum ps_status try_twice(enum ps_status first, int *reached)
{
    PS_TRY(first);
    (*reached)++;
    return PS_OK;
}

START_TEST(try_returns_failures_at_once)
{
    int reached = 0;

    ck_assert_int_eq(try_twice(PS_ERR_IO, &reached), PS_ERR_IO);
    ck_assert_int_eq(reached, 0);
    ck_assert_int_eq(try_twice(PS_OK, &reached), PS_OK);
    ck_assert_int_eq(reached, 1);
}
END_TEST

START_TEST(failing_with_success_is_a_bug)
{
    (void)ps_fail(NULL, PS_OK, "no");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tests = tcase_create("status");
    tcase_add_test(tests, every_status_has_a_word_of_its_own);
    tcase_add_test(tests, only_success_needs_nothing);
    tcase_add_test(tests, remedies_are_those_of_the_table);
    tcase_add_test(tests, fail_fills_the_error_and_returns_its_status);
    tcase_add_test(tests, nobody_has_to_listen);
    tcase_add_test(tests, a_refusal_says_its_bound_until_the_error_is_used_again);
    tcase_add_test(tests, a_long_text_keeps_its_begin_and_what_is_said_behind_a_long_name);
    tcase_add_test(tests, try_returns_failures_at_once);
    tcase_add_test_raise_signal(tests, failing_with_success_is_a_bug, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
