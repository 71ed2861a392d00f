/* SPDX-License-Identifier: Apache-2.0 */
/* How old the rows of a table are: which version it had when. A row knows the version of its last
 * push and no time, so that what it is does not depend on when its pushes are replayed; here time,
 * or a clock, is turned into a version. A checkpoint keeps it (row_ages_text.h), and a process that
 * goes on from one goes on from there; where there is none rows live for one span longer.
 *
 * Threads:  belongs to whoever calls.
 * Blocking: never; the time is passed in.
 * Errors:   none.
 * Memory:   plain data.
 */
#ifndef PS_SERVER_CORE_ROW_AGES_H
#define PS_SERVER_CORE_ROW_AGES_H

#include <stddef.h>
#include <stdint.h>

/* A span is measured in so many steps: rows go at most one step late. */
enum { PS_ROW_AGE_STEPS = 16 };

/* Zeroed: nothing was seen yet. */
struct ps_row_ages {
    struct ps_row_age {
        uint64_t at; /* ps_row_ages_time, or the minimum of clocks */
        uint64_t version;
    } seen[PS_ROW_AGE_STEPS + 2]; /* the oldest first */
    size_t count;
};

/* The time that ages are counted in, of a clock's milliseconds. It begins long before the clock
 * does: rows that a checkpoint brings may be older than the machine has been up. */
#define PS_ROW_AGES_BEGIN_MS (UINT64_C(1) << 62)
static inline uint64_t ps_row_ages_time(uint64_t now_ms)
{
    return PS_ROW_AGES_BEGIN_MS + now_ms;
}

/* At `now` the table has `version`. Returns the version before which rows were last pushed to at
 * least `span` ago, 0: none were. `version` never falls from call to call; when `now` falls, which
 * clocks do that are set anew, all rows count as pushed to at this `now`. `span` may change. */
uint64_t ps_row_ages_look(struct ps_row_ages *ages, uint64_t span, uint64_t now, uint64_t version);

#endif
