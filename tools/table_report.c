/* SPDX-License-Identifier: Apache-2.0 */
/* Saying how a model in a table was trained. The names are those of the other models where they
 * mean the same; "accuracy" is a share of examples, "rmse" the root of the mean squared error.
 * An epoch is that of this process' first worker: with others a run has no instant at which all
 * of them have ended one, unless they wait for each other. */
#include "tools/table_report.h"

#include "base/alloc.h"
#include "tools/json_document.h"
#include "tools/train_curve.h"
#include "tools/train_report.h"

#include <math.h>
#include <stdio.h>

static void print_text(const struct ps_table_report *report);
static void print_epoch(const struct ps_table_report *report, const struct ps_table_epoch *epoch);
static void print_json(const struct ps_table_report *report);
static void json_score(struct ps_json_writer *json, const struct ps_table_report *report,
                       const char *set, const struct ps_row_score *score);

/* In the words that people use; both are between a set's name and a figure. */
static const char *name_of(const struct ps_table_report *report)
{
    return report->is_error ? "rmse" : "accuracy";
}

/* NaN of a set without examples. */
static double measure_of(const struct ps_table_report *report, const struct ps_row_score *score)
{
    /* One division for both: a share of examples, or the mean of squares. */
    double mean = score->measure / (double)score->examples;
    return report->is_error ? sqrt(mean) : mean;
}

/* The mean, so that sets of different sizes can be compared. */
static double loss_of(const struct ps_row_score *score)
{
    return score->loss / (double)score->examples;
}

/* Flushed here, since what follows may end the process by a signal's status. */
void ps_table_report_print(const struct ps_table_report *report, bool json)
{
    if (json)
        print_json(report);
    else
        print_text(report);
    (void)fflush(stdout);
}

/* The training figures of an epoch are of one worker's batches, each before it was learnt from;
 * those of the end are of the whole set. */
static void print_text(const struct ps_table_report *report)
{
    const struct ps_table_trained *trained = report->trained;
    for (uint32_t i = 0; i < trained->epoch_count; i++)
        print_epoch(report, &trained->epochs[i]);
    (void)printf("train loss      %.4f\n", loss_of(&trained->train));
    (void)printf("train %-9s %.4f\n", name_of(report), measure_of(report, &trained->train));
    /* Without a test set there is nothing to say of it, and a zero would be a lie. */
    if (trained->test.examples > 0) {
        (void)printf("test loss       %.4f\n", loss_of(&trained->test));
        (void)printf("test %-10s %.4f\n", name_of(report), measure_of(report, &trained->test));
    }
    ps_train_print_counts(report->progress, report->options->workers);
    /* Contributions of other runs are never late. */
    if (report->sync > 0)
        (void)printf("late            %llu\n", atomic_load(&report->progress->late_pushes));
    /* Of everything, from finding the servers on. */
    (void)printf("seconds         %.2f\n", report->seconds);
}

/* One line each, in columns, so that a run of many epochs can be read downwards. */
static void print_epoch(const struct ps_table_report *report, const struct ps_table_epoch *epoch)
{
    (void)printf("epoch %-9u train %s %.4f", epoch->number, name_of(report),
                 measure_of(report, &epoch->train));
    if (epoch->test.examples > 0)
        (void)printf("  test %s %.4f", name_of(report), measure_of(report, &epoch->test));
    (void)printf("  %.2f s\n", epoch->seconds);
}

/* All digits, unlike the text: a test compares them. */
static void print_json(const struct ps_table_report *report)
{
    const struct ps_table_trained *trained = report->trained;
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "model", report->model);
    json_text(json, "optimizer", report->optimizer);
    json_text(json, "consistency", report->consistency);
    ps_json_uint(json, "sync", report->sync);
    ps_json_uint(json, "late_pushes", atomic_load(&report->progress->late_pushes));
    ps_json_uint(json, "workers", report->options->workers);
    ps_json_uint(json, "epochs", report->options->epochs);
    ps_json_uint(json, "width", report->options->table.width);
    json_score(json, report, "train", &trained->train);
    json_score(json, report, "test", &trained->test);
    ps_json_real(json, "seconds", report->seconds);
    ps_train_json_counts(json, report->progress, report->options->workers);
    ps_json_bool(json, "interrupted", report->interrupted);
    /* The same names as those of the end, so that one program reads both. */
    ps_json_begin_array(json, "curve");
    for (uint32_t i = 0; i < trained->epoch_count; i++) {
        ps_json_begin_object(json, NULL);
        ps_json_uint(json, "epoch", trained->epochs[i].number);
        ps_json_real(json, "seconds", trained->epochs[i].seconds);
        json_score(json, report, "train", &trained->epochs[i].train);
        json_score(json, report, "test", &trained->epochs[i].test);
        ps_json_end_object(json);
    }
    ps_json_end_array(json);
    ps_json_end_object(json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* "train_loss" and "train_rmse", or nothing of a set that is not there. */
static void json_score(struct ps_json_writer *json, const struct ps_table_report *report,
                       const char *set, const struct ps_row_score *score)
{
    char key[32];
    /* A member that is missing is told from one that is 0. */
    if (score->examples == 0)
        return;
    (void)snprintf(key, sizeof key, "%s_loss", set);
    ps_json_real(json, key, loss_of(score));
    (void)snprintf(key, sizeof key, "%s_%s", set, name_of(report));
    ps_json_real(json, key, measure_of(report, score));
}

/* A set that is not there has NaN, which the picture passes over. */
enum ps_status ps_table_report_plot(const struct ps_table_report *report, const char *path,
                                    struct ps_error *error)
{
    const struct ps_table_trained *trained = report->trained;
    /* One more than there are, since none at all would be nothing to allocate. */
    struct ps_curve_point *points =
        ps_zeroed_array(ps_allocator_heap(), trained->epoch_count + 1, sizeof *points);
    if (points == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a picture");
    for (uint32_t i = 0; i < trained->epoch_count; i++) {
        const struct ps_table_epoch *epoch = &trained->epochs[i];
        points[i] = (struct ps_curve_point){.epoch = epoch->number,
                                            .train = measure_of(report, &epoch->train),
                                            .test = measure_of(report, &epoch->test)};
    }
    /* The measure of the model itself, since a loss means little to people. */
    const struct ps_curve curve = {.title = report->model,
                                   .measure = name_of(report),
                                   .points = points,
                                   .count = trained->epoch_count};
    enum ps_status status = ps_curve_write(path, &curve, error);
    ps_release(ps_allocator_heap(), points);
    return status;
}
