/* SPDX-License-Identifier: Apache-2.0 */
/* LastApplied: what of a client's pushes is in the shard. A trainer that was started again asks it
 * under the id that it had before, and knows from which batch to go on.
 *
 * Threads:  every function is safe from any thread; an answer belongs to its call.
 * Blocking: never: a call whose answer is not durable yet is parked (PS_TOPIC_JOURNAL).
 * Errors:   each function lists its own.
 * Memory:   an answer holds names until it is released.
 */
#ifndef PS_SERVER_CORE_CLIENT_APPLIED_H
#define PS_SERVER_CORE_CLIENT_APPLIED_H

#include "server/core/requests/service.h"

/* Zeroed: nothing is held. The reply may go when ps_service_acknowledge says so for `wait`: what is
 * said to be applied must survive a crash, since its trainer will not push it again. */
struct ps_client_applied {
    struct ps_applied_reply reply;
    struct ps_push_wait wait;
    struct ps_parameter_spec **specs; /* private: one for each row, which keeps the name */
};

/* Looks, and with request->begins ends the former session at the same instant (sessions.h).
 *
 * PS_OK               ps_service_release_applied follows
 * PS_ERR_UNAVAILABLE  as for a push
 * PS_ERR_NOT_OWNER    the request is meant for another shard
 * and what ps_sessions_applied says.
 */
PS_MUST_USE enum ps_status ps_service_applied(struct ps_service *service,
                                              const struct ps_applied_request *request,
                                              struct ps_client_applied *applied,
                                              struct ps_error *error);

/* Twice is allowed, and so is an answer that never was one. */
void ps_service_release_applied(struct ps_service *service, struct ps_client_applied *applied);

#endif
