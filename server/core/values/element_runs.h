/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through a gradient element by element although it lies in pieces that were cut at any
 * byte: gives runs of whole elements, and an element that straddles pieces as a run of one.
 *
 * Threads:  a walk belongs to one thread.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place; runs are valid until the next call.
 */
#ifndef PS_SERVER_CORE_ELEMENT_RUNS_H
#define PS_SERVER_CORE_ELEMENT_RUNS_H

#include "base/bytes.h"

struct ps_element_runs {
    struct ps_view_cursor cursor;
    size_t element_size;
    size_t carried;    /* bytes of a straddling element that are in `carry` already */
    uint64_t carry[1]; /* as aligned as any element */
};

struct ps_element_run {
    const void *elements; /* of any alignment */
    size_t count;
};

/* `gradient` is borrowed for as long as the walk goes on. */
void ps_element_runs_init(struct ps_element_runs *runs, struct ps_view gradient,
                          size_t element_size);

/* The next run of at most `count_max` (not 0) elements; count 0 at the end. */
struct ps_element_run ps_element_runs_next(struct ps_element_runs *runs, size_t count_max);

#endif
