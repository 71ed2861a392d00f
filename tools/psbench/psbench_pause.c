/* SPDX-License-Identifier: Apache-2.0 */
/* journal --pause: does a push that does not wait for the disk ever stop because of it? A server
 * keeps a journal while pushes are acknowledged from memory, faster than any disk, so the journal's
 * queue fills up and pushes have to be slowed down; how evenly that is done shows in the longest
 * one and in the last hundredth. The disk's own writes of the same run stand beside it: a disk that
 * stops for a while stops everybody. */
#include "tools/psbench/psbench_disk_best.h"

/* One server, one load, for the whole time. */
struct pause_run {
    struct ps_bench *bench;
    struct ps_bench_server server; /* keeps a journal that nobody waits for */
    struct ps_bench_load *load;    /* owned */
};

static enum ps_status open_run(struct pause_run *run, struct ps_error *error);
static enum ps_status measure(struct pause_run *run, struct ps_error *error);
static enum ps_status measure_disk(struct ps_bench *bench, struct ps_bench_figures *figures,
                                   struct ps_error *error);

/* Results are checked as everywhere: a push that was slowed down must not be lost. */
enum ps_status ps_bench_pause(struct ps_bench *bench, struct ps_error *error)
{
    struct pause_run run = {.bench = bench};
    bench->steps = bench->options->repeat * 2 + 1;
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(&run, error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure(&run, error);
    if (status == PS_OK)
        status = ps_bench_load_check(run.load, error);
    ps_bench_load_close(run.load);
    ps_bench_server_kill(&run.server);
    return status;
}

/* The warm-up makes the journal's first segment. */
static enum ps_status open_run(struct pause_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    const struct ps_bench_server_wish wish = ps_bench_server_wish_of(bench, "server", "memory");
    PS_TRY(ps_bench_server_start(&run->server, &wish, error));
    struct ps_bench_load_wish load = ps_bench_load_wish_of(bench, run->server.address);
    PS_TRY(ps_bench_load_open(&load, &run->load, error));
    struct ps_bench_figures unused;
    return ps_bench_load_run(run->load, PS_BENCH_PUSH, ps_bench_reference_ms(bench), &unused,
                             error);
}

/* The disk first, while the journal's queue is empty; the two never run together. */
static enum ps_status measure(struct pause_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    const struct ps_bench_options *options = bench->options;
    struct ps_bench_disk_best best;
    struct ps_bench_figures disk, pushes;
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, "push_memory_journaled",
                                                   options->size, options->outstanding);
    ps_bench_progress(bench, "disk");
    PS_TRY(ps_bench_disk_measure(bench, &best, error));
    PS_TRY(measure_disk(bench, &disk, error));
    ps_bench_progress(bench, "push_memory_journaled");
    PS_TRY(ps_bench_load_run(run->load, PS_BENCH_PUSH, options->time_ms, &pushes, error));
    ps_bench_row_add(row, &pushes);
    ps_bench_row_detail(row, "longest_us", pushes.longest_us);
    /* The judgement is left to the reader: a disk may stop for longer than any mark allows. */
    ps_bench_row_detail(row, "disk_p99_us", disk.p99_us);
    ps_bench_row_detail(row, "disk_longest_us", disk.longest_us);
    ps_bench_row_ratio(row, "p99_to_disk", pushes.p99_us / disk.p99_us);
    ps_bench_disk_compare(bench, row, &best, options->size);
    return PS_OK;
}

/* Writes of as many bytes as are in flight, which is what the last of these pushes waits for, by
 * the way that has the shorter last hundredth. A quarter of the time for each: a disk that stops
 * once in a minute shows it in a run of minutes only. */
static enum ps_status measure_disk(struct ps_bench *bench, struct ps_bench_figures *figures,
                                   struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    uint64_t time_ms = ps_bench_reference_ms(bench);
    uint64_t bytes = options->size * options->outstanding;
    size_t size = bytes < PS_BENCH_DISK_WRITE_MAX ? (size_t)bytes : PS_BENCH_DISK_WRITE_MAX;
    /* Direct writes are whole blocks. */
    size -= size % PS_BENCH_SMALL_BYTES;
    size = size > 0 ? size : PS_BENCH_SMALL_BYTES;
    PS_TRY(ps_bench_disk_append(&bench->disk, size, time_ms, figures, error));
    ps_bench_row_add(ps_bench_report_row(&bench->report, "disk_append_in_flight", size, 1),
                     figures);
    if (bench->disk.file < 0)
        return PS_OK;
    struct ps_bench_figures direct;
    PS_TRY(ps_bench_disk_direct(&bench->disk, size, time_ms, &direct, error));
    ps_bench_row_add(ps_bench_report_row(&bench->report, "disk_direct_in_flight", size, 1),
                     &direct);
    if (direct.p99_us < figures->p99_us)
        *figures = direct;
    return PS_OK;
}
