/* SPDX-License-Identifier: Apache-2.0 */
/* base/random.c: numbers that repeat, and others that do not. */
#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

START_TEST(sequence_is_that_of_splitmix64)
{
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    struct ps_random random;
    ps_random_init(&random, 1234567);

    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(ps_random_next(&random), expected[i]);
}
END_TEST

START_TEST(equal_seeds_give_equal_sequences)
{
    struct ps_random a;
    struct ps_random b;
    ps_random_init(&a, 9);
    ps_random_init(&b, 9);

    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(ps_random_next(&a), ps_random_next(&b));
}
END_TEST

START_TEST(below_reaches_every_value_and_no_other)
{
    struct ps_random random;
    int counts[7] = {0};
    ps_random_init(&random, 1);

    for (int i = 0; i < 7000; i++) {
        uint64_t value = ps_random_below(&random, 7);
        ck_assert_uint_lt(value, 7);
        counts[value]++;
    }

    for (int i = 0; i < 7; i++)
        ck_assert_int_gt(counts[i], 800);
}
END_TEST

START_TEST(below_one_is_nothing_and_below_all_is_anything)
{
    struct ps_random random;
    ps_random_init(&random, 1);

    ck_assert_uint_eq(ps_random_below(&random, 1), 0);
    ck_assert_uint_lt(ps_random_below(&random, UINT64_MAX), UINT64_MAX);
}
END_TEST

START_TEST(below_nothing_is_a_bug)
{
    struct ps_random random = {0};
    (void)ps_random_below(&random, 0);
}
END_TEST

START_TEST(unit_lies_between_nothing_and_one)
{
    struct ps_random random;
    double sum = 0;
    ps_random_init(&random, 3);

    for (int i = 0; i < 1000; i++) {
        double value = ps_random_unit(&random);
        ck_assert_double_ge(value, 0);
        ck_assert_double_lt(value, 1);
        sum += value;
    }

    ck_assert_double_eq_tol(sum / 1000, 0.5, 0.05);
}
END_TEST

START_TEST(system_fills_every_byte)
{
    uint8_t bytes[1000] = {0};
    int zeroes = 0;

    ps_random_system(bytes, sizeof bytes);
    ps_random_system(bytes, 0);

    for (size_t i = 0; i < sizeof bytes; i++)
        zeroes += bytes[i] == 0;
    ck_assert_int_lt(zeroes, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_add_test(tests, sequence_is_that_of_splitmix64);
    tcase_add_test(tests, equal_seeds_give_equal_sequences);
    tcase_add_test(tests, below_reaches_every_value_and_no_other);
    tcase_add_test(tests, below_one_is_nothing_and_below_all_is_anything);
    tcase_add_test_raise_signal(tests, below_nothing_is_a_bug, SIGABRT);
    tcase_add_test(tests, unit_lies_between_nothing_and_one);
    tcase_add_test(tests, system_fills_every_byte);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
