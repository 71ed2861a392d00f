/* SPDX-License-Identifier: Apache-2.0 */
/* One line on standard error that says how far long work is; nothing where nobody watches.
 *
 * Threads:  one.
 * Blocking: writing, as standard error does.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_PROGRESS_H
#define PS_TOOLS_PROGRESS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const struct ps_clock *clock; /* borrowed; outlives this */
    bool shown;                   /* somebody watches */
    bool dirty;                   /* a line stands there */
    uint64_t last_ms;
    uint64_t done;
    uint64_t total;
    const char *what;
};

/* `shown`: standard error is a terminal. */
void progress_init(struct progress *progress, const struct ps_clock *clock, bool shown);

/* Begins a piece of work of `total` bytes. `what` is borrowed. */
void progress_begin(struct progress *progress, const char *what, uint64_t total);
void progress_add(struct progress *progress, uint64_t bytes);

/* Takes the line away. */
void progress_end(struct progress *progress);

#endif
