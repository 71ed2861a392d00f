/* SPDX-License-Identifier: Apache-2.0 */
/* Makes ratings whose best reachable error is known, for machines without data.
 *
 * A rating is a mean, a bias of the user and one of the item, the product of hidden factors, and
 * noise of a known deviation: no model that is right about new ratings has a smaller error.
 *
 * Threads:  one.
 * Blocking: writing waits for the disk.
 * Errors:   PS_ERR_IO, PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY.
 * Memory:   the hidden factors, while it writes.
 */
#ifndef PS_TOOLS_GENERATE_RATINGS_H
#define PS_TOOLS_GENERATE_RATINGS_H

#include "base/status.h"

#include <stdint.h>

struct ps_generate_ratings_options {
    const char *path;
    uint64_t rows;
    uint64_t users, items;
    double noise;        /* deviation, in stars; at least 0 */
    uint64_t seed;       /* of who rated what, and of the noise */
    uint64_t model_seed; /* of the hidden factors: equal for a training set and its test set */
};

/* Writes "user item rating" lines, with tabs, and sets `*best_rmse` to the error of the hidden
 * function itself. */
PS_MUST_USE enum ps_status ps_generate_ratings(const struct ps_generate_ratings_options *options,
                                               double *best_rmse, struct ps_error *error);

#endif
