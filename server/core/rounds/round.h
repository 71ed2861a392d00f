/* SPDX-License-Identifier: Apache-2.0 */
/* Decides about the rounds of one parameter: does a contribution count, is the round over, who is
 * not waited for any more. A round is known by the version that it makes; one is open, for the
 * version behind the present one.
 *
 *   nobody ──first contribution──► OPEN ──quorum, or the grace time is over──► the next, nobody
 *
 * Who was missing when the grace time was over is evicted: the rounds that follow do not wait for
 * that worker, until it contributes again.
 *
 * Threads:  none inside; the caller serialises calls.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_SERVER_CORE_ROUND_H
#define PS_SERVER_CORE_ROUND_H

#include "checkpoint/journal_round.h"
#include "optimizer/settings.h"

struct ps_round {
    uint32_t workers;       /* their ranks are below */
    uint32_t counted_count; /* contributions to the open round */
    uint32_t evicted_count;
    uint64_t first_ms; /* when the first of them came */
    uint8_t counted[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)];
    uint8_t evicted[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)]; /* nobody is in both */
};

/* Nobody has contributed, and nobody is evicted. */
void ps_round_init(struct ps_round *round, uint32_t workers);

enum ps_round_verdict {
    PS_ROUND_COUNTS,      /* in the open round */
    PS_ROUND_COUNTS_LATE, /* in the open one; its own is over */
    PS_ROUND_IS_LATE,     /* its round is over, and it counts nowhere */
    PS_ROUND_IS_AHEAD,    /* its round is not open yet */
    PS_ROUND_IS_SECOND    /* the worker has contributed to the open round already */
};

/* What a contribution of `worker` to the round that makes `wanted` (0: the open one) would be,
 * while the parameter is at `version`. */
enum ps_round_verdict ps_round_judge(const struct ps_round *round,
                                     const struct ps_round_settings *settings, uint64_t version,
                                     uint32_t worker, uint64_t wanted);

/* It counts: an eviction of that worker is taken back. */
void ps_round_join(struct ps_round *round, uint32_t worker, uint64_t now_ms);

/* How many contributions the open round needs. */
uint32_t ps_round_needed(const struct ps_round *round, const struct ps_round_settings *settings);

enum ps_round_end { PS_ROUND_GOES_ON, PS_ROUND_IS_COMPLETE, PS_ROUND_IS_OVERDUE };

/* Is the open round over at this time? `*again_ms`, of one that goes on: it is then, if nobody
 * contributes before; 0: only contributions end it. */
enum ps_round_end ps_round_look(const struct ps_round *round,
                                const struct ps_round_settings *settings, uint64_t now_ms,
                                uint64_t *again_ms);

/* Who is evicted once the open round has ended so: the set is written to `evicted`. */
void ps_round_evicted_by(const struct ps_round *round, enum ps_round_end end,
                         uint8_t evicted[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)]);

/* The next round is open, with nobody in it and this set evicted. */
void ps_round_next(struct ps_round *round, const uint8_t *evicted);

/* " 0 3 7 ...": the first few that the open round waits for. */
void ps_round_name_missing(const struct ps_round *round, char *text, size_t size);

/* Asserts every invariant. */
void ps_round_check(const struct ps_round *round);

#endif
