/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/weighted_sum.c: the formula in the type, bit for bit. */
#include "optimizer/weighted_sum.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

START_TEST(a_weight_of_one_changes_no_bit_and_a_zero_keeps_its_sign)
{
    static const float gradient[3] = {-0.0F, 0.1F, -INFINITY};
    float sum[3] = {7, 7, 7};

    ps_weighted_sum_first(PS_F32, sum, gradient, 3, 1);

    ck_assert_mem_eq(sum, gradient, sizeof sum);
}
END_TEST

START_TEST(products_are_rounded_before_they_are_added)
{
    /* Fused, the product would keep the bit that makes the difference. */
    const double third = 1.0 / 3;
    const double gradient = third;
    volatile double product = 3 * third;
    double sum = -1;

    ps_weighted_sum_add(PS_F64, &sum, &gradient, 1, 3);

    ck_assert_double_eq(sum, -1 + product);
    float single = 1e8F;
    const float small = 1;
    ps_weighted_sum_add(PS_F32, &single, &small, 1, 1);
    ck_assert_float_eq(single, 1e8F);
}
END_TEST

START_TEST(an_average_is_divided_in_the_type)
{
    float sum[2] = {1, 7};
    double real = 1;

    ps_weighted_sum_divide(PS_F32, sum, 2, 3);
    ps_weighted_sum_divide(PS_F64, &real, 1, 3);

    ck_assert_float_eq(sum[0], 1.0F / 3.0F);
    ck_assert_float_eq(sum[1], 7.0F / 3.0F);
    ck_assert_double_eq(real, 1.0 / 3);
}
END_TEST

START_TEST(weights_are_summed_in_the_type)
{
    ck_assert_double_eq(ps_weighted_sum_weigh(PS_F32, 16777216, 1), 16777216);
    ck_assert_double_eq(ps_weighted_sum_weigh(PS_F64, 16777216, 1), 16777217);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weighted_sum");
    TCase *tests = tcase_create("weighted_sum");
    tcase_add_test(tests, a_weight_of_one_changes_no_bit_and_a_zero_keeps_its_sign);
    tcase_add_test(tests, products_are_rounded_before_they_are_added);
    tcase_add_test(tests, an_average_is_divided_in_the_type);
    tcase_add_test(tests, weights_are_summed_in_the_type);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
