/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, series, medians. Medians, because a machine that does something else for a moment spoils
 * one repeat and not the others. Ratios are formed within a repeat, between two measurements that
 * follow each other, and only then reduced to a median: the quotient of two medians would compare
 * different moments. */
#include "tools/psbench/psbench_rows.h"

#include "base/assert.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void series_add(struct ps_bench_series *series, double value);
static struct ps_bench_series *find_series(struct ps_bench_series *all, size_t *count,
                                           const char *name);
static int compare_reals(const void *left, const void *right);
static void sorted(const struct ps_bench_series *series, double values[PS_BENCH_REPEATS_MAX]);

/* Percentiles come from the histogram; without one they are 0, which means "not timed". */
struct ps_bench_figures ps_bench_figures_of(uint64_t count, uint64_t elapsed_ns,
                                            const struct ps_bench_times *times)
{
    struct ps_bench_figures figures = {0};
    if (elapsed_ns > 0)
        figures.per_second = (double)count * 1e9 / (double)elapsed_ns;
    if (times == NULL)
        return figures;
    figures.p50_us = ps_bench_times_percentile_us(times, 0.5);
    figures.p99_us = ps_bench_times_percentile_us(times, 0.99);
    figures.longest_us = (double)times->longest_ns / 1e3;
    return figures;
}

/* The count has a lower bound, so that a large size within a short time is not judged by a single
 * run. The time ends with the last run that was begun. */
enum ps_status ps_bench_repeat(enum ps_status (*once)(void *context, uint64_t number,
                                                      struct ps_error *error),
                               void *context, uint64_t time_ms, struct ps_bench_figures *figures,
                               struct ps_error *error)
{
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t until_ns = started_ns + time_ms * 1000000;
    uint64_t now_ns = started_ns;
    uint64_t count = 0;
    while (now_ns < until_ns || count < PS_BENCH_REFERENCE_COUNT_MIN) {
        count++;
        PS_TRY(once(context, count, error));
        now_ns = ps_clock_precise_ns();
    }
    *figures = ps_bench_figures_of(count, now_ns - started_ns, NULL);
    return PS_OK;
}

/* A row is found by everything that identifies it, so benchmarks need not keep pointers from repeat
 * to repeat. The report has a fixed number of rows: more would be a mistake in a benchmark. */
struct ps_bench_row *ps_bench_report_row(struct ps_bench_report *report, const char *name,
                                         uint64_t bytes, uint64_t outstanding)
{
    for (size_t i = 0; i < report->row_count; i++) {
        struct ps_bench_row *row = &report->rows[i];
        if (strcmp(row->name, name) == 0 && row->bytes == bytes && row->outstanding == outstanding)
            return row;
    }
    PS_ASSERT(report->row_count < PS_BENCH_ROWS_MAX);
    PS_ASSERT(strlen(name) < PS_BENCH_ROW_NAME_BYTES);
    struct ps_bench_row *row = &report->rows[report->row_count++];
    *row = (struct ps_bench_row){.bytes = bytes, .outstanding = outstanding};
    /* Copied, since benchmarks compose names. */
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

/* Percentiles are added together or not at all: their medians must be over the same repeats. A row
 * may have rates without percentiles, and never the other way round. */
void ps_bench_row_add(struct ps_bench_row *row, const struct ps_bench_figures *figures)
{
    series_add(&row->per_second, figures->per_second);
    if (figures->p50_us > 0) {
        series_add(&row->p50_us, figures->p50_us);
        series_add(&row->p99_us, figures->p99_us);
    }
}

/* One ratio a repeat and name. */
void ps_bench_row_ratio(struct ps_bench_row *row, const char *name, double value)
{
    series_add(find_series(row->ratios, &row->ratio_count, name), value);
}

/* Details have no meaning in common; their names say what they are and in what unit. */
void ps_bench_row_detail(struct ps_bench_row *row, const char *name, double value)
{
    series_add(find_series(row->details, &row->detail_count, name), value);
}

/* The row's own figure of this repeat must have been added before. Above 1 the row was faster than
 * what it is compared with. */
void ps_bench_report_beside(struct ps_bench_report *report, struct ps_bench_row *row,
                            const char *name, const char *ratio, uint64_t outstanding,
                            const struct ps_bench_figures *figures)
{
    PS_ASSERT(row->per_second.count > 0);
    ps_bench_row_add(ps_bench_report_row(report, name, row->bytes, outstanding), figures);
    if (figures->per_second > 0)
        ps_bench_row_ratio(row, ratio,
                           row->per_second.values[row->per_second.count - 1] / figures->per_second);
}

/* A name is one series; more names than there is room for are a mistake in a benchmark, not in its
 * use. */
static struct ps_bench_series *find_series(struct ps_bench_series *all, size_t *count,
                                           const char *name)
{
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    }
    PS_ASSERT(*count < PS_BENCH_SERIES_MAX);
    struct ps_bench_series *series = &all[(*count)++];
    series->name = name;
    return series;
}

/* The options allow no more repeats than there is room for. Values are kept, not summed up: a
 * median needs all of them. */
static void series_add(struct ps_bench_series *series, double value)
{
    PS_ASSERT(series->count < PS_BENCH_REPEATS_MAX);
    series->values[series->count++] = value;
}

/* With an even number the two in the middle are averaged. None at all is NaN, which every form of
 * output knows. */
double ps_bench_series_median(const struct ps_bench_series *series)
{
    if (series->count == 0)
        return NAN;
    double values[PS_BENCH_REPEATS_MAX];
    sorted(series, values);
    size_t middle = series->count / 2;
    if (series->count % 2 == 1)
        return values[middle];
    return (values[middle - 1] + values[middle]) / 2;
}

/* fmin and fmax pass over NaN, so the first value replaces it. */
double ps_bench_series_lowest(const struct ps_bench_series *series)
{
    double lowest = NAN;
    for (uint32_t i = 0; i < series->count; i++)
        lowest = fmin(lowest, series->values[i]);
    return lowest;
}

/* A rate that was reached once; what can be relied on is the median. */
double ps_bench_series_highest(const struct ps_bench_series *series)
{
    double highest = NAN;
    for (uint32_t i = 0; i < series->count; i++)
        highest = fmax(highest, series->values[i]);
    return highest;
}

/* The whole range, not a deviation: with five repeats it is the more honest figure, and it shows a
 * single outlier. */
double ps_bench_series_spread(const struct ps_bench_series *series)
{
    if (series->count < 2)
        return 0;
    double range = ps_bench_series_highest(series) - ps_bench_series_lowest(series);
    double median = ps_bench_series_median(series);
    return median > 0 ? range / median : 0;
}

/* 10^9 bytes, as networks and disks count. */
double ps_bench_row_gigabytes(const struct ps_bench_row *row)
{
    return ps_bench_series_median(&row->per_second) * (double)row->bytes / 1e9;
}

/* A copy: series keep the order of the repeats. Sorting a copy each time is cheap: there are at
 * most a hundred values, and it happens after the run. */
static void sorted(const struct ps_bench_series *series, double values[PS_BENCH_REPEATS_MAX])
{
    memcpy(values, series->values, series->count * sizeof values[0]);
    qsort(values, series->count, sizeof values[0], compare_reals);
}

/* No NaN is ever added to a series. */
static int compare_reals(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}
