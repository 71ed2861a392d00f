/* SPDX-License-Identifier: Apache-2.0 */
/* base/output.c: exit codes of programs whose output goes nowhere. Check runs each test in a
 * process of its own, so that each may spoil its standard output. */
#include "base/output.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

START_TEST(output_that_arrives_leaves_the_code)
{
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
    (void)puts("text");

    ck_assert_int_eq(ps_output_end("test", EXIT_SUCCESS), EXIT_SUCCESS);
    ck_assert_int_eq(ps_output_end("test", EX_USAGE), EX_USAGE);
}
END_TEST

START_TEST(output_that_does_not_fit_is_no_success)
{
    ck_assert_ptr_nonnull(freopen("/dev/full", "w", stdout));
    (void)puts("text");

    ck_assert_int_eq(ps_output_end("test", EXIT_SUCCESS), EX_IOERR);
}
END_TEST

START_TEST(output_that_failed_earlier_is_no_success)
{
    ck_assert_ptr_nonnull(freopen("/dev/full", "w", stdout));
    (void)puts("text");
    (void)fflush(stdout);

    ck_assert_int_eq(ps_output_end("test", EXIT_SUCCESS), EX_IOERR);
}
END_TEST

START_TEST(a_failure_keeps_its_own_code)
{
    ck_assert_ptr_nonnull(freopen("/dev/full", "w", stdout));
    (void)puts("text");

    ck_assert_int_eq(ps_output_end("test", EX_UNAVAILABLE), EX_UNAVAILABLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *tests = tcase_create("output");
    tcase_add_test(tests, output_that_arrives_leaves_the_code);
    tcase_add_test(tests, output_that_does_not_fit_is_no_success);
    tcase_add_test(tests, output_that_failed_earlier_is_no_success);
    tcase_add_test(tests, a_failure_keeps_its_own_code);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
