/* SPDX-License-Identifier: Apache-2.0 */
/* The client's decisions: one event at a time in, actions out. engine.h has the picture. The file
 * has the events first, then what they do to a call and to the number of a call.
 * Only the start of a batch allocates, so that an outcome can always be taken. */
#include "client/engine/engine.h"

#include "base/assert.h"
#include "base/clock.h"
#include "client/calls/method_table.h"
#include "client/calls/retry.h"
#include "client/calls/thresholds.h"
#include "client/engine/engine_session.h"
#include "client/engine/engine_state.h"
#include "client/engine/init_epoch.h"

#include <utlist.h>

#define DEFAULT_CALLS_PER_SHARD 8
#define DEFAULT_PAUSE_MIN_MS 20
#define DEFAULT_PAUSE_MAX_MS 2000

static void pause_call(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                       const struct ps_call_outcome *outcome, uint64_t now_ms);
static void wake_call(struct ps_batch *batch, uint32_t index);
static void fill_room(struct ps_engine *engine, uint32_t shard);
static void tick_batch(struct ps_engine *engine, struct ps_batch *batch, uint64_t now_ms);

/* Zeros in the options mean the defaults, and they are replaced here once: no code behind this one
 * asks whether an option was given. Shards have no server yet, so that nothing leaves before the
 * first ps_engine_member. */
enum ps_status ps_engine_create(const struct ps_engine_options *options, struct ps_engine **out,
                                struct ps_error *error)
{
    if (options->shard_count == 0 || options->shard_count > PS_SHARDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%u shards: 1 to %u go", options->shard_count,
                       PS_SHARDS_MAX);
    struct ps_engine *engine = ps_zeroed(options->memory, sizeof *engine);
    if (engine == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a client");
    engine->memory = options->memory;
    engine->options = *options;
    if (engine->options.split_bytes == 0)
        engine->options.split_bytes = PS_SPLIT_BYTES_DEFAULT;
    if (engine->options.calls_per_shard_max == 0)
        engine->options.calls_per_shard_max = DEFAULT_CALLS_PER_SHARD;
    if (engine->options.pause_min_ms == 0)
        engine->options.pause_min_ms = DEFAULT_PAUSE_MIN_MS;
    if (engine->options.pause_max_ms < engine->options.pause_min_ms)
        engine->options.pause_max_ms = DEFAULT_PAUSE_MAX_MS + engine->options.pause_min_ms;
    if (engine->options.ranges.above_bytes == 0)
        engine->options.ranges.above_bytes = PS_RANGES_ABOVE_BYTES;
    if (engine->options.ranges.range_bytes == 0)
        engine->options.ranges.range_bytes = PS_RANGE_BYTES;
    ps_random_init(&engine->random, options->seed);

    engine->shards = ps_zeroed_array(engine->memory, options->shard_count, sizeof *engine->shards);
    if (engine->shards == NULL) {
        ps_engine_destroy(engine);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u shards", options->shard_count);
    }
    for (uint32_t i = 0; i < options->shard_count; i++)
        ps_engine_init_session(engine, i);
    *out = engine;
    return PS_OK;
}

/* Calls that are out would come back to memory that is gone, so every batch must have been
 * ended. */
void ps_engine_destroy(struct ps_engine *engine)
{
    if (engine == NULL)
        return;
    PS_ASSERT(engine->batches == NULL);
    ps_release(engine->memory, engine->shards);
    ps_release(engine->memory, engine);
}

const struct ps_engine_counters *ps_engine_counters(const struct ps_engine *engine)
{
    return &engine->counters;
}

/* ---- Events ---- */

/* The batch is looked at for its deadline at once: one that has passed must not send anything. */
enum ps_status ps_engine_start(struct ps_engine *engine, const struct ps_batch_request *request,
                               uint64_t now_ms, struct ps_batch **out, struct ps_error *error)
{
    struct ps_batch *batch;
    PS_TRY(ps_batch_create(request, &engine->options, &batch, error));
    batch->number = ++engine->batch_number;
    /* At the end of the list: batches are served in the order in which they began. */
    DL_APPEND(engine->batches, batch);

    tick_batch(engine, batch, now_ms);
    ps_engine_fill_lanes(engine, batch);
    *out = batch;
    return PS_OK;
}

/* A server process that is new has no word yet on what its predecessor said: neither on bundles
 * nor on what it takes as one. Paused calls go at once, since the reason for their pause was the
 * old server; calls that are out are left to the channel, which gives up those that may be
 * repeated. */
/* Calls that are there stay where they are. Whoever knows a better place when they are over begins
 * them anew. */
void ps_engine_place(struct ps_engine *engine, uint64_t placement)
{
    /* 0 is what a client knows that nobody has told anything: nothing is forgotten. */
    PS_ASSERT(placement != 0);
    engine->options.placement = placement;
}

void ps_engine_member(struct ps_engine *engine, uint32_t shard, uint64_t epoch)
{
    PS_ASSERT(shard < engine->options.shard_count);
    if (engine->shards[shard].epoch == epoch)
        return;
    engine->shards[shard].epoch = epoch;
    engine->shards[shard].single = false;
    engine->shards[shard].as_one_left = 0;
    engine->shards[shard].as_one_bytes_max = 0;
    if (epoch == 0)
        return;
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        for (uint32_t i = 0; i < batch->call_count; i++) {
            if (batch->calls[i].shard == shard && batch->calls[i].state == PS_CALL_PAUSED)
                wake_call(batch, i);
        }
        /* Also where nothing was paused: calls may have waited for the shard's first server. */
        ps_engine_fill_lane(engine, batch, shard);
    }
}

/* The upper half of an id is the number of its batch. Numbers are not used again for as long as
 * batches live, so that an outcome can never reach another batch. */
static struct ps_batch *find_batch(struct ps_engine *engine, uint64_t call)
{
    struct ps_batch *batch = engine->batches;
    while (batch != NULL && batch->number != (uint32_t)(call >> 32))
        batch = batch->next;
    PS_ASSERT(batch != NULL);
    PS_ASSERT(ps_engine_index_of(call) < batch->call_count);
    return batch;
}

/* "Exists" is how a server says that an initialisation or its end was done before: a success with
 * a note. Everything else that comes here has a reply. */
static void take_outcome(struct ps_engine *engine, struct ps_item *item,
                         const struct ps_engine_call *call, const struct ps_call_outcome *outcome)
{
    if (outcome->status == PS_ERR_EXISTS) {
        item->before = true;
        return;
    }
    struct ps_error error = {.status = PS_OK};
    PS_ASSERT(outcome->status == PS_OK);
    if (ps_item_take(item, call, &outcome->reply, &error) != PS_OK)
        ps_item_fail(item, error.status, error.text);
    const struct ps_push_reply *push = ps_call_pushed(&outcome->reply);
    if (push != NULL && push->duplicate)
        engine->counters.duplicates++;
}

/* A server that knows no such call says nothing of what became of it elsewhere. */
static void fail_call(struct ps_item *item, const struct ps_engine_call *call,
                      const struct ps_call_outcome *outcome)
{
    item->no_such_call = item->no_such_call || outcome->no_bundles;
    bool is_open = outcome->no_bundles && call->ambiguous;
    ps_item_fail(item, is_open ? PS_ERR_TIMEOUT : outcome->status, outcome->text);
}

/* What the outcome says of the server is noted before what it says of the call: a repetition is put
 * out in this same event, and must know by then that the server takes no bundles. */
bool ps_engine_outcome(struct ps_engine *engine, uint64_t call_id,
                       const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    struct ps_batch *batch = find_batch(engine, call_id);
    uint32_t index = ps_engine_index_of(call_id);
    struct ps_engine_shard *shard = &engine->shards[batch->calls[index].shard];
    shard->as_one_bytes_max = outcome->as_one_bytes_max;
    if (ps_engine_is_range(call_id))
        return ps_engine_range_outcome(engine, batch, call_id, outcome, now_ms);
    if (outcome->no_bundles)
        shard->single = true;
    ps_engine_end_attempt(engine, batch, index, outcome, now_ms);
    return false;
}

/* The batch is there still: a call with a range whose content is not moved is not over. */
void ps_engine_keep(struct ps_engine *engine, uint64_t call_id,
                    const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    ps_engine_range_keep(engine, find_batch(engine, call_id), call_id, outcome, now_ms);
}

/* The one place where an outcome becomes a verdict. The order matters: first the call leaves its
 * message, then the notes that later decisions read (epochs, ambiguity, the end of a session),
 * then the verdict. A call that was cancelled while its outcome was on the way is never sent
 * again, but a success still counts. */
void ps_engine_end_attempt(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                           const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    struct ps_engine_call *call = &batch->calls[index];
    struct ps_item *item = &batch->request.items[call->item];
    bool cancelled = call->state == PS_CALL_TO_CANCEL || call->state == PS_CALL_CANCELLED;
    PS_ASSERT(cancelled || call->state == PS_CALL_SENT);
    /* Before the verdict: a call that is woken at once may then begin a message of its own. */
    ps_call_came_back(batch, call);

    enum ps_method method = call->request.method;
    ps_init_epochs_note(batch->request.init_epochs, batch->lane_count, call->shard, method,
                        outcome);
    if (outcome->status != PS_OK && !outcome->refused && !ps_method_row(method)->reads)
        call->ambiguous = true; /* a later refusal says nothing of this attempt */
    /* Before the number goes back: the session is ended while it has a number in use. */
    bool is_taken_over = ps_engine_is_taken_over(engine, call, outcome->status);
    if (outcome->status == PS_ERR_STALE_SESSION && !is_taken_over)
        ps_engine_end_session(engine, call, outcome->session);
    enum ps_verdict verdict = ps_retry_verdict(method, outcome->status, call->ambiguous);
    /* Two reasons to send it once more that are nobody's fault: nobody has to recover. */
    bool at_once = ps_engine_bring_home(engine, batch, call, outcome) ||
                   ps_engine_take_life(call, outcome, &verdict);
    if (at_once)
        verdict = PS_VERDICT_AGAIN;
    /* The process that has the id now would be driven out in turn. */
    switch (is_taken_over ? PS_VERDICT_FAILED : verdict) {
    case PS_VERDICT_DONE:
        if (outcome->status == PS_OK)
            ps_engine_confirm_session(engine, call);
        take_outcome(engine, item, call, outcome);
        ps_engine_call_done(engine, batch, call);
        break;
    case PS_VERDICT_RENUMBER:
    case PS_VERDICT_AGAIN:
        if (cancelled) {
            ps_engine_judge_cancelled(batch, call, outcome);
            ps_engine_call_done(engine, batch, call);
            break;
        }
        if (outcome->status == PS_ERR_STALE_SESSION)
            ps_engine_renumber(engine, call);
        pause_call(engine, batch, index, outcome, now_ms);
        if (at_once && call->state == PS_CALL_PAUSED)
            wake_call(batch, index);
        break;
    case PS_VERDICT_FAILED:
        fail_call(item, call, outcome);
        ps_engine_call_done(engine, batch, call);
        break;
    }
    item->may_be_applied = item->may_be_applied || call->ambiguous || outcome->status == PS_OK;
    /* The others of its message come at once: what waits goes together, not one by one. */
    if (batch->calls[call->lead].out > 0)
        return;
    ps_engine_fill_lane(engine, batch, call->shard);
    fill_room(engine, call->shard);
}

/* Calls of any batch may have waited for the numbers that came back. */
static void fill_room(struct ps_engine *engine, uint32_t shard)
{
    if (engine->shards[shard].has_room)
        ps_engine_fill_shard(engine, shard);
    engine->shards[shard].has_room = false;
}

/* Room that came back between outcomes is handed out here at the latest: an outcome tells only the
 * lane that it is of. */
void ps_engine_tick(struct ps_engine *engine, uint64_t now_ms)
{
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        if (now_ms < batch->wake_ms || ps_batch_is_finished(batch))
            continue;
        tick_batch(engine, batch, now_ms);
        ps_engine_fill_lanes(engine, batch);
    }
    ps_engine_fill_rooms(engine);
}

void ps_engine_fill_rooms(struct ps_engine *engine)
{
    for (uint32_t i = 0; engine->room_was_made && i < engine->options.shard_count; i++)
        fill_room(engine, i);
    /* Every shard was looked at, so nothing is left to be told. */
    engine->room_was_made = false;
}

/* The earliest of all batches; a finished one waits for nothing. */
uint64_t ps_engine_wake_ms(const struct ps_engine *engine)
{
    uint64_t wake_ms = PS_DEADLINE_NEVER;
    for (const struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        if (!ps_batch_is_finished(batch) && batch->wake_ms < wake_ms)
            wake_ms = batch->wake_ms;
    }
    return wake_ms;
}

/* Only after its end was told: the owner would otherwise wait for an action that never comes. */
void ps_engine_end(struct ps_engine *engine, struct ps_batch *batch)
{
    PS_ASSERT(ps_batch_is_finished(batch) && batch->announced);
    DL_DELETE(engine->batches, batch);
    ps_batch_destroy(batch);
}

/* ---- Calls ---- */

/* The pause grows with the attempts of this call and is drawn at random, so that clients that
 * failed together do not come back together. */
static void pause_call(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                       const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    struct ps_engine_call *call = &batch->calls[index];
    struct ps_item *item = &batch->request.items[call->item];
    call->state = PS_CALL_PAUSED;
    call->last_status = outcome->status;
    if (ps_status_remedy(outcome->status) == PS_REMEDY_UNKNOWN)
        call->last_status = PS_ERR_UNAVAILABLE; /* of a reader: nothing is unknown */
    call->wake_ms =
        now_ms + ps_retry_pause_ms(&engine->random, call->attempts, engine->options.pause_min_ms,
                                   engine->options.pause_max_ms);
    /* The caller sleeps until the batch's time: a pause that is not noted there ends too late. */
    if (call->wake_ms < batch->wake_ms)
        batch->wake_ms = call->wake_ms;
    /* Kept for the case that the deadline comes before another outcome. */
    if (item->status == PS_OK)
        ps_item_note(item, outcome->text);
    /* What a former server says is not a reason to keep the present one waiting. */
    uint64_t epoch = engine->shards[call->shard].epoch;
    if (epoch != 0 && epoch != call->sent_epoch)
        wake_call(batch, index);
}

/* A call that keeps its number goes before new ones: the span of numbers in use can only move on
 * when the oldest is given back. */
static void wake_call(struct ps_batch *batch, uint32_t index)
{
    struct ps_engine_call *call = &batch->calls[index];
    PS_ASSERT(call->state == PS_CALL_PAUSED);
    call->state = PS_CALL_READY;
    struct ps_lane *lane = &batch->lanes[call->shard];
    const struct ps_request_id *id = ps_call_request_id(&call->request);
    bool needs_number = id != NULL && !id->present;
    ps_call_queue_push(batch, needs_number ? &lane->ready : &lane->again, index);
}

/* The number goes back whatever became of the call. A server that still applies a late attempt
 * knows the number, and nobody else ever gets it. A call that was counted twice would finish its
 * batch too soon, and the channel would read memory that the caller has given back. */
void ps_engine_call_done(struct ps_engine *engine, struct ps_batch *batch,
                         struct ps_engine_call *call)
{
    PS_ASSERT(call->state != PS_CALL_DONE);
    call->state = PS_CALL_DONE;
    batch->done_count++;
    ps_engine_give_number_back(engine, call);
}

/* ---- Time ---- */

/* One pass over all calls: wakes those whose pause is over, and finds the earliest of the
 * others. */
static void tick_batch(struct ps_engine *engine, struct ps_batch *batch, uint64_t now_ms)
{
    if (now_ms >= batch->request.deadline_ms) {
        ps_engine_give_up(engine, batch);
        return;
    }
    /* The deadline wakes the batch when nothing else does. */
    batch->wake_ms = batch->request.deadline_ms;
    for (uint32_t i = 0; i < batch->call_count; i++) {
        struct ps_engine_call *call = &batch->calls[i];
        if (call->state != PS_CALL_PAUSED)
            continue;
        if (call->wake_ms <= now_ms) {
            wake_call(batch, i);
            continue;
        }
        if (call->wake_ms < batch->wake_ms)
            batch->wake_ms = call->wake_ms;
    }
}
