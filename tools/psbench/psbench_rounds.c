/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous training without the computing: workers that contribute to one round after the other
 * and read what each has made, beside the same bytes through raw sockets in the same repeats.
 *
 * A model of --size bytes is one parameter for each server. All workers contribute the same
 * gradient, so that their average is that gradient, and every value can be predicted after any
 * number of rounds: the check at the end finds a round that was made twice, of the wrong
 * contributions, or not at all. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "client/psclient.h"
#include "proto/wire.h"
#include "tools/optimizer_choice.h"
#include "tools/psbench/psbench_job.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_raw_rounds.h"
#include "tools/psbench/psbench_values.h"

#include <stdio.h>
#include <string.h>

/* The servers and workers of one promise. There are at most two of them in a run, of which one is
 * measured while the other sleeps. */
struct crowd {
    const struct ps_bench_options *options;
    struct ps_bench_job job;
    struct ps_bench_team team;
    size_t part; /* bytes of each parameter, of which there is one for each server */
    char names[PS_BENCH_JOB_SERVERS_MAX][32];
    struct psclient *clients[PS_BENCH_TEAM_MAX];
    uint8_t *gradient; /* owned; of one parameter, for all */
    uint8_t *pulled;   /* owned; of all parameters, for each worker */
};

static enum ps_status open_crowd(struct ps_bench *bench, struct crowd *crowd,
                                 enum ps_bench_promise promise, struct ps_error *error);
static enum ps_status connect_worker(struct crowd *crowd, uint64_t worker, struct ps_error *error);
static enum ps_status initialise(struct crowd *crowd, struct ps_error *error);
static enum ps_status write_config(struct crowd *crowd, struct ps_buffer *config,
                                   struct ps_error *error);
static enum ps_status measure(struct ps_bench *bench, struct crowd *crowd,
                              const struct ps_bench_figures *raw, struct ps_error *error);
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error);
static enum ps_status check(struct crowd *crowd, struct ps_error *error);
static struct psclient_parameter parameter_of(struct crowd *crowd, uint64_t worker, uint64_t i);
static void close_crowd(struct crowd *crowd);

/* Everything of a run: too large for a stack. Servers that run stay where they are, and so does
 * what is said to be borrowed by the workers; the crowds are never copied. */
struct rounds {
    struct ps_bench_raw_rounds raw;
    struct crowd crowds[2];
    struct ps_bench_promises promises;
};

static enum ps_status run(struct ps_bench *bench, struct rounds *rounds, struct ps_error *error);

/* Both promises have servers and workers of their own, which are up all the time; those that are
 * not measured wait in their sockets. Every parameter begins at version 0, since the servers are
 * this run's own: so the rounds of a team are the versions. */
enum ps_status ps_bench_rounds(struct ps_bench *bench, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    struct rounds *rounds = ps_zeroed(ps_allocator_heap(), sizeof *rounds);
    if (rounds == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for workers");
    rounds->promises = ps_bench_promises_of(options);
    bench->steps = options->repeat * (rounds->promises.count + 1) + rounds->promises.count;
    enum ps_status status = run(bench, rounds, error);
    for (size_t i = 0; i < rounds->promises.count; i++)
        close_crowd(&rounds->crowds[i]);
    ps_bench_raw_rounds_close(&rounds->raw);
    ps_release(ps_allocator_heap(), rounds);
    return status;
}

/* The raw sockets' processes are forked first, while this process has one thread. */
static enum ps_status run(struct ps_bench *bench, struct rounds *rounds, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    /* Whole numbers of elements, so that the model may be a few bytes less than asked for. */
    size_t part = options->size / options->server_count / sizeof(float) * sizeof(float);
    if (part == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--size has less than a number for each server");
    PS_TRY(ps_bench_raw_rounds_open(&rounds->raw, options->workers, options->server_count, part,
                                    error));
    for (size_t i = 0; i < rounds->promises.count; i++) {
        ps_bench_progress(bench, "starting");
        rounds->crowds[i].part = part;
        PS_TRY(open_crowd(bench, &rounds->crowds[i], rounds->promises.list[i], error));
    }
    /* Raw sockets and rounds follow each other within a repeat, since a machine's speed drifts. */
    for (uint64_t repeat = 0; repeat < options->repeat; repeat++) {
        struct ps_bench_figures raw = {0};
        ps_bench_progress(bench, "raw sockets");
        PS_TRY(ps_bench_team_run(&rounds->raw.team, ps_bench_reference_ms(bench), &raw, error));
        for (size_t i = 0; i < rounds->promises.count; i++)
            PS_TRY(measure(bench, &rounds->crowds[i], &raw, error));
    }
    for (size_t i = 0; i < rounds->promises.count; i++)
        PS_TRY(check(&rounds->crowds[i], error));
    return PS_OK;
}

/* A client for each worker, as for processes of their own: with connections and threads that it
 * shares with nobody. They are threads of one process here, which spares the machine sixteen
 * processes and costs nothing that can be measured: their memory is apart. The first one makes the
 * parameters. */
static enum ps_status open_crowd(struct ps_bench *bench, struct crowd *crowd,
                                 enum ps_bench_promise promise, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    /* The step is given the crowd and the number of a worker, and finds all else in it. */
    crowd->options = options;
    crowd->team =
        (struct ps_bench_team){.step = step, .self = crowd, .worker_count = options->workers};
    crowd->gradient = ps_zeroed(ps_allocator_heap(), crowd->part);
    crowd->pulled =
        ps_zeroed_array(ps_allocator_heap(), options->workers * options->server_count, crowd->part);
    if (crowd->gradient == NULL || crowd->pulled == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for gradients");
    ps_bench_fill_gradient((float *)(void *)crowd->gradient, crowd->part / sizeof(float));
    for (uint64_t i = 0; i < options->server_count; i++)
        (void)snprintf(crowd->names[i], sizeof crowd->names[i], "rounds/%llu",
                       (unsigned long long)i);
    PS_TRY(ps_bench_job_start(&crowd->job, bench, "rounds", promise, options->server_count, error));
    for (uint64_t worker = 0; worker < options->workers; worker++)
        PS_TRY(connect_worker(crowd, worker, error));
    return initialise(crowd, error);
}

/* Parameters stay whole, since there is one for each server already. Gradients travel as they are:
 * with a loss they could not be predicted. */
static enum ps_status connect_worker(struct crowd *crowd, uint64_t worker, struct ps_error *error)
{
    const struct psclient_options options = {.servers = crowd->job.addresses,
                                             .split_bytes = UINT64_C(2) << 30,
                                             .busy_poll = crowd->options->busy_poll_text,
                                             .shared_memory =
                                                 strcmp(crowd->options->transport, "tcp") != 0
                                                     ? PSCLIENT_SHARED_MEMORY_AUTO
                                                     : PSCLIENT_SHARED_MEMORY_OFF};
    struct psclient_error reason = {0};
    return ps_bench_load_status(psclient_open(&options, &crowd->clients[worker], &reason), &reason,
                                error);
}

/* Nobody else initialises these servers, so that this worker is always selected. All in one call,
 * by whose sizes the job is placed evenly: one on each server. */
static enum ps_status initialise(struct crowd *crowd, struct ps_error *error)
{
    struct psclient_parameter parameters[PS_BENCH_JOB_SERVERS_MAX] = {0};
    struct psclient *client = crowd->clients[0];
    struct psclient_error reason = {0};
    struct ps_buffer config;
    int selected = 0;
    ps_buffer_init(&config, ps_allocator_heap(), 65536);
    enum ps_status status = write_config(crowd, &config, error);
    if (status == PS_OK)
        status = ps_bench_load_status(
            psclient_begin_init(client, PS_BENCH_ANSWER_MS, &selected, &reason), &reason, error);
    /* The start is written into what the first worker will read into later. */
    for (uint64_t i = 0; i < crowd->options->server_count && status == PS_OK; i++) {
        parameters[i] = parameter_of(crowd, 0, i);
        parameters[i].config = config.text;
        parameters[i].config_size = config.size;
        ps_bench_fill_start(parameters[i].content, crowd->part / sizeof(float));
    }
    if (status == PS_OK)
        status =
            ps_bench_load_status(psclient_init(client, parameters, crowd->options->server_count,
                                               PS_BENCH_ANSWER_MS, NULL, &reason),
                                 &reason, error);
    ps_buffer_fini(&config);
    if (status != PS_OK)
        return status;
    return ps_bench_load_status(psclient_finish_init(client, PS_BENCH_ANSWER_MS, &reason), &reason,
                                error);
}

/* Written by hand, since no program writes configurations with rounds from C but this one. As the
 * load's, and the member `rounds` with the number of workers: all of them make a round, and it is
 * made of their average. */
static enum ps_status write_config(struct crowd *crowd, struct ps_buffer *config,
                                   struct ps_error *error)
{
    /* The numbers of the fields in proto/pserver/v1/optimizer_config.proto. */
    enum { ROUNDS = 210, WORKERS = 1 };
    char text[16];
    struct ps_buffer rounds;
    PS_TRY(ps_optimizer_choice("sgd", PS_BENCH_LEARNING_RATE, 0, config, error));
    ps_buffer_init_fixed(&rounds, text, sizeof text);
    ps_wire_put_uint(&rounds, WORKERS, crowd->options->workers);
    ps_wire_put_bytes(config, ROUNDS, (struct ps_bytes){(const uint8_t *)rounds.text, rounds.size});
    return ps_buffer_status(config, error);
}

/* Bytes are those of contents, of all workers together; what surrounds them, adding them up, and
 * the step of the optimizer are the difference to the raw sockets. */
static enum ps_status measure(struct ps_bench *bench, struct crowd *crowd,
                              const struct ps_bench_figures *raw, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    struct ps_bench_figures figures = {0};
    size_t model = crowd->part * options->server_count;
    struct ps_bench_row *row = ps_bench_promised_row(bench, "rounds", crowd->job.promise, model, 1);
    ps_bench_progress(bench, row->name);
    PS_TRY(ps_bench_team_run(&crowd->team, options->time_ms, &figures, error));
    ps_bench_row_add(row, &figures);
    ps_bench_row_detail(row, "workers", (double)options->workers);
    ps_bench_row_detail(row, "servers", (double)options->server_count);
    ps_bench_row_detail(row, "bytes_in_per_second",
                        figures.per_second * (double)(model * options->workers));
    ps_bench_row_detail(row, "bytes_out_per_second",
                        figures.per_second * (double)(model * options->workers));
    /* The raw figures once for each repeat, under the first promise; the other is held against the
     * same figures. */
    if (crowd->job.promise == ps_bench_promises_of(options).list[0])
        ps_bench_report_beside(&bench->report, row, "raw_tcp_rounds", "raw_tcp", 1, raw);
    else
        ps_bench_row_ratio(row, "raw_tcp", figures.per_second / raw->per_second);
    return PS_OK;
}

/* What a synchronous trainer does between two gradients. Contributes to the round that makes the
 * version `round` of each parameter, and reads what it has made, in one call. */
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error)
{
    struct crowd *crowd = self;
    struct psclient_gradient gradients[PS_BENCH_JOB_SERVERS_MAX] = {0};
    struct psclient_parameter parameters[PS_BENCH_JOB_SERVERS_MAX] = {0};
    struct psclient_error reason = {0};
    uint64_t count = crowd->options->server_count;
    for (uint64_t i = 0; i < count; i++) {
        parameters[i] = parameter_of(crowd, worker, i);
        gradients[i] = (struct psclient_gradient){.name = crowd->names[i],
                                                  .type = PSCLIENT_FLOAT32,
                                                  .content = crowd->gradient,
                                                  .content_size = crowd->part,
                                                  .worker = (uint32_t)worker + 1,
                                                  .round = round};
    }
    PS_TRY(ps_bench_load_status(psclient_push_pull(crowd->clients[worker], gradients, parameters,
                                                   count, PS_BENCH_ANSWER_MS, NULL, &reason),
                                &reason, error));
    /* Another round cannot have ended: it would need this worker. The check at the end would find
     * it, but not say when it was. */
    for (uint64_t i = 0; i < count; i++)
        if (parameters[i].version < round)
            return ps_fail(error, PS_ERR_CORRUPT, "%s is at version %llu after round %llu",
                           crowd->names[i], (unsigned long long)parameters[i].version,
                           (unsigned long long)round);
    return PS_OK;
}

/* As many versions as rounds, and in every value as many steps. The average of equal gradients of
 * small whole numbers is exactly that gradient, whatever the number of workers: their sum is exact,
 * and so is the quotient. */
static enum ps_status check(struct crowd *crowd, struct ps_error *error)
{
    uint64_t rounds = crowd->team.done;
    if (rounds > PS_BENCH_PUSHES_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "%llu rounds are more than a float32 can show; choose a shorter --time",
                       (unsigned long long)rounds);
    for (uint64_t i = 0; i < crowd->options->server_count; i++) {
        struct psclient_parameter parameter = parameter_of(crowd, 0, i);
        struct psclient_error reason = {0};
        PS_TRY(ps_bench_load_status(
            psclient_pull(crowd->clients[0], &parameter, 1, PS_BENCH_ANSWER_MS, NULL, &reason),
            &reason, error));
        size_t wrong = ps_bench_count_wrong(parameter.content, crowd->part / sizeof(float), rounds);
        if (parameter.version != rounds || wrong > 0)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "%s: version %llu after %llu rounds, and %zu values are not what these "
                           "make of them",
                           crowd->names[i], (unsigned long long)parameter.version,
                           (unsigned long long)rounds, wrong);
    }
    return PS_OK;
}

/* Parameter `i` as the worker reads it, into its own memory: what rounds bring is written sixteen
 * times, as on sixteen machines. */
static struct psclient_parameter parameter_of(struct crowd *crowd, uint64_t worker, uint64_t i)
{
    uint64_t at = worker * crowd->options->server_count + i;
    return (struct psclient_parameter){.name = crowd->names[i],
                                       .type = PSCLIENT_FLOAT32,
                                       .content = crowd->pulled + at * crowd->part,
                                       .content_size = crowd->part};
}

/* Released whether opening worked or not: everything in it is zero before. Workers before servers,
 * so that none sees its server vanish. Accepts a crowd that was never opened. */
static void close_crowd(struct crowd *crowd)
{
    for (size_t i = 0; i < PS_BENCH_TEAM_MAX; i++)
        psclient_close(crowd->clients[i]);
    ps_bench_job_kill(&crowd->job);
    ps_release(ps_allocator_heap(), crowd->gradient);
    ps_release(ps_allocator_heap(), crowd->pulled);
}
