/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers over several servers, beside one over one. One worker on one server is measured
 * in the same repeats as many on many, so that "how many times as much?" is a quotient of
 * neighbours. All of it runs on one machine: with fewer cores than processes the figure shows the
 * machine's end, not the program's, and the report has the number of cores for that. */
#include "tools/psbench/psbench_disk_best.h"
#include "tools/psbench/psbench_job.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX 64
/* Enough that every server has some of each worker's. */
#define PARAMETERS_PER_WORKER 16

/* The servers of one job and the workers that push to them. Workers are loads with threads and
 * connections of their own, in one process. */
struct fleet {
    const char *row; /* without the promise */
    uint64_t worker_count;
    struct ps_bench_job job;
    struct ps_bench_load *loads[WORKERS_MAX]; /* owned; one for each worker */
    struct ps_bench_figures last;             /* of the present repeat */
};

/* What is compared under one promise. */
struct fleets {
    struct fleet one;  /* one worker on one server */
    struct fleet many; /* as the options say */
};

static enum ps_status measure_all(struct ps_bench *bench, struct fleets *fleets, size_t count,
                                  struct ps_error *error);
static struct ps_bench_row *row_of(struct ps_bench *bench, const struct fleet *fleet);
static enum ps_status open_fleet(struct ps_bench *bench, struct fleet *fleet,
                                 enum ps_bench_promise promise, uint64_t server_count,
                                 uint64_t worker_count, struct ps_error *error);
static enum ps_status check_fleet(struct fleet *fleet, struct ps_error *error);
static void close_fleet(struct fleet *fleet);
static enum ps_status measure(struct ps_bench *bench, struct fleet *fleet, struct ps_error *error);
static void add_figures(struct ps_bench_figures *sum, const struct ps_bench_figures *more);

/* All fleets are up all the time; those that are not measured sleep in their sockets. The check
 * comes after the last repeat, for all of them. */
enum ps_status ps_bench_scale(struct ps_bench *bench, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    struct fleets fleets[2] = {0};
    struct ps_bench_promises promises = ps_bench_promises_of(options);
    bench->steps = promises.count * (2 * options->repeat + 1);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < promises.count && status == PS_OK; i++) {
        ps_bench_progress(bench, "starting");
        fleets[i].one.row = "scale_one_by_one";
        fleets[i].many.row = "scale";
        status = open_fleet(bench, &fleets[i].one, promises.list[i], 1, 1, error);
        if (status == PS_OK)
            status = open_fleet(bench, &fleets[i].many, promises.list[i], options->server_count,
                                options->workers, error);
    }
    for (uint64_t repeat = 0; repeat < options->repeat && status == PS_OK; repeat++)
        status = measure_all(bench, fleets, promises.count, error);
    for (size_t i = 0; i < promises.count; i++) {
        if (status == PS_OK)
            status = check_fleet(&fleets[i].one, error);
        if (status == PS_OK)
            status = check_fleet(&fleets[i].many, error);
        close_fleet(&fleets[i].one);
        close_fleet(&fleets[i].many);
    }
    return status;
}

/* Many and one by one follow each other within a promise; the disk is last. */
static enum ps_status measure_all(struct ps_bench *bench, struct fleets *fleets, size_t count,
                                  struct ps_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct fleet *one = &fleets[i].one, *many = &fleets[i].many;
        PS_TRY(measure(bench, many, error));
        PS_TRY(measure(bench, one, error));
        struct ps_bench_row *row = row_of(bench, many);
        ps_bench_row_detail(row, "workers", (double)many->worker_count);
        ps_bench_row_detail(row, "servers", (double)many->job.server_count);
        ps_bench_row_ratio(row, "one_by_one", many->last.per_second / one->last.per_second);
    }
    /* All servers share one disk here, as they share the processors. */
    struct fleet *logged = &fleets[count - 1].many;
    struct ps_bench_disk_best best;
    if (logged->job.promise != PS_BENCH_LOGGED)
        return PS_OK;
    PS_TRY(ps_bench_disk_measure(bench, &best, error));
    ps_bench_logged_compare(bench, row_of(bench, logged), count > 1 ? &fleets[0].many.last : NULL,
                            &best, bench->options->size);
    return PS_OK;
}

/* The first worker makes the parameters of all, since a job is initialised once; then each worker
 * pushes to its own sixteen, so that they do not wait for each other's locks. Each worker learns
 * the versions of its own parameters when it connects, so its check is exact although another
 * client made them. */
static enum ps_status open_fleet(struct ps_bench *bench, struct fleet *fleet,
                                 enum ps_bench_promise promise, uint64_t server_count,
                                 uint64_t worker_count, struct ps_error *error)
{
    /* Servers first: a load needs an address to connect to. */
    PS_TRY(ps_bench_job_start(&fleet->job, bench, fleet->row, promise, server_count, error));
    fleet->worker_count = worker_count;
    struct ps_bench_load_wish wish = ps_bench_load_wish_of(bench, fleet->job.addresses);
    wish.parameter_count = PARAMETERS_PER_WORKER * fleet->worker_count;
    /* The bare channel knows one server only. */
    wish.via = PS_BENCH_VIA_CLIENT;
    struct ps_bench_load *maker = NULL;
    PS_TRY(ps_bench_load_open(&wish, &maker, error));
    ps_bench_load_close(maker);
    wish.initialise = false;
    wish.parameter_count = PARAMETERS_PER_WORKER;
    for (uint64_t i = 0; i < fleet->worker_count; i++) {
        wish.first_parameter = i * PARAMETERS_PER_WORKER;
        PS_TRY(ps_bench_load_open(&wish, &fleet->loads[i], error));
    }
    return PS_OK;
}

/* Every worker checks its own parameters. */
static enum ps_status check_fleet(struct fleet *fleet, struct ps_error *error)
{
    for (uint64_t i = 0; i < fleet->worker_count; i++)
        PS_TRY(ps_bench_load_check(fleet->loads[i], error));
    return PS_OK;
}

/* Workers before servers, so that none sees its server vanish. Called whatever failed before; slots
 * that were never filled are accepted. */
static void close_fleet(struct fleet *fleet)
{
    for (uint64_t i = 0; i < fleet->worker_count; i++)
        ps_bench_load_close(fleet->loads[i]);
    ps_bench_job_kill(&fleet->job);
}

/* All workers start, run for the time and are then finished one by one. The first to be finished
 * has run a little shorter than the last; each one's rate is over its own time. A failure of any
 * worker fails the repeat: a rate without that worker would be that of a smaller fleet. */
static enum ps_status measure(struct ps_bench *bench, struct fleet *fleet, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    ps_bench_progress(bench, row_of(bench, fleet)->name);
    enum ps_status status = PS_OK;
    uint64_t running = 0;
    for (; running < fleet->worker_count && status == PS_OK; running += status == PS_OK)
        status = ps_bench_load_start(fleet->loads[running], PS_BENCH_PUSH_PULL, error);
    if (status == PS_OK)
        (void)usleep((useconds_t)(options->time_ms * 1000));
    fleet->last = (struct ps_bench_figures){0};
    /* Every load that was started is finished, also after a failure. */
    for (uint64_t i = 0; i < running; i++) {
        struct ps_bench_figures figures = {0};
        struct ps_error why = {0};
        enum ps_status finished = ps_bench_load_finish(fleet->loads[i], &figures, &why);
        if (status == PS_OK && finished != PS_OK)
            status = ps_fail(error, finished, "%s", why.text);
        add_figures(&fleet->last, &figures);
    }
    if (status == PS_OK)
        ps_bench_row_add(row_of(bench, fleet), &fleet->last);
    return status;
}

/* Both fleets of a promise push parameters of one size, so their rows differ by name alone. */
static struct ps_bench_row *row_of(struct ps_bench *bench, const struct fleet *fleet)
{
    return ps_bench_promised_row(bench, fleet->row, fleet->job.promise, bench->options->size,
                                 bench->options->outstanding);
}

/* Rates add up; of times the slowest worker's
 * stand, because a step of a job waits for it. A percentile of all workers together would need
 * their histograms; the slowest worker's is the one that holds up a synchronous job. */
static void add_figures(struct ps_bench_figures *sum, const struct ps_bench_figures *more)
{
    sum->per_second += more->per_second;
    sum->p50_us = more->p50_us > sum->p50_us ? more->p50_us : sum->p50_us;
    sum->p99_us = more->p99_us > sum->p99_us ? more->p99_us : sum->p99_us;
    sum->longest_us = more->longest_us > sum->longest_us ? more->longest_us : sum->longest_us;
}
