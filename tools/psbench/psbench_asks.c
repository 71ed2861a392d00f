/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to server programs: workers that push values and pull what a program makes of them, in
 * one request, beside the same bytes through raw sockets in the same repeats.
 *
 * --size bytes are one key for each server. The program adds, so that after any number of requests
 * every value can be predicted: the check at the end finds one that was carried out twice, or not
 * at all.
 *
 * The raw sockets carry as many bytes, and go in step as a gang does; nothing is added there. They
 * are what the machine's loopback gives at best, and the ratio to them is what a request costs.
 *
 * Two kinds of programs are measured, one after the other. One is a handler in the server's own
 * process (pserver-adder, over libpserver), which answers each request by itself. The other is a
 * process beside the server, which takes and answers: it takes a gang, so that its workers go in
 * step; with one worker that is no condition.
 *
 * Neither kind of program writes to a disk, and neither promises more than memory: of what a
 * table or a parameter costs in its place the other benchmarks tell.
 */
#include "base/alloc.h"
#include "client/psclient.h"
#include "tools/psbench/psbench_adder.h"
#include "tools/psbench/psbench_job.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_program.h"
#include "tools/psbench/psbench_raw_rounds.h"

#include <stdio.h>
#include <string.h>

/* Everything of a run. */
struct asks {
    const struct ps_bench_options *options;
    bool is_inside; /* the server's own process adds */
    struct ps_bench_raw_rounds raw;
    struct ps_bench_adder adders[PS_BENCH_JOB_SERVERS_MAX];
    struct ps_bench_job job;
    struct ps_bench_team team;
    size_t part; /* bytes of each key */
    struct psclient *clients[PS_BENCH_TEAM_MAX];
    struct ps_customer *customers[PS_BENCH_TEAM_MAX];
    uint64_t keys[PS_BENCH_JOB_SERVERS_MAX];
    float *pushed; /* owned; of one request, for all workers */
    float *pulled; /* owned; of each worker */
};

static enum ps_status prepare(struct asks *asks, struct ps_error *error);
static enum ps_status run(struct ps_bench *bench, struct asks *asks, struct ps_error *error);
static enum ps_status begin(struct ps_bench *bench, struct asks *asks, struct ps_error *error);
static enum ps_status connect_worker(struct asks *asks, uint64_t worker, struct ps_error *error);
static enum ps_status measure(struct ps_bench *bench, struct asks *asks,
                              const struct ps_bench_figures *raw, struct ps_error *error);
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error);
static enum ps_status check(struct asks *asks, struct ps_error *error);
static void close_asks(struct asks *asks);

/* Nothing of a program is on disk, so that there is one promise: memory. */
enum ps_status ps_bench_asks(struct ps_bench *bench, struct ps_error *error)
{
    struct asks *asks = ps_zeroed_array(ps_allocator_heap(), 2, sizeof *asks);
    enum ps_status status = PS_OK;
    if (asks == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for workers");
    bench->steps = 4 * bench->options->repeat + 2;
    /* Everything that is forked comes before the first thread, of both kinds. */
    for (size_t i = 0; i < 2 && status == PS_OK; i++) {
        asks[i].options = bench->options;
        asks[i].is_inside = i == 0;
        status = prepare(&asks[i], error);
    }
    for (size_t i = 0; i < 2 && status == PS_OK; i++)
        status = run(bench, &asks[i], error);
    for (size_t i = 0; i < 2; i++)
        close_asks(&asks[i]);
    ps_release(ps_allocator_heap(), asks);
    return status;
}

/* One kind from its servers' start to their end. The answers are checked when all is measured: a
 * sum that is wrong says that some request was lost or came twice, whichever it was. */
static enum ps_status run(struct ps_bench *bench, struct asks *asks, struct ps_error *error)
{
    /* Servers and clients come after everything that is forked. */
    PS_TRY(begin(bench, asks, error));
    /* The first request waits for the programs, and brings their memory to life. */
    struct ps_bench_figures figures = {0};
    PS_TRY(ps_bench_team_run(&asks->team, 1, &figures, error));
    for (uint64_t repeat = 0; repeat < asks->options->repeat; repeat++) {
        struct ps_bench_figures raw = {0};
        /* Raw sockets and requests follow each other within a repeat, since a machine's speed
         * drifts. */
        ps_bench_progress(bench, "raw sockets");
        PS_TRY(ps_bench_team_run(&asks->raw.team, ps_bench_reference_ms(bench), &raw, error));
        PS_TRY(measure(bench, asks, &raw, error));
    }
    PS_TRY(check(asks, error));
    /* The other kind has the machine for itself. */
    close_asks(asks);
    return PS_OK;
}

/* Processes that are forked come first, while this one has one thread: the raw sockets', then the
 * programs, which are told where their servers are when these run. */
static enum ps_status prepare(struct asks *asks, struct ps_error *error)
{
    const struct ps_bench_options *options = asks->options;
    const struct ps_allocator *heap = ps_allocator_heap();
    uint64_t servers = options->server_count;
    asks->part = options->size / servers / sizeof(float) * sizeof(float);
    if (asks->part == 0 || options->workers > 32)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--size has less than a number for each server, or more than 32 workers");
    asks->pushed = ps_zeroed_array(heap, servers, asks->part);
    asks->pulled = ps_zeroed_array(heap, servers * options->workers, asks->part);
    if (asks->pushed == NULL || asks->pulled == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for values");
    /* Small whole numbers: every sum is exact for a long time, and zeros among them find a
     * value that was written where none was pushed. */
    for (size_t i = 0; i < servers * asks->part / sizeof(float); i++)
        asks->pushed[i] = (float)(i % 3);
    PS_TRY(ps_bench_raw_rounds_open(&asks->raw, options->workers, servers, asks->part, error));
    for (uint64_t i = 0; i < servers && !asks->is_inside; i++)
        PS_TRY(ps_bench_adder_start(&asks->adders[i], error));
    return PS_OK;
}

/* The job's servers are those of the other program, if that is to add. */
static enum ps_status start_servers(struct ps_bench *bench, struct asks *asks,
                                    struct ps_error *error)
{
    /* Of the bench only the program is another one. */
    struct ps_bench own = *bench;
    char path[PS_BENCH_PATH_MAX];
    if (asks->is_inside) {
        if (!ps_bench_program_beside("pserver-adder", path))
            return ps_fail(error, PS_ERR_IO, "%.200s is not there", path);
        own.program = path;
    }
    return ps_bench_job_start(&asks->job, &own, asks->is_inside ? "inside" : "beside",
                              PS_BENCH_MEMORY, asks->options->server_count, error);
}

/* Servers first, since a program is told where they are, and clients last, which ask both. */
static enum ps_status begin(struct ps_bench *bench, struct asks *asks, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    /* Every server has one key, the first of its range. */
    uint64_t servers = options->server_count;
    ps_bench_progress(bench, "starting");
    PS_TRY(start_servers(bench, asks, error));
    for (uint64_t i = 0; i < servers; i++)
        asks->keys[i] = UINT64_MAX / servers * i;
    for (uint64_t i = 0; i < servers && !asks->is_inside; i++) {
        struct ps_bench_adder_order order = {.rank = (uint32_t)i,
                                             .workers = (uint32_t)options->workers,
                                             .is_tcp = strcmp(options->transport, "tcp") == 0};
        (void)snprintf(order.addresses, sizeof order.addresses, "%s", asks->job.addresses);
        (void)snprintf(order.busy_poll, sizeof order.busy_poll, "%s", options->busy_poll_text);
        PS_TRY(ps_bench_adder_serve(&asks->adders[i], &order, error));
    }
    /* A handler answers each request by itself; a program that takes a gang keeps its workers
     * in step. */
    asks->team = (struct ps_bench_team){
        .step = step, .self = asks, .worker_count = options->workers, .is_free = asks->is_inside};
    for (uint64_t worker = 0; worker < options->workers; worker++)
        PS_TRY(connect_worker(asks, worker, error));
    return PS_OK;
}

/* A client for each worker, as for processes of their own. */
static enum ps_status connect_worker(struct asks *asks, uint64_t worker, struct ps_error *error)
{
    const struct ps_bench_options *own = asks->options;
    const struct psclient_options options = {.servers = asks->job.addresses,
                                             .busy_poll = own->busy_poll_text,
                                             .shared_memory = strcmp(own->transport, "tcp") != 0
                                                                  ? PSCLIENT_SHARED_MEMORY_AUTO
                                                                  : PSCLIENT_SHARED_MEMORY_OFF};
    const struct ps_customer_options customer = {.worker = 1 + (uint32_t)worker,
                                                 .workers = (uint32_t)own->workers,
                                                 .timeout_ms = PS_BENCH_ANSWER_MS};
    struct psclient_error reason = {0};
    PS_TRY(ps_bench_load_status(psclient_open(&options, &asks->clients[worker], &reason), &reason,
                                error));
    return ps_bench_load_status(
        ps_customer_open(asks->clients[worker], &customer, &asks->customers[worker], &reason),
        &reason, error);
}

/* A round trip is one request of one worker; rounds are of all. */
static enum ps_status measure(struct ps_bench *bench, struct asks *asks,
                              const struct ps_bench_figures *raw, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    struct ps_bench_figures figures = {0};
    /* Of one request, one way. */
    size_t bytes = asks->part * options->server_count;
    struct ps_bench_row *row = ps_bench_promised_row(
        bench, asks->is_inside ? "program_inside" : "program_beside", asks->job.promise, bytes, 1);
    ps_bench_progress(bench, row->name);
    PS_TRY(ps_bench_team_run(&asks->team, options->time_ms, &figures, error));
    ps_bench_row_add(row, &figures);
    ps_bench_row_detail(row, "workers", (double)options->workers);
    ps_bench_row_detail(row, "servers", (double)options->server_count);
    ps_bench_row_detail(row, "round_trips_per_second",
                        figures.per_second * (double)(asks->is_inside ? 1 : options->workers));
    ps_bench_report_beside(&bench->report, row, "raw_tcp_rounds", "raw_tcp", 1, raw);
    return PS_OK;
}

/* Values and room are used in place. Which worker's request comes first does not matter to the sum,
 * and the number of the round to nobody: a handler knows of no rounds. */
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error)
{
    struct asks *asks = self;
    uint64_t servers = asks->options->server_count;
    /* The same values for all workers, and room of each one's own. */
    size_t count = servers * asks->part / sizeof(float);
    struct psclient_error reason = {0};
    const struct ps_kv_pairs pairs = {.keys = asks->keys,
                                      .key_count = servers,
                                      .type = PSCLIENT_FLOAT32,
                                      .values = asks->pushed,
                                      .value_count = count};
    /* The round says nothing: what was asked before is over, and what comes is the same. */
    int64_t timestamp = -1;
    (void)round;
    PS_TRY(ps_bench_load_status(ps_kv_worker_zpush_pull(asks->customers[worker], &pairs,
                                                        asks->pulled + worker * count, NULL,
                                                        &timestamp, &reason),
                                &reason, error));
    return ps_bench_load_status(
        ps_kv_worker_wait(asks->customers[worker], timestamp, PS_BENCH_ANSWER_MS, &reason), &reason,
        error);
}

/* What is there at the end: the sum of all requests of all workers, which is exact below 2^24. */
static enum ps_status check(struct asks *asks, struct ps_error *error)
{
    size_t count = asks->options->server_count * asks->part / sizeof(float);
    double times = (double)asks->team.done;
    struct psclient_error reason = {0};
    struct ps_kv_pairs pairs = {.keys = asks->keys,
                                .key_count = asks->options->server_count,
                                .type = PSCLIENT_FLOAT32,
                                .values = asks->pulled,
                                .value_count = count};
    int64_t timestamp = -1;
    if (!asks->is_inside)
        times *= (double)asks->options->workers;
    /* Beyond this a float32 does not show that another one was added. */
    if (times * 2 >= 16777216.0)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "%.0f requests are more than a float32 can show; choose a shorter --time",
                       times);
    /* A program that takes a gang has answered with the last sum; the handler is asked for it. */
    if (asks->is_inside) {
        PS_TRY(ps_bench_load_status(
            ps_kv_worker_zpull(asks->customers[0], &pairs, NULL, &timestamp, &reason), &reason,
            error));
        PS_TRY(ps_bench_load_status(
            ps_kv_worker_wait(asks->customers[0], timestamp, PS_BENCH_ANSWER_MS, &reason), &reason,
            error));
    }
    for (size_t i = 0; i < count; i++)
        if ((double)asks->pulled[i] != times * (double)(i % 3))
            return ps_fail(error, PS_ERR_CORRUPT, "%s: value %zu is %g after %.0f requests of %zu",
                           asks->is_inside ? "inside" : "beside", i, (double)asks->pulled[i], times,
                           i % 3);
    return PS_OK;
}

/* Released whether opening worked or not, and once more at the end. Workers before programs before
 * servers. */
static void close_asks(struct asks *asks)
{
    for (size_t i = 0; i < PS_BENCH_TEAM_MAX; i++) {
        (void)ps_customer_close(asks->customers[i], NULL);
        psclient_close(asks->clients[i]);
        asks->customers[i] = NULL;
        asks->clients[i] = NULL;
    }
    for (size_t i = 0; i < PS_BENCH_JOB_SERVERS_MAX; i++)
        ps_bench_adder_end(&asks->adders[i]);
    ps_bench_job_kill(&asks->job);
    ps_bench_raw_rounds_close(&asks->raw);
    ps_release(ps_allocator_heap(), asks->pushed);
    ps_release(ps_allocator_heap(), asks->pulled);
    asks->pushed = NULL;
    asks->pulled = NULL;
}
