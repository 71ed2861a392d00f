/* SPDX-License-Identifier: Apache-2.0 */
/* Logistic regression whose weights are rows of one element: the key of a feature is its index in
 * the LIBSVM file, from 1, and the bias has the key 0. Only the features of a batch travel, and a
 * feature that nobody has seen takes no memory.
 *
 * Threads:  a model is only read.
 * Blocking: never.
 * Errors:   as tools/keyed_model.h says.
 * Memory:   data set and classes are borrowed; they outlive the model.
 */
#ifndef PS_TOOLS_SPARSE_LOGISTIC_H
#define PS_TOOLS_SPARSE_LOGISTIC_H

#include "tools/keyed_model.h"
#include "tools/linear_model.h"

struct ps_sparse_logistic {
    const struct ps_dataset *dataset;
    const struct ps_class_map *map; /* two classes */
};

/* The measure of its score: rows whose likelier class is theirs. */
struct ps_keyed_model ps_sparse_logistic_model(const struct ps_sparse_logistic *logistic);

#endif
