/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through a gradient, in whatever encoding it came and wherever its message was cut, and
 * gives runs of elements of the parameter's type. What needs no decoding is given where it lies.
 * All else is decoded piece by piece into a scratch that stays in the first-level cache: a gradient
 * is never written to memory as a whole. Elements that TOP_K does not name are given as 0.
 *
 * Threads:  a walk belongs to one thread.
 * Blocking: never.
 * Errors:   none: the content was checked (gradient_check.h).
 * Memory:   in place, some 25 KiB; runs are valid until the next call.
 */
#ifndef PS_SERVER_CORE_GRADIENT_RUNS_H
#define PS_SERVER_CORE_GRADIENT_RUNS_H

#include "base/dtype.h"
#include "base/encoding.h"
#include "server/core/update/gradient_pairs.h"
#include "server/core/values/element_runs.h"

/* A gradient as it was received. */
struct ps_gradient {
    struct ps_view content;
    enum ps_encoding encoding;
    bool is_plain;    /* it was looked at before: all elements are finite */
    bool is_combined; /* of contributions that were taken (rounds/): where it is not finite the step
                         is skipped, though the settings say that a gradient is refused */
};

/* Bytes that are decoded at a time: half of a first-level cache. */
#define PS_GRADIENT_SCRATCH_BYTES (16 * 1024)

struct ps_gradient_runs {
    enum ps_encoding encoding; /* NATIVE for all that needs no decoding */
    enum ps_dtype dtype;       /* of the parameter */
    uint64_t count;            /* elements of the parameter */
    uint64_t at;               /* given so far */
    float scale;               /* INT8: of the group that `at` is in */
    struct ps_view_cursor scales;
    struct ps_element_runs elements; /* of all encodings but TOP_K: what follows the scales */
    struct ps_gradient_pairs pairs;  /* of TOP_K */
    _Alignas(64) uint8_t scratch[PS_GRADIENT_SCRATCH_BYTES];
};

/* `gradient` is borrowed for as long as the walk goes on. */
void ps_gradient_runs_init(struct ps_gradient_runs *runs, struct ps_gradient gradient,
                           enum ps_dtype dtype, uint64_t count);

/* Passes over all elements before `at`. Both that and where the last run ended are multiples of
 * PS_ENCODING_GROUP. */
void ps_gradient_runs_skip_to(struct ps_gradient_runs *runs, uint64_t at);

/* The next run of at most `count_max` (not 0) elements; count 0 at the end. */
struct ps_element_run ps_gradient_runs_next(struct ps_gradient_runs *runs, size_t count_max);

#endif
