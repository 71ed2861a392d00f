/* SPDX-License-Identifier: Apache-2.0 */
/* How far each worker is, and the lowest of them. A worker's clock is the number of iterations that
 * it has ended; the minimum moves when the last of those that stand at it moves on. This is the
 * progress tracker of FlexPS, with workers that come and go, and with clocks that are said as
 * numbers, so that a repeat changes nothing.
 *
 * Threads:  belongs to whoever calls.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   12 bytes for each rank up to the highest that ever came, and 4 for each worker.
 */
#ifndef PS_SERVER_CORE_WORKER_PROGRESS_H
#define PS_SERVER_CORE_WORKER_PROGRESS_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_progress_worker;

struct ps_progress {
    const struct ps_allocator *memory;  /* borrowed; outlives this */
    struct ps_progress_worker *workers; /* by rank */
    uint32_t *heap;                     /* ranks; a parent's clock is not above its children's */
    uint32_t capacity;                  /* of both */
    uint32_t count;                     /* workers that are there */
};

void ps_progress_init(struct ps_progress *progress, const struct ps_allocator *memory);
void ps_progress_fini(struct ps_progress *progress);

/* A worker comes, at that clock.
 * PS_ERR_BAD_INPUT  a rank of PS_CLOCK_WORKERS_MAX or above
 * PS_ERR_EXISTS     it is there
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_progress_join(struct ps_progress *progress, uint32_t rank,
                                            uint64_t clock, struct ps_error *error);

/* A worker goes, or is not waited for any more; the minimum may rise. PS_ERR_NOT_FOUND. */
PS_MUST_USE enum ps_status ps_progress_leave(struct ps_progress *progress, uint32_t rank,
                                             struct ps_error *error);

/* The worker has ended `clock` iterations. A clock that it has reached changes nothing.
 * PS_ERR_NOT_FOUND. */
PS_MUST_USE enum ps_status ps_progress_advance(struct ps_progress *progress, uint32_t rank,
                                               uint64_t clock, struct ps_error *error);

/* Room for the ranks below `ranks`: then no worker of those that comes can be refused.
 * PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_progress_reserve(struct ps_progress *progress, uint32_t ranks,
                                               struct ps_error *error);

bool ps_progress_has(const struct ps_progress *progress, uint32_t rank);

/* Of a worker that is there. */
uint64_t ps_progress_clock(const struct ps_progress *progress, uint32_t rank);

/* The lowest clock; with no workers UINT64_MAX: there is nobody to wait for. */
uint64_t ps_progress_minimum(const struct ps_progress *progress);

/* One of those that stand at the minimum, without a look at the others; PS_CLOCK_WORKERS_MAX:
 * nobody is there. */
uint32_t ps_progress_holder(const struct ps_progress *progress);

/* The next worker of rank `from` or above that stands at the minimum; PS_CLOCK_WORKERS_MAX: there
 * is no other. For people who ask whom everybody waits for. */
uint32_t ps_progress_slowest(const struct ps_progress *progress, uint32_t from);

/* Asserts every invariant. */
void ps_progress_check(const struct ps_progress *progress);

#endif
