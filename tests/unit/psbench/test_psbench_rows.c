/* tools/psbench: psbench_rows.c, psbench_values.c, psbench_options.c: what is printed was
 * measured. */
#include "run_suite.h"
#include "tools/psbench/psbench_options.h"
#include "tools/psbench/psbench_rows.h"
#include "tools/psbench/psbench_values.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct ps_bench_row *row, double per_second)
{
    const struct ps_bench_figures figures = {.per_second = per_second};
    ps_bench_row_add(row, &figures);
}

/* `line` is cut into words at its spaces. */
static enum ps_status parse(struct ps_bench_options *options, const char *line)
{
    static char text[256];
    char *words[16] = {"psbench"};
    int count = 1;
    (void)snprintf(text, sizeof text, "%s", line);
    for (char *word = text; *word != '\0';) {
        words[count++] = word;
        word += strcspn(word, " ");
        if (*word == ' ')
            *word++ = '\0';
    }
    return ps_bench_options_init(options, count, words, NULL);
}

START_TEST(a_median_does_not_care_for_one_bad_repeat)
{
    struct ps_bench_report *report = calloc(1, sizeof *report);
    struct ps_bench_row *row = ps_bench_report_row(report, "push", 1000, 1);
    add(row, 10);
    add(row, 1);
    add(row, 11);

    ck_assert_double_eq(ps_bench_series_median(&row->per_second), 10);
    ck_assert_double_eq(ps_bench_series_spread(&row->per_second), 1);
    ck_assert_double_eq(ps_bench_row_gigabytes(row), 1e-5);
    free(report);
}
END_TEST

START_TEST(the_median_of_two_is_between_them)
{
    struct ps_bench_series series = {.count = 2, .values = {4, 2}};

    ck_assert_double_eq(ps_bench_series_median(&series), 3);
}
END_TEST

START_TEST(a_row_without_figures_has_none)
{
    struct ps_bench_report *report = calloc(1, sizeof *report);
    struct ps_bench_row *row = ps_bench_report_row(report, "push", 1000, 1);

    ck_assert(isnan(ps_bench_series_median(&row->per_second)));
    ck_assert(isnan(ps_bench_row_gigabytes(row)));
    ck_assert_double_eq(ps_bench_series_spread(&row->per_second), 0);
    free(report);
}
END_TEST

START_TEST(a_ratio_is_taken_within_its_repeat)
{
    struct ps_bench_report *report = calloc(1, sizeof *report);
    const struct ps_bench_figures slow = {.per_second = 20}, fast = {.per_second = 80};
    struct ps_bench_row *row = ps_bench_report_row(report, "push", 1000, 1);
    add(row, 10);
    ps_bench_report_beside(report, row, "raw", "raw_tcp", 1, &slow);
    add(row, 40);
    ps_bench_report_beside(report, row, "raw", "raw_tcp", 1, &fast);

    ck_assert_uint_eq(row->ratios[0].count, 2);
    ck_assert_double_eq(ps_bench_series_median(&row->ratios[0]), 0.5);
    ck_assert_double_eq(ps_bench_series_spread(&row->ratios[0]), 0);
    ck_assert_uint_eq(report->row_count, 2);
    free(report);
}
END_TEST

START_TEST(rows_of_other_sizes_are_other_rows)
{
    struct ps_bench_report *report = calloc(1, sizeof *report);
    struct ps_bench_row *row = ps_bench_report_row(report, "push", 1000, 1);

    ck_assert_ptr_eq(ps_bench_report_row(report, "push", 1000, 1), row);
    ck_assert_ptr_ne(ps_bench_report_row(report, "push", 1001, 1), row);
    ck_assert_ptr_ne(ps_bench_report_row(report, "push", 1000, 2), row);
    ck_assert_ptr_ne(ps_bench_report_row(report, "pull", 1000, 1), row);
    free(report);
}
END_TEST

/* As a server applies them: one after the other, in float32. */
static void push(float *values, const float *gradient, size_t count, uint64_t times)
{
    for (uint64_t turn = 0; turn < times; turn++) {
        for (size_t i = 0; i < count; i++)
            values[i] -= (float)PS_BENCH_LEARNING_RATE * gradient[i];
    }
}

START_TEST(every_update_made_exactly_once_is_right)
{
    float values[100], gradient[100];
    ps_bench_fill_start(values, 100);
    ps_bench_fill_gradient(gradient, 100);

    push(values, gradient, 100, 1000);

    ck_assert_uint_eq(ps_bench_count_wrong(values, 100, 1000), 0);
}
END_TEST

START_TEST(an_update_lost_or_made_twice_shows_in_every_value)
{
    float values[100], gradient[100];
    ps_bench_fill_start(values, 100);
    ps_bench_fill_gradient(gradient, 100);

    push(values, gradient, 100, 1000);

    ck_assert_uint_eq(ps_bench_count_wrong(values, 100, 999), 100);
    ck_assert_uint_eq(ps_bench_count_wrong(values, 100, 1001), 100);
}
END_TEST

START_TEST(one_wrong_value_is_found)
{
    float values[100];
    ps_bench_fill_start(values, 100);
    values[57] += 0.5f;

    ck_assert_uint_eq(ps_bench_count_wrong(values, 100, 0), 1);
}
END_TEST

START_TEST(the_last_push_that_is_allowed_is_still_exact)
{
    float values[100], gradient[100];
    ps_bench_fill_start(values, 100);
    ps_bench_fill_gradient(gradient, 100);
    for (size_t i = 0; i < 100; i++)
        values[i] -= (float)PS_BENCH_LEARNING_RATE * gradient[i] * (PS_BENCH_PUSHES_MAX - 1);

    push(values, gradient, 100, 1);

    ck_assert_uint_eq(ps_bench_count_wrong(values, 100, PS_BENCH_PUSHES_MAX), 0);
}
END_TEST

START_TEST(defaults_follow_the_benchmark)
{
    struct ps_bench_options options;
    ck_assert_int_eq(parse(&options, "latency"), PS_OK);
    ck_assert_uint_eq(options.size, 4096);
    ck_assert_uint_eq(options.outstanding, 1);

    ck_assert_int_eq(parse(&options, "journal --output json"), PS_OK);

    ck_assert_uint_eq(options.size, 1 << 20);
    ck_assert_uint_eq(options.outstanding, 8);
    ck_assert(options.json && !options.csv);
}
END_TEST

static const char *const wrong_lines[] = {
    "",
    "dance",
    "pus",
    "push pull",
    "push --size 3",
    "push --size 2GiB",
    "push --outstanding 257",
    "push --repeat 0",
    "push --repeat 101",
    "push --time 0",
    "push --via pigeon",
    "push --busy-poll often",
    "update --servers 127.0.0.1:1",
    "journal --servers 127.0.0.1:1",
    "scale --etcd http://127.0.0.1:1",
    "push --servers 127.0.0.1:1 --via channel",
    "push --servers 127.0.0.1:1 --namespace reno",
    "checkpoint --shard-size 4KiB",
    "scale --num-pservers 17",
    "scale --workers 0",
};

START_TEST(a_wrong_line_is_refused)
{
    struct ps_bench_options options;

    ck_assert_int_eq(parse(&options, wrong_lines[_i]), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psbench_rows");
    TCase *tests = tcase_create("rows");
    tcase_add_test(tests, a_median_does_not_care_for_one_bad_repeat);
    tcase_add_test(tests, the_median_of_two_is_between_them);
    tcase_add_test(tests, a_row_without_figures_has_none);
    tcase_add_test(tests, a_ratio_is_taken_within_its_repeat);
    tcase_add_test(tests, rows_of_other_sizes_are_other_rows);
    tcase_add_test(tests, every_update_made_exactly_once_is_right);
    tcase_add_test(tests, an_update_lost_or_made_twice_shows_in_every_value);
    tcase_add_test(tests, one_wrong_value_is_found);
    tcase_add_test(tests, the_last_push_that_is_allowed_is_still_exact);
    tcase_add_test(tests, defaults_follow_the_benchmark);
    tcase_add_loop_test(tests, a_wrong_line_is_refused, 0,
                        (int)(sizeof wrong_lines / sizeof wrong_lines[0]));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
