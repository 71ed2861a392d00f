/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and gradient of matrix factorisation. One table has users and items, so that a step is
 * one round trip to each server. Regularisation is the optimizer's (--l2), which sees the rows
 * of a batch and no others: as often as a row is used, as stochastic gradient descent has it.
 * Keys are numbers of the file and not places in a list, so that no process needs to know how
 * many users and items the others have. */
#include "tools/matrix_factors.h"

#include "base/assert.h"

static enum ps_status collect(const void *self, const size_t *examples, size_t count,
                              struct ps_row_batch *batch, struct ps_error *error);
static void compute(const void *self, const size_t *examples, size_t count,
                    struct ps_row_batch *batch, bool learns, struct ps_row_score *score);
static void add_gradient(const struct ps_row_batch *batch, size_t user, uint32_t rank, float error);

/* A shift, and not an offset behind the largest user: new users and items may come at any time. */
uint64_t ps_matrix_user_key(uint64_t user)
{
    return user << 1;
}

uint64_t ps_matrix_item_key(uint64_t item)
{
    return item << 1 | 1;
}

/* The bias is the first element of a row, so that a row of width one would be a model of biases
 * alone. */
struct ps_keyed_model ps_matrix_factors_model(const struct ps_matrix_factors *factors)
{
    return (struct ps_keyed_model){.self = factors,
                                   .width = factors->rank + 1,
                                   .example_count = factors->ratings->count,
                                   .collect = collect,
                                   .compute = compute};
}

/* Two visits for each rating: the user, then the item. */
static enum ps_status collect(const void *self, const size_t *examples, size_t count,
                              struct ps_row_batch *batch, struct ps_error *error)
{
    const struct ps_rating *list = ((const struct ps_matrix_factors *)self)->ratings->list;
    PS_TRY(ps_row_batch_begin(batch, 2 * count, error));
    for (size_t i = 0; i < count; i++) {
        ps_row_batch_visit(batch, ps_matrix_user_key(list[examples[i]].user));
        ps_row_batch_visit(batch, ps_matrix_item_key(list[examples[i]].item));
    }
    return PS_OK;
}

/* In double, since the sum of a high rank would lose in float what the last factors add. */
static double predict(const struct ps_matrix_factors *factors, const float *user, const float *item)
{
    double sum = factors->mean + (double)user[0] + (double)item[0];
    for (uint32_t i = 1; i <= factors->rank; i++)
        sum += (double)user[i] * (double)item[i];
    return sum;
}

/* Rows are read while gradients are added to: they are different memory, so that an item that is
 * in the batch many times is always the one the servers had. */
static void compute(const void *self, const size_t *examples, size_t count,
                    struct ps_row_batch *batch, bool learns, struct ps_row_score *score)
{
    const struct ps_matrix_factors *factors = self;
    PS_ASSERT(batch->width == factors->rank + 1 && batch->visit_count == 2 * count);
    for (size_t i = 0; i < count; i++) {
        const struct ps_rating *rating = &factors->ratings->list[examples[i]];
        const float *user = ps_row_batch_row(batch, 2 * i);
        const float *item = ps_row_batch_row(batch, 2 * i + 1);
        double error = predict(factors, user, item) - (double)rating->value;
        score->examples++;
        score->loss += error * error / 2;
        /* Whoever reports takes the root. */
        score->measure += error * error;
        if (learns)
            add_gradient(batch, 2 * i, factors->rank, (float)error);
    }
}

/* The derivative by a user's factors is the error times the item's, and the other way round. */
static void add_gradient(const struct ps_row_batch *batch, size_t user, uint32_t rank, float error)
{
    const float *user_row = ps_row_batch_row(batch, user);
    const float *item_row = ps_row_batch_row(batch, user + 1);
    float *user_gradient = ps_row_batch_gradient(batch, user);
    float *item_gradient = ps_row_batch_gradient(batch, user + 1);
    /* The derivative by a bias is the error itself. */
    user_gradient[0] += error;
    item_gradient[0] += error;
    for (uint32_t i = 1; i <= rank; i++) {
        user_gradient[i] += error * item_row[i];
        item_gradient[i] += error * user_row[i];
    }
}
