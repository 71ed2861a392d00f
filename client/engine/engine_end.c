/* SPDX-License-Identifier: Apache-2.0 */
/* How the calls of a batch end when nobody waits for them any longer: at the deadline, or earlier
 * when the caller cancels. Both are the same event; only the words differ. A call that is out has
 * to come back first, so that the channel uses none of the caller's memory when the batch is
 * over. */
#include "client/engine/engine.h"

#include "base/assert.h"
#include "base/clock.h"
#include "client/engine/engine_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void give_call_up(struct ps_engine *engine, struct ps_batch *batch, uint32_t index);

/* Numbers that come back make room for calls of other batches, which nobody else would tell. */
void ps_engine_cancel(struct ps_engine *engine, struct ps_batch *batch)
{
    if (batch->is_given_up || ps_batch_is_finished(batch))
        return;
    PS_ASSERT(!batch->is_cancelled);
    batch->is_cancelled = true;
    ps_engine_give_up(engine, batch);
    ps_engine_fill_rooms(engine);
}

/* One pass is enough: a cancellation ends calls and fills lanes of other batches, but neither takes
 * a batch off the list nor adds one. Batches that are finished already, for want of calls say, are
 * passed over. */
void ps_engine_cancel_all(struct ps_engine *engine, bool (*is_one)(enum ps_method method))
{
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        PS_ASSERT(batch->request.method < PS_METHOD_COUNT);
        if (is_one(batch->request.method))
            ps_engine_cancel(engine, batch);
    }
}

/* Queues are emptied first: give_call_up would otherwise have to look for each call in them. */
void ps_engine_give_up(struct ps_engine *engine, struct ps_batch *batch)
{
    batch->wake_ms = PS_DEADLINE_NEVER;
    if (batch->is_given_up)
        return;
    /* Once only: a second tick must not fail what was judged by the first. */
    batch->is_given_up = true;
    for (uint32_t i = 0; i < batch->lane_count; i++)
        ps_lane_clear(&batch->lanes[i]);
    for (uint32_t i = 0; i < batch->call_count; i++)
        give_call_up(engine, batch, i);
}

/* A call that is out has to come back before it can be judged; one that is not fails here. A
 * paused call fails with the reason of its last attempt, unless that attempt may have been
 * applied: then nobody knows, and TIMEOUT says so. */
static void give_call_up(struct ps_engine *engine, struct ps_batch *batch, uint32_t index)
{
    PS_ASSERT(batch->is_given_up && index < batch->call_count);
    struct ps_engine_call *call = &batch->calls[index];
    struct ps_item *item = &batch->request.items[call->item];
    switch (call->state) {
    case PS_CALL_SENT:
        if (call->in_ranges) {
            ps_engine_stop_ranges(engine, batch, index);
            return;
        }
        call->state = PS_CALL_TO_CANCEL;
        ps_call_queue_push(batch, &batch->outbox, index);
        return;
    case PS_CALL_TO_SEND:
        /* Counted as out since it was put into the outbox, although nothing has left. */
        ps_call_came_back(batch, call);
        break;
    case PS_CALL_READY:
    case PS_CALL_PAUSED:
        break;
    case PS_CALL_TO_CANCEL:
    case PS_CALL_CANCELLED:
    case PS_CALL_DONE:
        return;
    }
    ps_engine_call_done(engine, batch, call);
    if (call->last_status != PS_OK) {
        /* The item's text is the reason, and is written when the item fails: hence a copy. */
        char reason[PS_ITEM_TEXT_MAX];
        memcpy(reason, item->text, sizeof reason);
        ps_item_fail(item, call->ambiguous ? PS_ERR_TIMEOUT : call->last_status, reason);
        return;
    }
    char reason[64];
    bool is_served = engine->shards[call->shard].epoch != 0;
    if (batch->is_cancelled)
        snprintf(reason, sizeof reason, "cancelled before shard %u was sent anything", call->shard);
    else
        snprintf(reason, sizeof reason,
                 is_served ? "not sent to shard %u in time"
                           : "nobody serves shard %u, and nobody came in time",
                 call->shard);
    ps_item_fail(item, PS_ERR_UNAVAILABLE, reason);
}

/* What the time was not enough for. A server says shortly before the deadline what a pull waits for
 * (who is missing, and for how long), and is asked again for the rest of the time: what it said
 * then is told. A server that said nothing would say it when nobody listens any longer. */
static void describe_wait(const struct ps_batch *batch, const struct ps_engine_call *call,
                          char reason[PS_ITEM_TEXT_MAX])
{
    const struct ps_item *item = &batch->request.items[call->item];
    const struct ps_pull_request *pull = ps_call_pull_of(&call->request);
    const char *end = batch->is_cancelled ? "cancelled before an answer came" : "no answer in time";
    PS_ASSERT(batch->is_given_up);
    if (item->text[0] != '\0')
        (void)snprintf(reason, PS_ITEM_TEXT_MAX, "%s: %.*s", end,
                       (int)(PS_ITEM_TEXT_MAX - strlen(end) - sizeof ": "), item->text);
    else if (pull != NULL && pull->at_least_version > 0)
        (void)snprintf(reason, PS_ITEM_TEXT_MAX, "%s: version %" PRIu64 " was waited for", end,
                       pull->at_least_version);
    else if (pull != NULL && pull->worker > 0)
        (void)snprintf(reason, PS_ITEM_TEXT_MAX,
                       "%s: worker %" PRIu32 " may not read at clock %" PRIu64 " of %.*s yet", end,
                       pull->worker - 1, pull->clock, (int)pull->clocks.size,
                       (const char *)pull->clocks.data);
    else if (pull != NULL)
        (void)snprintf(reason, PS_ITEM_TEXT_MAX,
                       "%s: its server is silent, or nobody has initialised the job", end);
    else
        (void)snprintf(reason, PS_ITEM_TEXT_MAX, "%s", end);
}

/* A call that could have been repeated, had there been time. The server's own refusal says more
 * than "no answer in time", but holds only if no earlier attempt may have been applied: a caller
 * that believed it would push the same gradient again. */
void ps_engine_judge_cancelled(struct ps_batch *batch, struct ps_engine_call *call,
                               const struct ps_call_outcome *outcome)
{
    struct ps_item *item = &batch->request.items[call->item];
    if (outcome->refused && !call->ambiguous) {
        ps_item_fail(item, outcome->status, outcome->text);
        return;
    }
    /* Of a push and pull in one the pull is what takes long: the contribution was answered, or may
     * have been. */
    char reason[PS_ITEM_TEXT_MAX];
    describe_wait(batch, call, reason);
    ps_item_fail(item, call->ambiguous ? PS_ERR_TIMEOUT : PS_ERR_UNAVAILABLE, reason);
}
