/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker may read: the models of parameter servers.
 *
 *   ASP     asynchronous: nobody waits
 *   SSP(s)  bounded staleness (Ho et al., "More Effective Distributed ML via a Stale Synchronous
 *           Parallel Parameter Server", NIPS 2013): a worker at clock c reads when every worker has
 *           ended c - s iterations. What the others sent meanwhile may be in what it reads, too.
 *   BSP     bulk synchronous: a worker at clock c reads when every worker has ended c iterations,
 *           and at no earlier clock
 *
 * SparseSSP(s, k) asks of the keys of a read as well (sparse_ssp.h); a read without keys is judged
 * here, as under SSP(s).
 *
 * Updates count as they come, under BSP as well: whoever wants those of an iteration to count
 * together trains in rounds (docs/rounds.md). The rules are those of FlexPS; where FlexPS ends the
 * process, here is a refusal.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   each function lists its own.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_CONSISTENCY_H
#define PS_SERVER_CORE_CONSISTENCY_H

#include "server/core/clocks/worker_progress.h"

/* The numbers are those of the wire and of the journal. */
enum ps_consistency_model {
    PS_CONSISTENCY_ASP,
    PS_CONSISTENCY_SSP,
    PS_CONSISTENCY_BSP,
    PS_CONSISTENCY_SPARSE_SSP,
    PS_CONSISTENCY_COUNT
};

struct ps_consistency {
    enum ps_consistency_model model;
    uint64_t staleness; /* of SSP and SparseSSP */
};

/* May the worker read at that clock, the number of iterations that it has ended?
 *
 * PS_OK             now
 * PS_ERR_NOT_READY  when the minimum is `*awaited`, if no worker leaves before
 * PS_ERR_NOT_FOUND  the worker is not there
 * PS_ERR_MISMATCH   it has not ended so many iterations; under BSP: another clock than its own
 */
PS_MUST_USE enum ps_status ps_consistency_read(const struct ps_consistency *consistency,
                                               const struct ps_progress *progress, uint32_t rank,
                                               uint64_t clock, uint64_t *awaited,
                                               struct ps_error *error);

/* How many iterations the slowest worker is behind this one: what a read at that clock may miss. */
uint64_t ps_consistency_staleness(const struct ps_progress *progress, uint64_t clock);

#endif
