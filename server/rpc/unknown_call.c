/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to methods that do not exist: without a slot for them gRPC would let them hang until their
 * deadline.
 *
 *   INVITED ──request──► REPLYING ──sent──► free
 *      └──server stops──► free                           */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/slots.h"

#include <stdio.h>

enum unknown_state { FREE, INVITED, REPLYING };

struct unknown_call {
    struct ps_slot_call slot;
    struct ps_tag tag;
    enum unknown_state state;
    struct ps_rpc_call call;
    grpc_call_details details; /* owned while a call is in the slot */
};

static void init_call(struct ps_slot_call *slot);
static void ask_for_request(struct ps_slot_call *slot);
static void fini_call(struct ps_slot_call *slot);
static void unknown_step(void *owner, bool ok);
static void refuse(struct unknown_call *call);

static const struct ps_call_kind kind = {sizeof(struct unknown_call), init_call, ask_for_request,
                                         fini_call};

enum ps_status ps_unknown_calls_add(struct ps_lane *lane, uint32_t count, struct ps_error *error)
{
    return ps_slots_add(lane, &kind, NULL, NULL, count, error);
}

/* What stays the same for every request that the memory will hold. */
static void init_call(struct ps_slot_call *slot)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    ps_tag_init(&call->tag, unknown_step, call);
    ps_rpc_call_init(&call->call, slot->slots->lane);
}

/* A call without a registered method is the only kind that matches this request. */
static void ask_for_request(struct ps_slot_call *slot)
{
    struct unknown_call *call = (struct unknown_call *)slot;
    struct ps_lane *lane = call->call.lane;
    call->state = INVITED;
    grpc_call_details_init(&call->details);
    grpc_call_error failed =
        grpc_server_request_call(lane->context->server, &call->call.call, &call->details,
                                 &call->call.metadata, lane->queue, lane->queue, &call->tag);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* A free call owns nothing. */
static void fini_call(struct ps_slot_call *slot)
{
    const struct unknown_call *call = (const struct unknown_call *)slot;
    PS_ASSERT(call->state == FREE && call->call.call == NULL);
}

/* There is nothing to read and nothing to wait for: one batch refuses and ends the call. */
static void unknown_step(void *owner, bool ok)
{
    struct unknown_call *call = owner;
    switch (call->state) {
    case INVITED: /* a call has come, or the server is stopping */
        if (!ok) {
            call->state = FREE;
            grpc_call_details_destroy(&call->details);
            ps_slots_end(&call->slot);
            return;
        }
        ps_slots_taken(&call->slot);
        ps_rpc_call_begin(&call->call);
        refuse(call);
        ps_slots_invite(call->slot.slots);
        return;

    case REPLYING:
        grpc_call_details_destroy(&call->details);
        ps_rpc_call_clear(&call->call);
        call->state = FREE;
        ps_slots_done(&call->slot);
        return;

    case FREE:
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
