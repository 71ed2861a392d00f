/* batch: 1,000 parameters pushed and pulled as one step, beside the same in single calls. The
 * question is what a trainer gains by handing all its small parameters over in one call:
 * psclient_push_pull with 1,000 of them, against 1,000 calls. Both go over the same connection to
 * the same server, one after the other within each repeat. */
#include "base/clock.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_step.h"

#include <string.h>

enum { PARAMETERS = 1000 };

struct batch_run {
    struct ps_bench *bench;
    struct ps_bench_step step;
};

/* One step: every parameter pushed and pulled. */
typedef int (*step_fn)(struct batch_run *run, struct psclient_error *reason);

static int step_together(struct batch_run *run, struct psclient_error *reason);
static int step_single(struct batch_run *run, struct psclient_error *reason);
static enum ps_status measure(struct batch_run *run, step_fn step, uint64_t time_ms,
                              struct ps_bench_figures *figures, struct ps_error *error);

/* The first measurement is thrown away: it pays for the connection, the first touch of every buffer
 * and the server's blocks. Both ways push every parameter once and pull it once in a step, so their
 * rates are directly comparable: steps a second. */
enum ps_status ps_bench_batch(struct ps_bench *bench, struct ps_error *error)
{
    struct batch_run run = {.bench = bench};
    struct ps_bench_figures together, single;
    bench->steps = bench->options->repeat + 1;
    ps_bench_progress(bench, "starting");
    enum ps_status status = ps_bench_step_open(&run.step, bench, PARAMETERS, error);
    if (status == PS_OK)
        status = measure(&run, step_together, ps_bench_reference_ms(bench), &together, error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++) {
        ps_bench_progress(bench, "batch");
        status = measure(&run, step_together, bench->options->time_ms, &together, error);
        if (status == PS_OK)
            status = measure(&run, step_single, bench->options->time_ms, &single, error);
        if (status != PS_OK)
            break;
        struct ps_bench_row *row =
            ps_bench_report_row(&bench->report, "batch", bench->options->size, 1);
        ps_bench_row_add(row, &together);
        ps_bench_report_beside(&bench->report, row, "single_calls", "single_calls", 1, &single);
    }
    if (status == PS_OK)
        status = ps_bench_load_check(run.step.load, error);
    ps_bench_step_close(&run.step);
    return status;
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
