/* delta: 1,000 parameters brought up to date after a part of them was pushed to, beside a full pull
 * of all. */
#include "base/alloc.h"
#include "base/clock.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_step.h"

#include <string.h>

enum { PARAMETERS = 1000 };

struct delta_run {
    struct ps_bench *bench;
    struct ps_bench_step step;
    struct psclient_parameter *copies; /* of the replica */
    uint8_t *copied;                   /* what they point into */
    struct psclient_replica *replica;
    size_t next; /* parameter to push to */
};

static const struct {
    size_t pushed; /* parameters, before each pull */
    const char *row;
} rows[] = {{0, "delta_0"},
            {1, "delta_0.1_percent"},
            {10, "delta_1_percent"},
            {100, "delta_10_percent"},
            {1000, "delta_100_percent"}};
enum { ROWS = sizeof rows / sizeof rows[0] };

static enum ps_status open_run(struct delta_run *run, struct ps_error *error);
static void close_run(struct delta_run *run);
static enum ps_status measure_all(struct delta_run *run, struct ps_error *error);
static enum ps_status measure(struct delta_run *run, size_t pushed, bool whole, uint64_t time_ms,
                              struct ps_bench_figures *figures, struct ps_error *error);

enum ps_status ps_bench_delta(struct ps_bench *bench, struct ps_error *error)
{
    struct delta_run run = {.bench = bench};
    struct ps_bench_figures warm_up;
    bench->steps = bench->options->repeat * (ROWS + 1) + 1;
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(&run, error);
    if (status == PS_OK)
        status = measure(&run, 1, false, ps_bench_reference_ms(bench), &warm_up, error);
    if (status == PS_OK)
        status = measure(&run, 1, true, ps_bench_reference_ms(bench), &warm_up, error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure_all(&run, error);
    if (status == PS_OK)
        status = ps_bench_load_check(run.step.load, error);
    close_run(&run);
    return status;
}

static enum ps_status open_run(struct delta_run *run, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    size_t size = run->bench->options->size;
    struct psclient_error reason = {0};
    PS_TRY(ps_bench_step_open(&run->step, run->bench, PARAMETERS, error));
    run->copies = ps_zeroed_array(memory, PARAMETERS, sizeof *run->copies);
    run->copied = ps_zeroed_array(memory, PARAMETERS, size);
    if (run->copies == NULL || run->copied == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %d parameters", PARAMETERS);
    for (size_t i = 0; i < PARAMETERS; i++) {
        run->copies[i] = run->step.parameters[i];
        run->copies[i].content = run->copied + i * size;
    }
    int status = psclient_replica_open(run->step.load->client, run->copies, PARAMETERS,
                                       &run->replica, &reason);
    return ps_bench_load_status(status, &reason, error);
}

static void close_run(struct delta_run *run)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    psclient_replica_close(run->replica);
    ps_bench_step_close(&run->step);
    ps_release(memory, run->copies);
    ps_release(memory, run->copied);
}

static uint64_t received(const struct delta_run *run)
{
    struct psclient_replica_counters counters;
    psclient_replica_get_counters(run->replica, &counters);
    return counters.received_bytes;
}

static enum ps_status measure_all(struct delta_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    struct ps_bench_figures whole;
    uint64_t bytes = PARAMETERS * bench->options->size;
    ps_bench_progress(bench, "full_pull");
    PS_TRY(measure(run, 1, true, bench->options->time_ms, &whole, error));
    ps_bench_row_add(ps_bench_report_row(&bench->report, "full_pull", bytes, 1), &whole);
    for (size_t i = 0; i < ROWS; i++) {
        struct ps_bench_figures figures;
        ps_bench_progress(bench, rows[i].row);
        PS_TRY(measure(run, rows[i].pushed, false, bench->options->time_ms, &figures, error));
        struct ps_bench_row *row = ps_bench_report_row(&bench->report, rows[i].row, bytes, 1);
        ps_bench_row_add(row, &figures);
        ps_bench_row_ratio(row, "full_pull", figures.per_second / whole.per_second);
        ps_bench_row_detail(row, "received_bytes", (double)(rows[i].pushed * bench->options->size));
    }
    return PS_OK;
}

static enum ps_status push_some(struct delta_run *run, size_t count, struct ps_error *error)
{
    struct psclient_error reason = {0};
    while (count > 0) {
        size_t run_count = count < PARAMETERS - run->next ? count : PARAMETERS - run->next;
        PS_TRY(ps_bench_load_status(psclient_push(run->step.load->client,
                                                  run->step.gradients + run->next, run_count,
                                                  PS_BENCH_ANSWER_MS, NULL, &reason),
                                    &reason, error));
        for (size_t i = 0; i < run_count; i++)
            ps_bench_load_acknowledged(&run->step.load->parameters[run->next + i]);
        run->next = (run->next + run_count) % PARAMETERS;
        count -= run_count;
    }
    return PS_OK;
}

/* The replica must have got exactly what was pushed to, and have what a full pull brings. */
static enum ps_status check_copies(struct delta_run *run, struct ps_error *error)
{
    struct psclient_error reason = {0};
    size_t size = run->bench->options->size;
    PS_TRY(ps_bench_load_status(
        psclient_pull_since(run->replica, PS_BENCH_ANSWER_MS, NULL, &reason), &reason, error));
    PS_TRY(ps_bench_load_status(psclient_pull(run->step.load->client, run->step.parameters,
                                              PARAMETERS, PS_BENCH_ANSWER_MS, NULL, &reason),
                                &reason, error));
    if (memcmp(run->step.content, run->copied, PARAMETERS * size) == 0)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT, "a replica differs from a full pull");
}

/* Pushes to `pushed` parameters, then pulls all, by deltas or whole; only the pulls count. */
static enum ps_status measure(struct delta_run *run, size_t pushed, bool whole, uint64_t time_ms,
                              struct ps_bench_figures *figures, struct ps_error *error)
{
    struct ps_bench_times *times = &run->step.load->workers[0].times;
    uint64_t spent_ns = 0;
    uint64_t count = 0;
    memset(times, 0, sizeof *times);
    PS_TRY(check_copies(run, error));
    while (spent_ns < time_ms * 1000000 || count == 0) {
        struct psclient_error reason = {0};
        PS_TRY(push_some(run, pushed, error));
        uint64_t before = received(run);
        uint64_t start_ns = ps_clock_precise_ns();
        int status = whole ? psclient_pull(run->step.load->client, run->step.parameters, PARAMETERS,
                                           PS_BENCH_ANSWER_MS, NULL, &reason)
                           : psclient_pull_since(run->replica, PS_BENCH_ANSWER_MS, NULL, &reason);
        uint64_t took_ns = ps_clock_precise_ns() - start_ns;
        PS_TRY(ps_bench_load_status(status, &reason, error));
        if (!whole && received(run) - before != pushed * run->bench->options->size)
            return ps_fail(error, PS_ERR_INTERNAL, "%llu bytes came, %zu parameters had changed",
                           (unsigned long long)(received(run) - before), pushed);
        ps_bench_times_note(times, took_ns);
        spent_ns += took_ns;
        count++;
    }
    PS_TRY(check_copies(run, error));
    *figures = ps_bench_figures_of(count, spent_ns, times);
    return PS_OK;
}
