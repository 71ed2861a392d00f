/* SPDX-License-Identifier: Apache-2.0 */
/* Decode, call the service, encode, wait. The reply to a change is made once, before the wait: what
 * it says is of the moment of the change. No rule of clocks is here: when somebody is waited for is
 * the service's to say, and how long a caller likes to wait is the message's.
 *
 * SetClocks and Clock never wait for a worker: a call that moves a clock may be what others wait
 * for, and must not stand behind them. */
#include "server/rpc/clock_methods.h"

#include "proto/change_codec.h"
#include "proto/clock_codec.h"
#include "server/core/requests/clock_calls.h"
#include "server/core/requests/clock_view.h"
#include "server/rpc/call_wait.h"
#include "server/rpc/change_methods.h"
#include "server/rpc/rpc_context.h"

static enum ps_status set_clocks(struct ps_call_answer *answer);
static enum ps_status say_clock(struct ps_call_answer *answer);
static void answer_with(struct ps_call_answer *answer, const struct ps_clocks_reply *reply);
static enum ps_serve_progress await_progress(struct ps_call_answer *answer,
                                             const struct ps_progress_request *request,
                                             const struct ps_pull_wait *wait);

/* Settings are one call of a job's beginning; the audit has a line for each. */
enum ps_serve_progress ps_serve_set_clocks(struct ps_call_answer *answer)
{
    return ps_change_serve(answer, set_clocks);
}

/* One for each iteration of each worker: as cheap as a push without content. */
enum ps_serve_progress ps_serve_clock(struct ps_call_answer *answer)
{
    return ps_change_serve(answer, say_clock);
}

/* Guarded by their name, as a parameter and a barrier are: a trainer of one part of a job could
 * else hold up another's. */
static enum ps_status set_clocks(struct ps_call_answer *answer)
{
    struct ps_set_clocks_request request;
    struct ps_clocks_reply reply = {0};
    struct ps_decoded decoded;
    PS_TRY(ps_decode_set_clocks(answer->request, answer->context->memory, &request, &decoded,
                                &answer->error));
    enum ps_status status = ps_change_may(answer, request.name, &request.request);
    /* One method, and for whoever reads the audit two things. */
    if (request.removes)
        answer->audits = "clocks were removed";
    if (status == PS_OK)
        status = ps_service_set_clocks(answer->context->service, &request, &reply, &answer->wait,
                                       &answer->error);
    ps_decoded_release(&decoded);
    if (status == PS_OK)
        answer_with(answer, &reply);
    return status;
}

/* Whose rank it is nobody knows: whoever may change what has this name may speak for its
 * workers. */
static enum ps_status say_clock(struct ps_call_answer *answer)
{
    struct ps_clock_request request;
    struct ps_clocks_reply reply = {0};
    struct ps_decoded decoded;
    PS_TRY(ps_decode_clock(answer->request, answer->context->memory, &request, &decoded,
                           &answer->error));
    enum ps_status status = ps_change_may(answer, request.name, &request.request);
    if (status == PS_OK)
        status = ps_service_clock(answer->context->service, &request, &reply, &answer->wait,
                                  &answer->error);
    ps_decoded_release(&decoded);
    if (status == PS_OK)
        answer_with(answer, &reply);
    return status;
}

/* Without durable_position: what is durable is known when the answer goes. */
static void answer_with(struct ps_call_answer *answer, const struct ps_clocks_reply *reply)
{
    /* So a repeat leaves no second line in the audit. */
    answer->changed_nothing = reply->duplicate;
    /* Small numbers only, which always find room. */
    ps_encode_clocks_reply(reply, answer->reply);
}

/* Decoded at each look: the message is small, and nothing of it is kept while the call waits. */
enum ps_serve_progress ps_serve_progress(struct ps_call_answer *answer)
{
    struct ps_progress_request request;
    struct ps_clock_view view;
    struct ps_pull_wait wait = {.topic = PS_TOPIC_LIFE};
    struct ps_decoded decoded;
    const struct ps_rpc_context *context = answer->context;
    const struct ps_serve_guard *guard = answer->guard;
    answer->status =
        ps_decode_progress(answer->request, context->memory, &request, &decoded, &answer->error);
    if (answer->status != PS_OK)
        return PS_SERVE_DONE;
    /* Who names no minimum, or no time, asks for what there is. */
    bool is_late = request.at_least == 0 || request.wait_ms == 0 ||
                   (answer->until_ms != 0 && ps_now_ms(context->clock) >= answer->until_ms);
    /* A caller that may read parts only cannot ask for all names: the empty one is not among
     * them. */
    if (guard != NULL)
        answer->status = guard->check(guard->self, request.name, false, &answer->error);
    if (answer->status == PS_OK)
        answer->status =
            ps_service_progress(context->service, &request, is_late, &view, &wait, &answer->error);
    /* The view is copied and let go of here: what waits in the network is the reply's bytes. */
    enum ps_serve_progress progress = PS_SERVE_DONE;
    if (answer->status == PS_OK) {
        ps_encode_progress_reply(&view.reply, answer->reply);
        ps_clock_view_release(context->service, &view);
    } else if (answer->status == PS_ERR_NOT_READY) {
        progress = await_progress(answer, &request, &wait);
    }
    ps_decoded_release(&decoded);
    return progress;
}

/* The time runs from the first look on. */
static enum ps_serve_progress await_progress(struct ps_call_answer *answer,
                                             const struct ps_progress_request *request,
                                             const struct ps_pull_wait *wait)
{
    const struct ps_clock *clock = answer->context->clock;
    /* A shard that is not initialised has no clocks yet; one that goes away keeps nobody. */
    if (wait->topic == PS_TOPIC_LIFE || atomic_load(&answer->context->draining))
        return ps_change_await_ready(answer);
    if (answer->until_ms == 0)
        answer->until_ms = ps_deadline_after(clock, ps_call_patience_ms(answer, request->wait_ms));
    /* The clocks tell their topic when the minimum moves; the time is asked for by itself. */
    uint64_t left_ms = ps_time_left_ms(clock, answer->until_ms);
    answer->topic = wait->topic;
    answer->again_ms = left_ms > 0 ? left_ms : 1;
    return PS_SERVE_WAITS;
}
