/* SPDX-License-Identifier: Apache-2.0 */
/* A message of many gradients and pulls (SendGrads, GetParams, PushPull, GetParamsSince): its bytes
 * become the requests that serve.h serves, the results become one reply whose contents are not
 * copied.
 *
 * Threads:  a bundle belongs to its call; its end may come from any of gRPC's threads.
 * Blocking: as serve.h.
 * Errors:   what happens to an item stands in its result. PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY when
 *           there is no bundle at all.
 * Memory:   two allocations for the whole bundle. The reply's slices keep it alive until gRPC has
 *           sent them.
 */
#ifndef PS_SERVER_RPC_BUNDLE_CALL_H
#define PS_SERVER_RPC_BUNDLE_CALL_H

#include "base/bytes.h"
#include "base/status.h"
#include "server/core/requests/serve.h"
#include "server/rpc/rpc_context.h"

#include <grpc/byte_buffer.h>

struct ps_bundle_call;

/* The view's bytes are borrowed until the reply is made; `hold` keeps them for longer. */
PS_MUST_USE enum ps_status ps_bundle_call_create(struct ps_rpc_context *context,
                                                 struct ps_view view, struct ps_hold hold,
                                                 const struct ps_origin *origin,
                                                 struct ps_bundle_call **bundle,
                                                 struct ps_error *error);

/* Before the first step: what every item is asked first. */
void ps_bundle_call_guard(struct ps_bundle_call *bundle, const struct ps_serve_guard *guard);

/* Before the first step: every pull is a delta pull. */
void ps_bundle_call_since(struct ps_bundle_call *bundle);

/* The serve that makes the results; its steps are the caller's to take. */
struct ps_serve *ps_bundle_call_serve(struct ps_bundle_call *bundle);

/* Returns the reply of a bundle that is done; nothing of the request is needed any more.
 *
 * PS_ERR_NO_MEMORY  none was applied
 * PS_ERR_TIMEOUT    no memory either, but some were applied: ps_rpc_fail_unanswered
 */
PS_MUST_USE enum ps_status ps_bundle_call_reply(struct ps_bundle_call *bundle,
                                                grpc_byte_buffer **message, struct ps_error *error);

/* Bytes that serving it will touch beyond those of its message; before the first step. */
uint64_t ps_bundle_call_extra_work(const struct ps_bundle_call *bundle);

/* Takes the bundle. NULL is allowed. */
void ps_bundle_call_release(struct ps_bundle_call *bundle);

#endif
