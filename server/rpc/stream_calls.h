/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that are not one request and one reply: health watches, reflection streams, and calls
 * to methods that nobody has.
 *
 * Threads:  a call belongs to its lane's thread.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   calls belong to their slots (slots.h).
 */
#ifndef PS_SERVER_RPC_STREAM_CALLS_H
#define PS_SERVER_RPC_STREAM_CALLS_H

#include "server/rpc/lane.h"

#include <stdint.h>

/* Each adds `count` slots to the lane: invitations, as many calls as want to may be open at once.
 * `registered` is gRPC's handle of the method: for watches with its first message read, for
 * reflection without. */
PS_MUST_USE enum ps_status ps_watch_calls_add(struct ps_lane *lane, uint32_t count,
                                              void *registered, struct ps_error *error);
PS_MUST_USE enum ps_status ps_reflection_calls_add(struct ps_lane *lane, uint32_t count,
                                                   void *registered, struct ps_error *error);
PS_MUST_USE enum ps_status ps_unknown_calls_add(struct ps_lane *lane, uint32_t count,
                                                struct ps_error *error);

#endif
