/* SPDX-License-Identifier: Apache-2.0 */
/* Showing how training goes and how it went. The progress line is drawn by a thread of its own, so
 * that workers never wait for a terminal; it only reads atomic counters. On a terminal the line is
 * written over again, in a file or a pipe it would be a mess, so there it is a line a second. */
#include "tools/train_report.h"

#include "base/clock.h"
#include "tools/json_document.h"

#include <stdio.h>
#include <unistd.h>

/* Fast enough to look alive, slow enough for a terminal over a network. */
#define TERMINAL_PERIOD_MS 200
/* A log of a run of hours then has thousands of lines, not millions. */
#define FILE_PERIOD_MS 1000

/* How fast the steps went, and what they spent their time on. */
struct step_figures {
    double steps;
    double per_second;
    double computing_seconds, waiting_seconds; /* of all workers together */
};

static void line_main(void *argument);
static void print_line(const struct ps_progress_line *line, uint64_t start_ms, bool terminal);
static void print_text(const struct ps_train_report *report);
static struct step_figures figures_of(const struct ps_trainer_progress *progress, uint32_t workers);
static void print_json(const struct ps_train_report *report);

/* The thread borrows options and progress until fini. The lock is a leaf: nothing else is taken
 * while it is held. */
enum ps_status ps_progress_line_init(struct ps_progress_line *line,
                                     struct ps_trainer_progress *progress, struct ps_error *error)
{
    *line = (struct ps_progress_line){.progress = progress};
    ps_mutex_init(&line->mutex, PS_RANK_LEAF);
    ps_condition_init(&line->ended);
    return ps_thread_start(&line->thread, "progress", line_main, line, error);
}

/* The condition wakes it at once: a short run must not wait for the end of a period. */
void ps_progress_line_fini(struct ps_progress_line *line)
{
    ps_mutex_lock(&line->mutex);
    line->end = true;
    ps_condition_signal_all(&line->ended);
    ps_mutex_unlock(&line->mutex);
    ps_thread_join(&line->thread);
    ps_condition_fini(&line->ended);
    ps_mutex_fini(&line->mutex);
}

/* The last line is printed after the end, with the final numbers. The lock is held while printing;
 * only fini wants it. The start is this thread's own, a moment after the run's. */
static void line_main(void *argument)
{
    struct ps_progress_line *line = argument;
    uint64_t start_ms = ps_now_ms(ps_clock_real());
    bool terminal = isatty(STDERR_FILENO) == 1;
    ps_mutex_lock(&line->mutex);
    while (!line->end) {
        (void)ps_condition_wait(&line->ended, &line->mutex,
                                terminal ? TERMINAL_PERIOD_MS : FILE_PERIOD_MS);
        print_line(line, start_ms, terminal);
    }
    ps_mutex_unlock(&line->mutex);
    if (terminal)
        (void)fputc('\n', stderr);
}

/* The rate is over the whole run: the recent one jumps too much to be read. Lost pushes and retries
 * stand in the line, because they are how a server that is away shows first. Before the first batch
 * is done there is nothing of all that to tell, and who waits wants to know for what. */
static void print_line(const struct ps_progress_line *line, uint64_t start_ms, bool terminal)
{
    struct ps_trainer_progress *progress = line->progress;
    double seconds = (double)(ps_now_ms(ps_clock_real()) - start_ms) / 1000.0;
    double examples = (double)atomic_load(&progress->examples);
    double share = ps_train_share(progress);
    if (examples <= 0) {
        (void)fprintf(stderr, "%swaiting for the servers and the first batch  %.1f s%s",
                      terminal ? "\r" : "", seconds, terminal ? "\033[K" : "\n");
        return;
    }
    (void)fprintf(stderr,
                  "%straining %3.0f %%  loss %.4f  %.0f examples/s  pushes %llu  lost %llu  "
                  "retries %llu  %.1f s%s",
                  terminal ? "\r" : "", share * 100,
                  (double)atomic_load(&progress->loss_millionths) / 1e6,
                  seconds > 0 ? examples / seconds : 0, atomic_load(&progress->pushes),
                  atomic_load(&progress->lost_pushes), atomic_load(&progress->retries), seconds,
                  terminal ? "\033[K" : "\n");
}

/* Of this process' share; several processes each show their own. May pass 1 by a little, since rows
 * rarely divide evenly. */
double ps_train_share(const struct ps_trainer_progress *progress)
{
    double examples = (double)atomic_load(&progress->examples);
    return progress->examples_all > 0 ? examples / (double)progress->examples_all : 1;
}

/* Flushed here, since what follows may end the process by a signal's status. Both forms have the
 * same facts; the document has all digits of them. */
void ps_train_report_print(const struct ps_train_report *report, bool json)
{
    if (json)
        print_json(report);
    else
        print_text(report);
    (void)fflush(stdout);
}

/* The names of the lines are read by scripts and by the tests. */
static void print_text(const struct ps_train_report *report)
{
    (void)printf("train loss      %.4f\n", report->train.loss);
    (void)printf("train accuracy  %.4f\n", report->train.accuracy);
    if (report->has_test) {
        (void)printf("test loss       %.4f\n", report->test.loss);
        (void)printf("test accuracy   %.4f\n", report->test.accuracy);
    }
    ps_train_print_counts(report->progress, report->workers);
    /* Contributions of asynchronous runs are never late. */
    if (report->sync > 0)
        (void)printf("late            %llu\n", atomic_load(&report->progress->late_pushes));
    (void)printf("model digest    %08x\n", (unsigned)report->digest);
    (void)printf("seconds         %.2f\n", report->seconds);
}

/* Where a step's time goes is what somebody wants to know who looks for more of them: faster rows,
 * or servers and a network that answer sooner. A linear model has one push of each parameter in
 * each step, so twice the steps when none is lost. */
void ps_train_print_counts(const struct ps_trainer_progress *progress, uint32_t workers)
{
    (void)printf("pushes          %llu (%llu lost, %llu retries)\n", atomic_load(&progress->pushes),
                 atomic_load(&progress->lost_pushes), atomic_load(&progress->retries));
    struct step_figures figures = figures_of(progress, workers);
    /* A run that was stopped at once has made none, and spent no time. */
    double steps = figures.steps > 0 ? figures.steps : 1;
    (void)printf("steps           %.0f (%.1f/s; each %.3f ms of computing, %.3f ms of waiting)\n",
                 figures.steps, figures.per_second, figures.computing_seconds * 1e3 / steps,
                 figures.waiting_seconds * 1e3 / steps);
}

/* The workers' times are sums; a second of training is one of each worker. Computing is all that is
 * not waiting. */
static struct step_figures figures_of(const struct ps_trainer_progress *progress, uint32_t workers)
{
    struct step_figures figures = {.steps = (double)atomic_load(&progress->steps),
                                   .waiting_seconds =
                                       (double)atomic_load(&progress->waiting_ns) / 1e9};
    /* Counted when a worker ends: while the run goes on there is no rate yet, and nobody asks. */
    double training_seconds = (double)atomic_load(&progress->training_ns) / 1e9;
    figures.computing_seconds = training_seconds - figures.waiting_seconds;
    if (training_seconds > 0)
        figures.per_second = figures.steps * workers / training_seconds;
    return figures;
}

/* All digits of the losses, unlike the text: a test compares them. One object on one line; every
 * field is there in every run, but for the test's, which need a test set. */
static void print_json(const struct ps_train_report *report)
{
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "model", report->model);
    json_text(json, "optimizer", report->optimizer);
    ps_json_uint(json, "workers", report->workers);
    ps_json_uint(json, "epochs", report->epochs);
    ps_json_real(json, "train_loss", report->train.loss);
    ps_json_real(json, "train_accuracy", report->train.accuracy);
    if (report->has_test) {
        ps_json_real(json, "test_loss", report->test.loss);
        ps_json_real(json, "test_accuracy", report->test.accuracy);
    }
    ps_json_uint(json, "pipeline", report->pipeline ? 1 : 0);
    ps_json_real(json, "seconds", report->seconds);
    ps_train_json_counts(json, report->progress, report->workers);
    ps_json_uint(json, "sync", report->sync);
    ps_json_uint(json, "late_pushes", atomic_load(&report->progress->late_pushes));
    ps_json_uint(json, "model_digest", report->digest);
    ps_json_bool(json, "interrupted", report->interrupted);
    ps_json_end_object(json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* Sums over all workers; the text has means of a step instead. */
void ps_train_json_counts(struct ps_json_writer *json, const struct ps_trainer_progress *progress,
                          uint32_t workers)
{
    struct step_figures figures = figures_of(progress, workers);
    ps_json_uint(json, "steps", atomic_load(&progress->steps));
    ps_json_real(json, "steps_per_second", figures.per_second);
    ps_json_real(json, "computing_seconds", figures.computing_seconds);
    ps_json_real(json, "waiting_seconds", figures.waiting_seconds);
    ps_json_uint(json, "examples", atomic_load(&progress->examples));
    ps_json_uint(json, "pushes", atomic_load(&progress->pushes));
    ps_json_uint(json, "lost_pushes", atomic_load(&progress->lost_pushes));
    ps_json_uint(json, "retries", atomic_load(&progress->retries));
}
