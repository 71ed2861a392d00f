/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of how a model got better: one line for the training set and one for the test set, a
 * point for each epoch.
 *
 * Threads:  any.
 * Blocking: writing waits for the disk.
 * Errors:   PS_ERR_IO with the file's name; PS_ERR_NO_MEMORY.
 * Memory:   the text of the picture, while it is written.
 */
#ifndef PS_TOOLS_TRAIN_CURVE_H
#define PS_TOOLS_TRAIN_CURVE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ps_curve_point {
    uint32_t epoch;
    double train;
    double test; /* NaN: no test set */
};

struct ps_curve {
    const char *title;
    const char *measure; /* what the height is */
    const struct ps_curve_point *points;
    size_t count;
};

PS_MUST_USE enum ps_status ps_curve_write(const char *path, const struct ps_curve *curve,
                                          struct ps_error *error);

#endif
