/* Exchange: a stream of bundles, each answered by one under the same id. The client may send as
 * many as it likes without waiting; they are taken one after the other, and what was not taken yet
 * stays in the client: gRPC's flow control is the bound.
 *
 *   WAITING ──request──► READING ──message──► WORKING ──done──► WRITING ──sent──► READING ...
 *      │                    └──no more messages, or the server goes──► CLOSING ──sent──► CLOSED
 *      └──server stops──► ENDED
 *
 * While WORKING the bundle is stepped: at once, at the lane's next turn, or when the bell rings.
 * From the request on, a second batch waits for the client's end of the call. The slot is free when
 * that has come back and nothing else is out. */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "server/rpc/bundle_run.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"

enum exchange_state { WAITING, READING, WORKING, WRITING, CLOSING, CLOSED, ENDED };

struct exchange_call {
    struct ps_tag tag;       /* of the request, of what is read and of what is sent */
    struct ps_tag close_tag; /* of the call's end */
    struct ps_waiter waiter; /* for the bell, from the request to the end */
    struct ps_waiter turn;   /* while there is more to do */
    enum exchange_state state;
    void *registered;
    struct ps_rpc_call call;
    struct ps_bundle_run *run; /* owned while WORKING */
    bool close_pending;
};

static void begin(void *memory);
static void exchange_step(void *owner, bool ok);
static void close_step(void *owner, bool ok);
static void start(struct exchange_call *call);
static void read_next(struct exchange_call *call);
static void take_message(struct exchange_call *call);
static void work(struct exchange_call *call);
static void answer(struct exchange_call *call);
static void finish(struct exchange_call *call, enum ps_status status, const char *text);
static void woken(void *owner);
static void turn_came(void *owner);
static void drop_run(struct exchange_call *call);
static void free_slot(struct exchange_call *call);

enum ps_status ps_exchange_calls_add(struct ps_lane *lane, uint32_t count, void *registered,
                                     struct ps_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        struct exchange_call *call = ps_zeroed(lane->context->memory, sizeof *call);
        if (call == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no call slot");
        ps_tag_init(&call->tag, exchange_step, call);
        ps_tag_init(&call->close_tag, close_step, call);
        call->waiter = (struct ps_waiter){.woken = woken, .owner = call};
        call->turn = (struct ps_waiter){.woken = turn_came, .owner = call};
        call->registered = registered;
        ps_rpc_call_init(&call->call, lane);
        ps_lane_adopt(lane, call, begin);
    }
    return PS_OK;
}

static void begin(void *memory)
{
    struct exchange_call *call = memory;
    struct ps_lane *lane = call->call.lane;
    call->state = WAITING;
    grpc_call_error failed = grpc_server_request_registered_call(
        lane->context->server, call->registered, &call->call.call, &call->call.deadline,
        &call->call.metadata, NULL, lane->queue, lane->queue, &call->tag);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

static void exchange_step(void *owner, bool ok)
{
    struct exchange_call *call = owner;
    switch (call->state) {
    case WAITING: /* a stream has opened, or the server is stopping */
        if (!ok) {
            call->state = ENDED;
            ps_rpc_call_clear(&call->call);
            ps_lane_slot_ended(call->call.lane);
            return;
        }
        start(call);
        return;

    case READING: /* a message has come, or there is none any more */
        if (call->call.request == NULL)
            finish(call, PS_OK, "");
        else
            take_message(call);
        return;

    case WRITING: /* sent, or the client has gone, which the next read will say */
        read_next(call);
        return;

    case CLOSING: /* the status was sent, or the client has gone */
        call->state = CLOSED;
        if (!call->close_pending)
            free_slot(call);
        return;

    case WORKING:
    case CLOSED:
    case ENDED:
        break;
    }
    PS_ASSERT(false && "a tag came back that was not out");
}

/* The call is over for the client: what it waits for is of no use to anybody. */
static void close_step(void *owner, bool ok)
{
    struct exchange_call *call = owner;
    (void)ok;
    PS_ASSERT(call->close_pending);
    call->close_pending = false;
    if (call->state == WORKING) {
        drop_run(call);
        free_slot(call);
    } else if (call->state == CLOSED) {
        free_slot(call);
    }
}

static void start(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    ps_rpc_call_begin(&call->call);
    ps_lane_wait(call->call.lane, &call->waiter);
    call->close_pending = true;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->close_tag);
    read_next(call);
}

static void read_next(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    if (atomic_load(&call->call.lane->context->draining)) {
        finish(call, PS_ERR_UNAVAILABLE, "shutting down");
        return;
    }
    call->state = READING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_receive(&batch);
    ps_rpc_batch_start(&batch, &call->tag);
}

/* A message that is no bundle ends the stream: nobody could say what it asked for. */
static void take_message(struct exchange_call *call)
{
    struct ps_error error = {0};
    struct ps_view view;
    enum ps_status status = ps_rpc_call_view(&call->call, &view, &error);
    if (status == PS_OK)
        status = ps_bundle_run_create(call->call.lane->context, view, ps_rpc_call_hold(&call->call),
                                      &call->run, &error);
    if (status != PS_OK) {
        ps_rpc_call_drop_request(&call->call);
        finish(call, status, error.text);
        return;
    }
    call->state = WORKING;
    work(call);
}

static void work(struct exchange_call *call)
{
    switch (ps_bundle_run_step(call->run)) {
    case PS_BUNDLE_GOES_ON:
        ps_lane_take_turn(call->call.lane, &call->turn);
        return;
    case PS_BUNDLE_WAITS:
        return; /* for the bell */
    case PS_BUNDLE_DONE:
        break;
    }
    answer(call);
}

static void answer(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    struct ps_error error = {0};
    grpc_byte_buffer *message = NULL;
    enum ps_status status = ps_bundle_run_reply(call->run, &message, &error);
    drop_run(call);
    if (status != PS_OK) {
        finish(call, status, error.text);
        return;
    }
    call->state = WRITING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_message(&batch, message);
    ps_rpc_batch_start(&batch, &call->tag);
}

static void finish(struct exchange_call *call, enum ps_status status, const char *text)
{
    struct ps_rpc_batch batch;
    call->state = CLOSING;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_status(&batch, status, text);
    ps_rpc_batch_start(&batch, &call->tag);
}

static void turn_came(void *owner)
{
    struct exchange_call *call = owner;
    PS_ASSERT(call->state == WORKING);
    work(call);
}

static void woken(void *owner)
{
    struct exchange_call *call = owner;
    if (call->state == WORKING && !call->turn.waiting)
        work(call);
    else if (call->state == READING && atomic_load(&call->call.lane->context->draining))
        (void)grpc_call_cancel_with_status(call->call.call, GRPC_STATUS_UNAVAILABLE,
                                           "shutting down", NULL);
}

static void drop_run(struct exchange_call *call)
{
    ps_lane_drop_turn(call->call.lane, &call->turn);
    ps_bundle_run_release(call->run);
    call->run = NULL;
    ps_rpc_call_drop_request(&call->call);
}

static void free_slot(struct exchange_call *call)
{
    ps_lane_leave(call->call.lane, &call->waiter);
    ps_rpc_call_clear(&call->call);
    begin(call);
}
