/* SPDX-License-Identifier: Apache-2.0 */
/* What psbench found out: one row per thing measured, one figure per repeat, medians at the end.
 *
 * A ratio is taken within a repeat, from two things measured one after the other, and only then
 * over the repeats: a machine's speed drifts, the quotient much less.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none; more rows, series or repeats than there is room for abort.
 * Memory:   in place; names of rows are copied, those of series borrowed and outlive the report.
 */
#ifndef PS_TOOLS_PSBENCH_ROWS_H
#define PS_TOOLS_PSBENCH_ROWS_H

#include "base/status.h"
#include "tools/psbench/psbench_times.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_BENCH_REPEATS_MAX 100
#define PS_BENCH_ROWS_MAX 64
#define PS_BENCH_SERIES_MAX 16
#define PS_BENCH_ROW_NAME_BYTES 48

/* What is compared with runs at least so often, however short its time: one is chance. */
#define PS_BENCH_REFERENCE_COUNT_MIN 3

/* One figure over the repeats. */
struct ps_bench_series {
    const char *name;
    uint32_t count;
    double values[PS_BENCH_REPEATS_MAX];
};

struct ps_bench_row {
    char name[PS_BENCH_ROW_NAME_BYTES];
    uint64_t bytes; /* of one operation */
    uint64_t outstanding;
    struct ps_bench_series per_second, p50_us, p99_us;
    struct ps_bench_series ratios[PS_BENCH_SERIES_MAX]; /* to other things of the same repeat */
    size_t ratio_count;
    struct ps_bench_series details[PS_BENCH_SERIES_MAX]; /* figures that only this row has */
    size_t detail_count;
    char unsupported[256]; /* why there are no figures; empty: there are */
    char reference[32];    /* which way of writing "disk" was; empty: not compared with it */
};

struct ps_bench_report {
    struct ps_bench_row rows[PS_BENCH_ROWS_MAX];
    size_t row_count;
};

/* One repeat of one thing. */
struct ps_bench_figures {
    double per_second;
    double p50_us, p99_us, longest_us; /* 0: single operations were not timed */
};

/* `count` operations within `elapsed_ns`, whose times are in `times` (NULL: not known). */
struct ps_bench_figures ps_bench_figures_of(uint64_t count, uint64_t elapsed_ns,
                                            const struct ps_bench_times *times);

/* Does `once` again and again for `time_ms`, at least PS_BENCH_REFERENCE_COUNT_MIN times, and
 * counts. The first failure ends it. */
PS_MUST_USE enum ps_status
ps_bench_repeat(enum ps_status (*once)(void *context, uint64_t number, struct ps_error *error),
                void *context, uint64_t time_ms, struct ps_bench_figures *figures,
                struct ps_error *error);

/* The row with that name, bytes and number in flight; a new one when there is none. */
struct ps_bench_row *ps_bench_report_row(struct ps_bench_report *report, const char *name,
                                         uint64_t bytes, uint64_t outstanding);

/* Each adds the figures of one more repeat. */
void ps_bench_row_add(struct ps_bench_row *row, const struct ps_bench_figures *figures);
void ps_bench_row_ratio(struct ps_bench_row *row, const char *name, double value);
void ps_bench_row_detail(struct ps_bench_row *row, const char *name, double value);

/* Adds `figures` to the row `name` of the same bytes, and to `row` the ratio of its last repeat to
 * them, under the name `ratio`. */
void ps_bench_report_beside(struct ps_bench_report *report, struct ps_bench_row *row,
                            const char *name, const char *ratio, uint64_t outstanding,
                            const struct ps_bench_figures *figures);

/* The middle value; NaN when there are none. */
double ps_bench_series_median(const struct ps_bench_series *series);

/* NaN when there are none. */
double ps_bench_series_lowest(const struct ps_bench_series *series);
double ps_bench_series_highest(const struct ps_bench_series *series);

/* (largest - smallest) / median; 0 for fewer than two. */
double ps_bench_series_spread(const struct ps_bench_series *series);

/* bytes * operations per second, in 10^9 bytes. NaN when there are no figures. */
double ps_bench_row_gigabytes(const struct ps_bench_row *row);

#endif
