/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous as the service offers it (../rendezvous/): admission, the clock, and whom to tell.
 *
 * Threads:  every function is safe from any thread; a wait belongs to its call.
 * Blocking: never: a call that waits is parked, and asked again when its topic has changed or its
 *           time is over.
 * Errors:   each function lists its own. All but the cleanups: PS_ERR_UNAVAILABLE and
 *           PS_ERR_NOT_OWNER as for a pull, but that the shard need not be initialised.
 * Memory:   a wait keeps places and values until ps_service_leave_tensors.
 */
#ifndef PS_SERVER_CORE_RENDEZVOUS_CALLS_H
#define PS_SERVER_CORE_RENDEZVOUS_CALLS_H

#include "server/core/rendezvous/rendezvous.h"
#include "server/core/requests/service.h"

/* A call of a receiver. Zeroed: none. */
struct ps_tensor_wait {
    struct ps_receiving receiving;
    struct ps_shared_range room; /* for contents, in memory that the client shares */
    size_t wanted;
    uint32_t topic;
    uint64_t until_ms; /* on the service's clock */
};

/* What StepControl asks for. */
struct ps_step_request {
    enum ps_step_act act;
    uint64_t step, epoch;
    uint32_t shard;
    struct ps_bytes session;
    bool is_strict;
    uint64_t lifetime_ms;
    const char *reason; /* of an abort */
    bool is_internal;
};

/* A value or a part of one. Keeps the content by `hold`, or copies it. `*reply` is written on
 * PS_OK. Statuses of ps_rendezvous_send. */
PS_MUST_USE enum ps_status ps_service_send_tensor(struct ps_service *service,
                                                  const struct ps_send_tensor_request *request,
                                                  const struct ps_hold *hold,
                                                  struct ps_send_tensor_reply *reply,
                                                  struct ps_error *error);

/* The call comes, and waits for at most `wait_ms`. On PS_OK wait->receiving has the answers.
 *
 * PS_ERR_NOT_READY  it waits: ps_service_await_tensors follows
 * and the statuses of ps_rendezvous_receive and _collect. In any case ps_service_leave_tensors
 * follows at the end.
 */
PS_MUST_USE enum ps_status ps_service_recv_tensors(struct ps_service *service,
                                                   const struct ps_recv_tensors_request *request,
                                                   uint64_t wait_ms, struct ps_tensor_wait *wait,
                                                   struct ps_error *error);

/* Asked when the topic has changed, and when the time is over: then it is PS_OK with whatever there
 * is. */
PS_MUST_USE enum ps_status ps_service_await_tensors(struct ps_service *service,
                                                    struct ps_tensor_wait *wait,
                                                    struct ps_error *error);

/* When a call that waits wants to be asked again, in milliseconds from now, at least 1. */
uint64_t ps_service_tensors_again_ms(const struct ps_service *service,
                                     const struct ps_tensor_wait *wait);

/* The call is over. Twice is allowed, and so is a wait that never was one. */
void ps_service_leave_tensors(struct ps_service *service, struct ps_tensor_wait *wait);

/* `*epoch` is that of the step, 0 of one that ended. Statuses of ps_rendezvous_begin and _abort;
 * PS_ERR_BAD_INPUT: an act that there is not. */
PS_MUST_USE enum ps_status ps_service_control_step(struct ps_service *service,
                                                   const struct ps_step_request *request,
                                                   uint64_t *epoch, struct ps_error *error);

/* For the service itself: at its begin, when it loses its shard, and with each turn of the
 * coordinator. */
void ps_service_begin_rendezvous(struct ps_service *service,
                                 const struct ps_service_options *options);
void ps_service_lose_rendezvous(struct ps_service *service);
void ps_service_sweep_rendezvous(struct ps_service *service);

#endif
