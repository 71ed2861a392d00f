/* SPDX-License-Identifier: Apache-2.0 */
/* base/assert.c: assertions stop the process. */
#include "base/assert.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

START_TEST(true_condition_goes_on)
{
    int evaluated = 0;

    PS_ASSERT(++evaluated == 1);

    ck_assert_int_eq(evaluated, 1);
}
END_TEST

START_TEST(broken_condition_aborts)
{
    PS_ASSERT(1 + 1 == 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assert");
    TCase *tests = tcase_create("assert");
    tcase_add_test(tests, true_condition_goes_on);
    tcase_add_test_raise_signal(tests, broken_condition_aborts, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
