/* SPDX-License-Identifier: Apache-2.0 */
/* client/ranges/ranges_early.c: ranges of a push that bring back what they make. */
#include "client/ranges/ranges_call.h"

#include "ranges_rig.h"
#include "run_suite.h"

#include <check.h>

static struct ranges_rig rig;

static void bring_all_but_one(uint64_t version)
{
    for (size_t i = 0; i < 9; i++)
        ranges_rig_early(&rig, version, true);
}

START_TEST(early_values_that_came_true_leave_nothing_to_pull)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PUSH_PULL);
    ck_assert(ranges_rig_oldest(&rig)->push_pull.pull.of_push);

    bring_all_but_one(3);
    ranges_rig_early(&rig, 3, false);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ck_assert_uint_eq(rig.ranges.outcome.reply.push_pull.push.version, 3);
    ck_assert_uint_eq(rig.ranges.outcome.reply.push_pull.pull.version, 3);
    ranges_rig_assert_pulled(&rig);
}
END_TEST

START_TEST(a_push_that_got_another_version_is_followed_by_a_pull)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);

    bring_all_but_one(3);
    struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PUSH_PULL};
    outcome.reply.push_pull.push.version = 4;
    ranges_rig_give(&rig, &outcome);

    ck_assert_uint_eq(rig.sent_count, 1);
    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PULL);
    while (rig.sent_count > 0)
        ranges_rig_pull(&rig, 4);
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ck_assert_uint_eq(rig.ranges.outcome.reply.push_pull.pull.version, 4);
    ranges_rig_assert_pulled(&rig);
}
END_TEST

START_TEST(one_range_that_brought_nothing_is_enough_for_a_pull)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    ranges_rig_stage(&rig);
    ck_assert_uint_eq(rig.sent_count, PS_RANGES_WINDOW);
    ck_assert_int_eq(rig.ranges.slots[rig.sent[3]].request.method, PS_METHOD_PUSH);

    while (ranges_rig_oldest(&rig)->method == PS_METHOD_PUSH_PULL)
        ranges_rig_early(&rig, 3, true);
    while (rig.sent_count > 1)
        ranges_rig_stage(&rig);
    ranges_rig_push(&rig, 3);

    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PULL);
}
END_TEST

START_TEST(a_push_that_was_done_without_its_pull_is_no_failure)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    bring_all_but_one(3);
    struct ps_call_outcome outcome = {.status = PS_ERR_NOT_FOUND, .pushed = true};
    outcome.reply.method = PS_METHOD_PUSH_PULL;
    outcome.reply.push_pull.push.version = 3;

    ranges_rig_give(&rig, &outcome);

    ck_assert(!rig.ranges.failed);
    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PULL);
}
END_TEST

START_TEST(a_server_that_knows_no_push_and_pull_in_one_gets_the_ranges_again)
{
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    const struct ps_call_outcome unknown = {
        .status = PS_ERR_UNSUPPORTED, .refused = true, .no_bundles = true};

    while (ranges_rig_oldest(&rig)->method == PS_METHOD_PUSH_PULL)
        ranges_rig_give(&rig, &unknown);

    ck_assert(!rig.ranges.failed);
    while (rig.ranges.rounds == 0)
        ranges_rig_stage(&rig);
    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PUSH);
}
END_TEST

START_TEST(nothing_early_is_asked_for_where_ranges_of_both_are_not_the_same_elements)
{
    rig.options.no_early_values = true;
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PUSH);

    rig = (struct ranges_rig){0};
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    rig.request.push_pull.pull.dtype = PS_I32;
    ps_ranges_begin(&rig.ranges, &rig.options, &rig.request);
    ck_assert(!rig.ranges.early.asks);
}
END_TEST

static void clear(void)
{
    rig = (struct ranges_rig){0};
}

int main(void)
{
    Suite *suite = suite_create("ranges_early");
    TCase *tests = tcase_create("ranges_early");
    tcase_add_checked_fixture(tests, clear, NULL);
    tcase_add_test(tests, early_values_that_came_true_leave_nothing_to_pull);
    tcase_add_test(tests, a_push_that_got_another_version_is_followed_by_a_pull);
    tcase_add_test(tests, one_range_that_brought_nothing_is_enough_for_a_pull);
    tcase_add_test(tests, a_push_that_was_done_without_its_pull_is_no_failure);
    tcase_add_test(tests, a_server_that_knows_no_push_and_pull_in_one_gets_the_ranges_again);
    tcase_add_test(tests,
                   nothing_early_is_asked_for_where_ranges_of_both_are_not_the_same_elements);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
