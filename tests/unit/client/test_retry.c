/* SPDX-License-Identifier: Apache-2.0 */
/* client/calls/retry.c: what is repeated, and when. */
#include "client/calls/retry.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(a_refused_push_is_repeated)
{
    static const enum ps_status refusals[] = {PS_ERR_UNAVAILABLE, PS_ERR_BUSY, PS_ERR_NO_MEMORY,
                                              PS_ERR_NOT_OWNER, PS_ERR_STALE_EPOCH};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, refusals[i], false), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_push_that_may_have_been_applied_is_repeated)
{
    static const enum ps_status breaks[] = {PS_ERR_UNAVAILABLE, PS_ERR_TIMEOUT,  PS_ERR_CANCELLED,
                                            PS_ERR_INTERNAL,    PS_ERR_IO,       PS_ERR_BUSY,
                                            PS_ERR_NO_MEMORY,   PS_ERR_NOT_OWNER};
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++)
        ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, breaks[i], true), PS_VERDICT_AGAIN);
}
END_TEST

/* It has waited for as long as the caller wished. */
START_TEST(a_servers_word_that_the_time_is_over_is_final_where_it_names_who_is_missing)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_BARRIER, PS_ERR_TIMEOUT, false), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_ASK, PS_ERR_TIMEOUT, false), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_TAKE, PS_ERR_TIMEOUT, false), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_fault_of_the_server_is_final_for_a_push_that_was_certainly_not_applied)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_INTERNAL, false), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_IO, false), PS_VERDICT_FAILED);
}
END_TEST

START_TEST(a_forgotten_session_is_final_only_for_a_push_that_may_have_been_applied)
{
    const enum ps_status stale = PS_ERR_STALE_SESSION;
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, stale, true), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, stale, false), PS_VERDICT_RENUMBER);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_INIT, stale, true), PS_VERDICT_RENUMBER);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_FINISH, stale, true), PS_VERDICT_RENUMBER);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PULL, stale, false), PS_VERDICT_FAILED);
}
END_TEST

START_TEST(unavailable_does_not_say_that_a_push_was_not_applied)
{
    ck_assert(!ps_retry_is_refusal(PS_METHOD_PUSH, PS_ERR_UNAVAILABLE));
    ck_assert(!ps_retry_is_refusal(PS_METHOD_PUSH, PS_ERR_TIMEOUT));
    ck_assert(!ps_retry_is_refusal(PS_METHOD_PUSH, PS_OK));
    ck_assert(ps_retry_is_refusal(PS_METHOD_PUSH, PS_ERR_BUSY));
    ck_assert(ps_retry_is_refusal(PS_METHOD_PUSH, PS_ERR_NOT_FOUND));
    ck_assert(ps_retry_is_refusal(PS_METHOD_PULL, PS_ERR_UNAVAILABLE));
}
END_TEST

START_TEST(no_memory_does_not_say_that_a_push_was_not_applied)
{
    ck_assert(!ps_retry_is_refusal(PS_METHOD_PUSH, PS_ERR_NO_MEMORY));
    ck_assert(!ps_retry_is_refusal(PS_METHOD_PUSHES, PS_ERR_NO_MEMORY));
    ck_assert(!ps_retry_is_refusal(PS_METHOD_PUSH_PULL, PS_ERR_NO_MEMORY));
    ck_assert(ps_retry_is_refusal(PS_METHOD_INIT, PS_ERR_NO_MEMORY));
    ck_assert(ps_retry_is_refusal(PS_METHOD_PULL, PS_ERR_NO_MEMORY));
}
END_TEST

START_TEST(a_change_of_the_table_is_done_once_as_a_push_is)
{
    static const enum ps_method changes[] = {PS_METHOD_DEFINE, PS_METHOD_DROP, PS_METHOD_CONFIGURE};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ck_assert(!ps_retry_is_refusal(changes[i], PS_ERR_UNAVAILABLE));
        ck_assert_int_eq(ps_retry_verdict(changes[i], PS_ERR_STALE_SESSION, true),
                         PS_VERDICT_FAILED);
        ck_assert_int_eq(ps_retry_verdict(changes[i], PS_ERR_STALE_SESSION, false),
                         PS_VERDICT_RENUMBER);
        ck_assert_int_eq(ps_retry_verdict(changes[i], PS_ERR_INTERNAL, true), PS_VERDICT_AGAIN);
        ck_assert_int_eq(ps_retry_verdict(changes[i], PS_ERR_NOT_READY, false), PS_VERDICT_AGAIN);
        ck_assert_int_eq(ps_retry_verdict(changes[i], PS_ERR_EXISTS, true), PS_VERDICT_FAILED);
    }
}
END_TEST

START_TEST(a_drain_that_was_meant_for_another_server_is_not_sent_again)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_DRAIN, PS_ERR_STALE_EPOCH, true),
                     PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_DRAIN, PS_ERR_TIMEOUT, true), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_push_before_initialisation_fails_at_once)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_NOT_READY, true), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PULL, PS_ERR_NOT_READY, true), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_save_before_initialisation_fails_at_once)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_SAVE, PS_ERR_NOT_READY, false), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_SAVE, PS_ERR_UNAVAILABLE, false), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_finish_whose_parameters_are_lost_fails_at_once)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_FINISH, PS_ERR_STALE_EPOCH, true),
                     PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_INIT, PS_ERR_STALE_EPOCH, true), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(everything_is_repeated_when_it_broke)
{
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++) {
        ck_assert_int_eq(ps_retry_verdict(method, PS_ERR_UNAVAILABLE, true), PS_VERDICT_AGAIN);
        ck_assert_int_eq(ps_retry_verdict(method, PS_ERR_TIMEOUT, true),
                         method == PS_METHOD_BARRIER || method == PS_METHOD_ASK ? PS_VERDICT_FAILED
                                                                                : PS_VERDICT_AGAIN);
    }
}
END_TEST

START_TEST(wrong_requests_are_not_repeated)
{
    static const enum ps_status wrong[] = {
        PS_ERR_BAD_INPUT, PS_ERR_NOT_FOUND,       PS_ERR_OUT_OF_RANGE, PS_ERR_UNSUPPORTED,
        PS_ERR_DENIED,    PS_ERR_UNAUTHENTICATED, PS_ERR_TABLE_FULL};
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++) {
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
            ck_assert_int_eq(ps_retry_verdict(method, wrong[i], _i != 0), PS_VERDICT_FAILED);
    }
}
END_TEST

START_TEST(b7_already_initialized_is_success_for_init_and_finish_only)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_INIT, PS_ERR_EXISTS, true), PS_VERDICT_DONE);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_FINISH, PS_ERR_EXISTS, true), PS_VERDICT_DONE);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_EXISTS, true), PS_VERDICT_FAILED);
}
END_TEST

START_TEST(pauses_double_up_to_the_longest_and_are_spread)
{
    struct ps_random random;
    ps_random_init(&random, 7);
    uint64_t expected_ms = 20;
    for (uint32_t attempt = 1; attempt < 70; attempt++) {
        uint64_t pause_ms = ps_retry_pause_ms(&random, attempt, 20, 2000);
        ck_assert_uint_ge(pause_ms, expected_ms / 2);
        ck_assert_uint_le(pause_ms, expected_ms);
        expected_ms = expected_ms * 2 > 2000 ? 2000 : expected_ms * 2;
    }
}
END_TEST

START_TEST(equal_seeds_pause_alike_and_others_do_not)
{
    struct ps_random a, b, c;
    ps_random_init(&a, 1);
    ps_random_init(&b, 1);
    ps_random_init(&c, 2);
    int differ = 0;
    for (uint32_t attempt = 1; attempt < 20; attempt++) {
        uint64_t pause_ms = ps_retry_pause_ms(&a, attempt, 20, 2000);
        ck_assert_uint_eq(pause_ms, ps_retry_pause_ms(&b, attempt, 20, 2000));
        differ += pause_ms != ps_retry_pause_ms(&c, attempt, 20, 2000) ? 1 : 0;
    }
    ck_assert_int_gt(differ, 5);
}
END_TEST

START_TEST(a_barrier_whose_time_is_over_is_not_repeated)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_BARRIER, PS_ERR_TIMEOUT, false), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_BARRIER, PS_ERR_UNAVAILABLE, true),
                     PS_VERDICT_AGAIN);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_BARRIER, PS_ERR_MISMATCH, false),
                     PS_VERDICT_FAILED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retry");
    TCase *tests = tcase_create("retry");
    tcase_add_test(tests, a_barrier_whose_time_is_over_is_not_repeated);
    tcase_add_test(tests, a_refused_push_is_repeated);
    tcase_add_test(tests, a_push_that_may_have_been_applied_is_repeated);
    tcase_add_test(tests,
                   a_servers_word_that_the_time_is_over_is_final_where_it_names_who_is_missing);
    tcase_add_test(tests, a_fault_of_the_server_is_final_for_a_push_that_was_certainly_not_applied);
    tcase_add_test(tests, a_forgotten_session_is_final_only_for_a_push_that_may_have_been_applied);
    tcase_add_test(tests, unavailable_does_not_say_that_a_push_was_not_applied);
    tcase_add_test(tests, no_memory_does_not_say_that_a_push_was_not_applied);
    tcase_add_test(tests, a_change_of_the_table_is_done_once_as_a_push_is);
    tcase_add_test(tests, a_drain_that_was_meant_for_another_server_is_not_sent_again);
    tcase_add_test(tests, a_push_before_initialisation_fails_at_once);
    tcase_add_test(tests, a_save_before_initialisation_fails_at_once);
    tcase_add_test(tests, a_finish_whose_parameters_are_lost_fails_at_once);
    tcase_add_test(tests, everything_is_repeated_when_it_broke);
    tcase_add_loop_test(tests, wrong_requests_are_not_repeated, 0, 2);
    tcase_add_test(tests, b7_already_initialized_is_success_for_init_and_finish_only);
    tcase_add_test(tests, pauses_double_up_to_the_longest_and_are_spread);
    tcase_add_test(tests, equal_seeds_pause_alike_and_others_do_not);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
