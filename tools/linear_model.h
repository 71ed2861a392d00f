/* SPDX-License-Identifier: Apache-2.0 */
/* Linear classifiers on sparse rows: logistic regression (2 classes, one weight vector) and softmax
 * regression (K classes, K weight vectors). Loss and gradient only; the updates happen on the
 * servers.
 *
 * Labels are mapped to classes 0 .. K-1 in rising order of their value.
 *
 * Threads:  pure but for the memory they are given.
 * Blocking: never.
 * Errors:   only ps_class_map_init can fail.
 * Memory:   all arrays are the caller's.
 */
#ifndef PS_TOOLS_LINEAR_MODEL_H
#define PS_TOOLS_LINEAR_MODEL_H

#include "base/status.h"
#include "tools/libsvm.h"

#include <stdbool.h>
#include <stddef.h>

#define PS_CLASSES_MAX 256

/* Which label is which class. */
struct ps_class_map {
    double labels[PS_CLASSES_MAX]; /* rising */
    size_t count;
};

/* PS_ERR_BAD_INPUT with fewer than 2 or more than PS_CLASSES_MAX different labels. */
PS_MUST_USE enum ps_status ps_class_map_init(struct ps_class_map *map,
                                             const struct ps_dataset *dataset,
                                             struct ps_error *error);

/* The shape of a model. `outputs` is 1 for logistic regression, K for softmax. Weights are stored
 * feature by feature: weight of feature f for output k is weights[f * outputs + k]. */
struct ps_linear_model {
    size_t features;
    size_t outputs;
};

/* Adds the gradient of the mean loss over `rows` (indices into the data set) to `weight_gradient`
 * and `bias_gradient`, which the caller zeroed. Returns the mean loss. `scratch` has `outputs`
 * entries. */
double ps_linear_gradient(const struct ps_linear_model *model, const struct ps_dataset *dataset,
                          const struct ps_class_map *map, const size_t *rows, size_t row_count,
                          const float *weights, const float *bias, float *weight_gradient,
                          float *bias_gradient, double *scratch);

struct ps_evaluation {
    double loss;     /* mean */
    double accuracy; /* share of rows whose most likely class is theirs */
};

/* Loss and accuracy over a whole data set. Features beyond the model's are ignored. */
struct ps_evaluation ps_linear_evaluate(const struct ps_linear_model *model,
                                        const struct ps_dataset *dataset,
                                        const struct ps_class_map *map, const float *weights,
                                        const float *bias, double *scratch);

#endif
