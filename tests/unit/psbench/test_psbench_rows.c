/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psbench: psbench_rows.c, psbench_values.c, psbench_options.c, psbench_promise.c,
 * psbench_disk_best.c, psbench_page.c: what is printed was measured. */
#include "run_suite.h"
#include "tools/psbench/psbench_disk_best.h"
#include "tools/psbench/psbench_options.h"
#include "tools/psbench/psbench_page.h"
#include "tools/psbench/psbench_promise.h"
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
    "push --repeat 101",
    "push --time 11m",
    "push --pause",
    "push --quick",
    "push --output docs",
    "report --size 4KiB",
    "report --ack logged",
    "report --plot a.svg",
    "report --transport auto",
    "report --servers 127.0.0.1:1",
    "journal --ack often",
    "push --via pigeon",
    "push --busy-poll often",
    "update --servers 127.0.0.1:1",
    "journal --servers 127.0.0.1:1",
    "scale --etcd http://127.0.0.1:1",
    "push --servers 127.0.0.1:1 --via channel",
    "push --servers 127.0.0.1:1 --namespace reno",
    "checkpoint --shard-size 4KiB",
    "scale --num-pservers 17",
    "scale --workers 257",
};

START_TEST(durations_and_repeats_follow_the_benchmark)
{
    struct ps_bench_options options;
    ck_assert_int_eq(parse(&options, "journal"), PS_OK);
    ck_assert_uint_eq(options.repeat, 7);
    ck_assert_uint_eq(options.time_ms, 1000);

    ck_assert_int_eq(parse(&options, "journal --pause"), PS_OK);

    ck_assert_uint_eq(options.repeat, 1);
    ck_assert_uint_eq(options.time_ms, 10000);
}
END_TEST

START_TEST(a_report_goes_to_a_folder_and_a_quick_one_is_short)
{
    struct ps_bench_options options;
    ck_assert_int_eq(parse(&options, "report"), PS_OK);
    ck_assert_str_eq(options.output, "docs");
    ck_assert_uint_eq(options.repeat, 3);
    ck_assert_uint_eq(options.time_ms, 500);

    ck_assert_int_eq(parse(&options, "report --quick --output json"), PS_OK);

    ck_assert_str_eq(options.output, "json");
    ck_assert(!options.json);
    ck_assert_uint_eq(options.repeat, 1);
    ck_assert_uint_eq(options.time_ms, 20);
}
END_TEST

/* Results of which each section has one row of its own and the rows of the first table. */
static void fill_result(struct ps_bench_section_result *result)
{
    static const char *const names[] = {"pushpull_memory", "pushpull_logged", "batch_logged",
                                        "push_logged"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct ps_bench_row *row = ps_bench_report_row(&result->report, names[i], 1 << 20, 1);
        add(row, 1000);
        add(row, 3000);
        ps_bench_row_ratio(row, "disk", 0.25);
    }
    ps_bench_row_detail(ps_bench_report_row(&result->report, "batch_logged", 1 << 20, 1),
                        "parameters", 1000);
    struct ps_bench_row *none = ps_bench_report_row(&result->report, "disk_direct", 4096, 1);
    (void)snprintf(none->unsupported, sizeof none->unsupported, "not here");
}

START_TEST(a_page_has_what_was_measured_and_says_what_was_not)
{
    struct ps_bench_options options;
    ck_assert_int_eq(parse(&options, "report --quick"), PS_OK);
    struct ps_bench *bench = calloc(1, sizeof *bench);
    bench->options = &options;
    bench->machine.commit = "abc";
    bench->machine.load = 9;
    struct ps_bench_section_result *results = calloc(PS_BENCH_SECTION_COUNT, sizeof *results);
    for (int i = 0; i < PS_BENCH_SECTION_COUNT; i++)
        fill_result(&results[i]);
    struct ps_buffer page;
    ps_buffer_init(&page, ps_allocator_heap(), 1 << 20);

    ps_bench_page_append(&page, bench, results);

    ck_assert_int_eq(ps_buffer_status(&page, NULL), PS_OK);
    ck_assert_ptr_nonnull(strstr(page.text, "| 1 MiB | one worker, push and pull | MEMORY | 2000 "
                                            "| 2.1 | - | 0.25 of the disk |"));
    ck_assert_ptr_nonnull(strstr(page.text, "| 1000 MiB, 1,000 parameters |"));
    ck_assert_ptr_nonnull(strstr(page.text, "| disk: direct writes | 4 KiB | not here | - |"));
    ck_assert_ptr_nonnull(strstr(page.text, "the figures mean nothing"));
    ck_assert_ptr_nonnull(strstr(page.text, "did other work as well"));
    ck_assert_ptr_null(strstr(page.text, "nan"));
    ps_buffer_fini(&page);
    free(results);
    free(bench);
}
END_TEST

START_TEST(both_promises_are_measured_unless_one_is_named)
{
    struct ps_bench_options options;
    ck_assert_int_eq(parse(&options, "push"), PS_OK);
    struct ps_bench_promises both = ps_bench_promises_of(&options);
    ck_assert_uint_eq(both.count, 2);
    ck_assert_int_eq(both.list[0], PS_BENCH_MEMORY);
    ck_assert_int_eq(both.list[1], PS_BENCH_LOGGED);

    ck_assert_int_eq(parse(&options, "push --ack logged"), PS_OK);
    struct ps_bench_promises logged = ps_bench_promises_of(&options);
    ck_assert_int_eq(parse(&options, "push --servers 127.0.0.1:1"), PS_OK);
    struct ps_bench_promises given = ps_bench_promises_of(&options);

    ck_assert_uint_eq(logged.count, 1);
    ck_assert_int_eq(logged.list[0], PS_BENCH_LOGGED);
    ck_assert_uint_eq(given.count, 1);
    ck_assert_int_eq(given.list[0], PS_BENCH_AS_GIVEN);
}
END_TEST

START_TEST(a_row_names_the_promise_that_its_pushes_had)
{
    struct ps_bench *bench = calloc(1, sizeof *bench);

    ck_assert_str_eq(ps_bench_promised_row(bench, "push", PS_BENCH_MEMORY, 8, 1)->name,
                     "push_memory");
    ck_assert_str_eq(ps_bench_promised_row(bench, "push", PS_BENCH_LOGGED, 8, 1)->name,
                     "push_logged");
    ck_assert_str_eq(ps_bench_promised_row(bench, "push", PS_BENCH_AS_GIVEN, 8, 1)->name, "push");
    ck_assert_ptr_null(ps_bench_promise_ack(PS_BENCH_MEMORY));
    ck_assert_str_eq(ps_bench_promise_ack(PS_BENCH_LOGGED), "logged");
    free(bench);
}
END_TEST

START_TEST(lowest_and_highest_are_those_of_the_repeats)
{
    struct ps_bench_series series = {.count = 3, .values = {4, 2, 3}}, none = {0};

    ck_assert_double_eq(ps_bench_series_lowest(&series), 2);
    ck_assert_double_eq(ps_bench_series_highest(&series), 4);
    ck_assert(isnan(ps_bench_series_lowest(&none)) && isnan(ps_bench_series_highest(&none)));
}
END_TEST

/* Figures of a disk that writes `direct` and `append` bytes a second in pieces of 4 MiB. */
static void add_disk(struct ps_bench_report *report, double direct, double append)
{
    const uint64_t bytes = 4 << 20;
    add(ps_bench_report_row(report, "disk_direct", bytes, 1), direct / (double)bytes);
    add(ps_bench_report_row(report, "disk_append", bytes, 1), append / (double)bytes);
}

START_TEST(a_row_says_which_way_of_writing_it_is_held_against)
{
    struct ps_bench *bench = calloc(1, sizeof *bench);
    const struct ps_bench_disk_best best = {.bytes_per_second = 2e9};
    const struct ps_bench_figures memory = {.per_second = 4000};
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, "push_logged", 1000000, 8);
    add(row, 1000);
    add_disk(&bench->report, 2e9, 1e9);

    ps_bench_logged_compare(bench, row, &memory, &best, 1000000);

    ck_assert_str_eq(row->reference, "direct 4 MiB");
    ck_assert_uint_eq(row->ratio_count, 3);
    ck_assert_double_eq(ps_bench_series_median(&row->ratios[0]), 0.5);  /* disk */
    ck_assert_double_eq(ps_bench_series_median(&row->ratios[1]), 0.25); /* memory */
    ck_assert_double_eq(ps_bench_series_median(&row->ratios[2]), 0.5);  /* the slower of both */
    add_disk(&bench->report, 1e8, 9e9);
    add_disk(&bench->report, 1e8, 9e9);
    ps_bench_disk_name(bench, row, &best);
    ck_assert_str_eq(row->reference, "buffered 4 MiB");
    free(bench);
}
END_TEST

START_TEST(the_cost_of_a_promise_stands_beside_one_bare_write)
{
    struct ps_bench_row *row = calloc(1, sizeof *row);
    const struct ps_bench_disk_best tmpfs = {.append_p50_us = 50};
    const struct ps_bench_disk_best disk = {.direct_p50_us = 100, .append_p50_us = 200};

    ps_bench_logged_cost(row, 30, 130, &tmpfs);
    ck_assert_uint_eq(row->ratio_count, 1);

    ps_bench_logged_cost(row, 30, 180, &disk);

    ck_assert_uint_eq(row->ratio_count, 2);
    ck_assert_double_eq(row->ratios[0].values[0], 2);
    ck_assert_double_eq(row->ratios[0].values[1], 0.75);
    ck_assert_double_eq(row->ratios[1].values[0], 1.5);
    free(row);
}
END_TEST

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
    tcase_add_test(tests, durations_and_repeats_follow_the_benchmark);
    tcase_add_test(tests, a_report_goes_to_a_folder_and_a_quick_one_is_short);
    tcase_add_test(tests, a_page_has_what_was_measured_and_says_what_was_not);
    tcase_add_test(tests, both_promises_are_measured_unless_one_is_named);
    tcase_add_test(tests, a_row_names_the_promise_that_its_pushes_had);
    tcase_add_test(tests, lowest_and_highest_are_those_of_the_repeats);
    tcase_add_test(tests, a_row_says_which_way_of_writing_it_is_held_against);
    tcase_add_test(tests, the_cost_of_a_promise_stands_beside_one_bare_write);
    tcase_add_loop_test(tests, a_wrong_line_is_refused, 0,
                        (int)(sizeof wrong_lines / sizeof wrong_lines[0]));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
