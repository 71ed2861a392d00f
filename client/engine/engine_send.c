/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls are sent, in which messages: small ones of a batch go together.
 *
 * A call leaves in two steps. Filling a lane moves calls from the lane to the outbox of their batch
 * and decides which of them share a message; the message then counts as out. Asking for actions
 * empties the outbox. Between the two a deadline may pass, or calls of other batches may be put
 * out, so nothing is taken for sent before its action is handed out. */
#include "client/engine/engine.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/thresholds.h"
#include "client/engine/engine_state.h"

/* Lanes are filled in the order of shards: each has its own room, so none waits for another. */
void ps_engine_fill_lanes(struct ps_engine *engine, struct ps_batch *batch)
{
    for (uint32_t shard = 0; shard < batch->lane_count; shard++)
        ps_engine_fill_lane(engine, batch, shard);
}

/* The oldest batch first: a later one must not starve it of numbers. */
void ps_engine_fill_shard(struct ps_engine *engine, uint32_t shard)
{
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next)
        ps_engine_fill_lane(engine, batch, shard);
}

/* The next call that may be sent, with its number. Those that have one go first: the others may
 * have to wait until one of them gives its number back. */
static uint32_t next_call(struct ps_engine *engine, struct ps_batch *batch, uint32_t shard)
{
    struct ps_lane *lane = &batch->lanes[shard];
    uint32_t index = ps_call_queue_pop(batch, &lane->again);
    /* A repetition keeps the number of its first attempt: under another one a push that has been
     * applied would be applied again. */
    if (index != PS_NO_CALL || lane->ready.first == PS_NO_CALL)
        return index;

    struct ps_numbering *numbering = &engine->shards[shard].numbering;
    struct ps_request_id *id = ps_call_request_id(&batch->calls[lane->ready.first].request);
    if (id == NULL)
        return ps_call_queue_pop(batch, &lane->ready);
    /* The call stays first in its lane: no later call of the batch gets a number before it. */
    if (!ps_numbering_has_room(numbering))
        return PS_NO_CALL;
    PS_ASSERT(!id->present);
    *id = (struct ps_request_id){.present = true,
                                 .client_id = ps_engine_client_of(engine, shard),
                                 .session = numbering->session,
                                 .sequence = ps_numbering_take(numbering)};
    return ps_call_queue_pop(batch, &lane->ready);
}

/* Into the outbox, as a part of the message that `lead` begins. The message counts as out until
 * the last of its calls has come back. */
static void put_out(struct ps_batch *batch, uint32_t lead, uint32_t index)
{
    struct ps_engine_call *call = &batch->calls[index];
    PS_ASSERT(call->state == PS_CALL_READY);
    call->state = PS_CALL_TO_SEND;
    call->lead = lead;
    batch->calls[lead].out++;
    ps_call_queue_push(batch, &batch->outbox, index);
}

/* Of a call among others in a message: one that may go in ranges is larger than any message, and
 * what is on a device goes alone, since it may not go at all. */
static size_t size_of(const struct ps_engine_call *call)
{
    return call->ranges == NULL && !ps_engine_on_device(call) ? call->size : SIZE_MAX;
}

/* The size of the call that next_call would give; SIZE_MAX: there is none. */
static size_t next_size(const struct ps_batch *batch, uint32_t shard)
{
    const struct ps_lane *lane = &batch->lanes[shard];
    uint32_t index = lane->again.first != PS_NO_CALL ? lane->again.first : lane->ready.first;
    return index != PS_NO_CALL ? size_of(&batch->calls[index]) : SIZE_MAX;
}

/* Several calls in one message save the cost of messages, which is most of the cost of a small
 * call. A server that knows no bundles gets its calls one by one. */
static bool goes_with_others(const struct ps_engine *engine, const struct ps_batch *batch,
                             uint32_t shard, size_t size)
{
    bool bundles = ps_method_row(batch->request.method)->bundle != PS_METHOD_COUNT;
    return bundles && engine->options.message_calls_max > 1 && !engine->shards[shard].single &&
           size <= PS_JOIN_CALL_BYTES_MAX;
}

/* A message of few calls costs as much as one of many: while others are out, whose end gives
 * numbers back, it is not begun before there are numbers for a full one. */
static bool waits_for_numbers(const struct ps_engine *engine, struct ps_batch *batch,
                              uint32_t shard)
{
    const struct ps_lane *lane = &batch->lanes[shard];
    /* With nothing in flight no outcome would fill this lane again: calls would wait for ever. */
    if (lane->in_flight == 0 || lane->again.first != PS_NO_CALL || lane->ready.first == PS_NO_CALL)
        return false;
    struct ps_engine_call *next = &batch->calls[lane->ready.first];
    if (ps_call_request_id(&next->request) == NULL ||
        !goes_with_others(engine, batch, shard, size_of(next)))
        return false;
    uint32_t full = engine->options.message_calls_max;
    if (next->size > PS_JOIN_MESSAGE_BYTES_MAX / full)
        full = (uint32_t)(PS_JOIN_MESSAGE_BYTES_MAX / next->size);
    /* The last calls of a lane may be fewer than a full message holds: they wait for their own
     * numbers only. */
    if (full > lane->ready.count)
        full = lane->ready.count;
    return ps_numbering_room(&engine->shards[shard].numbering) < full;
}

/* Of the next message, when its calls are like one of `size`. */
static size_t message_bytes(const struct ps_lane *lane, size_t size)
{
    /* Half of what is left, so that messages become smaller towards the end of a batch and the
     * server is not left with one large message while nothing travels any more. */
    size_t left = size * (lane->again.count + lane->ready.count + 1) / 2;
    if (left < PS_JOIN_LAST_BYTES)
        left = PS_JOIN_LAST_BYTES;
    /* The lane counts this message already: in_flight is at least 1, and no shift is negative. */
    size_t most = lane->in_flight < 3 ? PS_JOIN_FIRST_BYTES << (lane->in_flight - 1)
                                      : PS_JOIN_MESSAGE_BYTES_MAX;
    return left < most ? left : most;
}

/* Puts further small calls of the lane into the message that `lead` begins. */
static void gather(struct ps_engine *engine, struct ps_batch *batch, uint32_t shard, uint32_t lead)
{
    size_t bytes = size_of(&batch->calls[lead]);
    if (!goes_with_others(engine, batch, shard, bytes))
        return;
    size_t bytes_max = message_bytes(&batch->lanes[shard], bytes);
    while (batch->calls[lead].out < engine->options.message_calls_max) {
        size_t size = next_size(batch, shard);
        /* An empty lane and a call for ranges both say SIZE_MAX, and end the message here. */
        if (size > PS_JOIN_CALL_BYTES_MAX || bytes + size > bytes_max)
            return;
        uint32_t index = next_call(engine, batch, shard);
        if (index == PS_NO_CALL)
            return;
        put_out(batch, lead, index);
        bytes += size;
    }
}

/* As many messages as one batch may have out on a shard. A call whose own message is not complete
 * yet waits for its companions, since their outcomes are already on the way. */
void ps_engine_fill_lane(struct ps_engine *engine, struct ps_batch *batch, uint32_t shard)
{
    struct ps_lane *lane = &batch->lanes[shard];
    /* Calls stay in their lane while nobody serves the shard: a refusal would only cost an
     * attempt. */
    if (engine->shards[shard].epoch == 0)
        return;
    while (lane->in_flight < engine->options.calls_per_shard_max &&
           !waits_for_numbers(engine, batch, shard)) {
        uint32_t index = next_call(engine, batch, shard);
        if (index == PS_NO_CALL)
            return;
        if (batch->calls[index].out > 0) {
            /* Others of the message that it began before are still out; they come soon. Two
             * messages of one lead would share its count, and the lane would have room too late.
             * The outcome of the last of them fills this lane again. */
            ps_call_queue_push(batch, &lane->again, index);
            return;
        }
        /* Counted before the call is put out, since the size of the message depends on how many
         * are. */
        lane->in_flight++;
        put_out(batch, index, index);
        gather(engine, batch, shard, index);
    }
}

/* The lane has room again when all calls of the message are back, not before: a message is one
 * thing on the network. */
void ps_call_came_back(struct ps_batch *batch, struct ps_engine_call *call)
{
    struct ps_engine_call *lead = &batch->calls[call->lead];
    struct ps_lane *lane = &batch->lanes[call->shard];
    PS_ASSERT(lead->out > 0 && lane->in_flight > 0);
    lead->out--;
    if (lead->out == 0)
        lane->in_flight--;
}

/* ---- Actions ---- */

/* Names the shard at each attempt: the index does not change, but a request that was never sent
 * has none. */
static void note_sent(struct ps_engine *engine, struct ps_batch *batch, struct ps_engine_call *call)
{
    PS_ASSERT(call->state == PS_CALL_TO_SEND);
    call->state = PS_CALL_SENT;
    /* Noted for the outcome: by then the shard may have another server, whose calls need no
     * pause. */
    call->sent_epoch = engine->shards[call->shard].epoch;
    if (!engine->options.any_shard)
        ps_call_name_shard(&call->request, call->shard);
    ps_engine_name_life(call);
    if (call->attempts++ == 0)
        return;
    /* From here on it is a repetition. */
    engine->counters.retries++;
    batch->request.items[call->item].retries++;
    bool push = ps_method_row(call->request.method)->pushes;
    engine->counters.resends += push && call->ambiguous ? 1 : 0;
}

/* The list lives in the engine, so that an action needs no memory of its own. */
static void add_part(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                     struct ps_engine_action *action)
{
    struct ps_engine_call *call = &batch->calls[index];
    PS_ASSERT(action->part_count < PS_MESSAGE_CALLS_MAX);
    note_sent(engine, batch, call);
    engine->parts[action->part_count++] =
        (struct ps_call_part){ps_engine_id_of(batch, index), &call->request};
}

/* The call and those of its message that stand behind it in the outbox. */
static void take_message(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                         struct ps_engine_action *action)
{
    uint32_t lead = batch->calls[index].lead;
    /* put_out queues the calls of a message one behind the other, so the first that has another
     * lead, or was cancelled or done since, ends the message. */
    for (;;) {
        add_part(engine, batch, index, action);
        index = batch->outbox.first;
        if (index == PS_NO_CALL || batch->calls[index].lead != lead ||
            batch->calls[index].state != PS_CALL_TO_SEND)
            break;
        (void)ps_call_queue_pop(batch, &batch->outbox);
    }
    action->type = PS_ENGINE_SEND;
    action->parts = engine->parts;
    action->request = action->parts[0].request;
    action->deadline_ms = batch->request.deadline_ms;
}

/* Does the server answer the call only when other clients have come so far? Beside it in one
 * message no call of another batch is answered: not even the one that would end the wait. */
static bool waits_for_others(const struct ps_engine_call *call)
{
    /* A push never waits: it is put by, and answered. */
    const struct ps_pull_request *pull = ps_call_pull_of(&call->request);
    return pull != NULL && (pull->at_least_version > 0 || pull->worker > 0);
}

/* May this call of a later batch go in the same message? In the order in which it would have gone
 * by itself. */
static bool joins(const struct ps_engine *engine, const struct ps_batch *batch, uint32_t index,
                  const struct ps_engine_action *action, size_t bytes)
{
    const struct ps_engine_call *call = &batch->calls[index];
    return call->state == PS_CALL_TO_SEND && call->shard == action->shard &&
           batch->request.method == action->batch->request.method &&
           size_of(call) <= PS_JOIN_BATCHES_CALL_BYTES_MAX && !waits_for_others(call) &&
           bytes + call->size <= PS_JOIN_BATCHES_BYTES_MAX &&
           action->part_count < engine->options.message_calls_max;
}

/* What other batches have to send at this moment goes in the same message. */
static void join_others(struct ps_engine *engine, struct ps_engine_action *action)
{
    struct ps_batch *batch = action->batch;
    const struct ps_engine_call *first = &batch->calls[ps_engine_index_of(action->call)];
    size_t bytes = 0;
    for (size_t i = 0; i < action->part_count; i++) {
        const struct ps_engine_call *call =
            &batch->calls[ps_engine_index_of(action->parts[i].call)];
        if (waits_for_others(call))
            return;
        bytes += call->size;
    }
    /* A batch with more to send keeps its turn: calls of later batches would overtake its own. */
    if (batch->outbox.first != PS_NO_CALL || size_of(first) == SIZE_MAX ||
        !goes_with_others(engine, batch, action->shard, bytes / action->part_count))
        return;
    for (batch = batch->next; batch != NULL; batch = batch->next) {
        while (batch->outbox.first != PS_NO_CALL) {
            uint32_t index = batch->outbox.first;
            if (!joins(engine, batch, index, action, bytes))
                return;
            (void)ps_call_queue_pop(batch, &batch->outbox);
            bytes += batch->calls[index].size;
            add_part(engine, batch, index, action);
            /* The message lives as long as its most patient call; a call whose own deadline comes
             * before is cancelled by ps_engine_give_up. */
            if (batch->request.deadline_ms > action->deadline_ms)
                action->deadline_ms = batch->request.deadline_ms;
        }
    }
}

/* The first call of the outbox begins to go in ranges, if this attempt of it does. It stays there
 * until its window is full. */
static void begin_ranges(struct ps_engine *engine, struct ps_batch *batch,
                         struct ps_engine_call *call)
{
    if (call->state != PS_CALL_TO_SEND || !ps_engine_goes_in_ranges(engine, call))
        return;
    /* Counted as one attempt of the call, however many ranges follow. */
    note_sent(engine, batch, call);
    ps_engine_begin_ranges(engine, call);
}

/* Calls of which ranges are to be sent or cancelled stay first in the outbox until none is. */
static bool next_of_batch(struct ps_engine *engine, struct ps_batch *batch,
                          struct ps_engine_action *action)
{
    while (batch->outbox.first != PS_NO_CALL) {
        uint32_t index = batch->outbox.first;
        struct ps_engine_call *call = &batch->calls[index];
        begin_ranges(engine, batch, call);
        if (call->is_listed && ps_engine_next_range(engine, batch, index, action))
            return true;
        (void)ps_call_queue_pop(batch, &batch->outbox);
        if (call->is_listed) {
            call->is_listed = false;
            continue;
        }
        *action = (struct ps_engine_action){
            .batch = batch, .call = ps_engine_id_of(batch, index), .shard = call->shard};
        if (call->state == PS_CALL_TO_SEND) {
            take_message(engine, batch, index, action);
            join_others(engine, action);
            return true;
        }
        if (call->state == PS_CALL_TO_CANCEL) {
            call->state = PS_CALL_CANCELLED;
            action->type = PS_ENGINE_CANCEL;
            return true;
        }
        /* Its outcome came, or its deadline passed, before it was handed out. */
        PS_ASSERT(call->state == PS_CALL_DONE);
    }
    if (!ps_batch_is_finished(batch) || batch->announced)
        return false;
    /* Told once, and only now: the owner may free the items as soon as it hears of it. */
    batch->announced = true;
    for (size_t i = 0; i < batch->request.item_count; i++)
        ps_item_close(&batch->request.items[i]);
    *action = (struct ps_engine_action){
        .type = PS_ENGINE_FINISHED, .batch = batch, .owner = batch->request.owner};
    return true;
}

/* The oldest batch first. One action at a time, since what the caller does with it may bring
 * outcomes, which change everything behind it. */
bool ps_engine_next_action(struct ps_engine *engine, struct ps_engine_action *action)
{
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        if (next_of_batch(engine, batch, action))
            return true;
    }
    return false;
}
