/* Sums of a fixed shape. */
#include "optimizer/sum.h"

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

int main(void)
{
    Suite *suite = suite_create("sum");
    TCase *cases = tcase_create("sum");
    tcase_add_test(cases, the_total_of_a_sum_takes_the_open_group_in);
    tcase_add_test(cases, lanes_are_folded_in_halves);
    tcase_add_test(cases, the_order_of_lanes_matters);
    tcase_add_test(cases, nothing_scanned_sums_to_0);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
