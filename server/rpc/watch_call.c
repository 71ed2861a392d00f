/* SPDX-License-Identifier: Apache-2.0 */
/* Health.Watch: the state now, and again after each change.
 *
 *   request ──► SENDING ──sent──► QUIET ──the state changed──► SENDING ...
 *                                   └──the server goes──► CLOSING ──sent──► CLOSED
 *
 * From the request on, a second batch waits for the client's end of the call. The call is free when
 * that has come back and nothing is being sent. A watch lasts for as long as its client likes: it
 * holds no slot, and is counted among the calls that wait (waiting.h). */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/slots.h"

enum watch_state { SENDING, QUIET, CLOSING, CLOSED };

struct watch_call {
    struct ps_slot_call slot;
    struct ps_tag close_tag; /* of the call's end */
    struct ps_waiter waiter; /* from the request to the end */
    enum watch_state state;
    struct ps_rpc_call call;
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];
    enum ps_health told; /* what was sent last */
    bool close_pending;
};

static void init_call(struct ps_slot_call *slot);
static void ask_for_request(struct ps_slot_call *slot);
static void start(struct ps_slot_call *slot);
static void watch_step(struct ps_slot_call *slot, bool ok);
static void close_step(void *owner, bool ok);
static void woken(void *owner);
static void tell_if_changed(struct watch_call *call);
static void tell(struct watch_call *call, enum ps_health health);
static void finish(struct watch_call *call, enum ps_status status, const char *text);
static void free_call(struct watch_call *call);

static const struct ps_call_kind kind = {.bytes = sizeof(struct watch_call),
                                         .init = init_call,
                                         .ask = ask_for_request,
                                         .start = start,
                                         .step = watch_step};

enum ps_status ps_watch_calls_add(struct ps_lane *lane, uint32_t count, void *registered,
                                  struct ps_error *error)
{
    return ps_slots_add(lane, &kind, NULL, registered, count, error);
}

/* What stays the same for every request that the memory will hold. */
static void init_call(struct ps_slot_call *slot)
{
    struct watch_call *call = (struct watch_call *)slot;
    ps_tag_init(&call->close_tag, close_step, call);
    call->waiter = (struct ps_waiter){.woken = woken, .owner = call};
    ps_rpc_call_init(&call->call, slot->slots->lane);
}

/* With its one message, like every call that asks once. */
static void ask_for_request(struct ps_slot_call *slot)
{
    struct watch_call *call = (struct watch_call *)slot;
    ps_rpc_call_ask(&call->call, slot->slots->registered, PS_RPC_UNARY, &call->slot.tag);
}

/* The health may have changed while it was being sent: it is compared again when the batch is done,
 * and not sent from here while one is in flight. */
static void watch_step(struct ps_slot_call *slot, bool ok)
{
    struct watch_call *call = (struct watch_call *)slot;
    switch (call->state) {
    case SENDING: /* the state was sent, or the client has gone */
        call->state = QUIET;
        if (!call->close_pending)
            free_call(call);
        else if (ok)
            tell_if_changed(call);
        return;

    case CLOSING: /* the status was sent, or the client has gone */
        call->state = CLOSED;
        if (!call->close_pending)
            free_call(call);
        return;

    case QUIET:
    case CLOSED:
        break;
    }
    PS_ASSERT(false && "a tag came back that was not out");
}

/* While something is sent the call waits for that batch, too: its tag is still out. */
static void close_step(void *owner, bool ok)
{
    struct watch_call *call = owner;
    (void)ok;
    PS_ASSERT(call->close_pending);
    call->close_pending = false;
    if (call->state == QUIET || call->state == CLOSED)
        free_call(call);
}

/* The second batch comes before anything else, since nothing else tells when a client that only
 * listens has gone. */
static void start(struct ps_slot_call *slot)
{
    struct watch_call *call = (struct watch_call *)slot;
    struct ps_rpc_batch batch;
    ps_rpc_call_begin(&call->call);
    call->close_pending = true;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->close_tag);
    ps_lane_wait(call->call.lane, &call->waiter, PS_TOPIC_LIFE);

    struct ps_rpc_context *context = call->call.lane->context;
    struct ps_view view;
    struct ps_error error = {0};
    enum ps_status status = ps_waiting_enter(&call->call, &error);
    if (status != PS_OK)
        ps_rpc_call_refused(&call->call, &error);
    if (status == PS_OK)
        status = ps_rpc_call_view(&call->call, &view, &error);
    if (status == PS_OK)
        status = ps_decode_health(view, call->service, &error);
    ps_rpc_call_drop_request(&call->call);
    if (status != PS_OK) {
        finish(call, status, error.text);
        return;
    }
    tell(call, ps_rpc_health(context, call->service));
}

/* While a batch is in flight nothing is sent: the end of the batch looks again. */
static void woken(void *owner)
{
    struct watch_call *call = owner;
    ps_lane_wait(call->call.lane, &call->waiter, PS_TOPIC_LIFE);
    if (call->state == QUIET)
        tell_if_changed(call);
}

/* A server that is going says so first and ends the call then. */
static void tell_if_changed(struct watch_call *call)
{
    enum ps_health health = ps_rpc_health(call->call.lane->context, call->service);
    if (health != call->told)
        tell(call, health);
    else if (atomic_load(&call->call.lane->context->draining))
        finish(call, PS_ERR_UNAVAILABLE, "shutting down");
}

/* The state that is being sent counts as told: a change meanwhile is seen when the batch is
 * done. */
static void tell(struct watch_call *call, enum ps_health health)
{
    char text[16];
    struct ps_buffer bytes;
    struct ps_rpc_batch batch;
    ps_buffer_init_fixed(&bytes, text, sizeof text);
    ps_encode_health_reply(health, &bytes);
    call->told = health;
    call->state = SENDING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_message(
        &batch, ps_rpc_message_of((struct ps_bytes){(const uint8_t *)bytes.text, bytes.size}));
    ps_rpc_batch_start(&batch, &call->slot.tag);
}

/* The second batch is in flight already, so that the status is all there is to send. */
static void finish(struct watch_call *call, enum ps_status status, const char *text)
{
    struct ps_rpc_batch batch;
    call->state = CLOSING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_status(&batch, status, text);
    ps_rpc_batch_start(&batch, &call->slot.tag);
}

/* Nothing is in flight any more: the place among those that wait is another's from here on. */
static void free_call(struct watch_call *call)
{
    ps_lane_leave(call->call.lane, &call->waiter);
    ps_rpc_call_clear(&call->call);
    ps_slots_done(&call->slot);
}
