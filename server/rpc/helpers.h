/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that answer large requests, so that a lane need not: a gradient of 64 MiB takes longer
 * than somebody who pulls 4 KiB should have to wait. Those that have nothing to answer share the
 * work of others: they are the crew to which the service spreads large updates.
 *
 * Threads:  submit from any lane, and the crew's run from any thread, helpers included; create,
 *           start and stop belong to the server's owner.
 * Blocking: stop, until every job that was submitted is done; run, until its work is.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   jobs are the caller's.
 */
#ifndef PS_SERVER_RPC_HELPERS_H
#define PS_SERVER_RPC_HELPERS_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/thread.h"
#include "server/core/values/crew.h"

/* More find the memory's bandwidth used up. */
#define PS_HELPER_JOBS_MAX 4

/* Whoever runs an update is one of its threads. */
#define PS_HELPERS_MAX (PS_HELPER_JOBS_MAX + PS_UPDATE_THREADS_MAX - 1)

/* Work, done once in some helper's thread, in the order of submission. */
struct ps_helper_job {
    void (*work)(void *owner);
    void *owner;
    struct ps_helper_job *next, *prev; /* in the queue */
};

struct ps_helper_share;

struct ps_helpers {
    struct ps_mutex lock; /* guards the rest, but for the threads and what is constant */
    struct ps_condition changed;
    struct ps_condition shared;      /* a helper has done its share */
    struct ps_helper_job *submitted; /* a queue */
    struct ps_helper_share *shares;  /* that want more threads; a list, in no order */
    uint32_t jobs;                   /* being done */
    uint32_t idle;                   /* threads that wait */
    bool stopping;
    uint32_t jobs_max;           /* constant from start on */
    uint32_t update_threads_max; /* likewise */
    struct ps_thread threads[PS_HELPERS_MAX];
};

void ps_helpers_init(struct ps_helpers *helpers);

/* Starts threads for `jobs` (1 to PS_HELPER_JOBS_MAX) jobs at once, and as many more as let one
 * update have `update_threads` (1 to PS_UPDATE_THREADS_MAX). After a failure, stop. */
PS_MUST_USE enum ps_status ps_helpers_start(struct ps_helpers *helpers, uint32_t jobs,
                                            uint32_t update_threads, struct ps_error *error);

/* The crew: the thread that has work begins it, and helpers that are idle join in. Until start
 * there are none. `helpers` is borrowed. */
struct ps_crew ps_helpers_crew(struct ps_helpers *helpers);

/* `job` is borrowed until its work has begun. */
void ps_helpers_submit(struct ps_helpers *helpers, struct ps_helper_job *job);

/* Ends the threads, if any. Nothing is submitted any more. */
void ps_helpers_stop(struct ps_helpers *helpers);
void ps_helpers_fini(struct ps_helpers *helpers);

#endif
