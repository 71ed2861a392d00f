/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls whose caller has room in the device's memory (ps_pull_request.room), of a parameter that is
 * on that device: the values are copied there, and nothing of them comes to the host.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   said at the function.
 * Memory:   the pull keeps a reference to the specification, for the name.
 */
#ifndef PS_SERVER_CORE_PULL_TO_ROOM_H
#define PS_SERVER_CORE_PULL_TO_ROOM_H

#include "server/core/requests/service.h"

struct ps_device_due;
struct ps_parameter;
struct ps_parameter_spec;

/* Has the device copy the values, if the pull is one of those: `*copied` becomes a reference to the
 * specification, and the values are there when `*ready` is done. NULL: it is not. `wanted`: 1 + a
 * version; 0: the present one. With the cut held. PS_ERR_UNAVAILABLE: the device is dead. */
PS_MUST_USE enum ps_status ps_pull_to_room(struct ps_parameter *parameter,
                                           const struct ps_pull_request *request, uint64_t wanted,
                                           struct ps_parameter_spec **copied, uint64_t *version,
                                           struct ps_device_due *ready, struct ps_error *error);

/* Makes `pull` one whose values are in the room. Takes `spec`. */
void ps_pull_give_room(struct ps_parameter_spec *spec, enum ps_encoding encoding,
                       struct ps_pull *pull);

#endif
