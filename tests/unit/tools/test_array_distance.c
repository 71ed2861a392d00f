/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/array_distance.c: bits decide, and the figure is of the numbers. */
#include "tools/psckpt/array_distance.h"

#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct array_distance of(const float a[4], const float b[4])
{
    const struct ps_bytes whole = {(const uint8_t *)a, 16};
    const struct ps_bytes cut[2] = {{(const uint8_t *)b, 4}, {(const uint8_t *)(b + 1), 12}};
    return array_distance_of(PS_F32, (struct ps_view){&whole, 1, 16}, (struct ps_view){cut, 2, 16});
}

START_TEST(equal_bits_do_not_differ_however_they_are_cut)
{
    const float a[4] = {1, NAN, 3, 4};
    ck_assert(!of(a, a).differs);
}
END_TEST

START_TEST(the_first_element_and_the_largest_difference_are_told)
{
    const float a[4] = {1, 2, 3, 4};
    const float b[4] = {1, 2, 3.5f, 8};
    struct array_distance distance = of(a, b);
    ck_assert(distance.differs);
    ck_assert_uint_eq(distance.first, 2);
    ck_assert(distance.largest == 4);
}
END_TEST

START_TEST(zeros_of_two_signs_differ_by_nothing)
{
    const float a[4] = {0};
    const float b[4] = {0, -0.0f};
    struct array_distance distance = of(a, b);
    ck_assert(distance.differs);
    ck_assert(distance.largest == 0);
}
END_TEST

START_TEST(the_distance_from_nan_stays)
{
    const float a[4] = {1, NAN, 3, 4};
    const float b[4] = {1, 2, 3, 5};
    ck_assert(isnan(of(a, b).largest));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("array_distance");
    TCase *tests = tcase_create("array_distance");
    tcase_add_test(tests, equal_bits_do_not_differ_however_they_are_cut);
    tcase_add_test(tests, the_first_element_and_the_largest_difference_are_told);
    tcase_add_test(tests, zeros_of_two_signs_differ_by_nothing);
    tcase_add_test(tests, the_distance_from_nan_stays);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
