/* SPDX-License-Identifier: Apache-2.0 */
/* A call that goes in ranges: when, under which ids its ranges leave, and how their outcomes become
 * the one outcome of the call. What the ranges are is decided in client/ranges. */
#include "base/assert.h"
#include "client/calls/thresholds.h"
#include "client/engine/engine_state.h"

/* A call's id is the number of its batch and its index there. The bits above the largest index name
 * a range: 0 is the call itself, so that nothing changes for calls that go as one. */
enum { RANGE_SHIFT = 24 };
_Static_assert(PS_BATCH_CALLS_MAX < 1u << RANGE_SHIFT, "an index leaves room for ranges");
_Static_assert(PS_RANGES_WINDOW < 1u << (32 - RANGE_SHIFT), "ranges fit above an index");

static void go_on(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                  uint64_t now_ms);

/* The id of the call as a whole. */
uint64_t ps_engine_id_of(const struct ps_batch *batch, uint32_t index)
{
    return (uint64_t)batch->number << 32 | index;
}

/* Whether the id is of the call or of a range of it. */
uint32_t ps_engine_index_of(uint64_t call_id)
{
    return (uint32_t)call_id & ((1u << RANGE_SHIFT) - 1);
}

/* No bit above the index is set in the id of a whole call. */
bool ps_engine_is_range(uint64_t call_id)
{
    return (uint32_t)call_id >> RANGE_SHIFT != 0;
}

/* Ranges are counted from 1 in ids, so that 0 is the call itself. */
static uint32_t range_of(uint64_t call_id)
{
    PS_ASSERT(ps_engine_is_range(call_id));
    return ((uint32_t)call_id >> RANGE_SHIFT) - 1;
}

/* Ranges that another client's push overtakes were applied in vain. After that happened some
 * contents go as one, through shared memory only: in a message they would be slower than ranges. */
bool ps_engine_goes_in_ranges(struct ps_engine *engine, const struct ps_engine_call *call)
{
    struct ps_engine_shard *shard = &engine->shards[call->shard];
    /* What is on a device is named, whatever its size. */
    if (call->ranges == NULL || ps_engine_on_device(call))
        return false;
    size_t bytes = ps_ranges_bytes(&call->request);
    bool as_one =
        shard->as_one_left > 0 && bytes <= shard->as_one_bytes_max && bytes <= PS_AS_ONE_BYTES_MAX;
    /* Counted down per attempt: ranges are tried again after a while, when the other client may
     * have gone. */
    if (as_one)
        shard->as_one_left--;
    return !as_one;
}

/* The attempt has its number and its shard's name already: every range copies them from the
 * request. */
void ps_engine_begin_ranges(struct ps_engine *engine, struct ps_engine_call *call)
{
    PS_ASSERT(call->state == PS_CALL_SENT && !call->is_listed);
    call->in_ranges = true;
    call->is_listed = true;
    ps_ranges_begin(call->ranges, &engine->options.ranges, &call->request);
}

/* A range is handed out as a message of its own with the deadline of its batch. For the channel it
 * is a call like any other. */
bool ps_engine_next_range(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                          struct ps_engine_action *action)
{
    const struct ps_engine_call *call = &batch->calls[index];
    enum ps_ranges_action wish;
    uint32_t range;
    if (!ps_ranges_next(call->ranges, &wish, &range))
        return false;
    uint64_t id = ps_engine_id_of(batch, index) | (uint64_t)(range + 1) << RANGE_SHIFT;
    *action = (struct ps_engine_action){.type = PS_ENGINE_CANCEL,
                                        .batch = batch,
                                        .call = id,
                                        .shard = call->shard,
                                        .deadline_ms = batch->request.deadline_ms};
    if (wish == PS_RANGES_CANCEL)
        return true;
    /* The request lies in the range's slot, which stays taken until the outcome has come. */
    engine->parts[0] = (struct ps_call_part){id, &call->ranges->slots[range].request};
    action->type = PS_ENGINE_SEND;
    action->request = engine->parts[0].request;
    action->parts = engine->parts;
    action->part_count = 1;
    return true;
}

/* Whether there is anything is found out when the call's turn comes. */
void ps_engine_list_ranges(struct ps_batch *batch, uint32_t index)
{
    struct ps_engine_call *call = &batch->calls[index];
    if (call->is_listed)
        return;
    call->is_listed = true;
    ps_call_queue_push(batch, &batch->outbox, index);
}

/* The call counts as cancelled at once: its ranges are, one by one, as their turns come. */
void ps_engine_stop_ranges(struct ps_engine *engine, struct ps_batch *batch, uint32_t index)
{
    struct ps_engine_call *call = &batch->calls[index];
    PS_ASSERT(call->state == PS_CALL_SENT && call->in_ranges);
    call->state = PS_CALL_CANCELLED;
    ps_ranges_stop(call->ranges);
    /* The time is used for pauses only, and a call that is cancelled never pauses. */
    go_on(engine, batch, index, batch->request.deadline_ms);
}

/* The outcome of one range may be the end of the attempt, when nothing of it has to be moved. */
bool ps_engine_range_outcome(struct ps_engine *engine, struct ps_batch *batch, uint64_t call_id,
                             const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    uint32_t index = ps_engine_index_of(call_id);
    struct ps_engine_call *call = &batch->calls[index];
    PS_ASSERT(call->in_ranges);
    bool has_content = ps_ranges_took(call->ranges, range_of(call_id), outcome);
    go_on(engine, batch, index, now_ms);
    return has_content;
}

/* Moving the content may be the end of the attempt, too. */
void ps_engine_range_keep(struct ps_engine *engine, struct ps_batch *batch, uint64_t call_id,
                          const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    uint32_t index = ps_engine_index_of(call_id);
    PS_ASSERT(batch->calls[index].in_ranges);
    ps_ranges_keep(batch->calls[index].ranges, range_of(call_id), &outcome->reply);
    go_on(engine, batch, index, now_ms);
}

/* Further ranges leave, or the attempt is over. Its outcome borrows from the ranges, which stay as
 * they are until the next attempt. */
static void go_on(struct ps_engine *engine, struct ps_batch *batch, uint32_t index, uint64_t now_ms)
{
    struct ps_engine_call *call = &batch->calls[index];
    if (call->ranges->was_overtaken)
        engine->shards[call->shard].as_one_left = PS_AS_ONE_CALLS;
    call->ranges->was_overtaken = false;
    if (!ps_ranges_is_over(call->ranges)) {
        ps_engine_list_ranges(batch, index);
        return;
    }
    /* Out of the outbox before the verdict: a call that is woken by it is queued in its lane, and
     * has one link for both. */
    if (call->is_listed)
        ps_call_queue_remove(batch, &batch->outbox, index);
    call->is_listed = false;
    call->in_ranges = false;
    ps_engine_end_attempt(engine, batch, index, &call->ranges->outcome, now_ms);
}
