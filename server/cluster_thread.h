/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that knows where the servers of the job are, and asks the store for trainers that do
 * not (server/core/ownership/cluster.h).
 *
 * Threads:  one of its own, which owns the store. create, start and destroy belong to the main
 *           thread; the listener's functions to any.
 * Blocking: destroy waits for the question at work, up to its deadline of two seconds.
 * Errors:   create: PS_ERR_NO_MEMORY. The store's failures are answers, or tried again.
 * Memory:   everything in the options is borrowed and outlives the thread.
 */
#ifndef PS_SERVER_CLUSTER_THREAD_H
#define PS_SERVER_CLUSTER_THREAD_H

#include "server/core/ownership/cluster.h"
#include "server/core/recovery/set_wish.h"
#include "server/core/requests/service.h"

struct ps_cluster_thread;

struct ps_cluster_thread_options {
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    struct ps_service *service;
    struct ps_registry *registry; /* with a store of its own, used by this thread alone */
    bool is_alone;                /* no etcd */
    bool is_in_memory;            /* nor a folder: the store is nobody else's */
    struct ps_set_wish *wish;     /* is told of sets; NULL: this server saves none */
    void (*changed)(void *self, uint64_t topics); /* as of struct ps_cluster_listener */
    void *self;
};

/* The cluster is there from now on, and answered from start on. */
PS_MUST_USE enum ps_status ps_cluster_thread_create(const struct ps_cluster_thread_options *options,
                                                    struct ps_cluster_thread **thread,
                                                    struct ps_error *error);
struct ps_cluster *ps_cluster_thread_cluster(struct ps_cluster_thread *thread);

PS_MUST_USE enum ps_status ps_cluster_thread_start(struct ps_cluster_thread *thread,
                                                   struct ps_error *error);

/* A checkpoint was saved, or the shard's phase has changed: what is wanted of it is read again. Any
 * thread; never blocks. */
void ps_cluster_thread_look_again(struct ps_cluster_thread *thread);

/* Ends the thread: from now on questions are refused. NULL is allowed, and so is twice. */
void ps_cluster_thread_stop(struct ps_cluster_thread *thread);

/* NULL is allowed. */
void ps_cluster_thread_destroy(struct ps_cluster_thread *thread);

#endif
