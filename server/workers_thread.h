/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that asks the store about the job's workers, for calls that do not
 * (server/core/ownership/workers.h). Apart from the thread that knows the servers: thousands of
 * workers that keep their places must not be in the way of whoever initialises the job.
 *
 * Threads:  one of its own, which owns the store. create, start and destroy belong to the main
 *           thread.
 * Blocking: destroy waits for the question at work, up to its deadline of two seconds.
 * Errors:   create: PS_ERR_NO_MEMORY. The store's failures are answers, or tried again.
 * Memory:   everything in the options is borrowed and outlives the thread.
 */
#ifndef PS_SERVER_WORKERS_THREAD_H
#define PS_SERVER_WORKERS_THREAD_H

#include "server/core/ownership/workers.h"

struct ps_workers_thread;

struct ps_workers_thread_options {
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    struct ps_registry *registry; /* with a store of its own, used by this thread alone */
    bool is_in_memory;            /* the store is nobody else's: there is nothing to watch */
    void (*changed)(void *self, uint64_t topics); /* as of struct ps_workers_listener */
    void *self;
};

/* The workers are there from now on, and answered from start on. */
PS_MUST_USE enum ps_status ps_workers_thread_create(const struct ps_workers_thread_options *options,
                                                    struct ps_workers_thread **thread,
                                                    struct ps_error *error);
struct ps_workers *ps_workers_thread_workers(struct ps_workers_thread *thread);

PS_MUST_USE enum ps_status ps_workers_thread_start(struct ps_workers_thread *thread,
                                                   struct ps_error *error);

/* Ends the thread: from now on questions are refused. NULL is allowed, and so is twice. */
void ps_workers_thread_stop(struct ps_workers_thread *thread);

/* NULL is allowed. */
void ps_workers_thread_destroy(struct ps_workers_thread *thread);

#endif
