/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop. Asynchronous workers never wait for each other: a gradient is computed from a
 * model that others change meanwhile. The order of each worker's batches repeats from run to run;
 * the order in which their pushes meet on the servers does not. Synchronous workers make the same
 * model in every run, to the bit: the servers put each round's contributions together in the order
 * of the workers. */
#include "tools/trainer.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "tools/remote_model.h"
#include "tools/train_share.h"

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
    struct ps_train_share *shares; /* of the training rows: `accumulate` of them */
    uint64_t steps;                /* of an epoch */
    double *scratch;
    float *part;                 /* the gradient of one of several shares */
    float *local;                /* values of local steps, and behind them a batch's gradient */
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
static enum ps_status train_rounds(struct worker *worker);
static void begin_epoch(struct worker *worker, uint64_t epoch);
static enum ps_status train_batch(struct worker *worker, uint64_t step);
static double compute(struct worker *worker, uint64_t step, const struct ps_model_values *gradient,
                      size_t *examples);
static void note_loss(struct worker *worker, double loss, size_t examples);
static void note_steps(struct worker *worker);
static enum ps_status take_rows(struct worker *worker);
static enum ps_status finish_run(struct worker *workers, uint32_t count, struct ps_trained *trained,
                                 struct ps_error *error);
static enum ps_status copy_values(const struct ps_model_values *values,
                                  const struct ps_linear_model *shape, struct ps_trained *trained,
                                  struct ps_error *error);

/* Whoever sets no local steps makes them one by one. */
static uint32_t batches_of_step(const struct ps_trainer_options *options)
{
    return options->local_steps > 1 ? options->local_steps : 1;
}

/* By rounds or by clocks; how many workers take part only the servers need to know. */
static bool is_sync(const struct ps_trainer_options *options)
{
    return options->rounds.size > 0 || options->clocks != NULL;
}

/* The servers come first and go last: the models refer to them. */
enum ps_status ps_trainer_run(const struct ps_trainer_options *options,
                              struct ps_trainer_progress *progress, struct ps_trained *trained,
                              struct ps_error *error)
{
    PS_ASSERT(options->workers > 0 && options->workers <= PS_WORKERS_MAX);
    /* The command line was checked; whoever else calls this must do the same. */
    PS_ASSERT(options->part < options->parts && options->batch > 0);
    PS_ASSERT(options->accumulate > 0 && !(is_sync(options) && options->pipeline));
    PS_ASSERT(batches_of_step(options) == 1 || !options->pipeline);
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

/* The bias lies behind the weights. */
uint32_t ps_trained_digest(const struct ps_trained *trained, const struct ps_linear_model *shape)
{
    /* One number to compare two runs by; nobody else reads it, so that any good hash will do. */
    size_t floats = (shape->features + 1) * shape->outputs;
    PS_ASSERT(trained->bias == trained->weights + shape->features * shape->outputs);
    return ps_hash_fnv1a32(
        (struct ps_bytes){(const uint8_t *)trained->weights, floats * sizeof *trained->weights});
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
    worker->part = ps_zeroed_array(heap, (options->model.features + 1) * options->model.outputs,
                                   sizeof(float));
    worker->local = ps_zeroed_array(heap, (options->model.features + 1) * options->model.outputs,
                                    2 * sizeof(float));
    if (worker->scratch == NULL || worker->part == NULL || worker->local == NULL)
        return PS_ERR_NO_MEMORY;
    PS_TRY(take_rows(worker));
    const struct ps_remote_model_options wish = {.servers = servers,
                                                 .shape = options->model,
                                                 .config = options->config,
                                                 .name = options->name,
                                                 .call_timeout_ms = options->call_timeout_ms,
                                                 .worker = worker->number,
                                                 .pipeline = options->pipeline,
                                                 .rounds = options->rounds,
                                                 .clocks = options->clocks};
    return ps_remote_model_init(&worker->model, &wish);
}

/* The model goes first: steps that are under way borrow from it, and have to end. */
static void worker_destroy(struct worker *worker)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    ps_remote_model_fini(&worker->model);
    for (uint32_t i = 0; worker->shares != NULL && i < worker->options->accumulate; i++)
        ps_train_share_fini(&worker->shares[i]);
    ps_release(heap, worker->scratch);
    ps_release(heap, worker->part);
    ps_release(heap, worker->local);
    ps_release(heap, worker->shares);
}

/* Worker w takes the shares w * accumulate and those behind it, so that one worker that accumulates
 * has the same rows as several that do not. Where workers wait for each other all make as many
 * steps as the longest share has: a worker whose share has nothing for the last one contributes
 * zeros. */
static enum ps_status take_rows(struct worker *worker)
{
    const struct ps_trainer_options *options = worker->options;
    uint64_t each = options->accumulate;
    uint64_t count = worker->count * each;
    size_t longest = 0;
    worker->shares = ps_zeroed_array(ps_allocator_heap(), each, sizeof *worker->shares);
    if (worker->shares == NULL)
        return PS_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < each; i++) {
        struct ps_train_share *share = &worker->shares[i];
        PS_TRY(ps_train_share_init(share, worker->number * each + i, count,
                                   options->train->row_count, options->seed));
        longest = share->row_count > longest ? share->row_count : longest;
    }
    /* Also the shares of other processes count, of which nothing but the number is known here. */
    if (is_sync(options))
        longest = (size_t)((options->train->row_count + count - 1) / count);
    uint64_t batches = ps_train_share_steps(longest, options->batch);
    worker->steps = ps_train_share_steps((size_t)batches, batches_of_step(options));
    return PS_OK;
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
    const struct ps_trainer_progress *progress = worker->progress;
    if (is_sync(worker->options))
        return train_rounds(worker);
    for (uint32_t epoch = 0; epoch < worker->options->epochs; epoch++) {
        if (atomic_load(&progress->stop))
            break;
        begin_epoch(worker, epoch);
        for (uint64_t step = 0; step < worker->steps && !atomic_load(&progress->stop); step++)
            PS_TRY(train_batch(worker, step));
    }
    uint64_t start_ns = ps_clock_precise_ns();
    enum ps_status status = ps_remote_model_end(&worker->model, &worker->error);
    worker->waiting_ns += ps_clock_precise_ns() - start_ns;
    return status;
}

/* The servers know which step is next: a worker that was killed, or that others went on without,
 * takes the batch of the round that it is in now, or of its clock. The first steps after a run that
 * has ended begin another one. */
static enum ps_status train_rounds(struct worker *worker)
{
    /* The run is over at the next position that is a multiple of its steps, for every worker at the
     * same one, whenever it has begun. */
    const struct ps_remote_model *model = &worker->model;
    uint64_t steps = worker->steps * worker->options->epochs;
    uint64_t position = ps_remote_model_position(model);
    uint64_t first = steps == 0 ? 0 : position / steps * steps;
    for (; position < first + steps; position = ps_remote_model_position(model)) {
        bool stops = atomic_load(&worker->progress->stop);
        if (!ps_remote_model_begin_round(&worker->model, stops))
            return PS_OK;
        /* A model that was lost begins anew, with a version that is lower. */
        uint64_t done = position > first ? position - first : 0;
        begin_epoch(worker, done / worker->steps);
        PS_TRY(train_batch(worker, done % worker->steps));
    }
    return PS_OK;
}

/* All shares of one worker are in the same epoch: each has as many rows as the others, or one
 * less. */
static void begin_epoch(struct worker *worker, uint64_t epoch)
{
    for (uint32_t i = 0; i < worker->options->accumulate; i++)
        ps_train_share_begin(&worker->shares[i], epoch);
}

/* One step. The time of computing is whatever is not the servers': clearing and shuffling,
 * too. */
static enum ps_status train_batch(struct worker *worker, uint64_t step)
{
    struct ps_remote_model *model = &worker->model;
    struct ps_model_values gradient;
    size_t examples = 0;
    uint64_t start_ns = ps_clock_precise_ns();
    /* What it waits for here is the step before last, of a pipeline, or a model that was lost. */
    PS_TRY(ps_remote_model_ready(model, &gradient, &worker->error));
    uint64_t ready_ns = ps_clock_precise_ns();
    double loss = compute(worker, step, &gradient, &examples);
    uint64_t computed_ns = ps_clock_precise_ns();
    PS_TRY(ps_remote_model_push(model, &worker->error));
    worker->waiting_ns += ready_ns - start_ns + ps_clock_precise_ns() - computed_ns;
    note_loss(worker, loss, examples);
    note_steps(worker);
    return PS_OK;
}

/* Adds one array of floats to another, as a server puts contributions together. In the type of the
 * parameters, as the servers do: wider sums would be better, and other ones. */
static void add(float *sum, const float *part, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += part[i];
}

/* Divided, and not multiplied by the inverse, which would round twice. */
static void divide(float *sum, float by, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] /= by;
}

/* The gradient of one share's batch, or zeros where it has none. The function adds, so that what it
 * adds to is cleared first. */
static double compute_batch(struct worker *worker, const struct ps_train_share *share,
                            uint64_t batch, const struct ps_model_values *values,
                            const struct ps_model_values *gradient, size_t *examples)
{
    const struct ps_trainer_options *options = worker->options;
    size_t outputs = options->model.outputs;
    const size_t *rows;
    memset(gradient->weights, 0, options->model.features * outputs * sizeof(float));
    memset(gradient->bias, 0, outputs * sizeof(float));
    size_t count = ps_train_share_batch(share, batch, options->batch, &rows);
    /* Rows, not batches: the last batch of an epoch may be short. */
    *examples += count;
    if (count == 0)
        return 0;
    return ps_linear_gradient(&options->model, options->train, options->map, rows, count,
                              values->weights, values->bias, gradient->weights, gradient->bias,
                              worker->scratch);
}

/* One local step: of plain descent, whose state is the values alone. What a momentum of a worker's
 * own remembers would be lost with the worker, and a run that goes on would come to other bits. */
static void descend(float *values, const float *gradient, double rate, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] -= (float)rate * gradient[i];
}

/* How far local steps came: where they began minus where they ended, which is a gradient whose
 * descent leads there. */
static void subtract(const float *begin, const float *end, float *difference, size_t count)
{
    for (size_t i = 0; i < count; i++)
        difference[i] = begin[i] - end[i];
}

/* Local steps from the values at hand, which stay as they are: the servers' answer takes their
 * place, and not what this worker has made of them. An epoch's last step may have fewer batches. */
static double walk(struct worker *worker, const struct ps_train_share *share, uint64_t step,
                   const struct ps_model_values *moved, size_t *examples)
{
    const struct ps_trainer_options *options = worker->options;
    const struct ps_model_values *begin = &worker->model.at_hand;
    size_t outputs = options->model.outputs;
    size_t weights = options->model.features * outputs;
    /* Weights and bias of each lie together, so that a step is one loop over both. */
    const struct ps_model_values end = {worker->local, worker->local + weights};
    const struct ps_model_values gradient = {end.bias + outputs, end.bias + outputs + weights};
    /* The values at hand are those of the last round, also after a step whose answer was lost: the
     * way is measured from what the servers have. */
    memcpy(end.weights, begin->weights, weights * sizeof(float));
    memcpy(end.bias, begin->bias, outputs * sizeof(float));
    double loss = 0;
    /* A short share, or the end of an epoch, has fewer batches than a step may take. */
    uint32_t taken = 0;
    for (uint32_t i = 0; i < options->local_steps; i++) {
        uint64_t batch = step * options->local_steps + i;
        size_t before = *examples;
        loss += compute_batch(worker, share, batch, &end, &gradient, examples);
        if (*examples == before)
            break; /* the share has no more */
        taken++;
        descend(end.weights, gradient.weights, options->local_rate, weights + outputs);
    }
    subtract(begin->weights, end.weights, moved->weights, weights);
    subtract(begin->bias, end.bias, moved->bias, outputs);
    return taken > 0 ? loss / taken : 0;
}

/* What one share contributes to a step. */
static double compute_share(struct worker *worker, const struct ps_train_share *share,
                            uint64_t step, const struct ps_model_values *gradient, size_t *examples)
{
    if (batches_of_step(worker->options) > 1)
        return walk(worker, share, step, gradient, examples);
    return compute_batch(worker, share, step, &worker->model.at_hand, gradient, examples);
}

/* The average over the shares, added up in their order and then divided: the same operations on the
 * same numbers as at a server, in the same order, make the same bits. Returns the mean loss. */
static double compute(struct worker *worker, uint64_t step, const struct ps_model_values *gradient,
                      size_t *examples)
{
    const struct ps_linear_model *shape = &worker->options->model;
    uint32_t shares = worker->options->accumulate;
    size_t weights = shape->features * shape->outputs;
    const struct ps_model_values part = {worker->part, worker->part + weights};
    double loss = compute_share(worker, &worker->shares[0], step, gradient, examples);
    for (uint32_t i = 1; i < shares; i++) {
        loss += compute_share(worker, &worker->shares[i], step, &part, examples);
        add(gradient->weights, part.weights, weights);
        add(gradient->bias, part.bias, shape->outputs);
    }
    /* One share stays as it is: runs without accumulation keep their bits. */
    if (shares > 1) {
        divide(gradient->weights, (float)shares, weights);
        divide(gradient->bias, (float)shares, shape->outputs);
    }
    return loss / shares;
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
    atomic_fetch_add(&progress->late_pushes, counts.late_pushes - worker->seen.late_pushes);
    atomic_store(&progress->retries, psclient_retries(worker->model.options.servers->client));
    atomic_fetch_add(&progress->waiting_ns, worker->waiting_ns);
    worker->seen = counts;
    worker->waiting_ns = 0;
}
