/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a data set whose best reachable accuracy is known, for machines without data.
 *
 * Rows have binary features; the label is the sign of a hidden linear function, flipped with a
 * stated probability. No model can be right more often than 1 - noise, and a linear one comes
 * close to that.
 *
 * Threads:  one.
 * Blocking: writing waits for the disk.
 * Errors:   PS_ERR_IO, PS_ERR_BAD_INPUT.
 * Memory:   a fixed amount.
 */
#ifndef PS_TOOLS_GENERATE_H
#define PS_TOOLS_GENERATE_H

#include "base/status.h"

#include <stdint.h>

struct ps_generate_options {
    const char *path;
    uint64_t rows;
    uint64_t features;
    double noise;        /* probability that a label is flipped, [0, 0.5) */
    uint64_t seed;       /* of the rows */
    uint64_t model_seed; /* of the hidden function: equal for a training set and its test set */
};

/* Writes the file and sets `*best_accuracy` to the share of rows whose label was not flipped: what
 * the hidden function itself reaches. */
PS_MUST_USE enum ps_status ps_generate(const struct ps_generate_options *options,
                                       double *best_accuracy, struct ps_error *error);

#endif
