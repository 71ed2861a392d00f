/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/first_values.c: the same for the same key, in the range that was asked for. */
#include "optimizer/first_values.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#define WIDTH 1000

static float values[WIDTH];
static float others[WIDTH];

static struct ps_table_settings settings_of(enum ps_table_init init, double low, double high)
{
    return (struct ps_table_settings){
        .width = WIDTH, .init = init, .low = low, .high = high, .seed = 3};
}

START_TEST(zero_and_constant_are_what_they_say)
{
    struct ps_table_settings settings = settings_of(PS_TABLE_ZERO, 5, 6);
    ps_first_values(&settings, PS_F32, 7, WIDTH, values);
    settings.init = PS_TABLE_CONSTANT;
    ps_first_values(&settings, PS_F32, 7, WIDTH, others);
    for (int i = 0; i < WIDTH; i++) {
        ck_assert_float_eq(values[i], 0);
        ck_assert_float_eq(others[i], 5);
    }
}
END_TEST

START_TEST(uniform_values_are_in_their_range_and_differ_by_key_and_seed)
{
    struct ps_table_settings settings = settings_of(PS_TABLE_UNIFORM, -2, 3);
    double sum = 0;
    ps_first_values(&settings, PS_F32, 7, WIDTH, values);
    for (int i = 0; i < WIDTH; i++) {
        ck_assert(values[i] >= -2 && values[i] <= 3);
        sum += values[i];
    }
    ck_assert_double_eq_tol(sum / WIDTH, 0.5, 0.2);
    ps_first_values(&settings, PS_F32, 8, WIDTH, others);
    ck_assert_mem_ne(values, others, sizeof values);
    ps_first_values(&settings, PS_F32, 7, WIDTH, others);
    ck_assert_mem_eq(values, others, sizeof values);
    settings.seed = 4;
    ps_first_values(&settings, PS_F32, 7, WIDTH, others);
    ck_assert_mem_ne(values, others, sizeof values);
}
END_TEST

START_TEST(normal_values_have_mean_and_deviation)
{
    struct ps_table_settings settings = settings_of(PS_TABLE_NORMAL, 10, 2);
    double sum = 0;
    double squares = 0;
    ps_first_values(&settings, PS_F32, 7, WIDTH, values);
    for (int i = 0; i < WIDTH; i++) {
        sum += values[i];
        squares += (values[i] - 10) * (values[i] - 10);
    }
    ck_assert_double_eq_tol(sum / WIDTH, 10, 0.3);
    ck_assert_double_eq_tol(squares / WIDTH, 4, 0.8);
}
END_TEST

START_TEST(a_shorter_row_begins_alike)
{
    struct ps_table_settings settings = settings_of(PS_TABLE_NORMAL, 10, 2);
    ps_first_values(&settings, PS_F32, 7, WIDTH, values);
    for (size_t width = 0; width < 9; width++) {
        memset(others, 0, sizeof others);
        ps_first_values(&settings, PS_F32, 7, width, others);
        ck_assert_int_eq(memcmp(values, others, width * sizeof *values), 0);
        ck_assert_float_eq(others[width], 0);
    }
}
END_TEST

/* Part of what a checkpoint and its journal promise: never to change. */
START_TEST(the_bits_are_those_of_always)
{
    struct ps_table_settings settings = settings_of(PS_TABLE_UNIFORM, -1, 1);
    double doubles[5];
    ps_first_values(&settings, PS_F64, 0x123456789ABCDEFu, 5, doubles);
    static const double uniform[] = {-0x1.beaf5534p-2, -0x1.564a5466p-1, 0x1.97e0806p-5,
                                     0x1.e570e9acp-2, 0x1.ee0d55dap-1};
    ck_assert_mem_eq(doubles, uniform, sizeof doubles);
    settings.init = PS_TABLE_NORMAL;
    ps_first_values(&settings, PS_F64, 0x123456789ABCDEFu, 5, doubles);
    static const double normal[] = {-0x1.494e89cdp+1, -0x1.e46ce16ap-1, -0x1.47692781p+0,
                                    -0x1.16df3ac8p+1, -0x1.247bd2acp-1};
    ck_assert_mem_eq(doubles, normal, sizeof doubles);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("first_values");
    TCase *tests = tcase_create("first_values");
    tcase_add_test(tests, zero_and_constant_are_what_they_say);
    tcase_add_test(tests, uniform_values_are_in_their_range_and_differ_by_key_and_seed);
    tcase_add_test(tests, normal_values_have_mean_and_deviation);
    tcase_add_test(tests, a_shorter_row_begins_alike);
    tcase_add_test(tests, the_bits_are_those_of_always);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
