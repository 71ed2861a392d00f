/* The client's decisions: one event at a time in, actions out. engine.h has the picture. */
#include "client/engine.h"

#include "base/assert.h"
#include "base/clock.h"
#include "client/batch.h"
#include "client/init_epoch.h"
#include "client/retry.h"

#include <string.h>

#define DEFAULT_SPLIT_BYTES ((uint64_t)16 * 1024 * 1024)
#define DEFAULT_CALLS_PER_SHARD 8
#define DEFAULT_PAUSE_MIN_MS 20
#define DEFAULT_PAUSE_MAX_MS 2000

struct ps_engine {
    const struct ps_allocator *memory; /* borrowed; outlives the engine */
    struct ps_engine_options options;
    struct ps_random random;
    uint64_t *epochs;         /* owned; of each shard's server, 0: nobody serves it */
    struct ps_batch *batches; /* owned; a list, the oldest first */
    struct ps_batch *newest;
    uint32_t batch_number;
    uint64_t retries;
};

static void fill_lanes(struct ps_engine *engine, struct ps_batch *batch);
static void fill_lane(struct ps_engine *engine, struct ps_batch *batch, uint32_t shard);
static void pause_call(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                       const struct ps_call_outcome *outcome, uint64_t now_ms);
static void wake_call(struct ps_batch *batch, uint32_t index);
static void call_done(struct ps_batch *batch, struct ps_engine_call *call);
static void note_epoch(struct ps_batch *batch, const struct ps_engine_call *call,
                       const struct ps_call_outcome *outcome);
static void pass_deadline(struct ps_batch *batch);
static void give_up(struct ps_batch *batch, uint32_t index);
static void judge_cancelled(struct ps_batch *batch, struct ps_engine_call *call,
                            const struct ps_call_outcome *outcome);
static void tick_batch(struct ps_batch *batch, uint64_t now_ms);

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
        engine->options.split_bytes = DEFAULT_SPLIT_BYTES;
    if (engine->options.calls_per_shard_max == 0)
        engine->options.calls_per_shard_max = DEFAULT_CALLS_PER_SHARD;
    if (engine->options.pause_min_ms == 0)
        engine->options.pause_min_ms = DEFAULT_PAUSE_MIN_MS;
    if (engine->options.pause_max_ms < engine->options.pause_min_ms)
        engine->options.pause_max_ms = DEFAULT_PAUSE_MAX_MS + engine->options.pause_min_ms;
    ps_random_init(&engine->random, options->seed);

    engine->epochs = ps_zeroed_array(engine->memory, options->shard_count, sizeof(uint64_t));
    if (engine->epochs == NULL) {
        ps_engine_destroy(engine);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u shards", options->shard_count);
    }
    *out = engine;
    return PS_OK;
}

void ps_engine_destroy(struct ps_engine *engine)
{
    if (engine == NULL)
        return;
    PS_ASSERT(engine->batches == NULL);
    ps_release(engine->memory, engine->epochs);
    ps_release(engine->memory, engine);
}

uint32_t ps_engine_shard_count(const struct ps_engine *engine)
{
    return engine->options.shard_count;
}

uint64_t ps_engine_retries(const struct ps_engine *engine)
{
    return engine->retries;
}

bool ps_batch_is_finished(const struct ps_batch *batch)
{
    return batch->done_count == batch->call_count;
}

/* ---- Events ---- */

enum ps_status ps_engine_start(struct ps_engine *engine, const struct ps_batch_request *request,
                               uint64_t now_ms, struct ps_batch **out, struct ps_error *error)
{
    struct ps_batch *batch;
    PS_TRY(ps_batch_create(request, engine->options.split_bytes, engine->options.shard_count,
                           engine->memory, &batch, error));
    batch->number = ++engine->batch_number;
    batch->previous = engine->newest;
    if (engine->newest == NULL)
        engine->batches = batch;
    else
        engine->newest->next = batch;
    engine->newest = batch;

    tick_batch(batch, now_ms);
    fill_lanes(engine, batch);
    *out = batch;
    return PS_OK;
}

void ps_engine_member(struct ps_engine *engine, uint32_t shard, uint64_t epoch)
{
    PS_ASSERT(shard < engine->options.shard_count);
    if (engine->epochs[shard] == epoch)
        return;
    engine->epochs[shard] = epoch;
    if (epoch == 0)
        return;
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        for (uint32_t i = 0; i < batch->call_count; i++) {
            if (batch->calls[i].shard == shard && batch->calls[i].state == PS_CALL_PAUSED)
                wake_call(batch, i);
        }
        fill_lane(engine, batch, shard);
    }
}

static struct ps_batch *find_batch(struct ps_engine *engine, uint64_t call)
{
    struct ps_batch *batch = engine->batches;
    while (batch != NULL && batch->number != (uint32_t)(call >> 32))
        batch = batch->next;
    PS_ASSERT(batch != NULL);
    PS_ASSERT((uint32_t)call < batch->call_count);
    return batch;
}

void ps_engine_outcome(struct ps_engine *engine, uint64_t call_id,
                       const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    struct ps_batch *batch = find_batch(engine, call_id);
    uint32_t index = (uint32_t)call_id;
    struct ps_engine_call *call = &batch->calls[index];
    struct ps_item *item = &batch->request.items[call->item];
    bool cancelled = call->state == PS_CALL_TO_CANCEL || call->state == PS_CALL_CANCELLED;
    PS_ASSERT(cancelled || call->state == PS_CALL_SENT);
    struct ps_lane *lane = &batch->lanes[call->shard];
    PS_ASSERT(lane->in_flight > 0);
    lane->in_flight--;

    struct ps_error error = {PS_OK, ""};
    enum ps_method method = call->request.method;
    note_epoch(batch, call, outcome);
    switch (ps_retry_verdict(method, outcome->status, outcome->refused)) {
    case PS_VERDICT_DONE:
        item->before = item->before || outcome->status == PS_ERR_EXISTS;
        if (outcome->status == PS_OK && ps_item_take(item, call, &outcome->reply, &error) != PS_OK)
            ps_item_fail(item, error.status, error.text);
        call_done(batch, call);
        break;
    case PS_VERDICT_AGAIN:
        if (cancelled) {
            judge_cancelled(batch, call, outcome);
            call_done(batch, call);
            break;
        }
        pause_call(engine, batch, index, outcome, now_ms);
        break;
    case PS_VERDICT_FAILED:
        ps_item_fail(item, outcome->status, outcome->text);
        call_done(batch, call);
        break;
    case PS_VERDICT_UNKNOWN:
        ps_item_fail(item, PS_ERR_TIMEOUT, outcome->text);
        call_done(batch, call);
        break;
    }
    fill_lane(engine, batch, call->shard);
}

void ps_engine_tick(struct ps_engine *engine, uint64_t now_ms)
{
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        if (now_ms < batch->wake_ms || ps_batch_is_finished(batch))
            continue;
        tick_batch(batch, now_ms);
        fill_lanes(engine, batch);
    }
}

uint64_t ps_engine_wake_ms(const struct ps_engine *engine)
{
    uint64_t wake_ms = PS_DEADLINE_NEVER;
    for (const struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        if (!ps_batch_is_finished(batch) && batch->wake_ms < wake_ms)
            wake_ms = batch->wake_ms;
    }
    return wake_ms;
}

/* ---- Actions ---- */

static bool next_of_batch(struct ps_engine *engine, struct ps_batch *batch,
                          struct ps_engine_action *action)
{
    for (;;) {
        uint32_t index = ps_call_queue_pop(batch, &batch->outbox);
        if (index == PS_NO_CALL)
            break;
        struct ps_engine_call *call = &batch->calls[index];
        *action = (struct ps_engine_action){
            .batch = batch, .call = (uint64_t)batch->number << 32 | index, .shard = call->shard};
        if (call->state == PS_CALL_TO_SEND) {
            call->state = PS_CALL_SENT;
            if (call->attempts++ > 0) {
                engine->retries++;
                batch->request.items[call->item].retries++;
            }
            action->type = PS_ENGINE_SEND;
            action->request = &call->request;
            action->deadline_ms = batch->request.deadline_ms;
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
    batch->announced = true;
    for (size_t i = 0; i < batch->request.item_count; i++)
        ps_item_close(&batch->request.items[i]);
    *action = (struct ps_engine_action){.type = PS_ENGINE_FINISHED, .batch = batch};
    return true;
}

bool ps_engine_next_action(struct ps_engine *engine, struct ps_engine_action *action)
{
    for (struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        if (next_of_batch(engine, batch, action))
            return true;
    }
    return false;
}

void ps_engine_end(struct ps_engine *engine, struct ps_batch *batch)
{
    PS_ASSERT(ps_batch_is_finished(batch) && batch->announced);
    if (batch->previous == NULL)
        engine->batches = batch->next;
    else
        batch->previous->next = batch->next;
    if (batch->next == NULL)
        engine->newest = batch->previous;
    else
        batch->next->previous = batch->previous;
    ps_batch_destroy(batch);
}

static void check_batch(const struct ps_engine *engine, const struct ps_batch *batch)
{
    uint32_t done = 0;
    uint64_t in_flight = 0, counted = 0;
    for (uint32_t i = 0; i < batch->call_count; i++) {
        const struct ps_engine_call *call = &batch->calls[i];
        PS_ASSERT(call->item < batch->request.item_count);
        PS_ASSERT(call->shard < batch->lane_count);
        done += call->state == PS_CALL_DONE ? 1 : 0;
        in_flight += call->state == PS_CALL_TO_SEND || call->state == PS_CALL_SENT ||
                     call->state == PS_CALL_TO_CANCEL || call->state == PS_CALL_CANCELLED;
        PS_ASSERT(call->state != PS_CALL_PAUSED || call->wake_ms >= batch->wake_ms);
        PS_ASSERT(!batch->deadline_passed ||
                  (call->state != PS_CALL_READY && call->state != PS_CALL_PAUSED));
    }
    for (uint32_t i = 0; i < batch->lane_count; i++) {
        PS_ASSERT(batch->lanes[i].in_flight <= engine->options.calls_per_shard_max);
        counted += batch->lanes[i].in_flight;
    }
    PS_ASSERT(done == batch->done_count);
    PS_ASSERT(in_flight == counted);
}

void ps_engine_check(const struct ps_engine *engine)
{
    const struct ps_batch *previous = NULL;
    for (const struct ps_batch *batch = engine->batches; batch != NULL; batch = batch->next) {
        PS_ASSERT(batch->previous == previous);
        check_batch(engine, batch);
        previous = batch;
    }
    PS_ASSERT(engine->newest == previous);
}

/* ---- Calls ---- */

static void fill_lanes(struct ps_engine *engine, struct ps_batch *batch)
{
    for (uint32_t shard = 0; shard < batch->lane_count; shard++)
        fill_lane(engine, batch, shard);
}

/* Moves calls from the lane's queue to the outbox while there is room. */
static void fill_lane(struct ps_engine *engine, struct ps_batch *batch, uint32_t shard)
{
    struct ps_lane *lane = &batch->lanes[shard];
    if (engine->epochs[shard] == 0)
        return;
    while (lane->in_flight < engine->options.calls_per_shard_max) {
        uint32_t index = ps_call_queue_pop(batch, &lane->ready);
        if (index == PS_NO_CALL)
            return;
        PS_ASSERT(batch->calls[index].state == PS_CALL_READY);
        batch->calls[index].state = PS_CALL_TO_SEND;
        lane->in_flight++;
        ps_call_queue_push(batch, &batch->outbox, index);
    }
}

static void pause_call(struct ps_engine *engine, struct ps_batch *batch, uint32_t index,
                       const struct ps_call_outcome *outcome, uint64_t now_ms)
{
    struct ps_engine_call *call = &batch->calls[index];
    struct ps_item *item = &batch->request.items[call->item];
    call->state = PS_CALL_PAUSED;
    call->last_status = outcome->status;
    if (ps_status_remedy(outcome->status) == PS_REMEDY_UNKNOWN)
        call->last_status = PS_ERR_UNAVAILABLE; /* reading again does no harm: nothing is unknown */
    call->wake_ms =
        now_ms + ps_retry_pause_ms(&engine->random, call->attempts, engine->options.pause_min_ms,
                                   engine->options.pause_max_ms);
    if (call->wake_ms < batch->wake_ms)
        batch->wake_ms = call->wake_ms;
    /* Kept for the case that the deadline comes before another outcome. */
    if (item->status == PS_OK)
        ps_item_note(item, outcome->text);
}

static void wake_call(struct ps_batch *batch, uint32_t index)
{
    struct ps_engine_call *call = &batch->calls[index];
    PS_ASSERT(call->state == PS_CALL_PAUSED);
    call->state = PS_CALL_READY;
    ps_call_queue_push(batch, &batch->lanes[call->shard].ready, index);
}

static void call_done(struct ps_batch *batch, struct ps_engine_call *call)
{
    PS_ASSERT(call->state != PS_CALL_DONE);
    call->state = PS_CALL_DONE;
    batch->done_count++;
}

static void note_epoch(struct ps_batch *batch, const struct ps_engine_call *call,
                       const struct ps_call_outcome *outcome)
{
    uint64_t *epochs = batch->request.init_epochs;
    if (epochs == NULL)
        return;
    enum ps_method method = call->request.method;
    if (method == PS_METHOD_INIT && outcome->status == PS_OK)
        ps_init_epoch_taken(&epochs[call->shard], outcome->reply.init.epoch);
    if (method == PS_METHOD_INIT && outcome->status == PS_ERR_EXISTS)
        ps_init_epoch_exists(&epochs[call->shard]);
    if (method == PS_METHOD_FINISH && outcome->status == PS_ERR_STALE_EPOCH)
        ps_init_epochs_lost(epochs, batch->lane_count);
}

/* ---- Time ---- */

static void tick_batch(struct ps_batch *batch, uint64_t now_ms)
{
    if (now_ms >= batch->request.deadline_ms) {
        pass_deadline(batch);
        return;
    }
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

static void pass_deadline(struct ps_batch *batch)
{
    batch->wake_ms = PS_DEADLINE_NEVER;
    if (batch->deadline_passed)
        return;
    batch->deadline_passed = true;
    for (uint32_t i = 0; i < batch->lane_count; i++)
        batch->lanes[i].ready = (struct ps_call_queue){PS_NO_CALL, PS_NO_CALL};
    for (uint32_t i = 0; i < batch->call_count; i++)
        give_up(batch, i);
}

static void give_up(struct ps_batch *batch, uint32_t index)
{
    struct ps_engine_call *call = &batch->calls[index];
    struct ps_item *item = &batch->request.items[call->item];
    switch (call->state) {
    case PS_CALL_SENT:
        call->state = PS_CALL_TO_CANCEL;
        ps_call_queue_push(batch, &batch->outbox, index);
        return;
    case PS_CALL_TO_SEND:
        batch->lanes[call->shard].in_flight--;
        break;
    case PS_CALL_READY:
    case PS_CALL_PAUSED:
        break;
    case PS_CALL_TO_CANCEL:
    case PS_CALL_CANCELLED:
    case PS_CALL_DONE:
        return;
    }
    call_done(batch, call);
    if (call->last_status != PS_OK) {
        char reason[PS_ITEM_TEXT_MAX];
        memcpy(reason, item->text, sizeof reason);
        ps_item_fail(item, call->last_status, reason);
        return;
    }
    ps_item_fail(item, PS_ERR_UNAVAILABLE, "no server in time");
}

/* A call that could have been repeated, had there been time. */
static void judge_cancelled(struct ps_batch *batch, struct ps_engine_call *call,
                            const struct ps_call_outcome *outcome)
{
    struct ps_item *item = &batch->request.items[call->item];
    if (outcome->refused) {
        ps_item_fail(item, outcome->status, outcome->text);
        return;
    }
    bool reading = ps_method_is_reading(call->request.method);
    ps_item_fail(item, reading ? PS_ERR_UNAVAILABLE : PS_ERR_TIMEOUT, "no answer in time");
}
