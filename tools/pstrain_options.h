/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of pstrain: one table for all models and for `generate`.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none; what options exclude each other is checked where they are used.
 * Memory:   texts are borrowed from the arguments and the environment.
 */
#ifndef PS_TOOLS_PSTRAIN_OPTIONS_H
#define PS_TOOLS_PSTRAIN_OPTIONS_H

#include "base/options.h"
#include "tools/job_place.h"

#include <stdbool.h>
#include <stdint.h>

/* Filled from the table; the fields have no defaults of their own. */
struct pstrain_options {
    struct ps_job_place place;
    const char *data, *test, *model, *optimizer, *name, *output, *out, *encoding, *reply_encoding,
        *pipeline, *late, *consistency, *plot;
    uint64_t sync, grace_ms, accumulate, local_steps, workers, part, parts, epochs, batch, seed,
        model_seed, timeout_ms, split_bytes, rows, features, rank, users, items;
    double learning_rate, local_rate, l2, noise, top_k_share;
    bool help, man, version;
};

const struct ps_option_set *pstrain_option_set(void);

#endif
