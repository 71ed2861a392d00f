/* SPDX-License-Identifier: Apache-2.0 */
/* Every status goes over the wire and comes back. */
#include "proto/status_codes.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(every_status_comes_back_by_its_word)
{
    enum ps_status status = (enum ps_status)_i;
    bool from_server = false;

    enum ps_rpc_code code = ps_rpc_code_of_status(status);
    enum ps_status back =
        ps_status_of_reply(code, ps_bytes_of_text(ps_status_word(status)), &from_server);

    ck_assert_int_eq(back, status);
    ck_assert(from_server);
    ck_assert((code == PS_RPC_OK) == (status == PS_OK));
}
END_TEST

START_TEST(failures_without_a_word_were_made_on_the_way)
{
    bool from_server = true;

    ck_assert_int_eq(
        ps_status_of_reply(PS_RPC_UNAVAILABLE, (struct ps_bytes){NULL, 0}, &from_server),
        PS_ERR_UNAVAILABLE);
    ck_assert(!from_server);
    ck_assert_int_eq(
        ps_status_of_reply(PS_RPC_DEADLINE_EXCEEDED, (struct ps_bytes){NULL, 0}, &from_server),
        PS_ERR_TIMEOUT);
    ck_assert_int_eq(
        ps_status_of_reply(PS_RPC_RESOURCE_EXHAUSTED, (struct ps_bytes){NULL, 0}, &from_server),
        PS_ERR_OUT_OF_RANGE);
    ck_assert_int_eq(ps_status_of_reply(99, (struct ps_bytes){NULL, 0}, &from_server),
                     PS_ERR_INTERNAL);
}
END_TEST

START_TEST(a_word_that_nobody_knows_is_no_word)
{
    bool from_server = true;

    enum ps_status status =
        ps_status_of_reply(PS_RPC_UNAVAILABLE, ps_bytes_of_text("weary"), &from_server);

    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert(!from_server);
}
END_TEST

START_TEST(a_failure_that_says_ok_is_no_success)
{
    bool from_server = true;

    enum ps_status status =
        ps_status_of_reply(PS_RPC_INTERNAL, ps_bytes_of_text("ok"), &from_server);

    ck_assert_int_eq(status, PS_ERR_INTERNAL);
    ck_assert(!from_server);
}
END_TEST

START_TEST(codes_have_the_contracts_numbers)
{
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_BAD_INPUT), 3);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_NOT_FOUND), 5);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_EXISTS), 6);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_BUSY), 8);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_NOT_READY), 9);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_ABORTED), 10);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_UNSUPPORTED), 12);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_UNAVAILABLE), 14);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_CORRUPT), 15);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_DENIED), 7);
    ck_assert_int_eq(ps_rpc_code_of_status(PS_ERR_UNAUTHENTICATED), 16);
    ck_assert_str_eq(ps_rpc_code_name(5), "NotFound");
    ck_assert_str_eq(ps_rpc_code_name(1000), "Unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status codes");
    TCase *tests = tcase_create("status codes");
    tcase_add_loop_test(tests, every_status_comes_back_by_its_word, 0, PS_STATUS_COUNT);
    tcase_add_test(tests, failures_without_a_word_were_made_on_the_way);
    tcase_add_test(tests, a_word_that_nobody_knows_is_no_word);
    tcase_add_test(tests, a_failure_that_says_ok_is_no_success);
    tcase_add_test(tests, codes_have_the_contracts_numbers);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
