/* SPDX-License-Identifier: Apache-2.0 */
/* Pushing while a checkpoint is written, beside pushing in peace. A server saves while it serves.
 * Three numbers matter: how fast pushes go meanwhile, beside pushes in peace of the same repeat;
 * the longest single push, which shows whether anything stopped; and how the rate of writing
 * compares with the disk alone. The checkpoint is asked for over a connection of its own, as an
 * operator would do it. */
#include "base/clock.h"
#include "client/psclient.h"
#include "tools/psbench/psbench_disk_best.h"

#include <string.h>

/* A checkpoint of the largest shard on a slow disk. */
#define SAVE_MS 600000

struct checkpoint_run {
    struct ps_bench *bench;
    struct ps_bench_server server;
    struct ps_bench_load *load;
    struct psclient *asker; /* asks for checkpoints over a connection of its own */
};

static enum ps_status open_run(struct checkpoint_run *run, struct ps_error *error);
static enum ps_status save(struct checkpoint_run *run, struct psclient_saved *saved,
                           struct ps_error *error);
static enum ps_status measure(struct checkpoint_run *run, struct ps_error *error);
static enum ps_status compare_with_disk(struct checkpoint_run *run, struct ps_bench_row *row,
                                        double gigabytes_per_second, struct ps_error *error);
static enum ps_status push_while_saving(struct checkpoint_run *run,
                                        struct ps_bench_figures *figures,
                                        struct psclient_saved *saved, uint64_t *taken_ns,
                                        struct ps_error *error);

/* The results are checked at the end only: pulling every parameter of a large shard in each repeat
 * would take longer than what is measured. */
enum ps_status ps_bench_checkpoint(struct ps_bench *bench, struct ps_error *error)
{
    struct checkpoint_run run = {.bench = bench};
    bench->steps = bench->options->repeat + 1;
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(&run, error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure(&run, error);
    if (status == PS_OK)
        status = ps_bench_load_check(run.load, error);
    psclient_close(run.asker);
    ps_bench_load_close(run.load);
    ps_bench_server_kill(&run.server);
    return status;
}

/* Without --ack logged there is no journal, so that the disk has the checkpoint alone to write; a
 * data folder there is in any case. */
static enum ps_status open_run(struct checkpoint_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    bool logged = strcmp(bench->options->ack, "logged") == 0;
    struct ps_bench_server_wish wish =
        ps_bench_server_wish_of(bench, "server", logged ? "logged" : "memory");
    wish.no_journal = !logged;
    PS_TRY(ps_bench_server_start(&run->server, &wish, error));
    struct ps_bench_load_wish load = ps_bench_load_wish_of(bench, run->server.address);
    /* The shard is made of parameters of the size that is pushed. */
    load.parameter_count = bench->options->shard_size / bench->options->size;
    PS_TRY(ps_bench_load_open(&load, &run->load, error));
    const struct psclient_options options = {.servers = run->server.address};
    struct psclient_error reason = {0};
    if (psclient_open(&options, &run->asker, &reason) != PSCLIENT_OK)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "%.200s", reason.text);
    /* The first pushes to each parameter take fresh blocks from the pool. */
    struct ps_bench_figures warm_up;
    PS_TRY(
        ps_bench_load_run(run->load, PS_BENCH_PUSH, ps_bench_reference_ms(bench), &warm_up, error));
    /* The one that follows the initialisation is over when another one is. */
    struct psclient_saved saved;
    return save(run, &saved, error);
}

/* The server answers when the checkpoint is durable and published. */
static enum ps_status save(struct checkpoint_run *run, struct psclient_saved *saved,
                           struct ps_error *error)
{
    struct psclient_error reason = {0};
    if (psclient_save(run->asker, 0, SAVE_MS, saved, &reason) != PSCLIENT_OK)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "checkpoint: %.200s", reason.text);
    return PS_OK;
}

/* The pushes in peace come right before those during a save: what a busy machine loses in between
 * hits both. */
static enum ps_status measure(struct checkpoint_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    const struct ps_bench_options *options = bench->options;
    ps_bench_progress(bench, "checkpoint");
    struct ps_bench_figures alone, during;
    struct psclient_saved saved;
    uint64_t taken_ns = 0;
    PS_TRY(ps_bench_load_run(run->load, PS_BENCH_PUSH, options->time_ms, &alone, error));
    PS_TRY(push_while_saving(run, &during, &saved, &taken_ns, error));
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, "push_during_checkpoint",
                                                   options->size, options->outstanding);
    ps_bench_row_add(row, &during);
    ps_bench_row_detail(row, "longest_us", during.longest_us);
    ps_bench_row_detail(row, "checkpoint_seconds", (double)taken_ns / 1e9);
    ps_bench_row_detail(row, "checkpoint_bytes", (double)saved.bytes);
    ps_bench_row_detail(row, "checkpoint_gigabytes_per_second",
                        (double)saved.bytes / (double)taken_ns);
    ps_bench_report_beside(&bench->report, row, "push_without_checkpoint", "without_checkpoint",
                           options->outstanding, &alone);
    /* The longest push in peace is what the longest one during a checkpoint has to be held
     * against. */
    ps_bench_row_detail(ps_bench_report_row(&bench->report, "push_without_checkpoint",
                                            options->size, options->outstanding),
                        "longest_us", alone.longest_us);
    return compare_with_disk(run, row, (double)saved.bytes / (double)taken_ns, error);
}

/* A checkpoint that is slow may be the disk's doing, so it is held against the disk alone, in the
 * same folder; and so is one that is written while nobody pushes. A single push comes before that
 * one: a save of nothing new would write nothing. */
static enum ps_status compare_with_disk(struct checkpoint_run *run, struct ps_bench_row *row,
                                        double gigabytes_per_second, struct ps_error *error)
{
    struct ps_bench_disk_best best;
    struct psclient_saved saved;
    struct ps_bench_figures unused;
    /* It counts like any other when the results are checked. */
    PS_TRY(ps_bench_load_do(run->load, PS_BENCH_PUSH, 1, &unused, error));
    uint64_t started_ns = ps_clock_precise_ns();
    PS_TRY(save(run, &saved, error));
    double idle = (double)saved.bytes / (double)(ps_clock_precise_ns() - started_ns);
    PS_TRY(ps_bench_disk_measure(run->bench, &best, error));
    double disk = best.bytes_per_second / 1e9;
    ps_bench_row_detail(row, "idle_checkpoint_gigabytes_per_second", idle);
    ps_bench_row_detail(row, "idle_checkpoint_to_disk", idle / disk);
    ps_bench_row_detail(row, "checkpoint_to_disk", gigabytes_per_second / disk);
    ps_bench_disk_name(run->bench, row, &best);
    return PS_OK;
}

/* The load runs from just before the checkpoint is asked for until just after it is said to be
 * written, so its rate is that of a server which saves all the time. The load is stopped in any
 * case, since its threads use what the caller releases. */
static enum ps_status push_while_saving(struct checkpoint_run *run,
                                        struct ps_bench_figures *figures,
                                        struct psclient_saved *saved, uint64_t *taken_ns,
                                        struct ps_error *error)
{
    PS_TRY(ps_bench_load_start(run->load, PS_BENCH_PUSH, error));
    uint64_t started_ns = ps_clock_precise_ns();
    enum ps_status status = save(run, saved, error);
    *taken_ns = ps_clock_precise_ns() - started_ns;
    enum ps_status finished =
        ps_bench_load_finish(run->load, figures, status == PS_OK ? error : NULL);
    return status == PS_OK ? finished : status;
}
