/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop of models in tables. A worker has two batches: the gradients of one travel
 * in the call that brings the rows of the other. Its order of examples depends on seed, worker
 * and epoch alone, as that of tools/trainer.c. What a step costs is mostly the round trip; so a
 * step without clocks is one, and with clocks three, which is what the bound on staleness costs. */
#include "tools/table_trainer.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"
#include "tools/row_batches.h"
#include "tools/train_share.h"

#include <math.h>
#include <string.h>

/* Examples whose rows are read at once when a model is judged: enough to keep a server busy, few
 * enough for a message. */
#define JUDGED_AT_ONCE 1024

/* Everything that one worker owns. */
struct worker {
    const struct ps_table_trainer_options *options; /* borrowed */
    struct ps_trainer_progress *progress;           /* borrowed */
    struct ps_table_trained *trained;               /* borrowed; NULL: another one notes epochs */
    struct ps_model_servers *servers;               /* borrowed */
    struct ps_thread thread;
    uint32_t number;               /* over all processes */
    struct ps_train_share *shares; /* owned; of the examples: `accumulate` of them */
    uint64_t steps;                /* of an epoch */
    uint64_t first;                /* version with which the run began, in rounds */
    struct ps_remote_table table;
    struct ps_row_batches batches[2]; /* the one that is computed, and the next */
    struct ps_row_batch judged;
    struct ps_row_score epoch_score;
    uint64_t begun_ns, waiting_ns;
    uint64_t steps_noted, pushes_noted, lost_noted, late_noted;
    enum ps_status status;
    struct ps_error error;
};

static enum ps_status run_workers(struct worker *workers,
                                  const struct ps_table_trainer_options *options,
                                  struct ps_error *error);
static enum ps_status worker_create(struct worker *worker, uint32_t i,
                                    const struct ps_table_trainer_options *options,
                                    struct ps_model_servers *servers,
                                    struct ps_trainer_progress *progress);
static void worker_destroy(struct worker *worker);
static bool is_sync(const struct worker *worker);
static void worker_main(void *argument);
static enum ps_status train(struct worker *worker);
static enum ps_status train_from(struct worker *worker, uint64_t first, uint64_t end);
static enum ps_status collect(struct worker *worker, uint64_t step, struct ps_row_batches *batches);
static void compute(struct worker *worker, uint64_t step, struct ps_row_batches *batches);
static void compute_part(struct worker *worker, uint64_t step, uint32_t part,
                         struct ps_row_batch *batch);
static void note_loss(struct worker *worker, const struct ps_row_score *score);
static void note_steps(struct worker *worker);
static enum ps_status note_epoch(struct worker *worker, uint64_t epoch);
static enum ps_status judge(struct worker *worker, const struct ps_keyed_model *model,
                            struct ps_row_score *score);
static enum ps_status finish_run(struct worker *workers,
                                 const struct ps_table_trainer_options *options,
                                 struct ps_table_trained *trained, struct ps_error *error);

/* Accepts zeros, as a run that could not begin leaves them. */
void ps_table_trained_release(struct ps_table_trained *trained)
{
    ps_release(ps_allocator_heap(), trained->epochs);
    *trained = (struct ps_table_trained){.epochs = NULL};
}

/* The servers come first and go last: the workers refer to them. What was measured until a failure
 * is the caller's to release. */
enum ps_status ps_table_trainer_run(const struct ps_table_trainer_options *options,
                                    struct ps_trainer_progress *progress,
                                    struct ps_table_trained *trained, struct ps_error *error)
{
    PS_ASSERT(options->workers > 0 && options->workers <= PS_WORKERS_MAX);
    PS_ASSERT(options->part < options->parts && options->batch > 0);
    PS_ASSERT(options->accumulate > 0);
    const struct ps_allocator *heap = ps_allocator_heap();
    *trained = (struct ps_table_trained){.epochs = NULL};
    struct worker *workers = ps_zeroed_array(heap, options->workers, sizeof *workers);
    trained->epochs = ps_zeroed_array(heap, (size_t)options->epochs + 1, sizeof *trained->epochs);
    if (workers == NULL || trained->epochs == NULL) {
        ps_release(heap, workers);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u workers", options->workers);
    }
    /* Opened behind the memory: there is nothing to close when that is missing. */
    struct ps_model_servers servers;
    enum ps_status status = ps_model_servers_open(&servers, &options->client, error);
    if (status == PS_OK) {
        for (uint32_t i = 0; i < options->workers && status == PS_OK; i++)
            status = worker_create(&workers[i], i, options, &servers, progress);
        /* Only one worker writes there, so that it needs no lock; the caller reads it after the
         * run. */
        workers[0].trained = trained;
        if (status != PS_OK)
            (void)ps_fail(error, status, "no memory for the workers' buffers");
        else
            status = run_workers(workers, options, error);
        if (status == PS_OK)
            status = finish_run(workers, options, trained, error);
        for (uint32_t i = 0; i < options->workers; i++)
            worker_destroy(&workers[i]);
        ps_model_servers_close(&servers);
    }
    ps_release(heap, workers);
    return status;
}

/* One failure stops the others after their step; a run that was told to stop is not a failure. */
static enum ps_status run_workers(struct worker *workers,
                                  const struct ps_table_trainer_options *options,
                                  struct ps_error *error)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < options->workers && status == PS_OK; i++)
        status = ps_thread_start(&workers[i].thread, "worker", worker_main, &workers[i], error);
    if (status != PS_OK)
        atomic_store(&workers[0].progress->stop, true);
    /* Also those that were never started: a zeroed thread is joined at once. */
    for (uint32_t i = 0; i < options->workers; i++)
        ps_thread_join(&workers[i].thread);
    return status;
}

/* All workers of all processes make as many steps as the longest share has, so that nobody waits
 * at a clock for a worker that has ended. */
static enum ps_status worker_create(struct worker *worker, uint32_t i,
                                    const struct ps_table_trainer_options *options,
                                    struct ps_model_servers *servers,
                                    struct ps_trainer_progress *progress)
{
    uint32_t each = options->accumulate;
    uint64_t count = (uint64_t)options->parts * options->workers * each;
    size_t examples = options->train->example_count;
    worker->options = options;
    worker->progress = progress;
    worker->servers = servers;
    /* Unique over all processes, so that shares, seeds and ranks at the clocks differ. */
    worker->number = options->part * options->workers + i;
    worker->steps = ps_train_share_steps((size_t)((examples + count - 1) / count), options->batch);
    for (int k = 0; k < 2; k++)
        PS_TRY(ps_row_batches_init(&worker->batches[k], each, options->train->width));
    ps_row_batch_init(&worker->judged, options->train->width);
    worker->shares = ps_zeroed_array(ps_allocator_heap(), each, sizeof *worker->shares);
    if (worker->shares == NULL)
        return PS_ERR_NO_MEMORY;
    /* So that one worker that accumulates has the same examples as several that do not. */
    for (uint32_t k = 0; k < each; k++)
        PS_TRY(ps_train_share_init(&worker->shares[k], (uint64_t)worker->number * each + k, count,
                                   examples, options->seed));
    return PS_OK;
}

/* Accepts zeros, as a run that failed early leaves them. */
static void worker_destroy(struct worker *worker)
{
    ps_remote_table_close(&worker->table);
    for (uint32_t i = 0; worker->shares != NULL && i < worker->options->accumulate; i++)
        ps_train_share_fini(&worker->shares[i]);
    ps_release(ps_allocator_heap(), worker->shares);
    for (int k = 0; k < 2; k++)
        ps_row_batches_fini(&worker->batches[k]);
    ps_row_batch_fini(&worker->judged);
}

/* The other workers are told, whatever ended this one. */
static void worker_main(void *argument)
{
    struct worker *worker = argument;
    worker->status = train(worker);
    if (worker->status != PS_OK)
        atomic_store(&worker->progress->stop, true);
}

/* With clocks the run is over at the next clock that is a multiple of its steps, for every worker
 * at the same one: one that was killed begins where the servers say it was. So it is in rounds,
 * whose clock is the version of the table. */
static enum ps_status train(struct worker *worker)
{
    const struct ps_table_trainer_options *options = worker->options;
    /* What every worker says of the table is the same, so that each of them may be the first. */
    const struct ps_remote_table_options wish = {.servers = worker->servers,
                                                 .table = options->table,
                                                 .clocks = options->clocks,
                                                 .rounds = options->rounds,
                                                 .call_timeout_ms = options->call_timeout_ms,
                                                 .worker = worker->number};
    PS_TRY(ps_remote_table_open(&worker->table, &wish, &worker->error));
    uint64_t steps = worker->steps * options->epochs;
    /* 0 without clocks: nobody knows then what an earlier run of this worker has done. */
    uint64_t position = worker->table.clock;
    uint64_t first = steps == 0 ? 0 : position / steps * steps;
    worker->begun_ns = ps_clock_precise_ns();
    worker->first = first;
    enum ps_status status = steps == 0 ? PS_OK : train_from(worker, position - first, steps);
    note_steps(worker);
    atomic_fetch_add(&worker->progress->training_ns, ps_clock_precise_ns() - worker->begun_ns);
    return status;
}

/* In rounds nobody is ahead of anybody: the gradients of a step are of one version of the rows. */
static bool is_sync(const struct worker *worker)
{
    return worker->options->rounds.size > 0;
}

/* The step behind this one. In rounds the servers know: the others may have gone on without this
 * worker, and a table that was lost begins anew. */
static uint64_t step_behind(const struct worker *worker, uint64_t step)
{
    uint64_t clock = worker->table.clock;
    if (!is_sync(worker))
        return step + 1;
    return clock > worker->first ? clock - worker->first : 0;
}

/* May the worker begin one more step? Where others wait for it at the clocks, the step that one of
 * them has begun is made even when the run is to stop. */
static bool may_begin(struct worker *worker, uint64_t ahead)
{
    bool stops = atomic_load(&worker->progress->stop);
    if (worker->options->clocks == NULL && !is_sync(worker))
        return !stops;
    return ps_model_servers_begin_round(worker->servers, worker->table.clock + ahead, stops);
}

/* From step `step` of the run to its end. What goes on while this worker computes is nobody's
 * business but the servers'. */
static enum ps_status train_from(struct worker *worker, uint64_t step, uint64_t end)
{
    struct ps_row_batches *batches = &worker->batches[0];
    struct ps_row_batches *next = &worker->batches[1];
    /* One step ahead of the clock is the first; the read for the one behind it is two ahead. */
    if (step >= end || !may_begin(worker, 1))
        return PS_OK;
    uint64_t begin_ns = ps_clock_precise_ns();
    PS_TRY(collect(worker, step, batches));
    PS_TRY(ps_remote_table_read(&worker->table, batches->joined, &worker->error));
    worker->waiting_ns += ps_clock_precise_ns() - begin_ns;
    for (bool more = true; more;) {
        compute(worker, step, batches);
        /* Asked before the next rows are read: a read at a clock waits for others, which a run
         * that is to stop must not. */
        more = step + 1 < end && may_begin(worker, 2);
        if (more)
            PS_TRY(collect(worker, step + 1, next));
        begin_ns = ps_clock_precise_ns();
        PS_TRY(ps_remote_table_step(&worker->table, batches->joined, more ? next->joined : NULL,
                                    &worker->error));
        worker->waiting_ns += ps_clock_precise_ns() - begin_ns;
        note_steps(worker);
        /* Judged behind the push, so that the model has all steps of the epoch. */
        if ((step + 1) % worker->steps == 0)
            PS_TRY(note_epoch(worker, step / worker->steps));
        /* What was collected for the next step is trained all the same: examples that another
         * step would have had are as good. */
        step = step_behind(worker, step);
        more = more && step < end;
        struct ps_row_batches *computed = batches;
        batches = next;
        next = computed;
    }
    return PS_OK;
}

/* The examples of a step and one share; a share that is one shorter than another may have none for
 * the last step of an epoch. In rounds its worker contributes no rows then, and is waited for all
 * the same. */
static size_t examples_of(struct worker *worker, uint64_t step, uint32_t part,
                          const size_t **examples)
{
    struct ps_train_share *share = &worker->shares[part];
    ps_train_share_begin(share, step / worker->steps);
    *examples = NULL;
    return ps_train_share_batch(share, step % worker->steps, worker->options->batch, examples);
}

/* Keys first, since the rows of a batch are asked for while nothing of it is computed yet. */
static enum ps_status collect(struct worker *worker, uint64_t step, struct ps_row_batches *batches)
{
    const struct ps_keyed_model *model = worker->options->train;
    for (uint32_t i = 0; i < batches->count; i++) {
        const size_t *examples;
        size_t count = examples_of(worker, step, i, &examples);
        PS_TRY(model->collect(model->self, examples, count, &batches->parts[i], &worker->error));
    }
    return ps_row_batches_join(batches, &worker->error);
}

/* The score is of the rows as they were before this step: a loss that is measured after learning
 * from the same examples would be too good. */
static void compute(struct worker *worker, uint64_t step, struct ps_row_batches *batches)
{
    ps_row_batches_spread(batches);
    for (uint32_t i = 0; i < batches->count; i++)
        compute_part(worker, step, i, &batches->parts[i]);
    ps_row_batches_average(batches);
}

/* Averaged over its examples before it is averaged over the shares, as at a worker of its own. */
static void compute_part(struct worker *worker, uint64_t step, uint32_t part,
                         struct ps_row_batch *batch)
{
    const struct ps_keyed_model *model = worker->options->train;
    struct ps_row_score score = {0};
    const size_t *examples;
    size_t count = examples_of(worker, step, part, &examples);
    model->compute(model->self, examples, count, batch, true, &score);
    ps_row_batch_average(batch);
    worker->epoch_score.examples += score.examples;
    worker->epoch_score.loss += score.loss;
    worker->epoch_score.measure += score.measure;
    if (score.examples > 0)
        note_loss(worker, &score);
}

/* A lost update of the smoothed loss between two workers only makes it less smooth. */
static void note_loss(struct worker *worker, const struct ps_row_score *score)
{
    struct ps_trainer_progress *progress = worker->progress;
    double loss = score->loss / (double)score->examples;
    double smooth = (double)atomic_load(&progress->loss_millionths) / 1e6;
    smooth = smooth > 0 ? 0.98 * smooth + 0.02 * loss : loss;
    atomic_fetch_add(&progress->examples, score->examples);
    if (isfinite(smooth))
        atomic_store(&progress->loss_millionths, (unsigned long long)(smooth * 1e6));
}

/* Each table counts for itself; the sums get the differences, since they are shared. */
static void note_steps(struct worker *worker)
{
    struct ps_trainer_progress *progress = worker->progress;
    const struct ps_remote_table *table = &worker->table;
    atomic_fetch_add(&progress->steps, table->steps - worker->steps_noted);
    atomic_fetch_add(&progress->pushes, table->pushes - worker->pushes_noted);
    atomic_fetch_add(&progress->lost_pushes, table->lost_pushes - worker->lost_noted);
    atomic_fetch_add(&progress->late_pushes, table->late_pushes - worker->late_noted);
    atomic_store(&progress->retries, psclient_retries(worker->servers->client));
    atomic_fetch_add(&progress->waiting_ns, worker->waiting_ns);
    worker->steps_noted = table->steps;
    worker->pushes_noted = table->pushes;
    worker->lost_noted = table->lost_pushes;
    worker->late_noted = table->late_pushes;
    worker->waiting_ns = 0;
}

/* The first worker's epochs are the curve of the run. The rows of its next batch are then as old as
 * judging takes, which is what a slow worker's are. */
static enum ps_status note_epoch(struct worker *worker, uint64_t epoch)
{
    struct ps_table_trained *trained = worker->trained;
    /* A clock that jumps, since others went on without this worker, ends an epoch no second
     * time. */
    if (trained == NULL || trained->epoch_count >= worker->options->epochs)
        return PS_OK;
    struct ps_table_epoch *note = &trained->epochs[trained->epoch_count++];
    *note =
        (struct ps_table_epoch){.number = (uint32_t)epoch + 1,
                                .seconds = (double)(ps_clock_precise_ns() - worker->begun_ns) / 1e9,
                                .train = worker->epoch_score};
    worker->epoch_score = (struct ps_row_score){0};
    return worker->options->test != NULL ? judge(worker, worker->options->test, &note->test)
                                         : PS_OK;
}

/* All examples of a set, in the order of the file, some at a time. */
static enum ps_status judge(struct worker *worker, const struct ps_keyed_model *model,
                            struct ps_row_score *score)
{
    size_t examples[JUDGED_AT_ONCE];
    for (size_t first = 0; first < model->example_count; first += JUDGED_AT_ONCE) {
        size_t left = model->example_count - first;
        size_t count = left < JUDGED_AT_ONCE ? left : JUDGED_AT_ONCE;
        for (size_t i = 0; i < count; i++)
            examples[i] = first + i;
        PS_TRY(model->collect(model->self, examples, count, &worker->judged, &worker->error));
        PS_TRY(ps_remote_table_peek(&worker->table, &worker->judged, &worker->error));
        model->compute(model->self, examples, count, &worker->judged, false, score);
    }
    return PS_OK;
}

/* The first failure counts; else the first worker judges what all of them have made. */
static enum ps_status finish_run(struct worker *workers,
                                 const struct ps_table_trainer_options *options,
                                 struct ps_table_trained *trained, struct ps_error *error)
{
    for (uint32_t i = 0; i < options->workers; i++) {
        /* The number of the worker is in its text. */
        if (workers[i].status != PS_OK)
            return ps_fail(error, workers[i].status, "%s", workers[i].error.text);
    }
    enum ps_status status = judge(&workers[0], options->train, &trained->train);
    if (status == PS_OK && options->test != NULL)
        status = judge(&workers[0], options->test, &trained->test);
    return status == PS_OK ? PS_OK : ps_fail(error, status, "%s", workers[0].error.text);
}
