/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a test program that has one suite: runs it and says what main returns.
 *
 * Threads:  one.
 * Blocking: as long as the tests take.
 * Errors:   Check prints them.
 * Memory:   the suite is given back.
 */
#ifndef PS_TESTS_SUPPORT_CHECK_RUN_SUITE_H
#define PS_TESTS_SUPPORT_CHECK_RUN_SUITE_H

#include <check.h>
#include <stdlib.h>

/* EXIT_SUCCESS when every test has passed. CK_VERBOSITY says how much is printed. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
