/* Exchange: a stream of bundles, each answered by one under the same id. The client may send as
 * many as it likes without waiting; a few are worked on at a time and answered as they are done
 * (exchange_messages.h), and what was not read yet stays in the client: gRPC's flow control is the
 * bound.
 *
 *   WAITING ──request──► OPEN ──no more messages, or something is wrong──► LAST
 *      │                   │            ──all is answered──► CLOSING ──nothing is out──► WAITING
 *      │                   └──the client has gone──► CLOSING
 *      └──server stops──► ENDED
 *
 * While OPEN one message may be on its way in and one answer on its way out; from the request on,
 * another batch waits for the client's end of the call. */
#include "server/rpc/stream_calls.h"

#include "base/assert.h"
#include "proto/status_codes.h"
#include "server/rpc/exchange_messages.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"

#include <stdio.h>

enum exchange_phase { WAITING, OPEN, LAST, CLOSING, ENDED };

struct exchange_call {
    struct ps_tag tag; /* of the request, and of the status */
    struct ps_tag read_tag;
    struct ps_tag write_tag;
    struct ps_tag close_tag; /* of the call's end */
    struct ps_waiter waiter; /* for the bell, from the request to the end */
    enum exchange_phase phase;
    void *registered;
    struct ps_rpc_call call;
    struct ps_exchange_messages messages;
    bool reading, writing, ending, close_pending; /* which tags are out */
    struct ps_error why;                          /* of LAST: the status that ends it */
};

static void begin(void *memory);
static void exchange_step(void *owner, bool ok);
static void read_step(void *owner, bool ok);
static void write_step(void *owner, bool ok);
static void close_step(void *owner, bool ok);
static void start(struct exchange_call *call);
static void go_on(void *owner);
static void read_more(struct exchange_call *call);
static void write_more(struct exchange_call *call);
static void end_if_last(struct exchange_call *call);
static void woken(void *owner);
static void free_when_done(struct exchange_call *call);

enum ps_status ps_exchange_calls_add(struct ps_lane *lane, uint32_t count, void *registered,
                                     struct ps_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        struct exchange_call *call = ps_zeroed(lane->context->memory, sizeof *call);
        if (call == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no call slot");
        ps_tag_init(&call->tag, exchange_step, call);
        ps_tag_init(&call->read_tag, read_step, call);
        ps_tag_init(&call->write_tag, write_step, call);
        ps_tag_init(&call->close_tag, close_step, call);
        call->waiter = (struct ps_waiter){.woken = woken, .owner = call};
        call->registered = registered;
        ps_rpc_call_init(&call->call, lane);
        ps_exchange_messages_init(&call->messages, lane, go_on, call);
        ps_lane_adopt(lane, call, begin);
    }
    return PS_OK;
}

static void begin(void *memory)
{
    struct exchange_call *call = memory;
    call->phase = WAITING;
    ps_rpc_call_ask(&call->call, call->registered, PS_RPC_STREAM, &call->tag);
}

/* A stream has opened, or the server stops; or the status was sent, or the client has gone. */
static void exchange_step(void *owner, bool ok)
{
    struct exchange_call *call = owner;
    if (call->phase == WAITING && ok) {
        start(call);
    } else if (call->phase == WAITING) {
        call->phase = ENDED;
        ps_rpc_call_end(&call->call);
    } else {
        PS_ASSERT(call->phase == CLOSING && call->ending);
        call->ending = false;
        free_when_done(call);
    }
}

static void start(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    ps_rpc_call_begin(&call->call);
    ps_lane_wait(call->call.lane, &call->waiter);
    call->phase = OPEN;
    call->why = (struct ps_error){.status = PS_OK};
    call->close_pending = true;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->close_tag);
    go_on(call);
}

/* Nothing more is read; what is there is answered first. */
static void make_last(struct exchange_call *call)
{
    if (call->phase == OPEN)
        call->phase = LAST;
}

/* A message has come, or there is none any more. One that is no bundle ends the stream: nobody
 * could say what it asked for. */
static void read_step(void *owner, bool ok)
{
    struct exchange_call *call = owner;
    (void)ok;
    PS_ASSERT(call->reading);
    call->reading = false;
    if (call->phase == CLOSING) {
        free_when_done(call);
        return;
    }
    if (call->call.request == NULL || call->phase == LAST)
        make_last(call);
    else if (ps_exchange_messages_take(&call->messages, &call->call, &call->why) != PS_OK)
        make_last(call);
    go_on(call);
}

/* Sent, or the client has gone, which the call's end will say. */
static void write_step(void *owner, bool ok)
{
    struct exchange_call *call = owner;
    (void)ok;
    PS_ASSERT(call->writing);
    call->writing = false;
    ps_exchange_messages_sent(&call->messages);
    if (call->phase == CLOSING)
        free_when_done(call);
    else
        go_on(call);
}

/* The call is over for the client: what it waits for is of no use to anybody. */
static void close_step(void *owner, bool ok)
{
    struct exchange_call *call = owner;
    (void)ok;
    PS_ASSERT(call->close_pending);
    call->close_pending = false;
    call->phase = CLOSING;
    ps_exchange_messages_drop(&call->messages);
    free_when_done(call);
}

/* After anything has happened. */
static void go_on(void *owner)
{
    struct exchange_call *call = owner;
    PS_ASSERT(call->phase == OPEN || call->phase == LAST);
    if (call->phase == OPEN && atomic_load(&call->call.lane->context->draining)) {
        ps_fail(&call->why, PS_ERR_UNAVAILABLE, "shutting down");
        make_last(call);
    }
    ps_exchange_messages_work(&call->messages);
    write_more(call);
    read_more(call);
    end_if_last(call);
}

static void read_more(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    if (call->phase != OPEN || call->reading || !ps_exchange_messages_have_room(&call->messages))
        return;
    call->reading = true;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_receive(&batch);
    ps_rpc_batch_start(&batch, &call->read_tag);
}

static void write_more(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    grpc_byte_buffer *message = NULL;
    if (call->writing)
        return;
    enum ps_status status = ps_exchange_messages_answer(&call->messages, &message, &call->why);
    if (status != PS_OK)
        make_last(call);
    if (message == NULL)
        return;
    call->writing = true;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_message(&batch, message);
    ps_rpc_batch_start(&batch, &call->write_tag);
}

/* While a read is out the call cannot end by itself: then it is cancelled, with the same status. */
static void end_if_last(struct exchange_call *call)
{
    struct ps_rpc_batch batch;
    if (call->phase != LAST || call->messages.count > 0)
        return;
    PS_ASSERT(!call->writing);
    call->phase = CLOSING;
    if (call->reading) {
        (void)grpc_call_cancel_with_status(
            call->call.call, (grpc_status_code)ps_rpc_code_of_status(call->why.status),
            call->why.text, NULL);
        return;
    }
    call->ending = true;
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    ps_rpc_batch_status(&batch, call->why.status, call->why.text);
    ps_rpc_batch_start(&batch, &call->tag);
}

static void woken(void *owner)
{
    struct exchange_call *call = owner;
    if (call->phase != OPEN && call->phase != LAST)
        return;
    ps_exchange_messages_woken(&call->messages);
    go_on(call);
}

static void free_when_done(struct exchange_call *call)
{
    PS_ASSERT(call->phase == CLOSING);
    if (call->reading || call->writing || call->ending || call->close_pending)
        return;
    PS_ASSERT(call->messages.count == 0);
    ps_lane_leave(call->call.lane, &call->waiter);
    ps_rpc_call_clear(&call->call);
    begin(call);
}
