/* SPDX-License-Identifier: Apache-2.0 */
/* Our power against the C library's, which is a good one but not the same one everywhere. */
#include "optimizer/power.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void expect_power(double base, double exponent)
{
    double expected = pow(base, exponent);
    double allowed = 3e-16 * (2 + fabs(log2(expected))) * expected;
    ck_assert_double_eq_tol(ps_power(base, exponent), expected, allowed);
}

START_TEST(power_agrees_with_the_library)
{
    for (int i = 1; i < 3000; i++) {
        double base = 1e-3 * i * i;
        expect_power(base, sin(i) * 30);
        expect_power(1 / base, cos(i) * 30);
    }
}
END_TEST

START_TEST(power_is_exact_enough_next_to_1)
{
    for (double t = 1; t < 1e9; t *= 3) {
        expect_power(0.999, t < 1e5 ? t : 1e5);
        expect_power(0.9999999, t);
        expect_power(1 - 1e-15, t);
    }
    /* What Adam divides by at its first step. */
    ck_assert_double_eq_tol(1 - ps_power(0.999, 1), 1 - 0.999, 3e-16);
}
END_TEST

START_TEST(powers_of_2_are_exact)
{
    for (int i = -1000; i <= 1000; i++)
        ck_assert_double_eq(ps_power(2, i), ldexp(1, i));
}
END_TEST

START_TEST(the_edges_are_the_library_s)
{
    static const double bases[] = {0, 1, 0.5, 3, (double)INFINITY};
    static const double exponents[] = {-2, 0, 0.5, 1};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 4; j++) {
            double expected = pow(bases[i], exponents[j]);
            if (isinf(expected))
                ck_assert(isinf(ps_power(bases[i], exponents[j])));
            else
                ck_assert_double_eq_tol(ps_power(bases[i], exponents[j]), expected,
                                        1e-15 * expected + 1e-300);
        }
    }
    ck_assert_double_eq(ps_power(0.5, 1e300), 0);
    ck_assert(isinf(ps_power(0.5, -1e300)));
    ck_assert(isinf(ps_power(2, 1e300)));
}
END_TEST

/* Frozen: another result would make a replay on another machine differ. */
START_TEST(the_bits_are_these_everywhere)
{
    static const struct {
        double base;
        double exponent;
        double result;
    } known[] = {{0.999, 10, 0x1.fae7299c256e3p-1},
                 {0.9, 1000, 0x1.fee7413dac319p-153},
                 {101, -0.75, 0x1.0120b2d1546p-5}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double result = ps_power(known[i].base, known[i].exponent);
        ck_assert_msg(memcmp(&result, &known[i].result, sizeof result) == 0, "%a", result);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("power");
    TCase *cases = tcase_create("power");
    tcase_add_test(cases, power_agrees_with_the_library);
    tcase_add_test(cases, power_is_exact_enough_next_to_1);
    tcase_add_test(cases, powers_of_2_are_exact);
    tcase_add_test(cases, the_edges_are_the_library_s);
    tcase_add_test(cases, the_bits_are_these_everywhere);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
