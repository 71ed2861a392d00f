/* Threads that answer large requests, so that a lane need not: a gradient of 64 MiB takes longer
 * than somebody who pulls 4 KiB should have to wait.
 *
 * Threads:  submit from any lane; create, start and stop belong to the server's owner.
 * Blocking: stop, until every job that was submitted is done.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   jobs are the caller's.
 */
#ifndef PS_SERVER_RPC_HELPERS_H
#define PS_SERVER_RPC_HELPERS_H

#include "base/alloc.h"
#include "base/thread.h"

/* More find the memory's bandwidth used up. */
#define PS_HELPERS_MAX 4

/* Work, done once in some helper's thread, in the order of submission. */
struct ps_helper_job {
    void (*work)(void *owner);
    void *owner;
    struct ps_helper_job *next; /* in the queue */
};

struct ps_helpers {
    struct ps_mutex lock; /* guards the rest, but for the threads */
    struct ps_condition changed;
    struct ps_helper_job *first, *last;
    bool stopping;
    struct ps_thread threads[PS_HELPERS_MAX];
};

void ps_helpers_init(struct ps_helpers *helpers);

/* Starts `count` threads (1 to PS_HELPERS_MAX). After a failure, stop. */
PS_MUST_USE enum ps_status ps_helpers_start(struct ps_helpers *helpers, uint32_t count,
                                            struct ps_error *error);

/* `job` is borrowed until its work has begun. */
void ps_helpers_submit(struct ps_helpers *helpers, struct ps_helper_job *job);

/* Ends the threads, if any. Nothing is submitted any more. */
void ps_helpers_stop(struct ps_helpers *helpers);
void ps_helpers_fini(struct ps_helpers *helpers);

#endif
