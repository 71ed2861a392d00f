/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that step together: a thread for each, none of whose steps ends before every other worker
 * has begun the same one.
 *
 * Threads:  one runs a team; the workers are threads of its own.
 * Blocking: for the time, and for the step that is under way then.
 * Errors:   the first that a step gave.
 * Memory:   what a run needs is given back by it.
 */
#ifndef PS_TOOLS_PSBENCH_TEAM_H
#define PS_TOOLS_PSBENCH_TEAM_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_BENCH_TEAM_MAX 64

/* What the workers do. */
struct ps_bench_team {
    /* Round `round` of one worker; from any thread, at most one at a time for each worker. Ends
     * only when all workers have begun that round, or with a failure. */
    enum ps_status (*step)(void *self, uint64_t worker, uint64_t round, struct ps_error *error);
    void *self; /* borrowed */
    uint64_t worker_count;
    uint64_t done; /* rounds, in all runs; of free workers the steps of all of them */
    bool is_free;  /* steps end by themselves: no worker waits for another, and each ends when the
                     time is over. Figures are of steps of all workers */
};

/* Runs rounds done + 1 on for `time_ms`, at least PS_BENCH_REFERENCE_COUNT_MIN of them. Every
 * worker ends with the same round. Figures are of rounds; times are of all workers' steps. */
PS_MUST_USE enum ps_status ps_bench_team_run(struct ps_bench_team *team, uint64_t time_ms,
                                             struct ps_bench_figures *figures,
                                             struct ps_error *error);

#endif
