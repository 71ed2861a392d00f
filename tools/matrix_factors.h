/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix factorisation: a rating is the mean of all ratings, plus a bias of the user and one of the
 * item, plus the product of the user's factors and the item's. A user or an item is a row of
 * 1 + rank elements, the bias first.
 *
 * Threads:  a model is only read.
 * Blocking: never.
 * Errors:   as tools/keyed_model.h says.
 * Memory:   ratings are borrowed; they outlive the model.
 */
#ifndef PS_TOOLS_MATRIX_FACTORS_H
#define PS_TOOLS_MATRIX_FACTORS_H

#include "tools/keyed_model.h"
#include "tools/ratings.h"

struct ps_matrix_factors {
    const struct ps_ratings *ratings;
    double mean; /* of the training set, also for a test set */
    uint32_t rank;
};

/* The keys of a user and of an item in the one table that has both: the lowest bit tells them
 * apart. */
uint64_t ps_matrix_user_key(uint64_t user);
uint64_t ps_matrix_item_key(uint64_t item);

/* The measure of its score: the sum of the squared errors. The loss is half of each square. */
struct ps_keyed_model ps_matrix_factors_model(const struct ps_matrix_factors *factors);

#endif
