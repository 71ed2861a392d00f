/* The training loop. Workers never wait for each other: a gradient is computed from a model that
 * others change meanwhile, which is what asynchronous training is. Rows are shared out by a fixed
 * rule and shuffled by a seed, so the order of each worker's batches repeats; the order in which
 * their pushes meet on the servers does not. */
#include "tools/trainer.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Longest parameter name that a run makes. */
#define NAME_BYTES 128

/* Everything that one worker owns. Nothing in it is shared but what is marked as borrowed, so
 * workers need no locks. */
struct worker {
    const struct ps_trainer_options *options; /* borrowed */
    struct ps_trainer_progress *progress;     /* borrowed */
    struct ps_thread thread;
    uint32_t number; /* over all processes */
    uint32_t count;  /* of all processes */
    struct psclient *client;
    float *weights, *bias, *weight_gradient, *bias_gradient;
    size_t weights_size, bias_size; /* bytes */
    size_t *rows;                   /* this worker's share of the training rows */
    size_t row_count;
    double *scratch;
    char weights_name[NAME_BYTES], bias_name[NAME_BYTES];
    struct psclient_parameter model[2];    /* the model as the client sees it */
    struct psclient_gradient gradients[2]; /* and its gradient */
    uint64_t retries_seen;
    enum ps_status status;
    struct ps_error error;
};

static enum ps_status worker_create(struct worker *worker, const struct ps_trainer_options *options,
                                    uint32_t i, struct ps_trainer_progress *progress);
static void worker_destroy(struct worker *worker);
static void worker_main(void *argument);
static enum ps_status train(struct worker *worker);
static enum ps_status train_epoch(struct worker *worker, struct ps_random *random);
static enum ps_status train_batch(struct worker *worker, const size_t *rows, size_t count);
static enum ps_status initialise(struct worker *worker);
static enum ps_status initialise_once(struct worker *worker, uint64_t timeout_ms, bool *finished,
                                      struct psclient_error *cause);
static enum ps_status pull_model(struct worker *worker);
static enum ps_status push_gradient(struct worker *worker);
static enum ps_status fail_from_client(struct worker *worker, const char *what,
                                       const struct psclient_error *cause);
static void note_progress(struct worker *worker, double loss, size_t examples);
static void describe_model(struct worker *worker);
static void take_rows(struct worker *worker);
static void shuffle(struct worker *worker, struct ps_random *random);
static enum ps_status finish_run(struct worker *workers, uint32_t count, struct ps_trained *trained,
                                 struct ps_error *error);

/* All workers are made before the first is started, and all threads are joined before anything is
 * released. One failure stops the others after their step; a run that was told to stop is not a
 * failure. */
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

    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < options->workers && status == PS_OK; i++)
        status = worker_create(&workers[i], options, i, progress);
    if (status != PS_OK)
        (void)ps_fail(error, status, "no memory for the workers' buffers");
    for (uint32_t i = 0; i < options->workers && status == PS_OK; i++)
        status = ps_thread_start(&workers[i].thread, "worker", worker_main, &workers[i], error);
    if (status != PS_OK)
        atomic_store(&progress->stop, true);
    for (uint32_t i = 0; i < options->workers; i++)
        ps_thread_join(&workers[i].thread);
    if (status == PS_OK)
        status = finish_run(workers, options->workers, trained, error);

    for (uint32_t i = 0; i < options->workers; i++)
        worker_destroy(&workers[i]);
    ps_release(heap, workers);
    return status;
}

/* Accepts zeros, as a failed run leaves them. */
void ps_trained_release(struct ps_trained *trained)
{
    ps_release(ps_allocator_heap(), trained->weights);
    ps_release(ps_allocator_heap(), trained->bias);
    *trained = (struct ps_trained){0};
}

/* The first failure counts; else the first worker pulls the final model and hands it over. The
 * model is pulled after all workers have ended, so it has every push of this process in it. The
 * buffers of the first worker go to the caller, without a copy. */
static enum ps_status finish_run(struct worker *workers, uint32_t count, struct ps_trained *trained,
                                 struct ps_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        if (workers[i].status != PS_OK)
            return ps_fail(error, workers[i].status, "%s", workers[i].error.text);
    }
    struct worker *first = &workers[0];
    enum ps_status status = pull_model(first);
    if (status != PS_OK)
        return ps_fail(error, status, "%s", first->error.text);
    *trained = (struct ps_trained){.weights = first->weights, .bias = first->bias};
    first->weights = NULL;
    first->bias = NULL;
    return PS_OK;
}

/* Memory is taken once, before the run; a step allocates nothing of ours. The number of a worker is
 * unique over all processes of the job, so that their shares of the rows and their seeds differ. */
static enum ps_status worker_create(struct worker *worker, const struct ps_trainer_options *options,
                                    uint32_t i, struct ps_trainer_progress *progress)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    size_t outputs = options->model.outputs;
    size_t weights = options->model.features * outputs;
    worker->weights_size = weights * sizeof(float);
    worker->bias_size = outputs * sizeof(float);
    worker->options = options;
    worker->progress = progress;
    worker->number = options->part * options->workers + i;
    worker->count = options->parts * options->workers;
    worker->weights = ps_zeroed_array(heap, weights, sizeof(float));
    worker->bias = ps_zeroed_array(heap, outputs, sizeof(float));
    worker->weight_gradient = ps_zeroed_array(heap, weights, sizeof(float));
    worker->bias_gradient = ps_zeroed_array(heap, outputs, sizeof(float));
    worker->scratch = ps_zeroed_array(heap, outputs, sizeof(double));
    worker->rows =
        ps_zeroed_array(heap, options->train->row_count / worker->count + 1, sizeof(size_t));
    if (worker->weights == NULL || worker->bias == NULL || worker->weight_gradient == NULL ||
        worker->bias_gradient == NULL || worker->scratch == NULL || worker->rows == NULL)
        return PS_ERR_NO_MEMORY;
    (void)snprintf(worker->weights_name, NAME_BYTES, "%s/weight", options->name);
    (void)snprintf(worker->bias_name, NAME_BYTES, "%s/bias", options->name);
    describe_model(worker);
    take_rows(worker);
    return PS_OK;
}

/* The client is given the same two structures in every step; they point to the worker's own
 * buffers, where pulled values arrive. */
static void describe_model(struct worker *worker)
{
    const char *names[2] = {worker->weights_name, worker->bias_name};
    float *values[2] = {worker->weights, worker->bias};
    const float *gradients[2] = {worker->weight_gradient, worker->bias_gradient};
    size_t sizes[2] = {worker->weights_size, worker->bias_size};
    struct ps_bytes config = worker->options->config;
    for (size_t i = 0; i < 2; i++) {
        worker->model[i] = (struct psclient_parameter){.name = names[i],
                                                       .type = PSCLIENT_FLOAT32,
                                                       .content = values[i],
                                                       .content_size = sizes[i],
                                                       .config = config.data,
                                                       .config_size = config.size};
        worker->gradients[i] = (struct psclient_gradient){.name = names[i],
                                                          .type = PSCLIENT_FLOAT32,
                                                          .content = gradients[i],
                                                          .content_size = sizes[i]};
    }
}

/* The client goes first: it may still refer to the buffers. */
static void worker_destroy(struct worker *worker)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    psclient_close(worker->client);
    ps_release(heap, worker->weights);
    ps_release(heap, worker->bias);
    ps_release(heap, worker->weight_gradient);
    ps_release(heap, worker->bias_gradient);
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

/* The client is opened in the worker's own thread: its threads and connections begin there. */
static enum ps_status train(struct worker *worker)
{
    struct psclient_error cause;
    if (psclient_open(&worker->options->client, &worker->client, &cause) != PSCLIENT_OK)
        return fail_from_client(worker, "find the servers", &cause);
    PS_TRY(initialise(worker));
    struct ps_random random;
    ps_random_init(&random, worker->options->seed + worker->number);
    for (uint32_t epoch = 0; epoch < worker->options->epochs; epoch++) {
        if (atomic_load(&worker->progress->stop))
            return PS_OK;
        PS_TRY(train_epoch(worker, &random));
    }
    return PS_OK;
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

/* A model that is one push older than the newest would do as well; it is pulled in each step
 * because other workers pushed meanwhile. The gradient is cleared first, since the function adds to
 * it. Rows are given by number, the last batch of an epoch may be shorter. */
static enum ps_status train_batch(struct worker *worker, const size_t *rows, size_t count)
{
    const struct ps_trainer_options *options = worker->options;
    PS_TRY(pull_model(worker));
    memset(worker->weight_gradient, 0, worker->weights_size);
    memset(worker->bias_gradient, 0, worker->bias_size);
    double loss = ps_linear_gradient(&options->model, options->train, options->map, rows, count,
                                     worker->weights, worker->bias, worker->weight_gradient,
                                     worker->bias_gradient, worker->scratch);
    PS_TRY(push_gradient(worker));
    note_progress(worker, loss, count);
    return PS_OK;
}

/* Selected: puts the values at hand (zeros at first, the last pulled ones when the servers lost
 * their state). Not selected: somebody else did, and pulling gets theirs. The deadline is for all
 * tries together. Called again in the middle of a run when servers have lost their state. */
static enum ps_status initialise(struct worker *worker)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(clock, worker->options->call_timeout_ms);
    for (;;) {
        struct psclient_error cause;
        bool finished = false;
        /* The time left of the one deadline goes down into the call, and no call begins a new
         * one. */
        uint64_t left_ms = ps_time_left_ms(clock, deadline_ms);
        PS_TRY(initialise_once(worker, left_ms, &finished, &cause));
        if (finished)
            return PS_OK;
        if (ps_time_left_ms(clock, deadline_ms) == 0)
            return fail_from_client(worker, "finish initialisation", &cause);
    }
}

/* PS_OK without *finished: a server, or the lock, was lost meanwhile, as `cause` says, so that it
 * has to be done again. The first worker to ask is selected and writes the values; all others wait
 * inside psclient_begin_init until it has finished. A lock that was lost in between (the worker was
 * too slow, a server restarted) makes another try, not a failure. */
static enum ps_status initialise_once(struct worker *worker, uint64_t timeout_ms, bool *finished,
                                      struct psclient_error *cause)
{
    int selected = 0;
    if (psclient_begin_init(worker->client, timeout_ms, &selected, cause) != PSCLIENT_OK)
        return fail_from_client(worker, "wait for initialisation", cause);
    *finished = !selected;
    if (!selected)
        return PS_OK;
    if (psclient_init(worker->client, worker->model, 2, timeout_ms, NULL, cause) != PSCLIENT_OK)
        return fail_from_client(worker, "initialise the parameters", cause);
    int status = psclient_finish_init(worker->client, timeout_ms, cause);
    if (status != PSCLIENT_OK && status != PSCLIENT_NOT_INITIALIZED)
        return fail_from_client(worker, "finish initialisation", cause);
    *finished = status == PSCLIENT_OK;
    return PS_OK;
}

/* A server that lost its state says that it is not initialised: the values at hand, the last ones
 * pulled, are put back, and training goes on from there. */
static enum ps_status pull_model(struct worker *worker)
{
    struct psclient_error cause;
    uint64_t timeout_ms = worker->options->call_timeout_ms;
    int status = psclient_pull(worker->client, worker->model, 2, timeout_ms, NULL, &cause);
    if (status == PSCLIENT_NOT_INITIALIZED) {
        PS_TRY(initialise(worker));
        status = psclient_pull(worker->client, worker->model, 2, timeout_ms, NULL, &cause);
    }
    if (status != PSCLIENT_OK)
        return fail_from_client(worker, "pull the model", &cause);
    return PS_OK;
}

/* Both parameters go in one call, so that a step is one round trip. */
static enum ps_status push_gradient(struct worker *worker)
{
    struct psclient_result results[2];
    struct psclient_error cause;
    (void)psclient_push(worker->client, worker->gradients, 2, worker->options->call_timeout_ms,
                        results, &cause);
    for (size_t i = 0; i < 2; i++) {
        /* The client has repeated it for as long as the timeout allows. What is still unknown then
         * was applied once or not at all; pushed anew it would be another step, and one missing
         * step does less harm than one applied twice. Nor is a gradient pushed to parameters that
         * were lost and begin anew: it was computed for others. */
        if (results[i].status == PSCLIENT_OK)
            atomic_fetch_add(&worker->progress->pushes, 1);
        else if (results[i].status == PSCLIENT_UNKNOWN ||
                 results[i].status == PSCLIENT_NOT_INITIALIZED)
            atomic_fetch_add(&worker->progress->lost_pushes, 1);
        else
            return fail_from_client(worker, "push a gradient", &cause);
    }
    return PS_OK;
}

/* The message has the errand, the reason, and the client's name for the reason. */
static enum ps_status fail_from_client(struct worker *worker, const char *what,
                                       const struct psclient_error *cause)
{
    return ps_fail(&worker->error, PS_ERR_UNAVAILABLE, "worker %u could not %s: %s (%s)",
                   worker->number, what, cause->text, psclient_status_name(cause->status));
}

/* Retries are counted by each client and summed here, as differences, since the counter is
 * shared. */
static void note_progress(struct worker *worker, double loss, size_t examples)
{
    struct ps_trainer_progress *progress = worker->progress;
    atomic_fetch_add(&progress->examples, examples);
    uint64_t retries = psclient_retries(worker->client);
    atomic_fetch_add(&progress->retries, retries - worker->retries_seen);
    worker->retries_seen = retries;
    /* A lost update of the smoothed loss between two workers only makes it less smooth. */
    double smooth = (double)atomic_load(&progress->loss_millionths) / 1e6;
    smooth = smooth > 0 ? 0.98 * smooth + 0.02 * loss : loss;
    if (isfinite(smooth))
        atomic_store(&progress->loss_millionths, (unsigned long long)(smooth * 1e6));
}
