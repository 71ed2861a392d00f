/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/budget.c: memory is counted before the device hears of it. */
#include "optimizer/device/budget.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(what_fits_is_reserved_and_comes_back)
{
    struct ps_budget budget = {.limit = 1000};

    ck_assert_int_eq(ps_budget_reserve(&budget, 600, NULL), PS_OK);
    ck_assert_int_eq(ps_budget_reserve(&budget, 400, NULL), PS_OK);
    ps_budget_release(&budget, 600);

    ck_assert_uint_eq(atomic_load(&budget.used), 400);
    ck_assert_uint_eq(atomic_load(&budget.used_max), 1000);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_the_numbers)
{
    struct ps_budget budget = {.limit = 1000};
    struct ps_error error = {0};
    ck_assert_int_eq(ps_budget_reserve(&budget, 700, NULL), PS_OK);

    ck_assert_int_eq(ps_budget_reserve(&budget, 301, &error), PS_ERR_BUSY);

    ck_assert_str_eq(error.text, "device memory: 301 bytes needed, 300 free, budget 1000");
    ck_assert_uint_eq(atomic_load(&budget.used), 700);
}
END_TEST

START_TEST(a_size_near_the_end_of_the_numbers_does_not_wrap)
{
    struct ps_budget budget = {.limit = 1000};
    ck_assert_int_eq(ps_budget_reserve(&budget, 1, NULL), PS_OK);
    ck_assert_int_eq(ps_budget_reserve(&budget, UINT64_MAX, NULL), PS_ERR_BUSY);
    ck_assert_uint_eq(atomic_load(&budget.used), 1);
}
END_TEST

START_TEST(without_a_wish_a_twentieth_or_a_gibibyte_stays_free)
{
    const uint64_t gib = UINT64_C(1) << 30;
    ck_assert_uint_eq(ps_budget_default(80 * gib), 76 * gib);
    ck_assert_uint_eq(ps_budget_default(8 * gib), 7 * gib);
    ck_assert_uint_eq(ps_budget_default(gib / 2), 0);
}
END_TEST

START_TEST(arrays_are_whole_lines_and_never_nothing)
{
    ck_assert_uint_eq(ps_budget_array_bytes(0, 4), PS_DEVICE_ALIGNMENT);
    ck_assert_uint_eq(ps_budget_array_bytes(64, 4), 256);
    ck_assert_uint_eq(ps_budget_array_bytes(65, 4), 512);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budget");
    TCase *budget = tcase_create("budget");
    tcase_add_test(budget, what_fits_is_reserved_and_comes_back);
    tcase_add_test(budget, what_does_not_fit_is_refused_with_the_numbers);
    tcase_add_test(budget, a_size_near_the_end_of_the_numbers_does_not_wrap);
    tcase_add_test(budget, without_a_wish_a_twentieth_or_a_gibibyte_stays_free);
    tcase_add_test(budget, arrays_are_whole_lines_and_never_nothing);
    suite_add_tcase(suite, budget);
    return run_suite(suite);
}
