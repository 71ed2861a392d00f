/* SPDX-License-Identifier: Apache-2.0 */
/* delta: 1,000 parameters brought up to date after a part of them was pushed to, beside a full pull
 * of all. A replica that follows a job asks only for what changed since the version it has. How
 * much that saves depends on how much changed, so the share of parameters that are pushed to before
 * each pull goes from none to all; "all" shows what asking in this way costs when it brings
 * nothing. Only pulls are timed. Each delta is checked by its bytes and, at both ends of a
 * measurement, the whole replica against a full pull. */
#include "base/alloc.h"
#include "base/clock.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_step.h"

#include <string.h>

/* As many as a model of middling size has, and a round number for the shares below. */
enum { PARAMETERS = 1000 };

struct delta_run {
    struct ps_bench *bench;
    struct ps_bench_step step;
    struct psclient_parameter *copies; /* of the replica */
    uint8_t *copied;                   /* what they point into */
    struct psclient_replica *replica;
    /* Goes on where the last repeat ended. */
    size_t next; /* parameter to push to */
};

/* The names of the rows stand in docs/performance.md and in scripts. */
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

/* Both ways are warmed up, since each has buffers of its own. The results are checked in the end as
 * in every benchmark: a replica that is fast and wrong would be found by check_copies, a server
 * that loses pushes by the versions. */
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

/* The replica pulls into memory of its own, so that it can be compared with what a full pull
 * brings. */
static enum ps_status open_run(struct delta_run *run, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    size_t size = run->bench->options->size;
    struct psclient_error reason = {0};
    PS_TRY(ps_bench_step_open(&run->step, run->bench, PS_BENCH_MEMORY, PARAMETERS, error));
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

/* The replica refers to the client, so it goes first. */
static void close_run(struct delta_run *run)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    psclient_replica_close(run->replica);
    ps_bench_step_close(&run->step);
    ps_release(memory, run->copies);
    ps_release(memory, run->copied);
}

/* A counter of the library, from the replica's opening on. Read before and after a pull, and never
 * within the time. */
static uint64_t received(const struct delta_run *run)
{
    struct psclient_replica_counters counters;
    psclient_replica_get_counters(run->replica, &counters);
    return counters.received_bytes;
}

/* The full pull is measured once in a repeat and all shares are held against it. */
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
        /* Proved by measure: each delta brought exactly so many. */
        ps_bench_row_detail(row, "received_bytes", (double)(rows[i].pushed * bench->options->size));
    }
    return PS_OK;
}

/* Pushes go round through all parameters, so that no block stays warm because it is always the same
 * one. Runs of neighbours go in one call. */
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

/* The replica must have got exactly what was pushed to, and have what a full pull brings; memcmp,
 * since both are the same bytes of the same server. */
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

/* Pushes to `pushed` parameters, then pulls all, by deltas or whole; only the pulls count in the
 * time, or the rate would be that of the pushes. Both ways to pull run the same loop, so what it
 * costs to count and to look at the clock is in both. */
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
        /* Read outside of the time. */
        uint64_t before = received(run);
        uint64_t start_ns = ps_clock_precise_ns();
        int status = whole ? psclient_pull(run->step.load->client, run->step.parameters, PARAMETERS,
                                           PS_BENCH_ANSWER_MS, NULL, &reason)
                           : psclient_pull_since(run->replica, PS_BENCH_ANSWER_MS, NULL, &reason);
        uint64_t took_ns = ps_clock_precise_ns() - start_ns;
        PS_TRY(ps_bench_load_status(status, &reason, error));
        /* More bytes than changed would mean that the server sends too much, fewer that the replica
         * is wrong. */
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
