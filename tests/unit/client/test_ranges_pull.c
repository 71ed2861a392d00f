/* SPDX-License-Identifier: Apache-2.0 */
/* client/ranges/ranges_pull.c: a pull in ranges, all of one version. */
#include "client/ranges/ranges_call.h"

#include "ranges_rig.h"
#include "run_suite.h"

#include <check.h>

static struct ranges_rig rig;

START_TEST(the_first_range_says_which_version_the_others_ask_for)
{
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    ck_assert_uint_eq(rig.sent_count, 1);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.version, 0);

    ranges_rig_pull(&rig, 6);

    ck_assert_uint_eq(rig.sent_count, PS_RANGES_WINDOW);
    while (rig.sent_count > 0) {
        ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.version, 7);
        ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.life, 5);
        ranges_rig_pull(&rig, 6);
    }
    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.version, 6);
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.content.size, sizeof rig.destination);
    ck_assert_ptr_eq(rig.ranges.outcome.reply.pull.content.pieces[0].data, rig.destination);
    ranges_rig_assert_pulled(&rig);
}
END_TEST

START_TEST(further_ranges_leave_before_the_content_of_the_first_is_moved)
{
    enum ps_ranges_action action;
    uint32_t range;
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    struct ps_bytes piece = {(const uint8_t *)rig.came, sizeof(float) * RIG_RANGE};
    struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PULL};
    outcome.reply.pull = (struct ps_pull_reply){.dtype = PS_F32,
                                                .range = {0, RIG_RANGE},
                                                .total = RIG_COUNT,
                                                .content = ps_view_of(&piece)};

    ck_assert(ps_ranges_took(&rig.ranges, rig.sent[0], &outcome));

    for (size_t i = 0; i < PS_RANGES_WINDOW - 1; i++)
        ck_assert(ps_ranges_next(&rig.ranges, &action, &range));
    ck_assert(rig.destination[0] == 0);
    ps_ranges_keep(&rig.ranges, rig.sent[0], &outcome.reply);
    ck_assert(rig.destination[RIG_RANGE - 1] == RIG_RANGE);
    ck_assert(ps_ranges_next(&rig.ranges, &action, &range)); /* in the place that it had */
}
END_TEST

START_TEST(a_version_that_has_gone_is_given_up_for_the_present_one)
{
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    ranges_rig_pull(&rig, 6);

    ranges_rig_fail(&rig, PS_ERR_CONFLICT, true);
    while (rig.sent_count > 1)
        ranges_rig_pull(&rig, 6);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.version, 7);
    ranges_rig_pull(&rig, 6);

    ck_assert_uint_eq(rig.sent_count, 1);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.version, 0);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.range.first, 0);
    while (rig.sent_count > 0)
        ranges_rig_pull(&rig, 9);
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.version, 9);
    ranges_rig_assert_pulled(&rig);
}
END_TEST

START_TEST(after_three_versions_that_went_it_comes_in_one_message)
{
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    for (uint64_t i = 0; i < PS_RANGES_VERSIONS_MAX; i++) {
        ranges_rig_pull(&rig, i);
        while (rig.sent_count > 0 && ranges_rig_oldest(&rig)->pull.version != 0)
            ranges_rig_fail(&rig, PS_ERR_CONFLICT, true);
    }

    ck_assert_uint_eq(rig.sent_count, 1);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.range.count, 0);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.size_wish, sizeof rig.destination);
    ranges_rig_pull(&rig, 40);
    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.version, 40);
    ck_assert_ptr_eq(rig.ranges.outcome.reply.pull.content.pieces[0].data, rig.came);
}
END_TEST

START_TEST(a_range_of_another_version_or_other_elements_fails_the_call)
{
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    ranges_rig_pull(&rig, 6);

    ranges_rig_pull(&rig, 8);

    while (rig.sent_count > 0)
        ranges_rig_fail(&rig, PS_ERR_CANCELLED, false);
    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_ERR_INTERNAL);
}
END_TEST

START_TEST(a_reply_of_the_whole_from_a_server_that_knows_no_ranges_is_the_calls)
{
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    struct ps_bytes piece = {(const uint8_t *)rig.came, sizeof rig.came};
    struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PULL};
    outcome.reply.pull =
        (struct ps_pull_reply){.dtype = PS_F32, .version = 3, .content = ps_view_of(&piece)};

    ranges_rig_give(&rig, &outcome);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.content.size, sizeof rig.came);
}
END_TEST

START_TEST(a_parameter_of_another_length_is_told_by_its_size)
{
    ranges_rig_begin(&rig, PS_METHOD_PULL);
    struct ps_bytes piece = {(const uint8_t *)rig.came, sizeof(float) * RIG_RANGE};
    struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PULL};
    outcome.reply.pull = (struct ps_pull_reply){.dtype = PS_F32,
                                                .range = {0, RIG_RANGE},
                                                .total = RIG_COUNT / 2,
                                                .content = ps_view_of(&piece)};

    ranges_rig_give(&rig, &outcome);

    ck_assert(ps_ranges_is_over(&rig.ranges));
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.content.size, sizeof rig.came / 2);
    ck_assert_uint_eq(rig.ranges.outcome.reply.pull.content.piece_count, 0);
}
END_TEST

static void clear(void)
{
    rig = (struct ranges_rig){0};
}

int main(void)
{
    Suite *suite = suite_create("ranges_pull");
    TCase *tests = tcase_create("ranges_pull");
    tcase_add_checked_fixture(tests, clear, NULL);
    tcase_add_test(tests, the_first_range_says_which_version_the_others_ask_for);
    tcase_add_test(tests, further_ranges_leave_before_the_content_of_the_first_is_moved);
    tcase_add_test(tests, a_version_that_has_gone_is_given_up_for_the_present_one);
    tcase_add_test(tests, after_three_versions_that_went_it_comes_in_one_message);
    tcase_add_test(tests, a_range_of_another_version_or_other_elements_fails_the_call);
    tcase_add_test(tests, a_reply_of_the_whole_from_a_server_that_knows_no_ranges_is_the_calls);
    tcase_add_test(tests, a_parameter_of_another_length_is_told_by_its_size);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
