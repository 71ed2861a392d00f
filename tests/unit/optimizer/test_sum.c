/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a fixed shape. */
#include "optimizer/sum.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(the_total_of_a_sum_takes_the_open_group_in)
{
    struct ps_gradient_scan scan = {.square_sum = 10};
    for (int i = 0; i < PS_SUM_LANES; i++)
        scan.lanes[i] = 1;

    ck_assert_double_eq(ps_sum_total(&scan), 10 + PS_SUM_LANES);
    ck_assert_double_eq(scan.lanes[0], 1);
    ck_assert_double_eq(ps_sum_fold(scan.lanes), PS_SUM_LANES);
}
END_TEST

START_TEST(lanes_are_folded_in_halves)
{
    double lanes[PS_SUM_LANES] = {0};
    /* Lane 0 meets lane 128 first: only so do the large ones cancel before the small one comes. */
    lanes[0] = 1e20;
    lanes[128] = -1e20;
    lanes[64] = 1;

    ck_assert_double_eq(ps_sum_fold(lanes), 1);
}
END_TEST

START_TEST(the_order_of_lanes_matters)
{
    double lanes[PS_SUM_LANES] = {0};
    lanes[0] = 1e20;
    lanes[64] = -1e20;
    lanes[128] = 1;

    ck_assert_double_eq(ps_sum_fold(lanes), 0);
}
END_TEST

START_TEST(nothing_scanned_sums_to_0)
{
    const struct ps_gradient_scan scan = {0};

    ck_assert_double_eq(ps_sum_total(&scan), 0);
}
END_TEST

START_TEST(a_finished_group_goes_to_its_lane_one_level_up)
{
    struct ps_gradient_scan scan = {.count = 2 * PS_SUM_ELEMENTS};
    scan.lanes[7] = 3;

    ps_sum_close(&scan);

    ck_assert_double_eq(scan.groups[1], 3);
    ck_assert_double_eq(scan.lanes[7], 0);
    ck_assert_double_eq(scan.square_sum, 0);
    ck_assert_double_eq(ps_sum_total(&scan), 3);
}
END_TEST

START_TEST(an_open_group_stays_where_it_is)
{
    struct ps_gradient_scan scan = {.count = 2 * PS_SUM_ELEMENTS + 256};
    scan.lanes[7] = 3;

    ps_sum_close(&scan);

    ck_assert_double_eq(scan.lanes[7], 3);
    ck_assert_double_eq(ps_sum_total(&scan), 3);
}
END_TEST

START_TEST(as_many_groups_as_a_group_has_elements_go_into_the_sum)
{
    struct ps_gradient_scan scan = {.count = (uint64_t)PS_SUM_ELEMENTS * PS_SUM_ELEMENTS,
                                    .square_sum = 5};
    scan.groups[0] = 2;
    scan.lanes[0] = 1;

    ps_sum_close(&scan);

    ck_assert_double_eq(scan.square_sum, 8);
    ck_assert_double_eq(scan.groups[0], 0);
    ck_assert_double_eq(ps_sum_total(&scan), 8);
}
END_TEST

/* A part of elements that differ, over and over: 17 parts finish the upper sums once. */
START_TEST(parts_joined_sum_up_as_one_scan)
{
    enum { PARTS = 17, REST = 70001 };
    static float elements[PS_SCAN_PART_ELEMENTS];
    static struct ps_gradient_scan whole, joined;
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_SGD, .clip_norm = 1};
    for (size_t i = 0; i < PS_SCAN_PART_ELEMENTS; i++)
        elements[i] = (float)(i % 8191) * 1e-3F + 1e3F / (float)(i + 1);
    for (size_t i = 0; i <= PARTS; i++) {
        size_t count = i < PARTS ? PS_SCAN_PART_ELEMENTS : REST;
        struct ps_gradient_scan part = {0};
        ps_optimizer_scan(&settings, PS_F32, elements, count, &whole);
        ps_optimizer_scan(&settings, PS_F32, elements, count, &part);

        ps_optimizer_scan_join(&joined, &part);

        ck_assert_uint_eq(joined.count, whole.count);
        double expected = ps_sum_total(&whole);
        double total = ps_sum_total(&joined);
        ck_assert_mem_eq(&total, &expected, sizeof total);
    }
    ck_assert_mem_eq(joined.groups, whole.groups, sizeof whole.groups);
    ck_assert_mem_eq(joined.lanes, whole.lanes, sizeof whole.lanes);
    ck_assert_double_gt(joined.square_sum, 0);
}
END_TEST

START_TEST(what_a_part_found_is_counted_over_the_push)
{
    struct ps_gradient_scan scan = {.count = PS_SCAN_PART_ELEMENTS};
    const struct ps_gradient_scan first = {
        .count = PS_SCAN_PART_ELEMENTS, .nonfinite = true, .nonfinite_index = 5};
    const struct ps_gradient_scan second = {.count = 7, .nonfinite = true, .nonfinite_index = 1};

    ps_optimizer_scan_join(&scan, &first);
    ps_optimizer_scan_join(&scan, &second);

    ck_assert(scan.nonfinite);
    ck_assert_uint_eq(scan.nonfinite_index, PS_SCAN_PART_ELEMENTS + 5);
    ck_assert_uint_eq(scan.count, 2 * PS_SCAN_PART_ELEMENTS + 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sum");
    TCase *cases = tcase_create("sum");
    tcase_add_test(cases, the_total_of_a_sum_takes_the_open_group_in);
    tcase_add_test(cases, lanes_are_folded_in_halves);
    tcase_add_test(cases, the_order_of_lanes_matters);
    tcase_add_test(cases, nothing_scanned_sums_to_0);
    tcase_add_test(cases, a_finished_group_goes_to_its_lane_one_level_up);
    tcase_add_test(cases, an_open_group_stays_where_it_is);
    tcase_add_test(cases, as_many_groups_as_a_group_has_elements_go_into_the_sum);
    tcase_add_test(cases, parts_joined_sum_up_as_one_scan);
    tcase_add_test(cases, what_a_part_found_is_counted_over_the_push);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
