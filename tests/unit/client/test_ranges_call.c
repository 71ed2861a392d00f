/* SPDX-License-Identifier: Apache-2.0 */
/* client/ranges/ranges_call.c: a push or an initialisation in ranges, and the end of the whole. */
#include "client/ranges/ranges_call.h"

#include "ranges_rig.h"
#include "run_suite.h"

#include <check.h>

static struct ranges_rig rig;

START_TEST(a_window_of_ranges_is_out_and_each_answer_makes_room_for_the_next)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);
    ck_assert_uint_eq(rig.sent_count, PS_RANGES_WINDOW);

    for (uint64_t i = 0; i < 6; i++) {
        const struct ps_push_request *push = &ranges_rig_oldest(&rig)->push;
        ck_assert_uint_eq(push->range.first, i * RIG_RANGE);
        ck_assert_uint_eq(push->range.count, RIG_RANGE);
        ck_assert_ptr_eq(push->content.pieces[0].data, &rig.gradient[i * RIG_RANGE]);
        ck_assert(push->request.present);
        ranges_rig_stage(&rig);
        ck_assert_uint_eq(rig.sent_count, PS_RANGES_WINDOW);
    }
    ranges_rig_stage(&rig);
    ck_assert_uint_eq(rig.sent_count, PS_RANGES_WINDOW - 1);
    ck_assert(!ps_ranges_is_over(&rig.ranges));
}
END_TEST

START_TEST(the_answer_that_is_not_staged_is_that_of_the_whole)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);

    for (size_t i = 0; i < 8; i++)
        ranges_rig_stage(&rig);
    ranges_rig_push(&rig, 7); /* the last range may be answered before the one before it */
    ck_assert(!ps_ranges_is_over(&rig.ranges));
    ranges_rig_stage(&rig);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ck_assert_uint_eq(rig.ranges.outcome.reply.push.version, 7);
    ck_assert(!rig.ranges.was_overtaken);
}
END_TEST

START_TEST(an_initialisation_says_with_each_range_how_long_the_whole_is)
{
    ranges_rig_begin(&rig, PS_METHOD_INIT);

    for (size_t i = 0; i < 10; i++) {
        ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_INIT);
        ck_assert_uint_eq(ranges_rig_oldest(&rig)->init.total, RIG_COUNT);
        ck_assert_uint_eq(ranges_rig_oldest(&rig)->init.range.first, i * RIG_RANGE);
        if (i < 9)
            ranges_rig_stage(&rig);
    }
    ranges_rig_push(&rig, 0);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
}
END_TEST

START_TEST(ranges_that_the_server_let_go_of_leave_again_three_times_in_all)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);

    for (size_t round = 0; round < PS_RANGES_ROUNDS_MAX; round++) {
        ck_assert_uint_eq(rig.ranges.rounds, round);
        for (size_t i = 0; i < 10; i++)
            ranges_rig_stage(&rig);
    }

    ck_assert(rig.ranges.was_overtaken);
    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_ERR_UNAVAILABLE);
    ck_assert(!rig.ranges.outcome.refused);
}
END_TEST

START_TEST(the_first_failure_is_the_calls_and_cancels_what_is_out)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);

    ranges_rig_fail(&rig, PS_ERR_BAD_INPUT, true);

    ck_assert_uint_eq(rig.cancelled_count, PS_RANGES_WINDOW - 1);
    ck_assert(!ps_ranges_is_over(&rig.ranges));
    while (rig.sent_count > 0)
        ranges_rig_fail(&rig, PS_ERR_UNAVAILABLE, true);
    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_ERR_BAD_INPUT);
    ck_assert(rig.ranges.outcome.refused);
}
END_TEST

START_TEST(a_call_is_refused_only_if_every_failure_was_a_refusal)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);

    ranges_rig_fail(&rig, PS_ERR_BAD_INPUT, true);
    ranges_rig_fail(&rig, PS_ERR_UNAVAILABLE, false);
    while (rig.sent_count > 0)
        ranges_rig_fail(&rig, PS_ERR_UNAVAILABLE, true);

    ck_assert(!rig.ranges.outcome.refused);
}
END_TEST

START_TEST(a_call_whose_push_was_done_is_never_refused)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);

    for (size_t i = 0; i < 8; i++)
        ranges_rig_stage(&rig);
    ranges_rig_push(&rig, 7);
    ranges_rig_fail(&rig, PS_ERR_NOT_OWNER, true);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_ERR_NOT_OWNER);
    ck_assert(!rig.ranges.outcome.refused);
}
END_TEST

START_TEST(a_call_that_is_stopped_cancels_its_ranges_and_sends_no_more)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);
    enum ps_ranges_action action;
    uint32_t range;

    ps_ranges_stop(&rig.ranges);

    for (size_t i = 0; i < PS_RANGES_WINDOW; i++) {
        ck_assert(ps_ranges_next(&rig.ranges, &action, &range));
        ck_assert_int_eq(action, PS_RANGES_CANCEL);
    }
    ck_assert(!ps_ranges_next(&rig.ranges, &action, &range));
    while (rig.sent_count > 0)
        ranges_rig_stage(&rig);
    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_ERR_UNAVAILABLE);
    ck_assert(!rig.ranges.outcome.refused);
}
END_TEST

START_TEST(a_call_that_was_done_before_the_stop_came_through_is_done)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH);
    for (size_t i = 0; i < 9; i++)
        ranges_rig_stage(&rig);

    ps_ranges_stop(&rig.ranges);
    ranges_rig_push(&rig, 4);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
}
END_TEST

START_TEST(content_that_may_go_in_ranges_is_that_of_pushes_inits_and_pulls)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    struct ps_call_request pull = {.method = PS_METHOD_PULL};
    pull.pull = rig.request.push_pull.pull;

    ck_assert_uint_eq(ps_ranges_bytes(&rig.request), sizeof rig.gradient);
    ck_assert_uint_eq(ps_ranges_bytes(&pull), sizeof rig.destination);
    pull.pull.destination = NULL; /* of any type: nobody knows how many elements there are */
    ck_assert_uint_eq(ps_ranges_bytes(&pull), 0);
    ck_assert_uint_eq(ps_ranges_bytes(&(struct ps_call_request){.method = PS_METHOD_STATUS}), 0);
}
END_TEST

/* Before each: a rig that has seen nothing. */
static void clear(void)
{
    rig = (struct ranges_rig){0};
}

int main(void)
{
    Suite *suite = suite_create("ranges_call");
    TCase *tests = tcase_create("ranges_call");
    tcase_add_checked_fixture(tests, clear, NULL);
    tcase_add_test(tests, a_window_of_ranges_is_out_and_each_answer_makes_room_for_the_next);
    tcase_add_test(tests, the_answer_that_is_not_staged_is_that_of_the_whole);
    tcase_add_test(tests, an_initialisation_says_with_each_range_how_long_the_whole_is);
    tcase_add_test(tests, ranges_that_the_server_let_go_of_leave_again_three_times_in_all);
    tcase_add_test(tests, the_first_failure_is_the_calls_and_cancels_what_is_out);
    tcase_add_test(tests, a_call_is_refused_only_if_every_failure_was_a_refusal);
    tcase_add_test(tests, a_call_whose_push_was_done_is_never_refused);
    tcase_add_test(tests, a_call_that_is_stopped_cancels_its_ranges_and_sends_no_more);
    tcase_add_test(tests, a_call_that_was_done_before_the_stop_came_through_is_done);
    tcase_add_test(tests, content_that_may_go_in_ranges_is_that_of_pushes_inits_and_pulls);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
