/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the (index, value) pairs of a TOP_K gradient in their order, out of pieces that were cut at
 * any byte.
 *
 * Threads:  a walk belongs to one thread.
 * Blocking: never.
 * Errors:   none: the content has whole pairs. Whether indices rise is gradient_check's to say.
 * Memory:   in place, some 4 KiB; runs are valid until the next call.
 */
#ifndef PS_SERVER_CORE_GRADIENT_PAIRS_H
#define PS_SERVER_CORE_GRADIENT_PAIRS_H

#include "base/bytes.h"

/* Pairs that are read at a time. */
#define PS_GRADIENT_PAIRS 512

struct ps_gradient_pairs {
    struct ps_view_cursor index_cursor;
    struct ps_view_cursor value_cursor;
    size_t rest; /* pairs that are not read yet */
    size_t at;   /* of those read, the first that is not given yet */
    size_t count;
    uint32_t indices[PS_GRADIENT_PAIRS];
    float values[PS_GRADIENT_PAIRS];
};

struct ps_gradient_pair_run {
    const uint32_t *indices;
    const float *values;
    size_t count;
};

/* `content` is borrowed for as long as the walk goes on. */
void ps_gradient_pairs_init(struct ps_gradient_pairs *pairs, struct ps_view content);

/* The next pairs whose indices are below `limit`: as many as lie ready, at most PS_GRADIENT_PAIRS.
 * Count 0: there is none below it. */
struct ps_gradient_pair_run ps_gradient_pairs_next(struct ps_gradient_pairs *pairs, uint64_t limit);

/* Passes over the pairs whose indices are below `index`. */
void ps_gradient_pairs_skip_to(struct ps_gradient_pairs *pairs, uint64_t index);

#endif
