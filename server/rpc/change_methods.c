/* SPDX-License-Identifier: Apache-2.0 */
/* Decode, call the service, encode, wait. The reply is made once, before the wait: what it says is
 * of the moment of the change. */
#include "server/rpc/change_methods.h"

#include "proto/change_codec.h"
#include "server/core/requests/change.h"
#include "server/rpc/rpc_context.h"

typedef enum ps_status (*change_fn)(struct ps_service *service,
                                    const struct ps_change_request *request,
                                    struct ps_changed *changed, struct ps_push_wait *wait,
                                    struct ps_error *error);

static enum ps_status define(struct ps_call_answer *answer);
static enum ps_status drop(struct ps_call_answer *answer);
static enum ps_status configure(struct ps_call_answer *answer);
static enum ps_status change_param(struct ps_call_answer *answer, change_fn change);
static enum ps_serve_progress go_on(struct ps_call_answer *answer, ps_change_ask_fn ask,
                                    uint64_t *durable);
static enum ps_serve_progress await_durable(struct ps_call_answer *answer, uint64_t *durable);

/* Its reply does not say what is durable. */
enum ps_serve_progress ps_serve_define(struct ps_call_answer *answer)
{
    uint64_t durable = 0;
    return go_on(answer, define, &durable);
}

static enum ps_status define(struct ps_call_answer *answer)
{
    struct ps_init_request request;
    struct ps_init_reply reply = {0};
    struct ps_decoded decoded;
    PS_TRY(ps_decode_init(answer->request, answer->context->memory, &request, &decoded,
                          &answer->error));
    request.hold = answer->hold;
    enum ps_status status = ps_change_may(answer, request.name, &request.request);
    if (status == PS_OK)
        status = ps_service_define(answer->context->service, &request, &reply, &answer->wait,
                                   &answer->error);
    ps_decoded_release(&decoded);
    if (status != PS_OK)
        return status;
    answer->changed_nothing = reply.existed || reply.staged;
    ps_encode_init_reply(&reply, answer->reply);
    return PS_OK;
}

enum ps_serve_progress ps_serve_drop(struct ps_call_answer *answer)
{
    return ps_change_serve(answer, drop);
}

static enum ps_status drop(struct ps_call_answer *answer)
{
    return change_param(answer, ps_service_drop);
}

enum ps_serve_progress ps_serve_configure(struct ps_call_answer *answer)
{
    return ps_change_serve(answer, configure);
}

static enum ps_status configure(struct ps_call_answer *answer)
{
    return change_param(answer, ps_service_configure);
}

static enum ps_status change_param(struct ps_call_answer *answer, change_fn change)
{
    struct ps_change_request request;
    struct ps_changed changed = {0};
    struct ps_decoded decoded;
    PS_TRY(ps_decode_change(answer->request, answer->context->memory, &request, &decoded,
                            &answer->error));
    enum ps_status status = ps_change_may(answer, request.name, &request.request);
    if (status == PS_OK)
        status =
            change(answer->context->service, &request, &changed, &answer->wait, &answer->error);
    ps_decoded_release(&decoded);
    if (status != PS_OK)
        return status;
    answer->changed_nothing = changed.reply.duplicate;
    ps_encode_change_reply(&changed.reply, answer->reply);
    ps_changed_release(&changed);
    return PS_OK;
}

/* Before anything is looked up. */
enum ps_status ps_change_may(struct ps_call_answer *answer, struct ps_bytes name,
                             struct ps_request_id *id)
{
    const struct ps_serve_guard *guard = answer->guard;
    id->origin = answer->origin;
    if (guard == NULL)
        return PS_OK;
    id->owner = guard->owner;
    return guard->check(guard->self, name, true, &answer->error);
}

/* A server that is going keeps nobody waiting: its clients may find another. */
enum ps_serve_progress ps_change_await_ready(struct ps_call_answer *answer)
{
    if (answer->status != PS_ERR_NOT_READY)
        return PS_SERVE_DONE;
    if (atomic_load(&answer->context->draining)) {
        answer->status = ps_fail(&answer->error, PS_ERR_UNAVAILABLE, "shutting down");
        return PS_SERVE_DONE;
    }
    answer->topic = PS_TOPIC_LIFE;
    return PS_SERVE_WAITS;
}

/* The rest of the reply was made when the change was. */
enum ps_serve_progress ps_change_serve(struct ps_call_answer *answer, ps_change_ask_fn ask)
{
    uint64_t durable = 0;
    enum ps_serve_progress progress = go_on(answer, ask, &durable);
    if (progress == PS_SERVE_DONE && answer->status == PS_OK)
        ps_encode_change_durable(durable, answer->reply);
    return progress;
}

/* Twice at most it waits: until the shard is READY, then for the record. What was asked is asked
 * once, behind `asked`. */
static enum ps_serve_progress go_on(struct ps_call_answer *answer, ps_change_ask_fn ask,
                                    uint64_t *durable)
{
    if (!answer->asked) {
        answer->status = ask(answer);
        if (answer->status != PS_OK)
            return ps_change_await_ready(answer);
        answer->asked = true;
    }
    return await_durable(answer, durable);
}

/* As a push that was applied: once the change is made the answer is never a refusal. */
static enum ps_serve_progress await_durable(struct ps_call_answer *answer, uint64_t *durable)
{
    struct ps_push_reply reply = {0};
    answer->status =
        ps_service_acknowledge(answer->context->service, &answer->wait, &reply, &answer->error);
    *durable = reply.durable_position;
    if (answer->status != PS_ERR_NOT_READY)
        return PS_SERVE_DONE;
    answer->topic = PS_TOPIC_JOURNAL;
    return PS_SERVE_WAITS;
}
