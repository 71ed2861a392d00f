/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine.c under random events: whatever happens, every item gets one honest result
 * by its
 * deadline, no shard gets too much at once, and a push is never applied twice.
 *
 * The servers are a model: it remembers what it applied by request id, in the window that the
 * contract gives it. It loses requests and replies, delays requests until long after they were
 * given up, and dies, with all that it applied or without what it had not acknowledged. */
#include "client/engine/engine.h"

#include "base/clock.h"
#include "base/random.h"
#include "client/engine/numbering.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define WORLDS 300
#define SHARDS_MAX 5
#define BATCHES 3
#define ITEMS_MAX 12
#define CALLS_MAX 512
#define STRAYS_MAX 64

struct flight {
    struct ps_engine_action action;
    bool cancelled;
};

/* A push as it is on the wire. */
struct wire_push {
    uint64_t session, sequence;
    uint32_t shard, batch, item;
};

/* What a shard remembers of the one client there is. */
struct model_shard {
    uint64_t session;
    uint64_t slots[PS_NUMBERING_REMEMBERED]; /* the newest sequence of each residue; 0: none */
    uint64_t version;
};

struct world {
    struct ps_random random;
    struct fault_heap heap;
    struct ps_allocator memory;
    struct ps_engine *engine;
    uint32_t shard_count;
    uint64_t now_ms;
    uint64_t epoch;
    struct flight flights[CALLS_MAX];
    uint32_t flight_count;
    uint32_t per_shard[BATCHES][SHARDS_MAX];
    struct ps_batch *batches[BATCHES];
    uint32_t numbers[BATCHES], started;
    bool finished[BATCHES];
    uint64_t deadlines_ms[BATCHES];
    struct ps_item items[BATCHES][ITEMS_MAX];
    uint32_t applied[BATCHES][ITEMS_MAX]; /* ranges that the servers applied */
    struct model_shard shards[SHARDS_MAX];
    struct wire_push strays[STRAYS_MAX]; /* broken pushes that are still on their way */
    uint32_t stray_count;
    uint32_t message_calls_max;
    uint64_t duplicates; /* that the engine was told of */
    bool pushes[BATCHES];
    char names[ITEMS_MAX][2];
    uint8_t bytes[64];
    uint8_t destinations[BATCHES][ITEMS_MAX][64];
};

static struct world world;

static uint64_t below(uint64_t bound)
{
    return ps_random_below(&world.random, bound);
}

/* A message may carry calls of several batches. The upper half of a call's id is its batch's
 * number; they are counted from 1 on. */
static uint32_t batch_of(const struct ps_engine_action *action)
{
    for (uint32_t i = 0; i < BATCHES; i++) {
        bool is_finished = action->type == PS_ENGINE_FINISHED;
        if (is_finished ? world.batches[i] == action->batch
                        : world.numbers[i] == (uint32_t)(action->call >> 32))
            return i;
    }
    ck_abort_msg("an action of an unknown batch");
    return 0;
}

static uint32_t item_of(uint32_t batch, const struct ps_call_request *request)
{
    const uint8_t *content =
        request->method == PS_METHOD_PUSH ? request->push.name.data : request->pull.name.data;
    for (uint32_t i = 0; i < ITEMS_MAX; i++) {
        const struct ps_item *item = &world.items[batch][i];
        if (item->name.size > 0 && item->name.data[0] == content[0])
            return i;
    }
    ck_abort_msg("a call of an unknown item");
    return 0;
}

static void check_span(void);

/* A call has left, perhaps together with others. */
static void launch(const struct ps_engine_action *action, const struct ps_call_part *part)
{
    struct ps_engine_action own = *action;
    own.call = part->call;
    own.request = part->request;
    uint32_t together = world.message_calls_max > 0 ? world.message_calls_max : 1;
    ck_assert_uint_le(action->part_count, together);
    uint32_t batch = batch_of(&own);
    ck_assert_uint_lt(world.now_ms, world.deadlines_ms[batch]);
    ck_assert_uint_le(++world.per_shard[batch][action->shard], 2 * together);
    world.flights[world.flight_count++] = (struct flight){own, false};
}

static void pump(void)
{
    struct ps_engine_action action;
    ps_engine_check(world.engine);
    while (ps_engine_next_action(world.engine, &action)) {
        uint32_t batch = batch_of(&action);
        if (action.type == PS_ENGINE_FINISHED) {
            ck_assert(!world.finished[batch]);
            world.finished[batch] = true;
        } else if (action.type == PS_ENGINE_SEND) {
            for (size_t i = 0; i < action.part_count; i++)
                launch(&action, &action.parts[i]);
            check_span();
        } else {
            ck_assert_uint_ge(world.now_ms, world.deadlines_ms[batch]);
            for (uint32_t i = 0; i < world.flight_count; i++) {
                if (world.flights[i].action.call == action.call)
                    world.flights[i].cancelled = true;
            }
        }
    }
    ps_engine_check(world.engine);
}

/* ---- The model of the servers ---- */

enum model_answer { MODEL_APPLIED, MODEL_DUPLICATE, MODEL_STALE };

static enum model_answer model_take(const struct wire_push *push)
{
    struct model_shard *shard = &world.shards[push->shard];
    if (push->session < shard->session)
        return MODEL_STALE;
    if (push->session > shard->session) {
        memset(shard->slots, 0, sizeof shard->slots);
        shard->session = push->session;
    }
    uint64_t *slot = &shard->slots[push->sequence % PS_NUMBERING_REMEMBERED];
    if (*slot == push->sequence)
        return MODEL_DUPLICATE;
    if (*slot > push->sequence)
        return MODEL_STALE;
    *slot = push->sequence;
    shard->version++;
    world.applied[push->batch][push->item]++;
    return MODEL_APPLIED;
}

/* The server dies before anybody heard of this push, and its successor knows nothing of it. */
static void model_forget(const struct wire_push *push, const struct model_shard *before)
{
    world.shards[push->shard] = *before;
    world.applied[push->batch][push->item]--;
}

static struct wire_push wire_push_of(const struct ps_engine_action *action)
{
    const struct ps_request_id *id = &action->request->push.request;
    uint32_t batch = batch_of(action);
    ck_assert(id->present);
    ck_assert_uint_eq(id->client_id.size, 16);
    return (struct wire_push){id->session, id->sequence, action->shard, batch,
                              item_of(batch, action->request)};
}

static void break_call(const struct flight *flight, struct ps_call_outcome *outcome)
{
    outcome->status = flight->cancelled ? PS_ERR_CANCELLED : PS_ERR_UNAVAILABLE;
}

static void refuse(struct ps_call_outcome *outcome, enum ps_status status)
{
    outcome->status = status;
    outcome->refused = true;
}

static void answer_push(const struct flight *flight, struct ps_call_outcome *outcome)
{
    static const enum ps_status refusals[] = {PS_ERR_UNAVAILABLE, PS_ERR_BUSY, PS_ERR_STALE_EPOCH};
    struct wire_push push = wire_push_of(&flight->action);
    struct model_shard before = world.shards[push.shard];
    uint64_t kind = below(8);
    if (push.item % 6 == 5) { /* a parameter that no server has */
        refuse(outcome, PS_ERR_NOT_FOUND);
        return;
    }
    if (kind == 0) {
        refuse(outcome, refusals[below(3)]);
        return;
    }
    if (kind == 1) { /* lost on the way there, or late */
        break_call(flight, outcome);
        if (world.stray_count < STRAYS_MAX && below(2) == 0)
            world.strays[world.stray_count++] = push;
        return;
    }
    enum model_answer answer = model_take(&push);
    if (answer == MODEL_STALE) {
        refuse(outcome, PS_ERR_STALE_SESSION);
        return;
    }
    if (kind <= 3) { /* the reply is lost, or the server dies before it sends one */
        break_call(flight, outcome);
        if (kind == 3 && answer == MODEL_APPLIED && below(2) == 0)
            model_forget(&push, &before);
        return;
    }
    outcome->reply.push.version = world.shards[push.shard].version;
    outcome->reply.push.duplicate = answer == MODEL_DUPLICATE;
    world.duplicates += answer == MODEL_DUPLICATE ? 1 : 0;
}

static void answer_pull(const struct flight *flight, struct ps_bytes *content,
                        struct ps_call_outcome *outcome)
{
    static const enum ps_status refusals[] = {PS_ERR_UNAVAILABLE, PS_ERR_BUSY, PS_ERR_STALE_EPOCH,
                                              PS_ERR_NOT_FOUND};
    uint32_t batch = batch_of(&flight->action);
    uint32_t item = item_of(batch, flight->action.request);
    uint64_t kind = below(5);
    if (kind == 0) {
        refuse(outcome, refusals[below(4)]);
    } else if (kind == 1) {
        break_call(flight, outcome);
    } else {
        world.applied[batch][item]++;
        content->size = world.items[batch][item].size;
        outcome->reply.pull = (struct ps_pull_reply){.dtype = PS_F32};
        outcome->reply.pull.content = ps_view_of(content);
    }
}

static void answer(uint32_t i)
{
    struct flight flight = world.flights[i];
    world.flights[i] = world.flights[--world.flight_count];
    uint32_t batch = batch_of(&flight.action);
    world.per_shard[batch][flight.action.shard]--;
    struct ps_call_outcome outcome = {.status = PS_OK};
    struct ps_bytes content = {world.bytes, 0};
    outcome.reply.method = flight.action.request->method;
    if (outcome.reply.method == PS_METHOD_PUSH)
        answer_push(&flight, &outcome);
    else
        answer_pull(&flight, &content, &outcome);
    strcpy(outcome.text, ps_status_word(outcome.status));
    ps_engine_outcome(world.engine, flight.action.call, &outcome, world.now_ms);
}

static void deliver_stray(void)
{
    uint32_t i = (uint32_t)below(world.stray_count);
    struct wire_push push = world.strays[i];
    world.strays[i] = world.strays[--world.stray_count];
    (void)model_take(&push);
}

/* What is out never spans more than the servers remember. */
static void check_span(void)
{
    uint64_t oldest[SHARDS_MAX] = {0}, newest[SHARDS_MAX] = {0};
    for (uint32_t i = 0; i < world.flight_count; i++) {
        const struct ps_engine_action *action = &world.flights[i].action;
        if (action->request->method != PS_METHOD_PUSH)
            continue;
        uint64_t sequence = action->request->push.request.sequence;
        uint64_t *low = &oldest[action->shard], *high = &newest[action->shard];
        *low = *low == 0 || sequence < *low ? sequence : *low;
        *high = sequence > *high ? sequence : *high;
        ck_assert_uint_lt(*high - *low, PS_NUMBERING_SPAN_MAX);
    }
}

static void start(uint32_t batch)
{
    bool push = below(2) == 0;
    world.pushes[batch] = push;
    uint32_t count = (uint32_t)below(ITEMS_MAX + 1);
    memset(world.items[batch], 0, sizeof world.items[batch]);
    for (uint32_t i = 0; i < count; i++) {
        struct ps_item *item = &world.items[batch][i];
        world.names[i][0] = (char)('a' + i);
        item->name = ps_bytes_of_text(world.names[i]);
        item->dtype = PS_F32;
        item->content = world.bytes;
        item->destination = world.destinations[batch][i];
        item->size = push ? 4 * (1 + (size_t)below(16)) : 4;
    }
    world.deadlines_ms[batch] = world.now_ms + below(400);
    const struct ps_batch_request request = {.method = push ? PS_METHOD_PUSH : PS_METHOD_PULL,
                                             .items = world.items[batch],
                                             .item_count = count,
                                             .deadline_ms = world.deadlines_ms[batch]};
    ck_assert_int_eq(
        ps_engine_start(world.engine, &request, world.now_ms, &world.batches[batch], NULL), PS_OK);
    world.numbers[batch] = ++world.started;
}

static uint32_t ranges_of(const struct ps_item *item)
{
    uint32_t elements = (uint32_t)(item->size / 4);
    if (item->size <= 16 || world.shard_count == 1)
        return 1;
    return elements < world.shard_count ? elements : world.shard_count;
}

static void judge(uint32_t batch)
{
    for (uint32_t i = 0; i < ITEMS_MAX; i++) {
        const struct ps_item *item = &world.items[batch][i];
        if (item->name.size == 0 || item->content == NULL)
            continue;
        uint32_t applied = world.applied[batch][i];
        uint32_t ranges = ranges_of(item);
        if (world.pushes[batch])
            ck_assert_uint_le(applied, ranges);
        if (item->status == PS_OK)
            ck_assert_uint_ge(applied, ranges);
        /* The model never forgets what it acknowledged: nobody is told "stale" of a push that may
         * have been applied. */
        ck_assert_int_ne(item->status, PS_ERR_STALE_SESSION);
        if (world.pushes[batch] && ranges == 1 && item->status != PS_OK &&
            item->status != PS_ERR_TIMEOUT)
            ck_assert_uint_eq(applied, 0);
        if (item->status == PS_OK)
            ck_assert_str_eq(item->text, "");
        else
            ck_assert_str_ne(item->text, "");
    }
}

/* From now on all is as after the deadline. */
static void cancel(uint32_t batch)
{
    ps_engine_cancel(world.engine, world.batches[batch]);
    if (world.now_ms < world.deadlines_ms[batch])
        world.deadlines_ms[batch] = world.now_ms;
}

static void one_event(void)
{
    uint64_t kind = below(21);
    if (world.stray_count > 0 && below(20) == 0)
        deliver_stray();
    if (kind < 10 && world.flight_count > 0) {
        answer((uint32_t)below(world.flight_count));
    } else if (kind == 20) {
        cancel((uint32_t)below(BATCHES));
    } else if (kind < 16) {
        world.now_ms += below(30);
        ps_engine_tick(world.engine, world.now_ms);
    } else {
        uint64_t epoch = below(3) == 0 ? 0 : ++world.epoch;
        ps_engine_member(world.engine, (uint32_t)below(world.shard_count), epoch);
    }
    pump();
}

START_TEST(any_sequence_of_events_ends_with_honest_results)
{
    uint64_t seed = 1000 + (uint64_t)_i; /* Check prints _i behind the name of a test that fails */
    memset(&world, 0, sizeof world);
    ps_random_init(&world.random, seed);
    world.heap.refuse_at = -1;
    world.memory = fault_heap_allocator(&world.heap);
    world.shard_count = 1 + (uint32_t)below(SHARDS_MAX);
    world.message_calls_max = (uint32_t)(seed % 8);
    world.now_ms = below(1000);
    const struct ps_engine_options options = {.memory = &world.memory,
                                              .shard_count = world.shard_count,
                                              .split_bytes = 16,
                                              .calls_per_shard_max = 2,
                                              .message_calls_max = world.message_calls_max,
                                              .seed = seed};
    ck_assert_int_eq(ps_engine_create(&options, &world.engine, NULL), PS_OK);

    for (uint32_t i = 0; i < BATCHES; i++) {
        start(i);
        pump();
    }
    for (int events = 0; events < 300; events++)
        one_event();
    world.now_ms += 1000;
    ps_engine_tick(world.engine, world.now_ms);
    pump();
    while (world.flight_count > 0) {
        answer(0);
        pump();
    }

    while (world.stray_count > 0)
        deliver_stray();
    ck_assert_uint_eq(ps_engine_counters(world.engine)->duplicates, world.duplicates);

    for (uint32_t i = 0; i < BATCHES; i++) {
        ck_assert(world.finished[i]);
        judge(i);
        ps_engine_end(world.engine, world.batches[i]);
    }
    ck_assert_uint_eq(ps_engine_wake_ms(world.engine), PS_DEADLINE_NEVER);
    ps_engine_destroy(world.engine);
    ck_assert_int_eq(world.heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_random");
    TCase *tests = tcase_create("engine_random");
    tcase_add_loop_test(tests, any_sequence_of_events_ends_with_honest_results, 0, WORLDS);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
