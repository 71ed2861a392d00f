/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a call:
 *
 *   request ──► served ──DONE──► REPLYING ──sent──► free
 *                 │  └─WAITS──► PARKED ──woken, DONE──► REPLYING
 *                 │                └──client gave up──► free
 *                 ├─GOES_ON──► WORKING ──its turn comes again──► served
 *                 └─LEAVES──► AWAY ──a helper has served it──► DONE, WAITS or GOES_ON
 *
 * The slot that it came through invites the next request when the first step has been served, with
 * other memory (slots.h). A parked call has a second batch in flight, which completes when the
 * client gives up or the reply has ended the call; the call is free when both have come back. A
 * reply that the client does not take is given up after a while, so that its memory is not held for
 * ever. */
#include "server/rpc/unary_call.h"

#include "base/assert.h"
#include "server/rpc/audit.h"
#include "server/rpc/program_methods.h"
#include "server/rpc/rpc_call.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/slots.h"
#include "server/rpc/unary_reply.h"

#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

/* So much of a reply's memory a free slot keeps. */
enum { REPLY_KEPT_BYTES_MAX = 16 * 1024 };

enum unary_state { SERVED, WORKING, AWAY, PARKED, REPLYING };

struct unary_call {
    struct ps_slot_call slot;
    struct ps_tag close_tag; /* of a parked call's end */
    struct ps_waiter waiter; /* while parked; the helper hands an away call back with it */
    struct ps_waiter turn;   /* for its turn, while there is more to do */
    struct ps_limit limit;   /* for the client to take the reply; of a parked call, its deadline, or
                              * when it wants to be asked again */
    enum unary_state state;
    const struct ps_unary_method *method;
    struct ps_rpc_call call;
    struct ps_call_answer answer;
    struct ps_buffer reply;   /* owned: its memory is kept from call to call, unless it is much */
    struct ps_helper_job job; /* while away */
    enum ps_serve_progress progress; /* that the helper made */
    bool close_pending;
    bool reply_pending;
    size_t shared_bytes; /* that the request names in shared memory */
    gpr_timespec began;
    size_t reply_bytes;
};

static void init_call(struct ps_slot_call *slot);
static void ask_for_request(struct ps_slot_call *slot);
static void fini_call(struct ps_slot_call *slot);
static void start(struct ps_slot_call *slot);
static void reply_sent(struct ps_slot_call *slot, bool ok);
static void close_step(void *owner, bool ok);
static bool count_bytes(struct unary_call *call, size_t bytes, bool refusable);
static void serve(struct unary_call *call);
static void follow(struct unary_call *call, enum ps_serve_progress progress);
static void send_away(struct unary_call *call);
static void help(void *owner);
static void woken(void *owner);
static void take_turn(struct unary_call *call);
static void park(struct unary_call *call);
static bool count_waiting(struct unary_call *call);
static void refuse_to_wait(struct unary_call *call);
static void wait_on(struct unary_call *call);
static void unpark(struct unary_call *call);
static void send_reply(struct unary_call *call);
static gpr_timespec patience_of(const struct unary_call *call);
static void lose_patience(void *owner);
static void free_when_done(struct unary_call *call);

static const struct ps_call_kind kind = {.bytes = sizeof(struct unary_call),
                                         .init = init_call,
                                         .ask = ask_for_request,
                                         .start = start,
                                         .step = reply_sent,
                                         .fini = fini_call};

enum ps_status ps_unary_calls_add(struct ps_lane *lane, const struct ps_unary_method *method,
                                  void *registered, struct ps_error *error)
{
    return ps_slots_add(lane, &kind, method, registered, method->slots, error);
}

/* The reply's buffer stays empty until a call needs it. */
static void init_call(struct ps_slot_call *slot)
{
    struct unary_call *call = (struct unary_call *)slot;
    struct ps_lane *lane = slot->slots->lane;
    ps_tag_init(&call->close_tag, close_step, call);
    call->waiter = (struct ps_waiter){.woken = woken, .owner = call};
    call->turn = (struct ps_waiter){.woken = woken, .owner = call};
    call->job = (struct ps_helper_job){.work = help, .owner = call};
    call->limit = (struct ps_limit){.passed = lose_patience, .owner = call};
    call->method = slot->slots->method;
    ps_rpc_call_init(&call->call, lane);
    ps_buffer_init(&call->reply, lane->context->memory, call->method->reply_bytes_max);
}

/* The invitation for one more request: when a method has none left, gRPC keeps the rest. */
static void ask_for_request(struct ps_slot_call *slot)
{
    struct unary_call *call = (struct unary_call *)slot;
    ps_rpc_call_ask(&call->call, slot->slots->registered, PS_RPC_UNARY, &call->slot.tag);
}

/* The reply's buffer is all that a free call owns. */
static void fini_call(struct ps_slot_call *slot)
{
    struct unary_call *call = (struct unary_call *)slot;
    PS_ASSERT(call->call.call == NULL);
    ps_buffer_fini(&call->reply);
}

/* Sent, or the client has gone: the same to this call. In every other state something else wakes
 * the call. */
static void reply_sent(struct ps_slot_call *slot, bool ok)
{
    struct unary_call *call = (struct unary_call *)slot;
    (void)ok;
    PS_ASSERT(call->state == REPLYING && call->reply_pending);
    call->reply_pending = false;
    ps_lane_unlimit(call->call.lane, &call->limit);
    free_when_done(call);
}

/* The call is over for the client of a parked call: nobody would read a reply. Of a call that was
 * answered meanwhile this is the second batch, whose end frees the call. */
static void close_step(void *owner, bool ok)
{
    struct unary_call *call = owner;
    (void)ok;
    PS_ASSERT(call->close_pending);
    PS_ASSERT(call->state == PARKED || call->state == REPLYING);
    call->close_pending = false;
    if (call->state == PARKED)
        unpark(call);
    free_when_done(call);
}

/* What is refused here was not looked at: a message that cannot be read, a call whose deadline has
 * passed while gRPC held it back (an overloaded server would do work that nobody waits for), and a
 * client that has too many bytes on their way already. */
static void start(struct ps_slot_call *slot)
{
    struct unary_call *call = (struct unary_call *)slot;
    struct ps_rpc_context *context = call->call.lane->context;
    call->state = SERVED;
    ps_rpc_call_begin(&call->call);
    call->began = gpr_now(GPR_CLOCK_MONOTONIC);
    call->answer = (struct ps_call_answer){
        .context = context,
        .reply = &call->reply,
        .hold = ps_rpc_call_hold(&call->call),
        .origin = &call->call.origin,
        .deadline = call->call.deadline,
    };
    call->shared_bytes = 0;
    ps_buffer_clear(&call->reply);
    size_t size = call->call.request != NULL ? grpc_byte_buffer_length(call->call.request) : 0;
    if (call->method->method != PS_METHOD_COUNT)
        ps_rpc_metrics_started(&context->metrics, call->method->method, size);
    struct ps_call_answer *answer = &call->answer;
    answer->status =
        ps_rpc_call_enter(&call->call, call->method->method, &answer->guard, &answer->error);
    if (answer->status == PS_OK)
        answer->status = ps_rpc_call_view(&call->call, &answer->request, &answer->error);
    if (answer->status == PS_OK && ps_rpc_call_is_late(&call->call))
        answer->status = ps_fail(&answer->error, PS_ERR_TIMEOUT,
                                 "the deadline passed before the call was looked at");
    if (answer->status == PS_OK)
        call->shared_bytes =
            ps_shared_content_bytes(context, call->method->method, answer->request);
    if (answer->status != PS_OK || !count_bytes(call, size + call->shared_bytes, true)) {
        send_reply(call);
        return;
    }
    serve(call);
}

/* False when the connection has too much on its way: the answer then says so, and its status is the
 * call's whatever it was before. */
static bool count_bytes(struct unary_call *call, size_t bytes, bool refusable)
{
    enum ps_status status = ps_rpc_call_count(&call->call, bytes, refusable, &call->answer.error);
    if (status != PS_OK)
        call->answer.status = status;
    return status == PS_OK;
}

/* An answer lies in its call; on whichever thread has the call. */
static struct unary_call *call_of(struct ps_call_answer *answer)
{
    return (struct unary_call *)(void *)((char *)answer - offsetof(struct unary_call, answer));
}

/* For methods that keep a pace for each caller. */
const struct ps_caller *ps_call_answer_caller(struct ps_call_answer *answer)
{
    return ps_rpc_call_caller(&call_of(answer)->call);
}

/* Beside the bytes of the message, which were counted when it came. */
bool ps_call_answer_charge(struct ps_call_answer *answer, uint64_t bytes)
{
    return count_bytes(call_of(answer), (size_t)bytes, true);
}

/* A message that is large by itself goes to a helper before anything is done with it. A parked call
 * stays with its lane: a helper would have to take it off the list of those that wait. */
static void serve(struct unary_call *call)
{
    struct ps_call_answer *answer = &call->answer;
    ps_lane_drop_turn(call->call.lane, &call->turn);
    answer->may_leave = call->state != PARKED;
    if (answer->may_leave && answer->request.size + call->shared_bytes >= PS_SERVE_LONG_BYTES)
        send_away(call);
    else
        follow(call, call->method->serve(answer));
}

/* A call that is away is the helper's until the helper hands it back. No wake-up reaches it
 * meanwhile. */
static void send_away(struct unary_call *call)
{
    PS_ASSERT(call->state != PARKED);
    call->state = AWAY;
    call->answer.may_leave = false;
    ps_helpers_submit(&call->call.lane->context->helpers, &call->job);
}

/* On a helper's thread. What is handed back is the lane's again, and may be gone at once. */
static void help(void *owner)
{
    struct unary_call *call = owner;
    PS_ASSERT(call->state == AWAY);
    call->progress = call->method->serve(&call->answer);
    ps_lane_hand_back(call->call.lane, &call->waiter);
}

/* A parked call that only waits again, or goes on, stays parked: its second batch is in flight. */
static void follow(struct unary_call *call, enum ps_serve_progress progress)
{
    switch (progress) {
    case PS_SERVE_DONE:
        if (call->state == PARKED)
            unpark(call);
        send_reply(call);
        return;
    case PS_SERVE_WAITS:
        /* A parked call, too: it may have waited for the disk so far, which counts nowhere. */
        if (!count_waiting(call))
            refuse_to_wait(call);
        else if (call->state == PARKED)
            wait_on(call);
        else
            park(call);
        return;
    case PS_SERVE_GOES_ON:
        take_turn(call);
        return;
    case PS_SERVE_LEAVES:
        PS_ASSERT(call->answer.may_leave);
        send_away(call);
        return;
    }
}

/* At the end of the queue: a long bundle is served between the short ones of others. A parked call
 * may be asked meanwhile, and then has had its turn. */
static void take_turn(struct unary_call *call)
{
    ps_lane_leave(call->call.lane, &call->waiter);
    if (call->state != PARKED)
        call->state = WORKING;
    ps_lane_take_turn(call->call.lane, &call->turn);
}

/* A topic has changed that the call waits for, its turn has come, or a helper is done with it: each
 * call finds out for itself whether it can go on. */
static void woken(void *owner)
{
    struct unary_call *call = owner;
    PS_ASSERT(call->state == PARKED || call->state == WORKING || call->state == AWAY);
    if (call->state != AWAY) {
        serve(call);
        return;
    }
    call->state = WORKING;
    follow(call, call->progress);
    /* A change may have come since the helper looked, and its wake-up may be this one, or have been
     * handled while the call was away: no other would follow. */
    if (call->state == PARKED)
        serve(call);
}

/* The second batch tells when the client gives up, which nothing else would while no operation is
 * in flight. */
static void park(struct unary_call *call)
{
    struct ps_rpc_batch batch;
    PS_ASSERT(!call->close_pending);
    call->state = PARKED;
    call->close_pending = true;
    ps_rpc_metrics_parked(&call->call.lane->context->metrics, 1);
    wait_on(call);
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_close(&batch);
    ps_rpc_batch_start(&batch, &call->close_tag);
}

static bool count_waiting(struct unary_call *call)
{
    struct ps_call_answer *answer = &call->answer;
    /* Who waits for the journal has changed something, and is answered. */
    if (call->call.is_waiting || !ps_waiting_counts(call->method->method) ||
        answer->topic == PS_TOPIC_JOURNAL)
        return true;
    return ps_waiting_enter(&call->call, &answer->refusal) == PS_OK;
}

/* A call that has changed nothing is refused as a whole: what it has begun goes with its answer.
 * Gradients may have been applied already, so that a message of gradients and pulls is answered:
 * served once more, its pulls do not wait, and each says why. */
static void refuse_to_wait(struct unary_call *call)
{
    struct ps_call_answer *answer = &call->answer;
    PS_ASSERT(!answer->may_not_wait && answer->refusal.status != PS_OK);
    answer->may_not_wait = true;
    if (call->method->method == PS_METHOD_PUSH_PULL) {
        serve(call);
        return;
    }
    answer->error = answer->refusal;
    answer->status = answer->refusal.status;
    if (call->method->method == PS_METHOD_ASK)
        ps_ask_refuse_to_wait(answer);
    follow(call, PS_SERVE_DONE);
}

/* Until the topic changes, or the answer wants to be asked again, or the deadline has passed. */
static void wait_on(struct unary_call *call)
{
    struct ps_lane *lane = call->call.lane;
    const struct ps_call_answer *answer = &call->answer;
    gpr_timespec deadline = gpr_convert_clock_type(call->call.deadline, GPR_CLOCK_MONOTONIC);
    gpr_timespec again =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_millis((int64_t)answer->again_ms, GPR_TIMESPAN));
    PS_ASSERT(call->state == PARKED);
    ps_lane_leave(lane, &call->waiter);
    ps_lane_wait(lane, &call->waiter, answer->topic);
    ps_lane_unlimit(lane, &call->limit);
    if (answer->again_ms != 0 && gpr_time_cmp(again, deadline) < 0)
        ps_lane_limit_sharp(lane, &call->limit, again);
    else
        ps_lane_limit(lane, &call->limit, deadline);
}

/* Off every list of the lane's; the second batch stays in flight until the call is over. */
static void unpark(struct unary_call *call)
{
    PS_ASSERT(call->state == PARKED);
    ps_lane_leave(call->call.lane, &call->waiter);
    ps_lane_unlimit(call->call.lane, &call->limit);
    ps_lane_drop_turn(call->call.lane, &call->turn);
    ps_rpc_metrics_parked(&call->call.lane->context->metrics, -1);
    ps_waiting_leave(&call->call);
    call->state = REPLYING;
}

/* Message and status leave in one batch, so that one tag comes back. The request goes before: its
 * memory is not kept for as long as the client takes to read. A parked call has asked for its end
 * already; gRPC allows that once. */
static void send_reply(struct unary_call *call)
{
    struct ps_call_answer *answer = &call->answer;
    struct ps_rpc_batch batch;
    grpc_byte_buffer *message = NULL;
    if (answer->status == PS_OK)
        message = ps_unary_reply(answer, call->method->method); /* may fail: sets the status */
    ps_rpc_call_drop_request(&call->call);
    call->reply_bytes = message != NULL ? grpc_byte_buffer_length(message) : 0;
    /* A pull may be refused; what has changed something is answered. */
    if (!count_bytes(call, call->reply_bytes, answer->pull != NULL)) {
        grpc_byte_buffer_destroy(message);
        message = NULL;
        call->reply_bytes = 0;
    }
    ps_rpc_batch_init(&batch, &call->call);
    ps_rpc_batch_headers(&batch);
    if (message != NULL)
        ps_rpc_batch_message(&batch, message);
    ps_rpc_batch_status(&batch, answer->status, answer->error.text);
    /* Of a request to a program it is the epoch of this life (program_methods.c). */
    if (answer->status == PS_ERR_STALE_SESSION || call->method->method == PS_METHOD_ASK)
        ps_rpc_batch_suggest_session(&batch, answer->error.session);
    if (answer->status == PS_ERR_BUSY)
        ps_rpc_batch_suggest_pause(&batch, answer->error.retry_ms);
    /* Behind the making of the reply, which may refuse, too. */
    if (answer->status != PS_OK || !answer->changed_nothing)
        ps_audit_call(&call->call, call->method->method, answer->audits, answer->status,
                      &answer->error);
    if (!call->close_pending)
        ps_rpc_batch_close(&batch);
    call->state = REPLYING;
    call->reply_pending = true;
    ps_lane_limit(call->call.lane, &call->limit, patience_of(call));
    ps_rpc_batch_start(&batch, &call->slot.tag);
}

/* Until when the client is to have taken the reply: a second more for each MiB of it, since a slow
 * connection is not a client that has stopped. */
static gpr_timespec patience_of(const struct unary_call *call)
{
    uint64_t ms = call->call.lane->context->reply_ms_max;
    ms = (ms < INT32_MAX ? ms : INT32_MAX) + 1000 * (uint64_t)(call->reply_bytes >> 20);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis((int64_t)ms, GPR_TIMESPAN));
}

/* A client that has stopped reading holds memory; so does one whose deadline has passed and that
 * has not said so. A parked call whose deadline has not passed wanted to be asked again. */
static void lose_patience(void *owner)
{
    struct unary_call *call = owner;
    if (call->state == PARKED && !ps_rpc_call_is_late(&call->call)) {
        serve(call);
        return;
    }
    PS_ASSERT(call->state == PARKED || (call->state == REPLYING && call->reply_pending));
    if (call->state == REPLYING)
        PS_LOG(call->call.lane->context->log, PS_LOG_DEBUG, "rpc",
               "reply given up: nobody takes it", PS_FIELD_TEXT("method", call->method->path),
               PS_FIELD_UINT("bytes", call->reply_bytes));
    (void)grpc_call_cancel(call->call.call, NULL);
}

/* When all that is in flight for it has come back. A buffer that grew for a long reply goes. */
static void free_when_done(struct unary_call *call)
{
    if (call->reply_pending || call->close_pending)
        return;
    ps_unary_reply_release(&call->answer);
    gpr_timespec took = gpr_time_sub(gpr_now(GPR_CLOCK_MONOTONIC), call->began);
    enum ps_status status = call->call.cancelled != 0 ? PS_ERR_CANCELLED : call->answer.status;
    if (call->method->method != PS_METHOD_COUNT)
        ps_rpc_metrics_handled(&call->call.lane->context->metrics, call->method->method,
                               ps_rpc_code_of_status(status), call->reply_bytes,
                               (double)took.tv_sec + 1e-9 * (double)took.tv_nsec);
    ps_rpc_call_clear(&call->call);
    /* A list of all parameters must not leave its megabytes where one is made once a week. */
    if (call->reply.capacity > REPLY_KEPT_BYTES_MAX) {
        ps_buffer_fini(&call->reply);
        ps_buffer_init(&call->reply, call->call.lane->context->memory,
                       call->method->reply_bytes_max);
    }
    /* The memory may be gone, or be another call's, from here on. */
    ps_slots_done(&call->slot);
}
