/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals are counted by the bound or rule that refused, and the first of a kind in a minute is
 * logged: an operator sees that it happens, and a flood of refused calls writes no flood of lines.
 *
 * Threads:  init belongs to start-up; note may be called from any thread.
 * Blocking: never, but for a line of the log.
 * Errors:   none.
 * Memory:   in place; the rows belong to the metrics.
 */
#ifndef PS_SERVER_RPC_REFUSALS_H
#define PS_SERVER_RPC_REFUSALS_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/refusal.h"

#include <stdatomic.h>

struct ps_refusals {
    const struct ps_log *log;                        /* borrowed; may be NULL */
    const struct ps_clock *clock;                    /* borrowed; NULL: nothing is logged */
    struct ps_counter *counters[PS_REFUSAL_COUNT];   /* ps_refused_total{reason} */
    atomic_uint_fast64_t quiet_ms[PS_REFUSAL_COUNT]; /* no line of that kind before; 0: any time */
};

/* `metrics` and `log` may be NULL. */
void ps_refusals_init(struct ps_refusals *refusals, struct ps_metrics *metrics,
                      const struct ps_log *log, const struct ps_clock *clock);

/* `amount` of a kind were refused, the last to `who` (an address; never a secret), in these words.
 * `text` may be NULL. */
void ps_refusals_note(struct ps_refusals *refusals, enum ps_refusal refusal, uint64_t amount,
                      struct ps_bytes who, const char *text);

/* The word of a kind, as metrics have it. Static. */
const char *ps_refusal_word(enum ps_refusal refusal);

#endif
