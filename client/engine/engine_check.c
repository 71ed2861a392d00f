/* SPDX-License-Identifier: Apache-2.0 */
/* What always holds in an engine, read from its state alone. Each assertion stands for a promise
 * that other files keep: no number is used twice, no message is counted twice, and no call is
 * forgotten while its caller waits. */
#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/engine/engine_state.h"

/* Is it on its way, as far as its lane knows? */
static bool is_in_flight(enum ps_call_state state)
{
    return state == PS_CALL_TO_SEND || state == PS_CALL_SENT || state == PS_CALL_TO_CANCEL ||
           state == PS_CALL_CANCELLED;
}

/* A call in flight has a number if its method has any, the number is one that the numbering knows
 * as in use, and doubt about an attempt is never kept beyond the number that it was made under. */
static void check_number(const struct ps_engine *engine, struct ps_engine_call *call)
{
    const struct ps_request_id *id = ps_call_request_id(&call->request);
    if (id == NULL)
        return;
    PS_ASSERT(id->present || !is_in_flight(call->state));
    PS_ASSERT(!id->present || call->state != PS_CALL_DONE);
    /* A push in doubt that has lost its number would get another one, and be applied again. */
    PS_ASSERT(!call->ambiguous || id->present || call->state == PS_CALL_DONE);
    const struct ps_numbering *numbering = &engine->shards[call->shard].numbering;
    PS_ASSERT(!id->present || ps_numbering_in_use(numbering, id->session, id->sequence));
}

/* An attempt in ranges is out as long as some of its ranges are. */
static void check_ranges(const struct ps_engine_call *call)
{
    PS_ASSERT(!call->in_ranges || call->ranges != NULL);
    PS_ASSERT(!call->in_ranges || call->state == PS_CALL_SENT || call->state == PS_CALL_CANCELLED);
    PS_ASSERT(!call->in_ranges || !ps_ranges_is_over(call->ranges));
    PS_ASSERT(!call->is_listed || call->in_ranges);
    if (call->in_ranges)
        ps_ranges_check(call->ranges);
}

/* Everything that is counted somewhere is counted again, call by call. */
static void check_batch(const struct ps_engine *engine, const struct ps_batch *batch)
{
    uint32_t done = 0;
    uint64_t in_flight = 0, out = 0, messages = 0, counted = 0;
    for (uint32_t i = 0; i < batch->call_count; i++) {
        const struct ps_engine_call *call = &batch->calls[i];
        PS_ASSERT(call->item < batch->request.item_count);
        PS_ASSERT(call->shard < batch->lane_count);
        done += call->state == PS_CALL_DONE ? 1 : 0;
        in_flight += is_in_flight(call->state) ? 1 : 0;
        /* The outcome of a call that no message counts would make room that the lane lacks. */
        PS_ASSERT(!is_in_flight(call->state) || batch->calls[call->lead].out > 0);
        out += call->out;
        messages += call->out > 0 ? 1 : 0;
        /* A batch that wakes later than one of its calls lets that call sleep too long. */
        PS_ASSERT(call->state != PS_CALL_PAUSED || call->wake_ms >= batch->wake_ms);
        /* After the deadline no event would look at such a call again: the batch would never
         * finish. */
        PS_ASSERT(!batch->is_given_up ||
                  (call->state != PS_CALL_READY && call->state != PS_CALL_PAUSED));
        check_number(engine, &batch->calls[i]);
        check_ranges(call);
    }
    for (uint32_t i = 0; i < batch->lane_count; i++) {
        PS_ASSERT(batch->lanes[i].in_flight <= engine->options.calls_per_shard_max);
        counted += batch->lanes[i].in_flight;
    }
    PS_ASSERT(done == batch->done_count);
    PS_ASSERT(in_flight == out);
    /* Lanes that count more messages than are out have lost that room for good. */
    PS_ASSERT(messages == counted);
}

/* Room that nobody was told of is room that the end of a message will tell of. */
static bool has_message_out(const struct ps_engine *engine, uint32_t shard)
{
    for (const struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next)
        if (batch->lanes[shard].in_flight > 0)
            return true;
    return false;
}

/* Lists, counts and numbers. Room that nobody has filled is allowed only while a message is out
 * whose end will fill it: otherwise calls would wait for ever. */
void ps_engine_check(const struct ps_engine *engine)
{
    for (const struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        PS_ASSERT(batch->next == NULL || batch->next->prev == batch);
        check_batch(engine, batch);
    }
    for (uint32_t i = 0; i < engine->options.shard_count; i++) {
        PS_ASSERT(!engine->shards[i].has_room || engine->room_was_made);
        PS_ASSERT(!engine->shards[i].has_room || has_message_out(engine, i));
        ps_numbering_check(&engine->shards[i].numbering);
    }
}
