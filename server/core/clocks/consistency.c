/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the minimum. A worker that left is not waited for, so the minimum may jump.
 *
 * One switch for what makes the models differ: how many iterations all must have ended before a
 * read. Nothing is remembered here: a read that was refused asks the same question again, and
 * whoever parks it keeps the awaited minimum to know when that may help. */
#include "server/core/clocks/consistency.h"

#include "base/assert.h"

#include <inttypes.h>

static enum ps_status find(const struct ps_progress *progress, uint32_t rank, uint64_t *own,
                           struct ps_error *error);
static uint64_t minimum_for_read(const struct ps_consistency *consistency, uint64_t clock);

enum ps_status ps_consistency_read(const struct ps_consistency *consistency,
                                   const struct ps_progress *progress, uint32_t rank,
                                   uint64_t clock, uint64_t *awaited, struct ps_error *error)
{
    uint64_t own = 0;
    PS_TRY(find(progress, rank, &own, error));
    /* Asynchronous workers are let through whatever number they say: nobody compares it. */
    if (consistency->model == PS_CONSISTENCY_ASP)
        return PS_OK;
    /* A read ahead of its worker could wait for that worker itself. */
    if (clock > own)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "worker %" PRIu32 " reads at clock %" PRIu64 ", and has ended %" PRIu64
                       " iterations",
                       rank, clock, own);
    if (consistency->model == PS_CONSISTENCY_BSP && clock < own)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "worker %" PRIu32 " reads at clock %" PRIu64
                       ", which is over: it has ended %" PRIu64 " iterations",
                       rank, clock, own);
    /* The slowest worker itself is never the one that waits: what it needs is at most its clock. */
    uint64_t needed = minimum_for_read(consistency, clock);
    uint64_t minimum = ps_progress_minimum(progress);
    PS_ASSERT(minimum <= own);
    PS_ASSERT(needed <= own);
    if (minimum >= needed)
        return PS_OK;
    /* One of several may be named: people want to know whom to look at first. */
    *awaited = needed;
    return ps_fail(error, PS_ERR_NOT_READY,
                   "worker %" PRIu32 " at clock %" PRIu64 " waits for clock %" PRIu64
                   "; worker %" PRIu32 " is at %" PRIu64,
                   rank, clock, needed, ps_progress_slowest(progress, 0), minimum);
}

/* A worker that nobody waits for has no clock here: it cannot be told from one that never came. */
static enum ps_status find(const struct ps_progress *progress, uint32_t rank, uint64_t *own,
                           struct ps_error *error)
{
    if (!ps_progress_has(progress, rank))
        return ps_fail(error, PS_ERR_NOT_FOUND, "worker %" PRIu32 " is not there", rank);
    *own = ps_progress_clock(progress, rank);
    PS_ASSERT(*own >= ps_progress_minimum(progress));
    return PS_OK;
}

/* Iterations that every worker must have ended. A worker reads at its own clock or below, and what
 * is needed is never above that, so that somebody may always go on: the slowest. */
static uint64_t minimum_for_read(const struct ps_consistency *consistency, uint64_t clock)
{
    switch (consistency->model) {
    case PS_CONSISTENCY_ASP:
        return 0;
    case PS_CONSISTENCY_BSP:
        return clock;
    case PS_CONSISTENCY_SSP:
    case PS_CONSISTENCY_SPARSE_SSP:
        return clock > consistency->staleness ? clock - consistency->staleness : 0;
    case PS_CONSISTENCY_COUNT:
        break;
    }
    PS_ASSERT(false);
    return UINT64_MAX;
}

/* Without workers the minimum is above every clock, and nothing is missed. */
uint64_t ps_consistency_staleness(const struct ps_progress *progress, uint64_t clock)
{
    uint64_t minimum = ps_progress_minimum(progress);
    PS_ASSERT(progress->count > 0 || minimum == UINT64_MAX);
    return clock > minimum ? clock - minimum : 0;
}
