/* SPDX-License-Identifier: Apache-2.0 */
/* Spreads the records of a journal over threads, by parameter: each thread has a queue, and a
 * parameter always goes into the same one, so its records are applied in their order.
 *
 * Threads:  create, put, finish and destroy belong to one thread. The pool's own are started by the
 *           first put and joined by finish; those that the system refuses are done without.
 * Blocking: put waits while the record's queue is full, or PS_REPLAY_BYTES_MAX wait in all queues.
 * Errors:   the first failure of a record wins; records behind it are dropped.
 * Memory:   rows that were taken are released by the pool.
 */
#ifndef PS_SERVER_REPLAY_POOL_H
#define PS_SERVER_REPLAY_POOL_H

#include "server/core/recovery/recovery_run.h"

/* Rows that wait for one thread. */
#define PS_REPLAY_QUEUE_ROWS 64

/* Contents of all rows that wait or are being applied; a larger one is let in alone. */
#define PS_REPLAY_BYTES_MAX ((uint64_t)64 << 20)

#define PS_REPLAY_THREADS_MAX 8

struct ps_replay_pool;

struct ps_replay_pool_options {
    const struct ps_allocator *memory; /* borrowed; outlives the pool */
    uint32_t thread_count;             /* 1: the thread that puts applies */
    /* Applies one record; borrowed by the call. Called by several threads at once, never for two
     * records of one parameter. */
    enum ps_status (*apply)(void *self, const struct ps_record *record, struct ps_error *error);
    void *self; /* borrowed; outlives the pool */
};

/* PS_ERR_NO_MEMORY. The pool is returned in `*pool`; end it with ps_replay_pool_destroy(). */
PS_MUST_USE enum ps_status ps_replay_pool_create(const struct ps_replay_pool_options *options,
                                                 struct ps_replay_pool **pool,
                                                 struct ps_error *error);

/* Accepts NULL. Nothing may have been put since the last finish. */
void ps_replay_pool_destroy(struct ps_replay_pool *pool);

/* For recovery. The pool may be used anew once the sink has finished. */
struct ps_replay_sink ps_replay_pool_sink(struct ps_replay_pool *pool);

#endif
