/* SPDX-License-Identifier: Apache-2.0 */
/* A call gives up by itself before its client does: only an answer says what was missing. */
#include "server/rpc/call_wait.h"

#include "base/assert.h"
#include "server/rpc/rpc_context.h"

#include <grpc/support/time.h>

/* So much sooner than its client a call without a time of its own gives up, at most: the client
 * then hears who is missing. */
enum { MARGIN_MS_MAX = 1000 };

/* What the request says, and else what the client's deadline leaves. Beyond some weeks it is the
 * same as no limit. */
uint64_t ps_call_patience_ms(const struct ps_call_answer *answer, uint64_t wish_ms)
{
    gpr_timespec deadline = gpr_convert_clock_type(answer->deadline, GPR_CLOCK_MONOTONIC);
    int64_t left_ms = gpr_time_to_millis(gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC)));
    /* Who says a time of its own has left room behind it. */
    if (wish_ms != 0)
        return wish_ms < INT32_MAX ? wish_ms : INT32_MAX;
    if (left_ms <= 0)
        return 1;
    return (uint64_t)(left_ms - (left_ms / 8 < MARGIN_MS_MAX ? left_ms / 8 : MARGIN_MS_MAX));
}

/* A server that is going does not keep calls waiting: their clients may find another. */
static struct ps_serve_turn turn_of(const struct ps_call_answer *answer)
{
    const struct ps_rpc_context *context = answer->context;
    bool is_going = atomic_load(&context->draining);
    return (struct ps_serve_turn){.may_leave = answer->may_leave,
                                  .may_wait = !is_going && !answer->may_not_wait,
                                  .is_late = answer->until_ms != 0 &&
                                             ps_now_ms(context->clock) >= answer->until_ms,
                                  .refusal = answer->may_not_wait ? &answer->refusal : NULL};
}

/* A call that waits for other clients gives up a little before its client does, so that the client
 * hears what is missing. */
enum ps_serve_progress ps_call_step(struct ps_call_answer *answer, struct ps_serve *serve)
{
    const struct ps_clock *clock = answer->context->clock;
    enum ps_serve_progress progress = ps_serve_step(serve, turn_of(answer));
    answer->topic = serve->topic;
    answer->again_ms = 0;
    if (progress != PS_SERVE_WAITS || serve->stage != PS_SERVE_STAGE_PULLING ||
        serve->topic == PS_TOPIC_LIFE)
        return progress;
    /* From the first wait on: how long the call may take does not begin anew with each look. */
    if (answer->until_ms == 0)
        answer->until_ms = ps_deadline_after(clock, ps_call_patience_ms(answer, 0));
    uint64_t left_ms = ps_time_left_ms(clock, answer->until_ms);
    answer->again_ms = left_ms > 0 ? left_ms : 1;
    if (serve->again_ms != 0 && serve->again_ms < answer->again_ms)
        answer->again_ms = serve->again_ms;
    return progress;
}
