/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain with a model in a table: what is loaded, how the table begins, what is said of it. A
 * model is chosen here by its name and is a struct of functions from then on: whoever adds one
 * writes its arithmetic, a test that its gradient is the slope of its loss, and a function here
 * that loads its data. Trainer, report and picture know nothing of it but whether its measure is
 * an error. */
#include "tools/table_run.h"

#include "tools/optimizer_choice.h"
#include "tools/table_report.h"

#include <stdio.h>
#include <string.h>

/* Every epoch has a place in the report. */
#define EPOCHS_MAX 100000
/* A row holds the bias, too. */
#define RANK_MAX 4095
/* Factors begin at random, or all of them would learn the same; small, so that the first
 * predictions are the mean. */
#define FACTOR_MAX 0.1

static enum ps_status load_rows(struct ps_table_run *run, struct ps_error *error);
static enum ps_status load_ratings(struct ps_table_run *run, struct ps_error *error);
static struct psclient_table_options describe_table(const struct ps_table_run *run);
static struct ps_table_trainer_options describe_run(const struct ps_table_run *run,
                                                    const struct psclient_clocks *clocks,
                                                    struct ps_bytes rounds);

/* The option's table has refused all words that are no model. */
static bool is_factorisation(const char *model)
{
    return strcmp(model, "matrix-factorization") == 0;
}

/* The other models have all of their weights at each worker. */
bool ps_table_run_is_for(const char *model)
{
    return is_factorisation(model) || strcmp(model, "sparse-logistic") == 0;
}

/* What is refused here would be passed over without a word otherwise. */
enum ps_status ps_table_run_check(const struct pstrain_options *options, struct ps_error *error)
{
    /* A worker that goes on by itself would need the rows that it has not read yet. */
    if (options->local_steps > 1)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--local-steps is not for --model %s",
                       options->model);
    /* A push travels with the next read already; there is nothing more to overlap. */
    if (strcmp(options->pipeline, "1") == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--pipeline is not for --model %s", options->model);
    if (strcmp(options->encoding, "native") != 0 || strcmp(options->reply_encoding, "native") != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "rows travel as they are: no --encoding of them");
    /* Nobody trains so long; a typing error would take all memory. */
    if (options->epochs > EPOCHS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--epochs must be at most %d", EPOCHS_MAX);
    if (options->rank < 1 || options->rank > RANK_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--rank must be 1 to %d", RANK_MAX);
    return PS_OK;
}

/* As of the other models: mistakes in files and options are found before a server is asked. */
enum ps_status ps_table_run_prepare(struct ps_table_run *run, const struct pstrain_options *options,
                                    const struct psclient_clocks *clocks, struct ps_bytes rounds,
                                    struct ps_trainer_progress *progress, struct ps_error *error)
{
    /* The struct stays where it is, since the models and the trainer's options point into it. */
    run->options = options;
    run->factorises = is_factorisation(options->model);
    PS_TRY(run->factorises ? load_ratings(run, error) : load_rows(run, error));
    ps_buffer_init(&run->config, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    PS_TRY(ps_optimizer_choice(options->optimizer, options->learning_rate, options->l2,
                               &run->config, error));
    /* Beside NAME/weight and NAME/bias of the other models, so that one job may have both. */
    (void)snprintf(run->table_name, sizeof run->table_name, "%s/rows", options->name);
    run->trainer = describe_run(run, clocks, rounds);
    /* Of this process alone; the others show their own. */
    progress->examples_all = run->train.example_count * options->epochs / options->parts;
    return PS_OK;
}

/* Classes are those of the training set, for the test set, too. Features that only the test set
 * has are read from the servers like any other, and have their first value: 0. */
static enum ps_status load_rows(struct ps_table_run *run, struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    const struct pstrain_options *options = run->options;
    PS_TRY(ps_dataset_load(options->data, heap, &run->dataset, error));
    if (options->test != NULL)
        PS_TRY(ps_dataset_load(options->test, heap, &run->test_dataset, error));
    PS_TRY(ps_class_map_init(&run->map, &run->dataset, error));
    /* The message names the model that takes them. */
    if (run->map.count != 2)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s has %zu classes: --model sparse-logistic takes 2, --model softmax any "
                       "number",
                       options->data, run->map.count);
    run->logistic = (struct ps_sparse_logistic){&run->dataset, &run->map};
    run->test_logistic = (struct ps_sparse_logistic){&run->test_dataset, &run->map};
    run->train = ps_sparse_logistic_model(&run->logistic);
    run->test = ps_sparse_logistic_model(&run->test_logistic);
    return PS_OK;
}

/* A user or an item that only the test set has is predicted by the mean and a row of first
 * values, which is close to nothing. */
static enum ps_status load_ratings(struct ps_table_run *run, struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    const struct pstrain_options *options = run->options;
    PS_TRY(ps_ratings_load(options->data, heap, &run->ratings, error));
    if (options->test != NULL)
        PS_TRY(ps_ratings_load(options->test, heap, &run->test_ratings, error));
    /* The range was checked before the files were read. */
    uint32_t rank = (uint32_t)options->rank;
    run->factors = (struct ps_matrix_factors){&run->ratings, run->ratings.mean, rank};
    run->test_factors = (struct ps_matrix_factors){&run->test_ratings, run->ratings.mean, rank};
    run->train = ps_matrix_factors_model(&run->factors);
    run->test = ps_matrix_factors_model(&run->test_factors);
    return PS_OK;
}

/* All workers of all processes say the same, so that each of them may be the first. */
static struct psclient_table_options describe_table(const struct ps_table_run *run)
{
    struct psclient_table_options table = {.name = run->table_name,
                                           .type = PSCLIENT_FLOAT32,
                                           .width = run->train.width,
                                           .config = run->config.text,
                                           .config_size = run->config.size};
    /* A weight of 0 is the right beginning for a feature that nobody has seen. */
    if (!run->factorises)
        return table;
    /* Made by the servers from seed and key: a worker that comes first does not matter. */
    table.init = PSCLIENT_ROWS_UNIFORM;
    table.low = -FACTOR_MAX;
    table.high = FACTOR_MAX;
    table.seed = run->options->seed;
    return table;
}

/* One patience for finding the servers and for every call. */
static struct ps_table_trainer_options describe_run(const struct ps_table_run *run,
                                                    const struct psclient_clocks *clocks,
                                                    struct ps_bytes rounds)
{
    const struct pstrain_options *options = run->options;
    struct ps_table_trainer_options trainer = {
        .client = {.open_timeout_ms = options->timeout_ms},
        .train = &run->train,
        .test = options->test != NULL ? &run->test : NULL,
        .table = describe_table(run),
        .clocks = clocks->workers > 0 ? clocks : NULL,
        .rounds = rounds,
        .accumulate = (uint32_t)options->accumulate,
        .workers = (uint32_t)options->workers,
        .part = (uint32_t)options->part,
        .parts = (uint32_t)options->parts,
        .epochs = (uint32_t)options->epochs,
        .batch = (uint32_t)options->batch,
        .seed = options->seed,
        .call_timeout_ms = options->timeout_ms,
    };
    ps_job_place_tell(&options->place, &trainer.client);
    return trainer;
}

/* Progress may be looked at by other threads meanwhile. */
enum ps_status ps_table_run_train(struct ps_table_run *run, struct ps_trainer_progress *progress,
                                  struct ps_error *error)
{
    return ps_table_trainer_run(&run->trainer, progress, &run->trained, error);
}

/* The figures first: a picture that cannot be written must not take them away. */
enum ps_status ps_table_run_report(const struct ps_table_run *run,
                                   const struct ps_trainer_progress *progress, double seconds,
                                   bool interrupted, struct ps_error *error)
{
    const struct ps_table_report report = {.model = run->options->model,
                                           .optimizer = run->options->optimizer,
                                           .consistency = run->options->consistency,
                                           .sync = run->options->sync,
                                           .options = &run->trainer,
                                           .is_error = run->factorises,
                                           .trained = &run->trained,
                                           .progress = progress,
                                           .seconds = seconds,
                                           .interrupted = interrupted};
    ps_table_report_print(&report, strcmp(run->options->output, "json") == 0);
    return run->options->plot != NULL ? ps_table_report_plot(&report, run->options->plot, error)
                                      : PS_OK;
}

/* Models and options borrow from the data and own nothing. */
void ps_table_run_fini(struct ps_table_run *run)
{
    ps_dataset_fini(&run->dataset);
    ps_dataset_fini(&run->test_dataset);
    ps_ratings_fini(&run->ratings);
    ps_ratings_fini(&run->test_ratings);
    if (run->config.memory != NULL)
        ps_buffer_fini(&run->config);
    ps_table_trained_release(&run->trained);
    *run = (struct ps_table_run){.options = NULL};
}
