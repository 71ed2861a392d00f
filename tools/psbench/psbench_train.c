/* SPDX-License-Identifier: Apache-2.0 */
/* train: steps a second of a real trainer. The other benchmarks push gradients that nobody
 * computed; this one runs pstrain, which reads rows, computes, pushes and pulls as a user's program
 * does, and reports what it says of itself. Both promises are measured one after the other in each
 * repeat, each on servers of its own, and LOGGED once more with computing and communication
 * overlapped. */
#include "base/alloc.h"
#include "base/file.h"
#include "tools/psbench/psbench_job.h"
#include "tools/psbench/psbench_program.h"
#include "json/json_reader.h"

#include <stdio.h>
#include <string.h>

/* The rows and features of a9a, which is what people compare such trainers with. */
#define ROWS 32561
#define FEATURES 123
/* Steps of a worker last about a millisecond, and an epoch has 254 of them. */
#define EPOCH_MS 125
#define DOCUMENT_BYTES_MAX ((size_t)1 << 16)

/* The job of one promise, and how fast it was. */
struct side {
    struct ps_bench_job job;
    double last; /* steps a second in the present repeat, without overlapping */
};

struct train_run {
    struct ps_bench *bench;
    char program[PS_BENCH_PATH_MAX]; /* pstrain */
    char data[PS_BENCH_PATH_MAX];    /* rows to train on */
    struct side sides[2];            /* MEMORY before LOGGED */
    size_t side_count;               /* of those that were started */
};

static enum ps_status open_run(struct train_run *run, struct ps_error *error);
static enum ps_status generate(struct train_run *run, struct ps_error *error);
static void close_run(struct train_run *run);
static enum ps_status measure_all(struct train_run *run, struct ps_error *error);
static enum ps_status measure(struct train_run *run, struct side *side, bool overlaps,
                              struct ps_error *error);
static enum ps_status train(struct train_run *run, const struct ps_bench_job *job, bool overlaps,
                            double *steps_per_second, struct ps_error *error);
static enum ps_status read_steps(const char *path, double *steps_per_second,
                                 struct ps_error *error);

/* Each repeat goes on with the values of the one before: what a step costs does not depend on how
 * well the model knows its rows. */
enum ps_status ps_bench_train(struct ps_bench *bench, struct ps_error *error)
{
    struct train_run *run = ps_zeroed(ps_allocator_heap(), sizeof *run);
    if (run == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a job");
    run->bench = bench;
    bench->steps = 1 + 3 * bench->options->repeat;
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(run, error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure_all(run, error);
    close_run(run);
    ps_release(ps_allocator_heap(), run);
    return status;
}

/* The trainer beside this program, also where --pserver names another server: it is what users of
 * this version have. Its rows are on the disk before a server is started that writes there, too. */
static enum ps_status open_run(struct train_run *run, struct ps_error *error)
{
    struct ps_bench_promises promises = ps_bench_promises_of(run->bench->options);
    if (!ps_bench_program_beside("pstrain", run->program))
        return ps_fail(error, PS_ERR_NOT_FOUND, "no trainer to run at %.400s", run->program);
    PS_TRY(generate(run, error));
    for (; run->side_count < promises.count; run->side_count++)
        PS_TRY(ps_bench_job_start(&run->sides[run->side_count].job, run->bench, "train",
                                  promises.list[run->side_count], run->bench->options->server_count,
                                  error));
    return PS_OK;
}

/* The same rows in every run, from pstrain's own generator. A short run gets fewer of them, since
 * an epoch has to end within its time. */
static enum ps_status generate(struct train_run *run, struct ps_error *error)
{
    char output[PS_BENCH_PATH_MAX], rows[32], features[32];
    /* The hidden model and the labels are the generator's, with a tenth of them flipped. */
    bool is_short = run->bench->options->time_ms < EPOCH_MS;
    (void)snprintf(run->data, sizeof run->data, "%.480s/train.svm", run->bench->folder);
    (void)snprintf(output, sizeof output, "%.480s/generate", run->bench->folder);
    (void)snprintf(rows, sizeof rows, "%d", is_short ? ROWS / 10 : ROWS);
    (void)snprintf(features, sizeof features, "%d", FEATURES);
    const char *const words[] = {run->program, "generate", "--out",      run->data, "--rows", rows,
                                 "--noise",    "0.1",      "--features", features,  NULL};
    return ps_bench_program_run(words, output, error);
}

/* Accepts jobs that were never started. */
static void close_run(struct train_run *run)
{
    for (size_t i = 0; i < PS_ARRAY_COUNT(run->sides); i++)
        ps_bench_job_kill(&run->sides[i].job);
}

/* Overlapping is measured where there is most to wait for. */
static enum ps_status measure_all(struct train_run *run, struct ps_error *error)
{
    for (size_t i = 0; i < run->side_count; i++)
        PS_TRY(measure(run, &run->sides[i], false, error));
    struct side *last = &run->sides[run->side_count - 1];
    return last->job.promise == PS_BENCH_LOGGED ? measure(run, last, true, error) : PS_OK;
}

/* The rows of both promises are of one size and as many workers, and differ by name alone. */
static enum ps_status measure(struct train_run *run, struct side *side, bool overlaps,
                              struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    struct ps_bench_figures figures = {0};
    struct ps_bench_row *row =
        ps_bench_promised_row(bench, overlaps ? "train_pipeline" : "train", side->job.promise,
                              (FEATURES + 1) * sizeof(float), bench->options->workers);
    ps_bench_progress(bench, row->name);
    PS_TRY(train(run, &side->job, overlaps, &figures.per_second, error));
    ps_bench_row_add(row, &figures);
    ps_bench_row_detail(row, "servers", (double)side->job.server_count);
    /* Each beside its neighbour in time. */
    if (overlaps)
        ps_bench_row_ratio(row, "without_pipeline", figures.per_second / side->last);
    else if (side != &run->sides[0])
        ps_bench_row_ratio(row, "memory", figures.per_second / run->sides[0].last);
    if (!overlaps)
        side->last = figures.per_second;
    return PS_OK;
}

/* As a user would run it. */
static enum ps_status train(struct train_run *run, const struct ps_bench_job *job, bool overlaps,
                            double *steps_per_second, struct ps_error *error)
{
    const struct ps_bench_options *options = run->bench->options;
    /* Whole epochs, so that every run goes over all rows; at least one. */
    char output[PS_BENCH_PATH_MAX], workers[32], epochs[32];
    uint64_t epoch_count = options->time_ms / EPOCH_MS > 0 ? options->time_ms / EPOCH_MS : 1;
    (void)snprintf(output, sizeof output, "%.480s/train.json", run->bench->folder);
    (void)snprintf(workers, sizeof workers, "%llu", (unsigned long long)options->workers);
    (void)snprintf(epochs, sizeof epochs, "%llu", (unsigned long long)epoch_count);
    const char *const words[] = {run->program,
                                 "--data",
                                 run->data,
                                 "--servers",
                                 job->addresses,
                                 "--workers",
                                 workers,
                                 "--epochs",
                                 epochs,
                                 "--output",
                                 "json",
                                 "--pipeline",
                                 overlaps ? "1" : "0",
                                 NULL};
    /* It trains, evaluates and prints one document; only its steps are timed, by itself. */
    PS_TRY(ps_bench_program_run(words, output, error));
    return read_steps(output, steps_per_second, error);
}

/* All workers together. */
static enum ps_status read_steps(const char *path, double *steps_per_second, struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    uint8_t *content = NULL;
    size_t size = 0;
    struct ps_json *document = NULL;
    PS_TRY(ps_file_read_all(ps_files_real(), path, DOCUMENT_BYTES_MAX, memory, &content, &size,
                            error));
    enum ps_status status =
        ps_json_parse((struct ps_bytes){content, size}, DOCUMENT_BYTES_MAX, &document, error);
    if (status == PS_OK &&
        !ps_json_real_of(ps_json_member(document, "steps_per_second"), steps_per_second))
        status = ps_fail(error, PS_ERR_INTERNAL, "the trainer does not say how many steps it made");
    ps_json_destroy(document);
    ps_release(memory, content);
    return status;
}
