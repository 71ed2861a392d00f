/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and gradient of logistic and softmax regression. Sums are formed in double and kept in
 * float, which is what travels: a sum over a batch in float would lose small contributions, and the
 * servers' parameters are float32 anyway. Features that the model does not have (a test set may
 * know more than the training set did) are passed over everywhere in the same way. */
#include "tools/linear_model.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

/* Loss of a row that a saturated model gets wrong; keeps the mean finite. */
#define PROBABILITY_MIN 1e-12

static size_t class_of(const struct ps_class_map *map, double label);
static void score_row(const struct ps_linear_model *model, const struct ps_dataset *dataset,
                      size_t row, const float *weights, const float *bias, double *scores);
static inline void score_outputs(const struct ps_dataset *dataset, size_t row, const float *weights,
                                 const float *bias, size_t features, size_t outputs,
                                 double *scores);
static double to_probabilities(const struct ps_linear_model *model, size_t class_index,
                               double *scores);
static void add_row_gradient(const struct ps_linear_model *model, const struct ps_dataset *dataset,
                             size_t row, const double *errors, double scale, float *weight_gradient,
                             float *bias_gradient);
static inline void add_outputs(const struct ps_dataset *dataset, size_t row, const double *errors,
                               double scale, size_t features, size_t outputs,
                               float *weight_gradient);

/* The labels are inserted into a sorted list, so the classes have the same numbers on every worker,
 * whatever the order of its rows; a model would otherwise mean something else to each. There are
 * few classes, so the insertion may be slow. Two labels at least: with one there would be nothing
 * to tell apart. */
enum ps_status ps_class_map_init(struct ps_class_map *map, const struct ps_dataset *dataset,
                                 struct ps_error *error)
{
    map->count = 0;
    for (size_t row = 0; row < dataset->row_count; row++) {
        double label = dataset->labels[row];
        if (class_of(map, label) < map->count)
            continue;
        if (map->count == PS_CLASSES_MAX)
            return ps_fail(error, PS_ERR_BAD_INPUT, "more than %d different labels",
                           PS_CLASSES_MAX);
        size_t place = 0;
        while (place < map->count && map->labels[place] < label)
            place++;
        memmove(&map->labels[place + 1], &map->labels[place],
                (map->count - place) * sizeof map->labels[0]);
        map->labels[place] = label;
        map->count++;
    }
    if (map->count < 2)
        return ps_fail(error, PS_ERR_BAD_INPUT, "all rows have the same label: nothing to learn");
    return PS_OK;
}

/* Labels are compared without ==: they were read from text, and one text gives one number. A label
 * that is not in the map gives the count, which is no class. */
static size_t class_of(const struct ps_class_map *map, double label)
{
    for (size_t i = 0; i < map->count; i++) {
        if (!(map->labels[i] < label) && !(map->labels[i] > label))
            return i;
    }
    return map->count;
}

/* The gradient of the mean, not of the sum: the learning rate then does not depend on the size of a
 * batch. `scratch` has the scores first, then the probabilities, then the errors, all in place.
 * Rows are given by number, so that a shuffled order needs no copy of the data. */
double ps_linear_gradient(const struct ps_linear_model *model, const struct ps_dataset *dataset,
                          const struct ps_class_map *map, const size_t *rows, size_t row_count,
                          const float *weights, const float *bias, float *weight_gradient,
                          float *bias_gradient, double *scratch)
{
    PS_ASSERT(row_count > 0);
    double loss = 0;
    for (size_t i = 0; i < row_count; i++) {
        size_t class_index = class_of(map, dataset->labels[rows[i]]);
        score_row(model, dataset, rows[i], weights, bias, scratch);
        loss += to_probabilities(model, class_index, scratch);
        /* Probability minus truth is the derivative of the loss by the score, for both models. */
        if (model->outputs == 1)
            scratch[0] -= class_index == 1 ? 1.0 : 0.0;
        else
            scratch[class_index] -= 1.0;
        add_row_gradient(model, dataset, rows[i], scratch, 1.0 / (double)row_count, weight_gradient,
                         bias_gradient);
    }
    return loss / (double)row_count;
}

/* Over all rows in double, in the order of the file, so two runs with one model print the same
 * digits. A row whose label the training set did not have counts as wrong, with the highest loss a
 * row can have. */
struct ps_evaluation ps_linear_evaluate(const struct ps_linear_model *model,
                                        const struct ps_dataset *dataset,
                                        const struct ps_class_map *map, const float *weights,
                                        const float *bias, double *scratch)
{
    double loss = 0;
    size_t right = 0;
    for (size_t row = 0; row < dataset->row_count; row++) {
        size_t class_index = class_of(map, dataset->labels[row]);
        score_row(model, dataset, row, weights, bias, scratch);
        if (class_index == map->count) {
            loss += -log(PROBABILITY_MIN);
            continue;
        }
        loss += to_probabilities(model, class_index, scratch);
        /* With one output the score is the probability of the second class, and the loop below does
         * nothing. */
        size_t best = model->outputs == 1 && scratch[0] > 0.5 ? 1 : 0;
        for (size_t k = 1; k < model->outputs; k++)
            best = scratch[k] > scratch[best] ? k : best;
        right += best == class_index;
    }
    double rows = (double)dataset->row_count;
    return (struct ps_evaluation){.loss = loss / rows, .accuracy = (double)right / rows};
}

/* Two classes are what most people have: with the count of outputs known when this is compiled, the
 * loops over them are gone, and a step computes in half the time. */
static void score_row(const struct ps_linear_model *model, const struct ps_dataset *dataset,
                      size_t row, const float *weights, const float *bias, double *scores)
{
    if (model->outputs == 1)
        score_outputs(dataset, row, weights, bias, model->features, 1, scores);
    else
        score_outputs(dataset, row, weights, bias, model->features, model->outputs, scores);
}

/* Only the features that are there are visited: a row of a sparse set has a dozen of thousands. The
 * weights of all outputs stand together for each feature, so one row of the file touches few cache
 * lines. */
static inline void score_outputs(const struct ps_dataset *dataset, size_t row, const float *weights,
                                 const float *bias, size_t features, size_t outputs, double *scores)
{
    for (size_t k = 0; k < outputs; k++)
        scores[k] = (double)bias[k];
    size_t end = dataset->starts[row + 1];
    for (size_t i = dataset->starts[row]; i < end; i++) {
        size_t feature = dataset->features[i];
        if (feature >= features)
            continue;
        for (size_t k = 0; k < outputs; k++)
            scores[k] += (double)dataset->values[i] * (double)weights[feature * outputs + k];
    }
}

/* Turns scores into probabilities in place and returns the loss of the true class. The highest
 * score is taken off before exp, or a large one would overflow; the quotient is the same. The bound
 * keeps the logarithm finite for a row that the model is sure about and wrong. */
static double to_probabilities(const struct ps_linear_model *model, size_t class_index,
                               double *scores)
{
    if (model->outputs == 1) {
        scores[0] = 1.0 / (1.0 + exp(-scores[0]));
        double truth = class_index == 1 ? scores[0] : 1.0 - scores[0];
        return -log(truth > PROBABILITY_MIN ? truth : PROBABILITY_MIN);
    }
    double highest = scores[0];
    for (size_t k = 1; k < model->outputs; k++)
        highest = scores[k] > highest ? scores[k] : highest;
    double sum = 0;
    for (size_t k = 0; k < model->outputs; k++) {
        scores[k] = exp(scores[k] - highest);
        sum += scores[k];
    }
    for (size_t k = 0; k < model->outputs; k++)
        scores[k] /= sum;
    double truth = scores[class_index];
    return -log(truth > PROBABILITY_MIN ? truth : PROBABILITY_MIN);
}

/* As score_row: the count of outputs is known for two classes. */
static void add_row_gradient(const struct ps_linear_model *model, const struct ps_dataset *dataset,
                             size_t row, const double *errors, double scale, float *weight_gradient,
                             float *bias_gradient)
{
    for (size_t k = 0; k < model->outputs; k++)
        bias_gradient[k] += (float)(errors[k] * scale);
    if (model->outputs == 1)
        add_outputs(dataset, row, errors, scale, model->features, 1, weight_gradient);
    else
        add_outputs(dataset, row, errors, scale, model->features, model->outputs, weight_gradient);
}

/* The row's features get the error times their value; all other weights have a gradient of zero,
 * which is why sparse encodings pay for such models. */
static inline void add_outputs(const struct ps_dataset *dataset, size_t row, const double *errors,
                               double scale, size_t features, size_t outputs,
                               float *weight_gradient)
{
    size_t end = dataset->starts[row + 1];
    for (size_t i = dataset->starts[row]; i < end; i++) {
        size_t feature = dataset->features[i];
        if (feature >= features)
            continue;
        double value = (double)dataset->values[i] * scale;
        for (size_t k = 0; k < outputs; k++)
            weight_gradient[feature * outputs + k] += (float)(errors[k] * value);
    }
}
