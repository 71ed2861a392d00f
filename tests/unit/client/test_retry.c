/* client/retry.c: what is repeated, and when. */
#include "client/retry.h"

#include <check.h>
#include <stdlib.h>

START_TEST(a_refused_push_is_repeated)
{
    static const enum ps_status refusals[] = {PS_ERR_UNAVAILABLE, PS_ERR_BUSY, PS_ERR_NO_MEMORY,
                                              PS_ERR_NOT_OWNER, PS_ERR_STALE_EPOCH};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, refusals[i], true), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_push_that_broke_on_the_way_is_never_repeated)
{
    for (enum ps_status status = 1; status < PS_STATUS_COUNT; status++)
        ck_assert_int_ne(ps_retry_verdict(PS_METHOD_PUSH, status, false), PS_VERDICT_AGAIN);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_UNAVAILABLE, false),
                     PS_VERDICT_UNKNOWN);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_INTERNAL, false), PS_VERDICT_UNKNOWN);
}
END_TEST

START_TEST(a_push_before_initialisation_fails_at_once)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PUSH, PS_ERR_NOT_READY, true), PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_PULL, PS_ERR_NOT_READY, true), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(a_finish_whose_parameters_are_lost_fails_at_once)
{
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_FINISH, PS_ERR_STALE_EPOCH, true),
                     PS_VERDICT_FAILED);
    ck_assert_int_eq(ps_retry_verdict(PS_METHOD_INIT, PS_ERR_STALE_EPOCH, true), PS_VERDICT_AGAIN);
}
END_TEST

START_TEST(everything_but_a_push_is_repeated_when_it_broke)
{
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++) {
        if (method == PS_METHOD_PUSH)
            continue;
        ck_assert_int_eq(ps_retry_verdict(method, PS_ERR_UNAVAILABLE, false), PS_VERDICT_AGAIN);
        ck_assert_int_eq(ps_retry_verdict(method, PS_ERR_TIMEOUT, false), PS_VERDICT_AGAIN);
    }
}
END_TEST

START_TEST(wrong_requests_are_not_repeated)
{
    static const enum ps_status wrong[] = {PS_ERR_BAD_INPUT,    PS_ERR_NOT_FOUND,
                                           PS_ERR_OUT_OF_RANGE, PS_ERR_UNSUPPORTED,
                                           PS_ERR_DENIED,       PS_ERR_CORRUPT};
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++) {
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
            ck_assert_int_eq(ps_retry_verdict(method, wrong[i], true), PS_VERDICT_FAILED);
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

int main(void)
{
    Suite *suite = suite_create("retry");
    TCase *tests = tcase_create("retry");
    tcase_add_test(tests, a_refused_push_is_repeated);
    tcase_add_test(tests, a_push_that_broke_on_the_way_is_never_repeated);
    tcase_add_test(tests, a_push_before_initialisation_fails_at_once);
    tcase_add_test(tests, a_finish_whose_parameters_are_lost_fails_at_once);
    tcase_add_test(tests, everything_but_a_push_is_repeated_when_it_broke);
    tcase_add_test(tests, wrong_requests_are_not_repeated);
    tcase_add_test(tests, b7_already_initialized_is_success_for_init_and_finish_only);
    tcase_add_test(tests, pauses_double_up_to_the_longest_and_are_spread);
    tcase_add_test(tests, equal_seeds_pause_alike_and_others_do_not);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
