/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to methods that do not exist: without a slot for them gRPC would let them hang until their
 * deadline. There is nothing to read and nothing to wait for: one batch refuses and ends the
 * call. */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/slots.h"

#include <stdio.h>

struct unknown_call {
    struct ps_slot_call slot;
    struct ps_rpc_call call;
    grpc_call_details details; /* owned, of the last request */
};

static void init_call(struct ps_slot_call *slot);
static void ask_for_request(struct ps_slot_call *slot);
static void fini_call(struct ps_slot_call *slot);
static void refuse(struct ps_slot_call *slot);
static void refused(struct ps_slot_call *slot, bool ok);

static const struct ps_call_kind kind = {.bytes = sizeof(struct unknown_call),
                                         .init = init_call,
                                         .ask = ask_for_request,
                                         .start = refuse,
                                         .step = refused,
                                         .fini = fini_call};

enum ps_status ps_unknown_calls_add(struct ps_lane *lane, uint32_t count, struct ps_error *error)
{
    return ps_slots_add(lane, &kind, NULL, NULL, count, error);
}

/* What stays the same for every request that the memory will hold. */
static void init_call(struct ps_slot_call *slot)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    ps_rpc_call_init(&call->call, slot->slots->lane);
    grpc_call_details_init(&call->details);
}

/* A call without a registered method is the only kind that matches this request. */
static void ask_for_request(struct ps_slot_call *slot)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    struct ps_lane *lane = call->call.lane;
    grpc_call_details_destroy(&call->details);
    grpc_call_details_init(&call->details);
    grpc_call_error failed =
        grpc_server_request_call(lane->context->server, &call->call.call, &call->details,
                                 &call->call.metadata, lane->queue, lane->queue, &call->slot.tag);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* The name of the last request, or none. */
static void fini_call(struct ps_slot_call *slot)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    PS_ASSERT(call->call.call == NULL);
    grpc_call_details_destroy(&call->details);
}

/* The name is cut: a client may send any. */
static void refuse(struct ps_slot_call *slot)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    char text[200];
    struct ps_rpc_batch batch;
    ps_rpc_call_begin(&call->call);
    size_t size = GRPC_SLICE_LENGTH(call->details.method);
    (void)snprintf(text, sizeof text, "no such method: %.*s", size < 128 ? (int)size : 128,
                   (const char *)GRPC_SLICE_START_PTR(call->details.method));
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_status(&batch, PS_ERR_UNSUPPORTED, text);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->slot.tag);
}

/* Sent, or the client has gone: the same to this call. */
static void refused(struct ps_slot_call *slot, bool ok)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    (void)ok;
    ps_rpc_call_clear(&call->call);
    ps_slots_done(slot);
}
