/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psbench/psbench_times.c: percentiles without keeping every time. */
#include "run_suite.h"
#include "tools/psbench/psbench_times.h"

#include <check.h>
#include <stdlib.h>

static struct ps_bench_times *empty(void)
{
    struct ps_bench_times *times = calloc(1, sizeof *times);
    ck_assert_ptr_nonnull(times);
    return times;
}

START_TEST(no_times_have_no_percentile)
{
    struct ps_bench_times *times = empty();

    ck_assert_double_eq(ps_bench_times_percentile_us(times, 0.5), 0);
    free(times);
}
END_TEST

START_TEST(percentiles_are_exact_to_half_a_percent)
{
    struct ps_bench_times *times = empty();
    for (uint64_t i = 1; i <= 100000; i++)
        ps_bench_times_note(times, i * 1000);

    ck_assert_double_eq_tol(ps_bench_times_percentile_us(times, 0.5), 50000, 250);
    ck_assert_double_eq_tol(ps_bench_times_percentile_us(times, 0.99), 99000, 495);
    ck_assert_uint_eq(times->longest_ns, 100000000);
    free(times);
}
END_TEST

START_TEST(one_time_is_every_percentile)
{
    struct ps_bench_times *times = empty();
    ps_bench_times_note(times, 123456);

    ck_assert_double_eq_tol(ps_bench_times_percentile_us(times, 0), 123.456, 0.5);
    ck_assert_double_eq_tol(ps_bench_times_percentile_us(times, 1), 123.456, 0.5);
    free(times);
}
END_TEST

START_TEST(any_time_has_a_bucket)
{
    struct ps_bench_times *times = empty();
    for (int power = 0; power < 64; power++)
        ps_bench_times_note(times, (uint64_t)1 << power);
    ps_bench_times_note(times, 0);
    ps_bench_times_note(times, UINT64_MAX);

    ck_assert_uint_eq(times->count, 66);
    ck_assert_uint_eq(times->longest_ns, UINT64_MAX);
    free(times);
}
END_TEST

START_TEST(times_of_several_threads_add_up)
{
    struct ps_bench_times *all = empty(), *more = empty();
    ps_bench_times_note(all, 1000);
    ps_bench_times_note(more, 3000000);

    ps_bench_times_add(all, more);

    ck_assert_uint_eq(all->count, 2);
    ck_assert_uint_eq(all->longest_ns, 3000000);
    ck_assert_double_eq_tol(ps_bench_times_percentile_us(all, 0.5), 1, 0.01);
    free(all);
    free(more);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psbench_times");
    TCase *tests = tcase_create("times");
    tcase_add_test(tests, no_times_have_no_percentile);
    tcase_add_test(tests, percentiles_are_exact_to_half_a_percent);
    tcase_add_test(tests, one_time_is_every_percentile);
    tcase_add_test(tests, any_time_has_a_bucket);
    tcase_add_test(tests, times_of_several_threads_add_up);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
