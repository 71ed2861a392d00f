/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/repeats.c: several gradients of one key. */
#include "optimizer/repeats.h"

#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

static void repeat(enum ps_row_repeats repeats, enum ps_dtype dtype, void *joined, const void *next)
{
    char one[17], more[17];
    size_t size = 2 * ps_dtype_size(dtype);
    /* Neither is aligned. */
    memcpy(one + 1, joined, size);
    memcpy(more + 1, next, size);
    ps_row_repeat(repeats, dtype, 2, one + 1, more + 1);
    memcpy(joined, one + 1, size);
}

START_TEST(floats_are_added_whole_numbers_wrap)
{
    float floats[2] = {1.5F, -2};
    repeat(PS_ROW_SUM, PS_F32, floats, (float[]){2, 1});
    ck_assert_float_eq(floats[0], 3.5F);
    ck_assert_float_eq(floats[1], -1);
    int64_t wholes[2] = {INT64_MAX, 4};
    repeat(PS_ROW_SUM, PS_I64, wholes, (int64_t[]){1, -5});
    ck_assert_int_eq(wholes[0], INT64_MIN);
    ck_assert_int_eq(wholes[1], -1);
}
END_TEST

START_TEST(of_assignments_the_last_counts)
{
    uint32_t values[2] = {9, 9};
    repeat(PS_ROW_LAST, PS_U32, values, (uint32_t[]){1, 20});
    ck_assert_uint_eq(values[0], 1);
    ck_assert_uint_eq(values[1], 20);
}
END_TEST

START_TEST(the_greatest_and_the_least_leave_a_nan_alone)
{
    double values[2] = {9, 9};
    repeat(PS_ROW_GREATEST, PS_F64, values, (double[]){NAN, 20});
    ck_assert_double_eq(values[0], 9);
    ck_assert_double_eq(values[1], 20);
    repeat(PS_ROW_LEAST, PS_F64, values, (double[]){8, NAN});
    ck_assert_double_eq(values[0], 8);
    ck_assert_double_eq(values[1], 20);
}
END_TEST

START_TEST(of_most_rules_it_is_their_sum)
{
    ck_assert_int_eq(ps_row_repeats_of(PS_RULE_SGD), PS_ROW_SUM);
    ck_assert_int_eq(ps_row_repeats_of(PS_RULE_ADAM), PS_ROW_SUM);
    ck_assert_int_eq(ps_row_repeats_of(PS_RULE_ADD), PS_ROW_SUM);
    ck_assert_int_eq(ps_row_repeats_of(PS_RULE_ASSIGN), PS_ROW_LAST);
    ck_assert_int_eq(ps_row_repeats_of(PS_RULE_MAX), PS_ROW_GREATEST);
    ck_assert_int_eq(ps_row_repeats_of(PS_RULE_MIN), PS_ROW_LEAST);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("repeats");
    TCase *tests = tcase_create("repeats");
    tcase_add_test(tests, of_most_rules_it_is_their_sum);
    tcase_add_test(tests, floats_are_added_whole_numbers_wrap);
    tcase_add_test(tests, of_assignments_the_last_counts);
    tcase_add_test(tests, the_greatest_and_the_least_leave_a_nan_alone);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
