/* One bundle (SendGrads, GetParams, PushPull) on its way through the service: every push, then one
 * wait until all that was promised of them holds, then every pull. It is done in steps of bounded
 * work, so that a long bundle does not keep its lane from others.
 *
 * Threads:  a run belongs to its lane's thread; its end may come from any of gRPC's.
 * Blocking: never.
 * Errors:   what happens to an item stands in its result. PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY when
 *           there is no bundle at all.
 * Memory:   two allocations for the whole run. The reply's slices keep it alive until gRPC has sent
 *           them.
 */
#ifndef PS_SERVER_RPC_BUNDLE_RUN_H
#define PS_SERVER_RPC_BUNDLE_RUN_H

#include "base/bytes.h"
#include "base/status.h"
#include "server/rpc/rpc_context.h"

#include <grpc/byte_buffer.h>

struct ps_bundle_run;

/* The view's bytes are borrowed until the reply is made; `hold` keeps them for longer. */
PS_MUST_USE enum ps_status ps_bundle_run_create(struct ps_rpc_context *context, struct ps_view view,
                                                struct ps_hold hold, struct ps_bundle_run **run,
                                                struct ps_error *error);

/* Before the first step: every pull is a delta pull. */
void ps_bundle_run_since(struct ps_bundle_run *run);

enum ps_bundle_progress {
    PS_BUNDLE_GOES_ON, /* step again, after others had their turn */
    PS_BUNDLE_WAITS,   /* step again after the next wake */
    PS_BUNDLE_DONE     /* the reply can be made */
};
enum ps_bundle_progress ps_bundle_run_step(struct ps_bundle_run *run);

/* Returns the reply of a run that is done; nothing of the request is needed any more.
 *
 * PS_ERR_NO_MEMORY  none was applied
 * PS_ERR_TIMEOUT    no memory either, but some were applied: ps_rpc_fail_unanswered
 */
PS_MUST_USE enum ps_status ps_bundle_run_reply(struct ps_bundle_run *run,
                                               grpc_byte_buffer **message, struct ps_error *error);

/* Takes the run. NULL is allowed. */
void ps_bundle_run_release(struct ps_bundle_run *run);

#endif
