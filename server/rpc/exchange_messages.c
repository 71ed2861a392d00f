/* NEW ──the earlier ones allow it──► WORKING ──done──► DONE ──answer on its way──► SENT ──► gone */
#include "server/rpc/exchange_messages.h"

#include "base/assert.h"
#include "server/rpc/rpc_context.h"

#include <string.h>

static void turn_came(void *owner);
static void step(struct ps_exchange_message *message);
static void end_run(struct ps_exchange_message *message);
static void remove_message(struct ps_exchange_messages *messages, size_t i);

void ps_exchange_messages_init(struct ps_exchange_messages *messages, struct ps_lane *lane,
                               void (*changed)(void *owner), void *owner)
{
    *messages = (struct ps_exchange_messages){.lane = lane, .changed = changed, .owner = owner};
    for (size_t i = 0; i < PS_EXCHANGE_MESSAGES_MAX; i++) {
        struct ps_exchange_message *place = &messages->places[i];
        place->list = messages;
        place->turn = (struct ps_waiter){.woken = turn_came, .owner = place};
        ps_rpc_call_init(&place->request, lane);
    }
}

static size_t reply_bytes(const struct ps_exchange_messages *messages)
{
    size_t bytes = 0;
    for (size_t i = 0; i < messages->count; i++)
        bytes += messages->order[i]->reply_bytes;
    return bytes;
}

bool ps_exchange_messages_have_room(const struct ps_exchange_messages *messages)
{
    size_t bytes = reply_bytes(messages);
    for (size_t i = 0; i < messages->count; i++)
        bytes += messages->order[i]->request_bytes;
    return messages->count < PS_EXCHANGE_MESSAGES_MAX && bytes < PS_EXCHANGE_BYTES_MAX;
}

static struct ps_exchange_message *free_place(struct ps_exchange_messages *messages)
{
    for (size_t i = 0; i < PS_EXCHANGE_MESSAGES_MAX; i++) {
        bool used = false;
        for (size_t k = 0; k < messages->count; k++)
            used = used || messages->order[k] == &messages->places[i];
        if (!used)
            return &messages->places[i];
    }
    PS_ASSERT(false && "no room was left");
    return NULL;
}

enum ps_status ps_exchange_messages_take(struct ps_exchange_messages *messages,
                                         struct ps_rpc_call *call, struct ps_error *error)
{
    struct ps_exchange_message *message = free_place(messages);
    struct ps_view view;
    message->request.request = call->request;
    call->request = NULL;
    enum ps_status status = ps_rpc_call_view(&message->request, &view, error);
    if (status == PS_OK)
        status = ps_bundle_run_create(messages->lane->context, view,
                                      ps_rpc_call_hold(&message->request), &message->run, error);
    if (status != PS_OK) {
        ps_rpc_call_drop_request(&message->request);
        return status;
    }
    message->state = PS_EXCHANGE_NEW;
    message->request_bytes = view.size;
    message->reply_bytes = 0;
    messages->order[messages->count++] = message;
    ps_rpc_metrics_stream_message(&messages->lane->context->metrics, 1);
    return PS_OK;
}

/* ---- Working ---- */

static bool may_begin(const struct ps_exchange_messages *messages, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        const struct ps_exchange_message *earlier = messages->order[k];
        if (earlier->state == PS_EXCHANGE_NEW ||
            (earlier->state == PS_EXCHANGE_WORKING &&
             !ps_bundle_run_may_follow(messages->order[i]->run, earlier->run)))
            return false;
    }
    return reply_bytes(messages) < PS_EXCHANGE_BYTES_MAX;
}

void ps_exchange_messages_work(struct ps_exchange_messages *messages)
{
    for (size_t i = 0; i < messages->count; i++) {
        struct ps_exchange_message *message = messages->order[i];
        if (message->state == PS_EXCHANGE_NEW && may_begin(messages, i)) {
            message->state = PS_EXCHANGE_WORKING;
            step(message);
        }
    }
}

static void step(struct ps_exchange_message *message)
{
    switch (ps_bundle_run_step(message->run)) {
    case PS_BUNDLE_GOES_ON:
        ps_lane_take_turn(message->list->lane, &message->turn);
        return;
    case PS_BUNDLE_WAITS:
        return; /* for the bell */
    case PS_BUNDLE_DONE:
        message->state = PS_EXCHANGE_DONE;
        message->reply_bytes = ps_bundle_run_reply_bytes(message->run);
        return;
    }
}

static void turn_came(void *owner)
{
    struct ps_exchange_message *message = owner;
    PS_ASSERT(message->state == PS_EXCHANGE_WORKING);
    step(message);
    message->list->changed(message->list->owner);
}

void ps_exchange_messages_woken(struct ps_exchange_messages *messages)
{
    for (size_t i = 0; i < messages->count; i++) {
        struct ps_exchange_message *message = messages->order[i];
        if (message->state == PS_EXCHANGE_WORKING && !message->turn.waiting)
            step(message);
    }
}

/* ---- Answers ---- */

enum ps_status ps_exchange_messages_answer(struct ps_exchange_messages *messages,
                                           grpc_byte_buffer **answer, struct ps_error *error)
{
    size_t i = 0;
    *answer = NULL;
    while (i < messages->count && messages->order[i]->state != PS_EXCHANGE_DONE)
        i++;
    if (i == messages->count)
        return PS_OK;
    struct ps_exchange_message *message = messages->order[i];
    enum ps_status status = ps_bundle_run_reply(message->run, answer, error);
    end_run(message);
    message->state = PS_EXCHANGE_SENT;
    if (status != PS_OK)
        remove_message(messages, i);
    return status;
}

void ps_exchange_messages_sent(struct ps_exchange_messages *messages)
{
    size_t i = 0;
    while (i < messages->count && messages->order[i]->state != PS_EXCHANGE_SENT)
        i++;
    PS_ASSERT(i < messages->count);
    remove_message(messages, i);
}

void ps_exchange_messages_drop(struct ps_exchange_messages *messages)
{
    for (size_t i = messages->count; i > 0; i--) {
        if (messages->order[i - 1]->state == PS_EXCHANGE_SENT)
            continue;
        end_run(messages->order[i - 1]);
        remove_message(messages, i - 1);
    }
}

static void end_run(struct ps_exchange_message *message)
{
    ps_lane_drop_turn(message->list->lane, &message->turn);
    ps_bundle_run_release(message->run);
    message->run = NULL;
    ps_rpc_call_drop_request(&message->request);
    message->request_bytes = 0;
}

static void remove_message(struct ps_exchange_messages *messages, size_t i)
{
    messages->count--;
    memmove(&messages->order[i], &messages->order[i + 1],
            (messages->count - i) * sizeof messages->order[0]);
    ps_rpc_metrics_stream_message(&messages->lane->context->metrics, -1);
}
