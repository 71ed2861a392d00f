/* SPDX-License-Identifier: Apache-2.0 */
/* client/calls/call.c: the push and the pull of requests and replies that may have either or
 * both. */
#include "client/calls/call.h"

#include "run_suite.h"

#include <check.h>
#include <stddef.h>

START_TEST(each_half_is_found_where_its_method_has_it)
{
    const struct ps_call_request push = {.method = PS_METHOD_PUSH};
    const struct ps_call_request pull = {.method = PS_METHOD_PULL};
    const struct ps_call_request both = {.method = PS_METHOD_PUSH_PULL};
    const struct ps_call_request init = {.method = PS_METHOD_INIT};

    ck_assert_ptr_eq(ps_call_push_of(&push), &push.push);
    ck_assert_ptr_null(ps_call_pull_of(&push));
    ck_assert_ptr_eq(ps_call_pull_of(&pull), &pull.pull);
    ck_assert_ptr_null(ps_call_push_of(&pull));
    ck_assert_ptr_eq(ps_call_push_of(&both), &both.push_pull.push);
    ck_assert_ptr_eq(ps_call_pull_of(&both), &both.push_pull.pull);
    ck_assert_ptr_null(ps_call_push_of(&init));
    const struct ps_call_request define = {.method = PS_METHOD_DEFINE};
    ck_assert_ptr_eq(ps_call_init_of(&init), &init.init);
    ck_assert_ptr_eq(ps_call_init_of(&define), &define.init);
    ck_assert_ptr_null(ps_call_init_of(&push));
}
END_TEST

START_TEST(a_reply_has_the_halves_of_its_request)
{
    const struct ps_call_reply push = {.method = PS_METHOD_PUSH};
    const struct ps_call_reply both = {.method = PS_METHOD_PUSH_PULL};
    const struct ps_call_reply saved = {.method = PS_METHOD_SAVE};

    ck_assert_ptr_eq(ps_call_pushed(&push), &push.push);
    ck_assert_ptr_null(ps_call_pulled(&push));
    ck_assert_ptr_eq(ps_call_pushed(&both), &both.push_pull.push);
    ck_assert_ptr_eq(ps_call_pulled(&both), &both.push_pull.pull);
    ck_assert_ptr_null(ps_call_pushed(&saved));
    ck_assert_ptr_null(ps_call_pulled(&saved));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("call");
    TCase *tests = tcase_create("call");
    tcase_add_test(tests, each_half_is_found_where_its_method_has_it);
    tcase_add_test(tests, a_reply_has_the_halves_of_its_request);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
