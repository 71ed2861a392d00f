/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain: trains logistic or softmax regression on a LIBSVM file, or a model whose parameters are
 * rows of a table (tools/table_run.c), through parameter servers. The program is an example of a
 * trainer as well as a tool: several threads pull the model, compute a gradient on a few rows and
 * push it, without waiting for each other. The servers' part (the update, its order, what survives
 * a crash) is left to them; this program only has to keep going while a server is away, and to say
 * at the end how good the model is. Several processes share the rows by --part and --parts. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/encoding.h"
#include "base/output.h"
#include "base/program.h"
#include "base/thread.h"
#include "tools/generate.h"
#include "tools/generate_ratings.h"
#include "tools/json_document.h"
#include "tools/optimizer_choice.h"
#include "tools/pace_choice.h"
#include "tools/pstrain_options.h"
#include "tools/table_run.h"
#include "tools/train_interrupt.h"
#include "tools/train_report.h"
#include "tools/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* Everything that one invocation loads and makes. Released as a whole, whatever of it was
 * reached. */
struct invocation {
    struct pstrain_options options;
    struct ps_dataset train, test;
    struct ps_class_map map;
    struct ps_buffer config, rounds;
    struct psclient_clocks clocks; /* workers 0: none */
    struct ps_trainer_options trainer;
    struct ps_trainer_progress progress;
    struct ps_trained trained;
    struct ps_table_run table; /* of a model in a table, in the place of most of the above */
    int signal;                /* that ended training early; 0: none */
};

static int obey(int argc, char **argv);
static int generate(const struct pstrain_options *options);
static enum ps_status generate_rows(const struct pstrain_options *options, double *best,
                                    struct ps_error *error);
static enum ps_status generate_ratings(const struct pstrain_options *options, double *best,
                                       struct ps_error *error);
static void print_generated(const struct pstrain_options *options, bool ratings, double best);
static int run(struct invocation *invocation);
static enum ps_status prepare(struct invocation *invocation, struct ps_error *error);
static enum ps_status check_numbers(const struct pstrain_options *options, struct ps_error *error);
static enum ps_status choose_pace(struct invocation *invocation, struct ps_error *error);
static enum ps_status train(struct invocation *invocation, double *seconds, struct ps_error *error);
static void report(struct invocation *invocation, double seconds);
static int interrupted(int number);
static void release(struct invocation *invocation);
static int complain(const char *what, const struct ps_error *error, int code);

/* Output that did not arrive is a failure, also of a run that trained well: the report is the
 * result. */
int main(int argc, char **argv)
{
    return ps_output_end("pstrain", obey(argc, argv));
}

/* Releases everything even after a failure, so that tools that watch memory find nothing. A single
 * word, "generate", is a command; training is what happens without one. */
static int obey(int argc, char **argv)
{
    /* A server that goes away must not end the trainer through a pipe signal. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* Buffers of messages come and go with every step; giving them back to the kernel would cost
     * more than the copying. */
    ps_allocator_keep_freed();
    /* The structure has atomic fields, and this is the plain way to begin with zeros. */
    static const struct invocation empty;
    struct invocation invocation = empty;
    int word_count = 0;
    int code = EXIT_SUCCESS;
    if (!ps_program_begin(pstrain_option_set(), &invocation.options, argc, argv, &word_count,
                          &code))
        return code;
    if (word_count == 1 && strcmp(argv[1], "generate") == 0)
        return generate(&invocation.options);
    if (word_count > 0) {
        (void)fprintf(stderr, "pstrain: unknown command \"%s\"; see pstrain --help\n", argv[1]);
        return EX_USAGE;
    }
    code = run(&invocation);
    release(&invocation);
    return code;
}

/* A file that cannot be made is EX_CANTCREAT; a wrong number is wrong usage. No server is needed,
 * and none is asked. */
static int generate(const struct pstrain_options *options)
{
    struct ps_error error = {0};
    if (options->out == NULL) {
        (void)fprintf(stderr, "pstrain generate: --out FILE is missing\n");
        return EX_USAGE;
    }
    bool ratings = strcmp(options->model, "matrix-factorization") == 0;
    double best = 0;
    enum ps_status status =
        ratings ? generate_ratings(options, &best, &error) : generate_rows(options, &best, &error);
    if (status != PS_OK)
        return complain("generate", &error, status == PS_ERR_BAD_INPUT ? EX_USAGE : EX_CANTCREAT);
    if (strcmp(options->output, "json") == 0)
        print_generated(options, ratings, best);
    else
        (void)printf("%s: %llu rows, best %s %.4f\n", options->out,
                     (unsigned long long)options->rows, ratings ? "rmse" : "accuracy", best);
    return EXIT_SUCCESS;
}

/* Rows with labels, for both kinds of logistic regression and for softmax. */
static enum ps_status generate_rows(const struct pstrain_options *options, double *best,
                                    struct ps_error *error)
{
    const struct ps_generate_options wish = {.path = options->out,
                                             .rows = options->rows,
                                             .features = options->features,
                                             .noise = options->noise,
                                             .seed = options->seed,
                                             .model_seed = options->model_seed};
    return ps_generate(&wish, best, error);
}

/* Ratings, for matrix factorisation. */
static enum ps_status generate_ratings(const struct pstrain_options *options, double *best,
                                       struct ps_error *error)
{
    const struct ps_generate_ratings_options wish = {.path = options->out,
                                                     .rows = options->rows,
                                                     .users = options->users,
                                                     .items = options->items,
                                                     .noise = options->noise,
                                                     .seed = options->seed,
                                                     .model_seed = options->model_seed};
    return ps_generate_ratings(&wish, best, error);
}

/* What the hidden function reaches is what a test compares the trained model with. The same three
 * facts as the line of text. */
static void print_generated(const struct pstrain_options *options, bool ratings, double best)
{
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_object(&document.json, NULL);
    json_text(&document.json, "file", options->out);
    ps_json_uint(&document.json, "rows", options->rows);
    ps_json_real(&document.json, ratings ? "best_rmse" : "best_accuracy", best);
    ps_json_end_object(&document.json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* The exit status says at which stage it failed: usage, data, or servers. A run that was
 * interrupted still reports: the servers have the model. The order is that of cost: options, files,
 * servers. */
static int run(struct invocation *invocation)
{
    struct ps_error error = {0};
    if (check_numbers(&invocation->options, &error) != PS_OK ||
        choose_pace(invocation, &error) != PS_OK)
        return complain("arguments", &error, EX_USAGE);
    enum ps_status status = prepare(invocation, &error);
    if (status != PS_OK)
        return complain("set up", &error, status == PS_ERR_BAD_INPUT ? EX_DATAERR : EX_NOINPUT);
    double seconds = 0;
    if (train(invocation, &seconds, &error) != PS_OK)
        return complain("train", &error, EX_UNAVAILABLE);
    if (!ps_table_run_is_for(invocation->options.model))
        report(invocation, seconds);
    else if (ps_table_run_report(&invocation->table, &invocation->progress, seconds,
                                 invocation->signal != 0, &error) != PS_OK)
        return complain("report", &error, EX_CANTCREAT);
    return invocation->signal == 0 ? EXIT_SUCCESS : interrupted(invocation->signal);
}

/* One of the option's choices. The option's table has refused all other words, so a name that is
 * not found is a mistake of ours. */
static enum psclient_encoding encoding_of(const char *name)
{
    enum ps_encoding encoding = PS_ENCODING_COUNT;
    bool found = ps_encoding_from_name(name, &encoding);
    PS_ASSERT(found);
    return (enum psclient_encoding)encoding;
}

/* Data first, since they say how large the model is: one weight for each feature, and for softmax
 * one for each class as well. All workers must come to the same shape, so every process needs the
 * same training file; --part chooses the rows, not the file. Nothing here needs a server: mistakes
 * in files and options are found before anybody waits for one. The seed, the batch and the rest go
 * to the trainer as they are. */
static enum ps_status prepare(struct invocation *invocation, struct ps_error *error)
{
    const struct pstrain_options *options = &invocation->options;
    const struct ps_allocator *heap = ps_allocator_heap();
    if (ps_table_run_is_for(options->model))
        return ps_table_run_prepare(
            &invocation->table, options, &invocation->clocks,
            (struct ps_bytes){(const uint8_t *)invocation->rounds.text, invocation->rounds.size},
            &invocation->progress, error);
    PS_TRY(ps_dataset_load(options->data, heap, &invocation->train, error));
    if (options->test != NULL)
        PS_TRY(ps_dataset_load(options->test, heap, &invocation->test, error));
    PS_TRY(ps_class_map_init(&invocation->map, &invocation->train, error));
    bool logistic = strcmp(options->model, "logistic") == 0;
    /* One weight a feature can tell two classes apart and no more; the message names the other
     * model. */
    if (logistic && invocation->map.count != 2)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s has %zu classes: --model logistic takes 2, --model softmax any number",
                       options->data, invocation->map.count);
    ps_buffer_init(&invocation->config, heap, PS_CONFIG_BYTES_MAX);
    PS_TRY(ps_optimizer_choice(options->optimizer, options->learning_rate, options->l2,
                               &invocation->config, error));
    invocation->trainer = (struct ps_trainer_options){
        .client =
            {/* One patience for finding the servers and for every call: an operator thinks of
                    * "how long may they be away", not of calls. */
             .open_timeout_ms = options->timeout_ms,
             .split_bytes = options->split_bytes,
             .encoding = encoding_of(options->encoding),
             .reply_encoding = encoding_of(options->reply_encoding),
             .top_k_share = options->top_k_share},
        .train = &invocation->train,
        .map = &invocation->map,
        .model = {.features = invocation->train.feature_count,
                  /* The shape of the parameters on the servers follows from this: weights have
                   * features times outputs elements. */
                  .outputs = logistic ? 1 : invocation->map.count},
        .config = {(const uint8_t *)invocation->config.text, invocation->config.size},
        .name = options->name,
        .workers = (uint32_t)options->workers,
        .part = (uint32_t)options->part,
        .parts = (uint32_t)options->parts,
        .epochs = (uint32_t)options->epochs,
        .batch = (uint32_t)options->batch,
        .seed = options->seed,
        .clocks = invocation->clocks.workers > 0 ? &invocation->clocks : NULL,
        .rounds = {(const uint8_t *)invocation->rounds.text, invocation->rounds.size},
        .accumulate = (uint32_t)options->accumulate,
        .local_steps = (uint32_t)options->local_steps,
        .local_rate = options->local_rate,
        /* 0 unless asked for: one worker then comes to the same digits in every run. */
        .pipeline = strcmp(options->pipeline, "1") == 0,
        .call_timeout_ms = options->timeout_ms,
    };
    ps_job_place_tell(&options->place, &invocation->trainer.client);
    invocation->progress.examples_all =
        invocation->train.row_count * options->epochs / options->parts;
    return PS_OK;
}

/* How many workers there are follows from the processes; that all of them are told the same is the
 * operator's to see to, as with --parts. Rounds are no part of the configuration that initialises:
 * the job may be there already, with other ones. */
static enum ps_status choose_pace(struct invocation *invocation, struct ps_error *error)
{
    const struct pstrain_options *options = &invocation->options;
    const struct ps_pace_choice choice = {.workers = options->workers * options->parts,
                                          .sync = options->sync,
                                          .grace_ms = options->grace_ms,
                                          .consistency = options->consistency,
                                          .late_next = strcmp(options->late, "next") == 0,
                                          .pipeline = strcmp(options->pipeline, "1") == 0};
    /* Here and not with the rest of the preparation: a wish that cannot be is told before the data
     * are read, which may take minutes. */
    ps_buffer_init(&invocation->rounds, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    return ps_pace_choose(&choice, &invocation->rounds, &invocation->clocks, error);
}

/* Each option has its own sentence, because a range that is wrong by one should not need the
 * manual. The upper bounds keep products within 64 bits and names within what servers take. The
 * checks come before the data are loaded, which may take minutes. */
static enum ps_status check_numbers(const struct pstrain_options *options, struct ps_error *error)
{
    if (options->data == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--data FILE is missing; see pstrain --help");
    PS_TRY(ps_job_place_check(&options->place, error));
    if (options->workers < 1 || options->workers > PS_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--workers must be 1 to %d", PS_WORKERS_MAX);
    if (options->parts < 1 || options->parts > 65536 || options->part >= options->parts)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--part must be below --parts (1 to 65536)");
    if (options->batch < 1 || options->batch > 1u << 30 || options->epochs > 1u << 30)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--batch or --epochs is out of range");
    if (options->accumulate < 1 || options->accumulate > 65536)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--accumulate must be 1 to 65536");
    if (options->local_steps < 1 || options->local_steps > 65536 || !(options->local_rate > 0))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--local-steps must be 1 to 65536, and --local-rate above 0");
    if (options->local_steps > 1 && strcmp(options->pipeline, "1") == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--pipeline 1 and --local-steps exclude each other");
    if (!(options->learning_rate >= 0) || !(options->l2 >= 0))
        return ps_fail(error, PS_ERR_BAD_INPUT, "--learning-rate and --l2 must not be negative");
    if (!(options->top_k_share > 0 && options->top_k_share <= 1))
        return ps_fail(error, PS_ERR_BAD_INPUT, "--top-k-share must be above 0, and at most 1");
    /* Together with "/weight" it has to fit a parameter's name, and a cut's suffix behind that. */
    if (strlen(options->name) > 64)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--name is longer than 64 bytes");
    if (ps_table_run_is_for(options->model))
        return ps_table_run_check(options, error);
    if (options->plot != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--plot is for models in tables");
    return PS_OK;
}

/* Both helpers have a thread: one waits for signals, one draws the line. The interrupt is first to
 * come and last to go, so that a signal at any moment is seen. The time includes finding the
 * servers. */
static enum ps_status train(struct invocation *invocation, double *seconds, struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t start_ms = ps_now_ms(clock);
    /* In this order: the signals are blocked before any other thread starts, and so in all of
     * them. */
    struct ps_train_interrupt interrupt;
    struct ps_progress_line line;
    PS_TRY(ps_train_interrupt_init(&interrupt, &invocation->progress, error));
    enum ps_status status = ps_progress_line_init(&line, &invocation->progress, error);
    if (status == PS_OK) {
        if (ps_table_run_is_for(invocation->options.model))
            status = ps_table_run_train(&invocation->table, &invocation->progress, error);
        else
            status = ps_trainer_run(&invocation->trainer, &invocation->progress,
                                    &invocation->trained, error);
        ps_progress_line_fini(&line);
    }
    /* A signal that came in the last moment still counts. */
    invocation->signal = ps_train_interrupt_fini(&interrupt);
    /* Also after a failure, for the caller's report. */
    *seconds = (double)(ps_now_ms(clock) - start_ms) / 1000.0;
    return status;
}

/* Loss and accuracy are computed over whole sets with the model that was pulled after the last
 * push, so that two runs can be compared; the loss of the progress line is a smoothed one of
 * mini-batches. The test set is not touched in training, so its accuracy is what the model is
 * worth; that of the training set shows how much was learnt by heart. */
static void report(struct invocation *invocation, double seconds)
{
    const struct ps_linear_model *model = &invocation->trainer.model;
    /* Room for the scores of one row. */
    double scratch[PS_CLASSES_MAX];
    struct ps_train_report report = {
        .model = invocation->options.model,
        .optimizer = invocation->options.optimizer,
        .workers = invocation->trainer.workers,
        .epochs = invocation->trainer.epochs,
        .pipeline = invocation->trainer.pipeline,
        .sync = invocation->options.sync,
        .digest = ps_trained_digest(&invocation->trained, model),
        .seconds = seconds,
        .interrupted = invocation->signal != 0,
        .progress = &invocation->progress,
        .has_test = invocation->options.test != NULL,
    };
    report.train =
        ps_linear_evaluate(model, &invocation->train, &invocation->map, invocation->trained.weights,
                           invocation->trained.bias, scratch);
    if (report.has_test)
        report.test =
            ps_linear_evaluate(model, &invocation->test, &invocation->map,
                               invocation->trained.weights, invocation->trained.bias, scratch);
    ps_train_report_print(&report, strcmp(invocation->options.output, "json") == 0);
}

/* 128 and the number of the signal, as shells say it. The sentence tells what a person wants to
 * know then: nothing is lost, and how to go on. Training again from the start of the epochs is
 * right for these rules: the model goes on from where it is. */
static int interrupted(int number)
{
    (void)fprintf(stderr, "pstrain: ended early: the servers have the model as it is reported, and "
                          "the same command trains on from there, through all its epochs\n");
    return 128 + number;
}

/* Accepts what was never prepared. */
static void release(struct invocation *invocation)
{
    ps_dataset_fini(&invocation->train);
    ps_dataset_fini(&invocation->test);
    if (invocation->config.memory != NULL)
        ps_buffer_fini(&invocation->config);
    if (invocation->rounds.memory != NULL)
        ps_buffer_fini(&invocation->rounds);
    ps_trained_release(&invocation->trained);
    ps_table_run_fini(&invocation->table);
}

/* One line, with the stage in front. The status is the caller's choice, since one failure means
 * different things at different stages. */
static int complain(const char *what, const struct ps_error *error, int code)
{
    (void)fprintf(stderr, "pstrain: %s: %s\n", what, error->text);
    return code;
}
