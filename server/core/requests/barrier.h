/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers as the service offers them: meetings.h, admission, and the clock.
 *
 * Threads:  every function is safe from any thread; a wait belongs to its call.
 * Blocking: never: a call that waits is parked, and asked again when its topic has changed or its
 *           time is over.
 * Errors:   each function lists its own.
 * Memory:   a wait keeps a place in a meeting until ps_service_leave.
 */
#ifndef PS_SERVER_CORE_BARRIER_H
#define PS_SERVER_CORE_BARRIER_H

#include "server/core/requests/meetings.h"
#include "server/core/requests/service.h"

/* A call of a member that waits. Zeroed: none does. */
struct ps_barrier_wait {
    struct ps_meeting_place place;
    uint32_t topic;
    uint64_t until_ms; /* on the service's clock */
};

/* A member arrives, and waits for at most `wait_ms` (0: without end).
 *
 * PS_OK               all are there
 * PS_ERR_NOT_READY    it waits: ps_service_await_members and ps_service_leave follow
 * PS_ERR_UNAVAILABLE  as for a pull, but that the shard need not be initialised
 * and what ps_meetings_arrive says.
 */
PS_MUST_USE enum ps_status ps_service_arrive(struct ps_service *service,
                                             const struct ps_arrival *arrival, uint64_t wait_ms,
                                             struct ps_barrier_wait *wait, struct ps_error *error);

/* Asked when the topic has changed, when the time is over, and when the service has another life.
 *
 * PS_OK               all are there, or were
 * PS_ERR_NOT_READY    not yet
 * PS_ERR_TIMEOUT      the time is over; the text says who is missing
 * PS_ERR_UNAVAILABLE  this server goes, or the shard is another's now: come again
 */
PS_MUST_USE enum ps_status ps_service_await_members(struct ps_service *service,
                                                    const struct ps_barrier_wait *wait,
                                                    struct ps_error *error);

/* When a call that waits wants to be asked again, in milliseconds from now, at least 1; 0: it need
 * not be. */
uint64_t ps_service_again_ms(const struct ps_service *service, const struct ps_barrier_wait *wait);

/* The call is over. Twice is allowed, and so is a wait that never was one. */
void ps_service_leave(struct ps_service *service, struct ps_barrier_wait *wait);

#endif
