/* SPDX-License-Identifier: Apache-2.0 */
/* ServerReflectionInfo: each message of the stream is answered by one.
 *
 *   request ──► READING ──message──► WRITING ──sent──► READING ...
 *                  └──no more messages, or the server goes──► CLOSING ──► free
 *
 * A stream lasts for as long as its client likes: it holds no slot, and is counted among the calls
 * that wait (waiting.h).
 *
 * One batch is in flight at any time. A server that is going cancels a stream that it is reading,
 * so that the read comes back. */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "proto/reflection_codec.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/slots.h"

enum reflection_state { READING, WRITING, CLOSING };

struct reflection_call {
    struct ps_slot_call slot;
    struct ps_waiter waiter; /* from the request to the end */
    enum reflection_state state;
    struct ps_rpc_call call;
};

static void init_call(struct ps_slot_call *slot);
static void ask_for_request(struct ps_slot_call *slot);
static void start(struct ps_slot_call *slot);
static void reflection_step(struct ps_slot_call *slot, bool ok);
static void read_next(struct reflection_call *call);
static void answer(struct reflection_call *call);
static void finish(struct reflection_call *call, enum ps_status status, const char *text);
static void woken(void *owner);
static void free_call(struct reflection_call *call);

static const struct ps_call_kind kind = {.bytes = sizeof(struct reflection_call),
                                         .init = init_call,
                                         .ask = ask_for_request,
                                         .start = start,
                                         .step = reflection_step};

enum ps_status ps_reflection_calls_add(struct ps_lane *lane, uint32_t count, void *registered,
                                       struct ps_error *error)
{
    return ps_slots_add(lane, &kind, NULL, registered, count, error);
}

/* What stays the same for every request that the memory will hold. */
static void init_call(struct ps_slot_call *slot)
{
    struct reflection_call *call = (struct reflection_call *)slot;
    call->waiter = (struct ps_waiter){.woken = woken, .owner = call};
    ps_rpc_call_init(&call->call, slot->slots->lane);
}

/* Without a message: a stream reads its own. */
static void ask_for_request(struct ps_slot_call *slot)
{
    struct reflection_call *call = (struct reflection_call *)slot;
    ps_rpc_call_ask(&call->call, slot->slots->registered, PS_RPC_STREAM, &call->slot.tag);
}

/* `ok` decides nothing: a read that fails leaves no message, and a write that fails is followed by
 * a read that does. */
static void reflection_step(struct ps_slot_call *slot, bool ok)
{
    struct reflection_call *call = (struct reflection_call *)slot;
    (void)ok;
    switch (call->state) {
    case READING: /* a message has come, or there is none any more */
        if (call->call.request == NULL) {
            finish(call, PS_OK, "");
            return;
        }
        answer(call);
        return;

    case WRITING: /* sent, or the client has gone, which the next read will say */
        read_next(call);
        return;

    case CLOSING: /* the call is over */
        free_call(call);
        return;
    }
}

/* From now on the lane's wake-ups are heard: a stream has no deadline of ours, and without this a
 * client that keeps it open and says nothing would keep the server from going. */
static void start(struct ps_slot_call *slot)
{
    struct reflection_call *call = (struct reflection_call *)slot;
    struct ps_error error = {0};
    const struct ps_serve_guard *guard;
    ps_rpc_call_begin(&call->call);
    /* What the server offers is asked by readers, too. */
    enum ps_status status = ps_rpc_call_enter(&call->call, PS_METHOD_STATUS, &guard, &error);
    if (status == PS_OK)
        status = ps_waiting_enter(&call->call, &error);
    ps_rpc_call_refused(&call->call, &error);
    ps_lane_wait(call->call.lane, &call->waiter, PS_TOPIC_LIFE);
    if (status == PS_OK)
        read_next(call);
    else
        finish(call, status, error.text);
}

/* The question comes before the read starts: a drain that begins after it wakes the lane and finds
 * the state READING. */
static void read_next(struct reflection_call *call)
{
    struct ps_rpc_batch batch;
    if (atomic_load(&call->call.lane->context->draining)) {
        finish(call, PS_ERR_UNAVAILABLE, "shutting down");
        return;
    }
    call->state = READING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_receive(&batch);
    ps_rpc_batch_start(&batch, &call->slot.tag);
}

/* A message that cannot be answered ends the stream with the reason, as the protocol has no other
 * way. */
static void answer(struct reflection_call *call)
{
    struct ps_error error = {0};
    struct ps_view view;
    struct ps_buffer reply;
    ps_buffer_init(&reply, call->call.lane->context->memory, PS_REFLECTION_REPLY_BYTES_MAX);
    enum ps_status status = ps_rpc_call_view(&call->call, &view, &error);
    if (status == PS_OK)
        status = ps_reflection_answer(view, &reply, &error);
    ps_rpc_call_drop_request(&call->call);
    if (status != PS_OK) {
        finish(call, status, error.text);
    } else {
        struct ps_rpc_batch batch;
        call->state = WRITING;
        ps_rpc_batch_init(&batch, &call->call);
        ps_rpc_batch_headers(&batch);
        ps_rpc_batch_message(
            &batch, ps_rpc_message_of((struct ps_bytes){(const uint8_t *)reply.text, reply.size}));
        ps_rpc_batch_start(&batch, &call->slot.tag);
    }
    ps_buffer_fini(&reply);
}

/* The last batch also hears of the end, so that one tag comes back for both. */
static void finish(struct reflection_call *call, enum ps_status status, const char *text)
{
    struct ps_rpc_batch batch;
    call->state = CLOSING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_status(&batch, status, text);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->slot.tag);
}

/* A stream that is being answered notices by itself, when it reads again. */
static void woken(void *owner)
{
    struct reflection_call *call = owner;
    ps_lane_wait(call->call.lane, &call->waiter, PS_TOPIC_LIFE);
    if (call->state == READING && atomic_load(&call->call.lane->context->draining))
        (void)grpc_call_cancel_with_status(call->call.call, GRPC_STATUS_UNAVAILABLE,
                                           "shutting down", NULL);
}

/* Nothing is in flight any more: the place among those that wait is another's from here on. */
static void free_call(struct reflection_call *call)
{
    ps_lane_leave(call->call.lane, &call->waiter);
    ps_rpc_call_clear(&call->call);
    ps_slots_done(&call->slot);
}
