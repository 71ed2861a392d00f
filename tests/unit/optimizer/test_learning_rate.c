/* SPDX-License-Identifier: Apache-2.0 */
/* The learning-rate policies, each against its formula. */
#include "optimizer/settings.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct ps_learning_rate schedule(enum ps_schedule kind, double a, double b)
{
    return (struct ps_learning_rate){.schedule = kind, .rate = 0.5, .a = a, .b = b};
}

static void expect_rate(const struct ps_learning_rate *rate, uint64_t step, double expected)
{
    ck_assert_double_eq_tol(ps_learning_rate_at(rate, step), expected,
                            1e-14 * fabs(expected) + 1e-300);
}

START_TEST(constant_stays)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_CONSTANT, 3, 4);

    expect_rate(&rate, 1, 0.5);
    expect_rate(&rate, UINT64_MAX, 0.5);
}
END_TEST

START_TEST(linear_falls_to_its_floor)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_LINEAR, 0.1, 0.05);

    expect_rate(&rate, 1, 0.5 - 0.1);
    expect_rate(&rate, 3, 0.5 - 0.1 * 3);
    expect_rate(&rate, 5, 0.05);
    expect_rate(&rate, UINT64_MAX, 0.05);
}
END_TEST

START_TEST(b33_poly_falls_as_a_power)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_POLY, 0.1, 0.75);

    expect_rate(&rate, 1, 0.5 * pow(1.1, -0.75));
    expect_rate(&rate, 1000, 0.5 * pow(101, -0.75));
    rate.b = 0;
    expect_rate(&rate, 1000, 0.5);
}
END_TEST

START_TEST(b33_poly_stays_finite_for_ever)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_POLY, 1e308, 1);

    ck_assert_double_eq(ps_learning_rate_at(&rate, UINT64_MAX), 0);
}
END_TEST

START_TEST(caffe_poly_ends_at_0)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_CAFFE_POLY, 10, 2);

    expect_rate(&rate, 1, 0.5 * 0.81);
    expect_rate(&rate, 9, 0.5 * 0.01);
    expect_rate(&rate, 10, 0);
    expect_rate(&rate, 11, 0);
}
END_TEST

START_TEST(exp_falls_by_a_every_b)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_EXP, 0.5, 10);

    expect_rate(&rate, 10, 0.25);
    expect_rate(&rate, 15, 0.5 * pow(0.5, 1.5));
    ck_assert_double_eq(ps_learning_rate_at(&rate, UINT64_MAX), 0);
}
END_TEST

START_TEST(discexp_falls_in_stairs)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_DISCEXP, 0.5, 10);

    expect_rate(&rate, 9, 0.5);
    expect_rate(&rate, 10, 0.25);
    expect_rate(&rate, 19, 0.25);
    expect_rate(&rate, 20, 0.125);
}
END_TEST

static struct ps_learning_rate manual(enum ps_schedule kind)
{
    struct ps_learning_rate rate = schedule(kind, 0, 0);
    rate.segments[0] = (struct ps_schedule_segment){2, 1};
    rate.segments[1] = (struct ps_schedule_segment){5, 0.1};
    rate.segments[2] = (struct ps_schedule_segment){9, 0.01};
    rate.segment_count = 3;
    return rate;
}

START_TEST(manual_takes_the_first_segment_that_has_not_ended)
{
    struct ps_learning_rate rate = manual(PS_SCHEDULE_MANUAL);

    expect_rate(&rate, 1, 0.5);
    expect_rate(&rate, 2, 0.5);
    expect_rate(&rate, 3, 0.05);
    expect_rate(&rate, 5, 0.05);
    expect_rate(&rate, 6, 0.005);
    expect_rate(&rate, 1000, 0.005);
}
END_TEST

START_TEST(pass_manual_counts_passes_from_0)
{
    struct ps_learning_rate rate = manual(PS_SCHEDULE_PASS_MANUAL);
    rate.steps_per_pass = 100;

    expect_rate(&rate, 1, 0.5);
    expect_rate(&rate, 300, 0.5);
    expect_rate(&rate, 301, 0.05);
    expect_rate(&rate, 600, 0.05);
    expect_rate(&rate, 601, 0.005);
}
END_TEST

START_TEST(pass_manual_without_a_length_counts_every_step)
{
    struct ps_learning_rate rate = manual(PS_SCHEDULE_PASS_MANUAL);

    expect_rate(&rate, 3, 0.5);
    expect_rate(&rate, 4, 0.05);
}
END_TEST

START_TEST(schedules_count_samples)
{
    struct ps_learning_rate rate = schedule(PS_SCHEDULE_LINEAR, 0.001, 0);
    rate.samples_per_step = 32;

    expect_rate(&rate, 2, 0.5 - 0.001 * 64);
}
END_TEST

START_TEST(a_count_of_samples_beyond_64_bits_stops_at_the_end)
{
    struct ps_learning_rate rate = manual(PS_SCHEDULE_MANUAL);
    rate.samples_per_step = UINT64_MAX / 2;

    expect_rate(&rate, 3, 0.005);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("learning_rate");
    TCase *cases = tcase_create("learning_rate");
    tcase_add_test(cases, constant_stays);
    tcase_add_test(cases, linear_falls_to_its_floor);
    tcase_add_test(cases, b33_poly_falls_as_a_power);
    tcase_add_test(cases, b33_poly_stays_finite_for_ever);
    tcase_add_test(cases, caffe_poly_ends_at_0);
    tcase_add_test(cases, exp_falls_by_a_every_b);
    tcase_add_test(cases, discexp_falls_in_stairs);
    tcase_add_test(cases, manual_takes_the_first_segment_that_has_not_ended);
    tcase_add_test(cases, pass_manual_counts_passes_from_0);
    tcase_add_test(cases, pass_manual_without_a_length_counts_every_step);
    tcase_add_test(cases, schedules_count_samples);
    tcase_add_test(cases, a_count_of_samples_beyond_64_bits_stops_at_the_end);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
