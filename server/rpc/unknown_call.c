/* Calls to methods that do not exist: without a slot for them gRPC would let them hang until their
 * deadline.
 *
 *   WAITING ──request──► REPLYING ──sent──► WAITING ...
 *      └──server stops──► ENDED                          */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"

#include <stdio.h>

enum unknown_state { WAITING, REPLYING, ENDED };

struct unknown_call {
    struct ps_tag tag;
    enum unknown_state state;
    struct ps_rpc_call call;
    grpc_call_details details; /* owned while a call is in the slot */
};

static void begin(void *memory);
static void unknown_step(void *owner, bool ok);
static void refuse(struct unknown_call *call);

/* A few slots are enough, since a refusal takes one turn of the queue. */
enum ps_status ps_unknown_calls_add(struct ps_lane *lane, uint32_t count, struct ps_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        struct unknown_call *call = ps_zeroed(lane->context->memory, sizeof *call);
        if (call == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no call slot");
        ps_tag_init(&call->tag, unknown_step, call);
        ps_rpc_call_init(&call->call, lane);
        ps_lane_adopt(lane, call, begin);
    }
    return PS_OK;
}

/* A call without a registered method is the only kind that matches this request. */
static void begin(void *memory)
{
    struct unknown_call *call = memory;
    struct ps_lane *lane = call->call.lane;
    call->state = WAITING;
    grpc_call_details_init(&call->details);
    grpc_call_error failed =
        grpc_server_request_call(lane->context->server, &call->call.call, &call->details,
                                 &call->call.metadata, lane->queue, lane->queue, &call->tag);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* There is nothing to read and nothing to wait for: one batch refuses and ends the call. */
static void unknown_step(void *owner, bool ok)
{
    struct unknown_call *call = owner;
    switch (call->state) {
    case WAITING: /* a call has come, or the server is stopping */
        if (!ok) {
            call->state = ENDED;
            grpc_call_details_destroy(&call->details);
            ps_rpc_call_end(&call->call);
            return;
        }
        ps_rpc_call_begin(&call->call);
        refuse(call);
        return;

    case REPLYING:
        grpc_call_details_destroy(&call->details);
        ps_rpc_call_clear(&call->call);
        begin(call);
        return;

    case ENDED:
        break;
    }
    PS_ASSERT(false && "a tag came back that was not out");
}

/* The name is cut: a client may send any. */
static void refuse(struct unknown_call *call)
{
    char text[200];
    struct ps_rpc_batch batch;
    size_t size = GRPC_SLICE_LENGTH(call->details.method);
    (void)snprintf(text, sizeof text, "no such method: %.*s", size < 128 ? (int)size : 128,
                   (const char *)GRPC_SLICE_START_PTR(call->details.method));
    call->state = REPLYING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_status(&batch, PS_ERR_UNSUPPORTED, text);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->tag);
}
