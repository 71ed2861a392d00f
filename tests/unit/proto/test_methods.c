/* SPDX-License-Identifier: Apache-2.0 */
/* proto/methods.c: the paths by which calls are found. */
#include "proto/methods.h"

#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

START_TEST(methods_have_their_paths)
{
    ck_assert_str_eq(ps_method_path(PS_METHOD_PUSH), "/pserver.v1.ParameterServer/SendGrad");
    ck_assert_str_eq(ps_method_path(PS_METHOD_SAVE), "/pserver.v1.Admin/SaveCheckpoint");
}
END_TEST

START_TEST(each_method_has_a_path_of_its_own)
{
    for (int i = 0; i < PS_METHOD_COUNT; i++) {
        const char *path = ps_method_path((enum ps_method)i);
        const char *slash = strrchr(path, '/');
        ck_assert_msg(strncmp(path, "/pserver.v1.", 12) == 0, "%s", path);
        ck_assert_msg(slash != path && slash[1] != '\0', "%s", path);
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(path, ps_method_path((enum ps_method)k));
    }
}
END_TEST

START_TEST(a_number_beyond_the_methods_aborts)
{
    (void)ps_method_path(PS_METHOD_COUNT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("methods");
    TCase *tests = tcase_create("methods");
    tcase_add_test(tests, methods_have_their_paths);
    tcase_add_test(tests, each_method_has_a_path_of_its_own);
    tcase_add_test_raise_signal(tests, a_number_beyond_the_methods_aborts, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
