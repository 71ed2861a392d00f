/* SPDX-License-Identifier: Apache-2.0 */
/* Small, middle and large writes by both ways. A journal decides by itself how it writes; what it
 * is held against is whatever the disk does fastest, in the same run and the same folder. The rate
 * of a disk moves by half from run to run, so only quotients of one repeat are kept. */
#include "tools/psbench/psbench_disk_best.h"

#include "base/assert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The file for direct writes is as large as several segments of a journal, so that a cache in the
 * disk does not hold all of it. A run that is over before needs less. */
#define FILE_BYTES_MAX ((uint64_t)256 << 20)
#define FILE_BYTES_PER_MS ((uint64_t)1 << 20)
/* The first size whose rate counts: smaller writes are about how long a single one takes. */
#define RATE_BYTES_MIN ((uint64_t)1 << 20)

/* The two ways, as their rows are called; one row for each size. */
static const char direct_row[] = "disk_direct";
static const char append_row[] = "disk_append";

static enum ps_status open_disk(struct ps_bench *bench, struct ps_error *error);
static enum ps_status measure_size(struct ps_bench *bench, size_t size,
                                   struct ps_bench_disk_best *best, struct ps_error *error);
static void keep(struct ps_bench *bench, const char *name, size_t size,
                 const struct ps_bench_figures *figures, struct ps_bench_disk_best *best);

/* Always all of them, whatever the size of what is held against them: a journal joins small records
 * and cuts large ones, so the size of a push says nothing about that of a write. */
enum ps_status ps_bench_disk_measure(struct ps_bench *bench, struct ps_bench_disk_best *best,
                                     struct ps_error *error)
{
    static const size_t sizes[] = {PS_BENCH_SMALL_BYTES, (size_t)64 << 10, (size_t)1 << 20,
                                   (size_t)4 << 20, PS_BENCH_DISK_WRITE_MAX};
    *best = (struct ps_bench_disk_best){0};
    if (bench->disk.folder == NULL)
        PS_TRY(open_disk(bench, error));
    ps_bench_progress_name(bench, "disk");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        PS_TRY(measure_size(bench, sizes[i], best, error));
    PS_ASSERT(best->bytes_per_second > 0);
    return PS_OK;
}

/* Opened when first needed, since most benchmarks ask nothing of the disk. */
static enum ps_status open_disk(struct ps_bench *bench, struct ps_error *error)
{
    uint64_t bytes = FILE_BYTES_MAX;
    if (bench->options->time_ms < FILE_BYTES_MAX / FILE_BYTES_PER_MS)
        bytes = bench->options->time_ms * FILE_BYTES_PER_MS;
    return ps_bench_disk_open(&bench->disk, bench->folder, bytes, error);
}

/* Ten measurements in each repeat get half of a reference's time each. */
static enum ps_status measure_size(struct ps_bench *bench, size_t size,
                                   struct ps_bench_disk_best *best, struct ps_error *error)
{
    struct ps_bench_figures figures;
    uint64_t time_ms = ps_bench_reference_ms(bench) / 2 + 1;
    if (bench->disk.file >= 0) {
        PS_TRY(ps_bench_disk_direct(&bench->disk, size, time_ms, &figures, error));
        keep(bench, direct_row, size, &figures, best);
        if (size == PS_BENCH_SMALL_BYTES)
            best->direct_p50_us = figures.p50_us;
    } else {
        /* The row stands there without figures, so that nobody takes the other way for the only
         * one. */
        struct ps_bench_row *row = ps_bench_report_row(&bench->report, direct_row, size, 1);
        (void)snprintf(row->unsupported, sizeof row->unsupported, "%s", bench->disk.why_not);
    }
    PS_TRY(ps_bench_disk_append(&bench->disk, size, time_ms, &figures, error));
    keep(bench, append_row, size, &figures, best);
    if (size == PS_BENCH_SMALL_BYTES)
        best->append_p50_us = figures.p50_us;
    return PS_OK;
}

/* The row gets the figures of every size; only the rates of large writes can be the best. */
static void keep(struct ps_bench *bench, const char *name, size_t size,
                 const struct ps_bench_figures *figures, struct ps_bench_disk_best *best)
{
    double rate = figures->per_second * (double)size;
    ps_bench_row_add(ps_bench_report_row(&bench->report, name, size, 1), figures);
    if (size >= RATE_BYTES_MIN && rate > best->bytes_per_second)
        best->bytes_per_second = rate;
}

/* The row must have its figure of this repeat. */
void ps_bench_disk_compare(struct ps_bench *bench, struct ps_bench_row *row,
                           const struct ps_bench_disk_best *best, uint64_t bytes)
{
    PS_ASSERT(row->per_second.count > 0);
    double rate = row->per_second.values[row->per_second.count - 1] * (double)bytes;
    ps_bench_row_ratio(row, "disk", rate / best->bytes_per_second);
    ps_bench_disk_name(bench, row, best);
}

/* In one repeat one way may be ahead and in the next another; named is the one with the best
 * median, of all repeats so far. */
void ps_bench_disk_name(struct ps_bench *bench, struct ps_bench_row *row,
                        const struct ps_bench_disk_best *now)
{
    const struct ps_bench_report *report = &bench->report;
    const struct ps_bench_row *best = NULL;
    for (size_t i = 0; i < report->row_count; i++) {
        const struct ps_bench_row *other = &report->rows[i];
        bool direct = strcmp(other->name, direct_row) == 0;
        if ((!direct && strcmp(other->name, append_row) != 0) || other->bytes < RATE_BYTES_MIN ||
            other->per_second.count == 0)
            continue;
        if (best == NULL || ps_bench_row_gigabytes(other) > ps_bench_row_gigabytes(best))
            best = other;
    }
    PS_ASSERT(best != NULL);
    ps_bench_row_detail(row, "disk_gigabytes_per_second", now->bytes_per_second / 1e9);
    (void)snprintf(row->reference, sizeof row->reference, "%s %llu MiB",
                   strcmp(best->name, direct_row) == 0 ? "direct" : "buffered",
                   (unsigned long long)(best->bytes >> 20));
}

/* The higher ratio is the one to the lower bound: 1 means that nothing is lost beside what machine
 * and disk cannot do. */
void ps_bench_logged_compare(struct ps_bench *bench, struct ps_bench_row *row,
                             const struct ps_bench_figures *memory,
                             const struct ps_bench_disk_best *best, uint64_t bytes)
{
    ps_bench_disk_compare(bench, row, best, bytes);
    if (memory == NULL)
        return;
    double per_second = row->per_second.values[row->per_second.count - 1];
    double to_memory = per_second / memory->per_second;
    double to_disk = per_second * (double)bytes / best->bytes_per_second;
    ps_bench_row_ratio(row, "memory", to_memory);
    ps_bench_row_ratio(row, "lower_of_both", fmax(to_memory, to_disk));
}

/* Near 1 when the journal adds nothing to what the disk takes anyway. The median of one push is
 * taken, not the rate: what a trainer with a small model waits for is one push. */
void ps_bench_logged_cost(struct ps_bench_row *row, double memory_p50_us, double logged_p50_us,
                          const struct ps_bench_disk_best *best)
{
    double cost_us = logged_p50_us - memory_p50_us;
    ps_bench_row_detail(row, "p50_over_memory_us", cost_us);
    ps_bench_row_detail(row, "fdatasync_p50_us", best->append_p50_us);
    ps_bench_row_ratio(row, "cost_to_fdatasync", cost_us / best->append_p50_us);
    /* Where there are no direct writes the promise is held against the other way alone. */
    if (best->direct_p50_us <= 0)
        return;
    ps_bench_row_detail(row, "direct_p50_us", best->direct_p50_us);
    ps_bench_row_ratio(row, "cost_to_direct", cost_us / best->direct_p50_us);
}
