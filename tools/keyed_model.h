/* SPDX-License-Identifier: Apache-2.0 */
/* A model whose parameters are rows of a table, over a set of examples: which rows some examples
 * need, and what the loss and its gradient by those rows are. The updates happen on the servers.
 *
 * Threads:  a model is only read; any number of threads may use it.
 * Blocking: never.
 * Errors:   collect: PS_ERR_NO_MEMORY, PS_ERR_BAD_INPUT for a batch that is too large.
 * Memory:   examples are borrowed.
 */
#ifndef PS_TOOLS_KEYED_MODEL_H
#define PS_TOOLS_KEYED_MODEL_H

#include "tools/row_batch.h"

#include <stdbool.h>

/* Sums over examples. */
struct ps_row_score {
    size_t examples;
    double loss;
    double measure; /* of the model's own: examples that were right, or squares of errors */
};

struct ps_keyed_model {
    const void *self;
    uint32_t width; /* of a row */
    size_t example_count;
    /* Begins the batch, and visits the keys of the examples (numbers within the set). */
    enum ps_status (*collect)(const void *self, const size_t *examples, size_t count,
                              struct ps_row_batch *batch, struct ps_error *error);
    /* Adds to the score, and with `learns` to the gradients of the loss, summed over the examples.
     * The batch has the rows of the same examples. */
    void (*compute)(const void *self, const size_t *examples, size_t count,
                    struct ps_row_batch *batch, bool learns, struct ps_row_score *score);
};

#endif
