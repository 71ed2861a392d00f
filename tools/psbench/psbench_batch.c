/* SPDX-License-Identifier: Apache-2.0 */
/* batch: 1,000 parameters pushed and pulled as one step, beside the same in single calls. The
 * question is what a trainer gains by handing all its small parameters over in one call:
 * psclient_push_pull with 1,000 of them, against 1,000 calls. Both go over the same connection to
 * the same server, one after the other within each repeat. */
#include "base/clock.h"
#include "tools/psbench/psbench_disk_best.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_step.h"

#include <string.h>

enum { PARAMETERS = 1000 };

/* The parameters on a server that keeps one promise. */
struct batch_run {
    struct ps_bench *bench;
    enum ps_bench_promise promise;
    struct ps_bench_step step;    /* server, load and lists */
    struct ps_bench_figures last; /* of the present repeat, all in one call */
};

/* One step: every parameter pushed and pulled. */
typedef int (*step_fn)(struct batch_run *run, struct psclient_error *reason);

static enum ps_status measure_all(struct batch_run *runs, size_t count, struct ps_error *error);
static struct ps_bench_row *row_of(const struct batch_run *run);
static enum ps_status compare_logged(struct batch_run *runs, size_t count, struct ps_error *error);
static int step_together(struct batch_run *run, struct psclient_error *reason);
static int step_single(struct batch_run *run, struct psclient_error *reason);
static enum ps_status measure(struct batch_run *run, step_fn step, uint64_t time_ms,
                              struct ps_bench_figures *figures, struct ps_error *error);

/* One server for each promise. The first measurement of each is thrown away: it pays for the
 * connection, the first touch of every buffer and the server's blocks. */
enum ps_status ps_bench_batch(struct ps_bench *bench, struct ps_error *error)
{
    struct batch_run runs[2] = {{.bench = bench}, {.bench = bench}};
    struct ps_bench_promises promises = ps_bench_promises_of(bench->options);
    /* Of the warm-up. */
    struct ps_bench_figures unused;
    bench->steps = promises.count * (bench->options->repeat + 1);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < promises.count && status == PS_OK; i++) {
        ps_bench_progress(bench, "starting");
        runs[i].promise = promises.list[i];
        status = ps_bench_step_open(&runs[i].step, bench, promises.list[i], PARAMETERS, error);
        if (status == PS_OK)
            status = measure(&runs[i], step_together, ps_bench_reference_ms(bench), &unused, error);
    }
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure_all(runs, promises.count, error);
    for (size_t i = 0; i < promises.count; i++) {
        if (status == PS_OK)
            status = ps_bench_load_check(runs[i].step.load, error);
        ps_bench_step_close(&runs[i].step);
    }
    return status;
}

/* The steps of all promises follow each other; the single calls come behind them, so that nothing
 * lies between two that are compared. */
static enum ps_status measure_all(struct batch_run *runs, size_t count, struct ps_error *error)
{
    struct ps_bench *bench = runs[0].bench;
    const struct ps_bench_options *options = bench->options;
    for (size_t i = 0; i < count; i++) {
        struct ps_bench_row *row = row_of(&runs[i]);
        ps_bench_progress(bench, row->name);
        PS_TRY(measure(&runs[i], step_together, options->time_ms, &runs[i].last, error));
        ps_bench_row_add(row, &runs[i].last);
        ps_bench_row_detail(row, "parameters", PARAMETERS);
    }
    for (size_t i = 0; i < count; i++) {
        struct ps_bench_figures single;
        char name[PS_BENCH_ROW_NAME_BYTES];
        ps_bench_promised_name("single_calls", runs[i].promise, name);
        PS_TRY(measure(&runs[i], step_single, options->time_ms, &single, error));
        ps_bench_report_beside(&bench->report, row_of(&runs[i]), name, "single_calls", 1, &single);
    }
    return compare_logged(runs, count, error);
}

/* Asked for again each time: the report keeps rows in the order in which they first came. */
static struct ps_bench_row *row_of(const struct batch_run *run)
{
    return ps_bench_promised_row(run->bench, "batch", run->promise, run->bench->options->size, 1);
}

/* A step makes all its gradients durable. */
static enum ps_status compare_logged(struct batch_run *runs, size_t count, struct ps_error *error)
{
    struct ps_bench *bench = runs[0].bench;
    const struct batch_run *logged = &runs[count - 1];
    /* Beside it a single gradient would be nothing. */
    uint64_t bytes = PARAMETERS * bench->options->size;
    struct ps_bench_disk_best best;
    if (logged->promise != PS_BENCH_LOGGED)
        return PS_OK;
    PS_TRY(ps_bench_disk_measure(bench, &best, error));
    ps_bench_logged_compare(bench, row_of(logged), count > 1 ? &runs[0].last : NULL, &best, bytes);
    return PS_OK;
}

/* The library makes batches of as many items as a message may have. */
static int step_together(struct batch_run *run, struct psclient_error *reason)
{
    return psclient_push_pull(run->step.load->client, run->step.gradients, run->step.parameters,
                              PARAMETERS, PS_BENCH_ANSWER_MS, NULL, reason);
}

/* What a program does that calls once for each: push and pull in one call all the same. */
static int step_single(struct batch_run *run, struct psclient_error *reason)
{
    int status = PSCLIENT_OK;
    for (size_t i = 0; i < PARAMETERS && status == PSCLIENT_OK; i++)
        status = psclient_push_pull(run->step.load->client, &run->step.gradients[i],
                                    &run->step.parameters[i], 1, PS_BENCH_ANSWER_MS, NULL, reason);
    return status;
}

/* At least one step runs, however short the time. Every push is counted per parameter, so that the
 * check at the end can compare versions one by one. The worker's record of times is used, since
 * nobody else works meanwhile. */
static enum ps_status measure(struct batch_run *run, step_fn step, uint64_t time_ms,
                              struct ps_bench_figures *figures, struct ps_error *error)
{
    struct ps_bench_times *times = &run->step.load->workers[0].times;
    uint64_t start_ns = ps_clock_precise_ns();
    uint64_t end_ns = start_ns + time_ms * 1000000;
    uint64_t count = 0;
    memset(times, 0, sizeof *times);
    for (uint64_t now_ns = start_ns; now_ns < end_ns || count == 0; count++) {
        struct psclient_error reason = {0};
        PS_TRY(ps_bench_load_status(step(run, &reason), &reason, error));
        /* Counting costs microseconds beside milliseconds of a step, and is the same for both
         * ways. */
        for (size_t i = 0; i < PARAMETERS; i++)
            ps_bench_load_acknowledged(&run->step.load->parameters[i]);
        uint64_t then_ns = ps_clock_precise_ns();
        ps_bench_times_note(times, then_ns - now_ns);
        now_ns = then_ns;
    }
    *figures = ps_bench_figures_of(count, ps_clock_precise_ns() - start_ns, times);
    return PS_OK;
}
