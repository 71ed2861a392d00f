/* SPDX-License-Identifier: Apache-2.0 */
/* client/status_map.c: every status inside has one outside. */
#include "client/status_map.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(only_ok_is_ok)
{
    ck_assert_int_eq(ps_client_status_of(PS_OK), PSCLIENT_OK);
    for (enum ps_status status = 1; status < PS_STATUS_COUNT; status++)
        ck_assert_int_ne(ps_client_status_of(status), PSCLIENT_OK);
}
END_TEST

START_TEST(what_may_have_happened_is_unknown)
{
    for (enum ps_status status = 0; status < PS_STATUS_COUNT; status++)
        ck_assert_int_eq(ps_client_status_of(status) == PSCLIENT_UNKNOWN,
                         ps_status_remedy(status) == PS_REMEDY_UNKNOWN);
}
END_TEST

START_TEST(who_may_not_come_in_is_told_from_who_may_not_do_that)
{
    ck_assert_int_eq(ps_client_status_of(PS_ERR_UNAUTHENTICATED), PSCLIENT_UNAUTHENTICATED);
    ck_assert_int_eq(ps_client_status_of(PS_ERR_DENIED), PSCLIENT_DENIED);
}
END_TEST

START_TEST(what_was_given_up_is_told_from_what_may_be_tried_again)
{
    ck_assert_int_eq(ps_client_status_of(PS_ERR_ABORTED), PSCLIENT_ABORTED);
    ck_assert_int_eq(ps_client_status_of(PS_ERR_CONFLICT), PSCLIENT_UNAVAILABLE);
}
END_TEST

START_TEST(every_status_has_a_name_of_its_own)
{
    for (int i = PSCLIENT_OK; i <= PSCLIENT_ABORTED; i++) {
        for (int k = PSCLIENT_OK; k < i; k++)
            ck_assert_str_ne(psclient_status_name((enum psclient_status)i),
                             psclient_status_name((enum psclient_status)k));
    }
    ck_assert_str_eq(psclient_status_name((enum psclient_status)99), "failed");
    ck_assert_str_eq(psclient_status_name((enum psclient_status) - 1), "failed");
}
END_TEST

START_TEST(errors_are_optional_and_cut)
{
    char text[400];
    struct psclient_error error;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';

    ck_assert_int_eq(ps_client_fail(NULL, PS_ERR_BUSY, text), PSCLIENT_EXHAUSTED);
    ck_assert_int_eq(ps_client_fail(&error, PS_ERR_BUSY, text), PSCLIENT_EXHAUSTED);
    ck_assert_uint_eq(strlen(error.text), sizeof error.text - 1);
    ck_assert_int_eq(ps_client_succeed(&error), PSCLIENT_OK);
    ck_assert_str_eq(error.text, "");
    ck_assert_int_eq(ps_client_succeed(NULL), PSCLIENT_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status_map");
    TCase *tests = tcase_create("status_map");
    tcase_add_test(tests, only_ok_is_ok);
    tcase_add_test(tests, what_may_have_happened_is_unknown);
    tcase_add_test(tests, who_may_not_come_in_is_told_from_who_may_not_do_that);
    tcase_add_test(tests, what_was_given_up_is_told_from_what_may_be_tried_again);
    tcase_add_test(tests, every_status_has_a_name_of_its_own);
    tcase_add_test(tests, errors_are_optional_and_cut);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
