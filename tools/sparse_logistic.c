/* SPDX-License-Identifier: Apache-2.0 */
/* Logistic regression over rows of one element. The arithmetic is that of tools/linear_model.c
 * with one output: sums in double, probability minus truth as the derivative by the score. Sums
 * over a row of the file go in its order, so that one worker comes to the same digits in every
 * run. */
#include "tools/sparse_logistic.h"

#include "base/assert.h"

#include <math.h>

/* Loss of a row that a saturated model gets wrong; keeps the mean finite. */
#define PROBABILITY_MIN 1e-12
#define BIAS_KEY 0

static enum ps_status collect(const void *self, const size_t *examples, size_t count,
                              struct ps_row_batch *batch, struct ps_error *error);
static void compute(const void *self, const size_t *examples, size_t count,
                    struct ps_row_batch *batch, bool learns, struct ps_row_score *score);
static void judge(double probability, double truth, struct ps_row_score *score);

/* A third class could not be told apart by one score; the caller has refused such data with a
 * message of its own. */
struct ps_keyed_model ps_sparse_logistic_model(const struct ps_sparse_logistic *logistic)
{
    PS_ASSERT(logistic->map->count == 2);
    return (struct ps_keyed_model){.self = logistic,
                                   .width = 1,
                                   .example_count = logistic->dataset->row_count,
                                   .collect = collect,
                                   .compute = compute};
}

/* The bias is visited once for each row, before the row's features. Features are counted from 0
 * in memory and from 1 in the file, as keys are, so that a key in a checkpoint is the index that
 * people know. */
static enum ps_status collect(const void *self, const size_t *examples, size_t count,
                              struct ps_row_batch *batch, struct ps_error *error)
{
    const struct ps_dataset *dataset = ((const struct ps_sparse_logistic *)self)->dataset;
    /* Counted before, so that the batch takes its memory once. */
    size_t visits = count;
    for (size_t i = 0; i < count; i++)
        visits += dataset->starts[examples[i] + 1] - dataset->starts[examples[i]];
    PS_TRY(ps_row_batch_begin(batch, visits, error));
    for (size_t i = 0; i < count; i++) {
        ps_row_batch_visit(batch, BIAS_KEY);
        size_t end = dataset->starts[examples[i] + 1];
        for (size_t entry = dataset->starts[examples[i]]; entry < end; entry++)
            ps_row_batch_visit(batch, (uint64_t)dataset->features[entry] + 1);
    }
    return PS_OK;
}

/* A label that the training set did not have counts as wrong, with the highest loss a row can
 * have. */
static void compute(const void *self, const size_t *examples, size_t count,
                    struct ps_row_batch *batch, bool learns, struct ps_row_score *score)
{
    const struct ps_sparse_logistic *logistic = self;
    const struct ps_dataset *dataset = logistic->dataset;
    const double *labels = logistic->map->labels;
    size_t visit = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = dataset->starts[examples[i]];
        size_t entries = dataset->starts[examples[i] + 1] - first;
        const float *values = dataset->values + first;
        size_t bias = visit++;
        double sum = (double)*ps_row_batch_row(batch, bias);
        for (size_t k = 0; k < entries; k++)
            sum += (double)values[k] * (double)*ps_row_batch_row(batch, visit + k);
        double probability = 1.0 / (1.0 + exp(-sum));
        double label = dataset->labels[examples[i]];
        /* Labels are compared without ==: they were read from text, and one text gives one
         * number. */
        bool second = !(label < labels[1]) && !(label > labels[1]);
        bool first_class = !(label < labels[0]) && !(label > labels[0]);
        judge(second || first_class ? probability : (double)NAN, second ? 1.0 : 0.0, score);
        /* Of the loss by the score; that by a weight is this times the feature's value. */
        float derivative = (float)(probability - (second ? 1.0 : 0.0));
        if (learns)
            *ps_row_batch_gradient(batch, bias) += derivative;
        for (size_t k = 0; learns && k < entries; k++)
            *ps_row_batch_gradient(batch, visit + k) += derivative * values[k];
        visit += entries;
    }
    PS_ASSERT(visit == batch->visit_count);
}

/* NaN stands for a label that is of no class. */
static void judge(double probability, double truth, struct ps_row_score *score)
{
    double share = truth > 0.5 ? probability : 1.0 - probability;
    score->examples++;
    score->loss += -log(share > PROBABILITY_MIN ? share : PROBABILITY_MIN);
    score->measure += share > 0.5 || (truth < 0.5 && share >= 0.5) ? 1 : 0;
}
