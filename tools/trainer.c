/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop. Workers never wait for each other: a gradient is computed from a model that
 * others change meanwhile, which is what asynchronous training is. Rows are shared out by a fixed
 * rule and shuffled by a seed, so the order of each worker's batches repeats; the order in which
 * their pushes meet on the servers does not. */
#include "tools/trainer.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "tools/remote_model.h"

#include <math.h>
#include <string.h>

/* Everything that one worker owns. Nothing in it is shared but what is marked as borrowed, so
 * workers need no locks. */
struct worker {
    const struct ps_trainer_options *options; /* borrowed */
    struct ps_trainer_progress *progress;     /* borrowed */
    struct ps_thread thread;
    uint32_t number; /* over all processes */
    uint32_t count;  /* of all processes */
    struct ps_remote_model model;
    size_t *rows; /* this worker's share of the training rows */
    size_t row_count;
    double *scratch;
    uint64_t waiting_ns;         /* of the steps that were not noted yet */
    struct ps_model_counts seen; /* by the progress */
    enum ps_status status;
    struct ps_error error;
};

static enum ps_status run_workers(struct worker *workers, const struct ps_trainer_options *options,
                                  struct ps_model_servers *servers,
                                  struct ps_trainer_progress *progress, struct ps_error *error);
static enum ps_status worker_create(struct worker *worker, const struct ps_trainer_options *options,
                                    uint32_t i, struct ps_model_servers *servers,
                                    struct ps_trainer_progress *progress);
static void worker_destroy(struct worker *worker);
static void worker_main(void *argument);
static enum ps_status train(struct worker *worker);
static enum ps_status train_epochs(struct worker *worker);
static enum ps_status train_epoch(struct worker *worker, struct ps_random *random);
static enum ps_status train_batch(struct worker *worker, const size_t *rows, size_t count);
static void note_loss(struct worker *worker, double loss, size_t examples);
static void note_steps(struct worker *worker);
static void take_rows(struct worker *worker);
static void shuffle(struct worker *worker, struct ps_random *random);
static enum ps_status finish_run(struct worker *workers, uint32_t count, struct ps_trained *trained,
                                 struct ps_error *error);
static enum ps_status copy_values(const struct ps_model_values *values,
                                  const struct ps_linear_model *shape, struct ps_trained *trained,
                                  struct ps_error *error);

/* The servers come first and go last: the models refer to them. */
enum ps_status ps_trainer_run(const struct ps_trainer_options *options,
                              struct ps_trainer_progress *progress, struct ps_trained *trained,
                              struct ps_error *error)
{
    PS_ASSERT(options->workers > 0 && options->workers <= PS_WORKERS_MAX);
    /* The command line was checked; whoever else calls this must do the same. */
    PS_ASSERT(options->part < options->parts && options->batch > 0);
    const struct ps_allocator *heap = ps_allocator_heap();
    struct worker *workers = ps_zeroed_array(heap, options->workers, sizeof *workers);
    if (workers == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u workers", options->workers);
    struct ps_model_servers servers;
    enum ps_status status = ps_model_servers_open(&servers, &options->client, error);
    if (status == PS_OK) {
        status = run_workers(workers, options, &servers, progress, error);
        if (status == PS_OK)
            status = finish_run(workers, options->workers, trained, error);
        for (uint32_t i = 0; i < options->workers; i++)
            worker_destroy(&workers[i]);
        ps_model_servers_close(&servers);
    }
    ps_release(heap, workers);
    return status;
}

/* All workers are made before the first is started, and all threads are joined before this returns.
 * One failure stops the others after their step; a run that was told to stop is not a failure. */
static enum ps_status run_workers(struct worker *workers, const struct ps_trainer_options *options,
                                  struct ps_model_servers *servers,
                                  struct ps_trainer_progress *progress, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < options->workers && status == PS_OK; i++)
        status = worker_create(&workers[i], options, i, servers, progress);
    if (status != PS_OK)
        return ps_fail(error, status, "no memory for the workers' buffers");
    for (uint32_t i = 0; i < options->workers && status == PS_OK; i++)
        status = ps_thread_start(&workers[i].thread, "worker", worker_main, &workers[i], error);
    if (status != PS_OK)
        atomic_store(&progress->stop, true);
    /* Also those that were never started: a zeroed thread is joined at once. */
    for (uint32_t i = 0; i < options->workers; i++)
        ps_thread_join(&workers[i].thread);
    return status;
}

/* Accepts zeros, as a failed run leaves them. */
void ps_trained_release(struct ps_trained *trained)
{
    ps_release(ps_allocator_heap(), trained->weights);
    *trained = (struct ps_trained){0};
}

/* The first failure counts; else the first worker pulls the final model. The model is pulled after
 * all workers have ended, so it has every push of this process in it. */
static enum ps_status finish_run(struct worker *workers, uint32_t count, struct ps_trained *trained,
                                 struct ps_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        if (workers[i].status != PS_OK)
            return ps_fail(error, workers[i].status, "%s", workers[i].error.text);
    }
    struct worker *first = &workers[0];
    PS_TRY(ps_remote_model_refresh(&first->model, error));
    return copy_values(&first->model.at_hand, &first->options->model, trained, error);
}

/* The caller keeps the result for longer than the workers live. */
static enum ps_status copy_values(const struct ps_model_values *values,
                                  const struct ps_linear_model *shape, struct ps_trained *trained,
                                  struct ps_error *error)
{
    size_t weights = shape->features * shape->outputs;
    float *copy = ps_zeroed_array(ps_allocator_heap(), weights + shape->outputs, sizeof *copy);
    if (copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the trained model");
    memcpy(copy, values->weights, weights * sizeof *copy);
    memcpy(copy + weights, values->bias, shape->outputs * sizeof *copy);
    *trained = (struct ps_trained){.weights = copy, .bias = copy + weights};
    return PS_OK;
}

/* Memory is taken once, before the run; a step allocates nothing of ours. The number of a worker is
 * unique over all processes of the job, so that their shares of the rows and their seeds differ. */
static enum ps_status worker_create(struct worker *worker, const struct ps_trainer_options *options,
                                    uint32_t i, struct ps_model_servers *servers,
                                    struct ps_trainer_progress *progress)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    worker->options = options;
    worker->progress = progress;
    worker->number = options->part * options->workers + i;
    worker->count = options->parts * options->workers;
    worker->scratch = ps_zeroed_array(heap, options->model.outputs, sizeof(double));
    worker->rows =
        ps_zeroed_array(heap, options->train->row_count / worker->count + 1, sizeof(size_t));
    if (worker->scratch == NULL || worker->rows == NULL)
        return PS_ERR_NO_MEMORY;
    take_rows(worker);
    const struct ps_remote_model_options wish = {.servers = servers,
                                                 .shape = options->model,
                                                 .config = options->config,
                                                 .name = options->name,
                                                 .call_timeout_ms = options->call_timeout_ms,
                                                 .worker = worker->number,
                                                 .pipeline = options->pipeline};
    return ps_remote_model_init(&worker->model, &wish);
}

/* The model goes first: steps that are under way borrow from it, and have to end. */
static void worker_destroy(struct worker *worker)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    ps_remote_model_fini(&worker->model);
    ps_release(heap, worker->scratch);
    ps_release(heap, worker->rows);
}

/* Every count-th row, so that shares are alike whatever the order of the file. Together the shares
 * of all workers of all processes are the file, and no row is in two of them. */
static void take_rows(struct worker *worker)
{
    for (size_t row = worker->number; row < worker->options->train->row_count; row += worker->count)
        worker->rows[worker->row_count++] = row;
}

/* The other workers are told, whatever ended this one; a job with a worker missing would train on
 * less data than it claims. The stop flag is read by every worker between two batches. */
static void worker_main(void *argument)
{
    struct worker *worker = argument;
    worker->status = train(worker);
    if (worker->status != PS_OK)
        atomic_store(&worker->progress->stop, true);
}

/* Only what lies between the first step and the last is timed: finding the servers takes as long
 * for one step as for a million. What was done is noted after a failure, too. */
static enum ps_status train(struct worker *worker)
{
    PS_TRY(ps_remote_model_refresh(&worker->model, &worker->error));
    uint64_t start_ns = ps_clock_precise_ns();
    enum ps_status status = train_epochs(worker);
    /* The steps that the end has waited for. */
    note_steps(worker);
    atomic_fetch_add(&worker->progress->training_ns, ps_clock_precise_ns() - start_ns);
    return status;
}

/* Whoever is told to stop still waits for the steps under way, so that no push is left whose fate
 * nobody knows. */
static enum ps_status train_epochs(struct worker *worker)
{
    struct ps_random random;
    ps_random_init(&random, worker->options->seed + worker->number);
    for (uint32_t epoch = 0; epoch < worker->options->epochs; epoch++) {
        if (atomic_load(&worker->progress->stop))
            break;
        PS_TRY(train_epoch(worker, &random));
    }
    uint64_t start_ns = ps_clock_precise_ns();
    enum ps_status status = ps_remote_model_end(&worker->model, &worker->error);
    worker->waiting_ns += ps_clock_precise_ns() - start_ns;
    return status;
}

/* The rows are shuffled anew in each epoch; a fixed order would let the last rows of the file pull
 * the model their way at each end. */
static enum ps_status train_epoch(struct worker *worker, struct ps_random *random)
{
    size_t batch = worker->options->batch;
    shuffle(worker, random);
    for (size_t start = 0; start < worker->row_count; start += batch) {
        if (atomic_load(&worker->progress->stop))
            return PS_OK;
        size_t left = worker->row_count - start;
        PS_TRY(train_batch(worker, worker->rows + start, left < batch ? left : batch));
    }
    return PS_OK;
}

/* Fisher and Yates, from the end: every order is equally likely. */
static void shuffle(struct worker *worker, struct ps_random *random)
{
    for (size_t i = worker->row_count; i > 1; i--) {
        size_t j = (size_t)ps_random_below(random, i);
        size_t row = worker->rows[i - 1];
        worker->rows[i - 1] = worker->rows[j];
        worker->rows[j] = row;
    }
}

/* The gradient is cleared first, since the function adds to it. Rows are given by number, the last
 * batch of an epoch may be shorter. */
static enum ps_status train_batch(struct worker *worker, const size_t *rows, size_t count)
{
    const struct ps_trainer_options *options = worker->options;
    struct ps_remote_model *model = &worker->model;
    struct ps_model_values gradient;
    uint64_t start_ns = ps_clock_precise_ns();
    PS_TRY(ps_remote_model_ready(model, &gradient, &worker->error));
    uint64_t ready_ns = ps_clock_precise_ns();
    size_t outputs = options->model.outputs;
    memset(gradient.weights, 0, options->model.features * outputs * sizeof(float));
    memset(gradient.bias, 0, outputs * sizeof(float));
    double loss = ps_linear_gradient(&options->model, options->train, options->map, rows, count,
                                     model->at_hand.weights, model->at_hand.bias, gradient.weights,
                                     gradient.bias, worker->scratch);
    /* Clearing and shuffling count as computing: whatever is not the servers' time. */
    uint64_t computed_ns = ps_clock_precise_ns();
    PS_TRY(ps_remote_model_push(model, &worker->error));
    worker->waiting_ns += ready_ns - start_ns + ps_clock_precise_ns() - computed_ns;
    note_loss(worker, loss, count);
    note_steps(worker);
    return PS_OK;
}

/* A lost update of the smoothed loss between two workers only makes it less smooth. */
static void note_loss(struct worker *worker, double loss, size_t examples)
{
    struct ps_trainer_progress *progress = worker->progress;
    atomic_fetch_add(&progress->examples, examples);
    double smooth = (double)atomic_load(&progress->loss_millionths) / 1e6;
    smooth = smooth > 0 ? 0.98 * smooth + 0.02 * loss : loss;
    if (isfinite(smooth))
        atomic_store(&progress->loss_millionths, (unsigned long long)(smooth * 1e6));
}

/* Each model counts for itself; the sums get the differences, since they are shared. Retries are
 * those of the client, which all workers have in common. */
static void note_steps(struct worker *worker)
{
    struct ps_trainer_progress *progress = worker->progress;
    struct ps_model_counts counts = worker->model.counts;
    atomic_fetch_add(&progress->steps, counts.steps - worker->seen.steps);
    atomic_fetch_add(&progress->pushes, counts.pushes - worker->seen.pushes);
    atomic_fetch_add(&progress->lost_pushes, counts.lost_pushes - worker->seen.lost_pushes);
    atomic_store(&progress->retries, psclient_retries(worker->model.options.servers->client));
    atomic_fetch_add(&progress->waiting_ns, worker->waiting_ns);
    worker->seen = counts;
    worker->waiting_ns = 0;
}
