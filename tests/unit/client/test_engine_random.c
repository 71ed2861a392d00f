/* client/engine.c under random events: whatever happens, every item gets one honest result by its
 * deadline, no shard gets too much at once, and a push is never applied twice. */
#include "client/engine.h"

#include "base/clock.h"
#include "base/random.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define WORLDS 300
#define SHARDS_MAX 5
#define BATCHES 3
#define ITEMS_MAX 12
#define CALLS_MAX 512

struct flight {
    struct ps_engine_action action;
    bool cancelled;
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
    bool finished[BATCHES];
    uint64_t deadlines_ms[BATCHES];
    struct ps_item items[BATCHES][ITEMS_MAX];
    uint32_t applied[BATCHES][ITEMS_MAX]; /* ranges that the servers applied */
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

static uint32_t batch_of(const struct ps_engine_action *action)
{
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (world.batches[i] == action->batch)
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
            ck_assert_uint_lt(world.now_ms, world.deadlines_ms[batch]);
            ck_assert_uint_le(++world.per_shard[batch][action.shard], 2);
            world.flights[world.flight_count++] = (struct flight){action, false};
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

/* One of: applied and answered, refused, lost before it was applied, lost after. */
static void answer(uint32_t i)
{
    static const enum ps_status refusals[] = {PS_ERR_UNAVAILABLE, PS_ERR_BUSY, PS_ERR_STALE_EPOCH,
                                              PS_ERR_NOT_FOUND};
    struct flight flight = world.flights[i];
    world.flights[i] = world.flights[--world.flight_count];
    uint32_t batch = batch_of(&flight.action);
    world.per_shard[batch][flight.action.shard]--;
    const struct ps_call_request *request = flight.action.request;
    uint32_t item = item_of(batch, request);
    struct ps_call_outcome outcome = {.status = PS_OK};
    struct ps_bytes content = {world.bytes, 0};

    uint64_t kind = below(5);
    if (kind == 0) {
        outcome.status = refusals[below(4)];
        outcome.refused = true;
    } else if (kind == 1) {
        outcome.status = flight.cancelled ? PS_ERR_CANCELLED : PS_ERR_UNAVAILABLE;
    }
    if (kind > 1 || (kind == 1 && below(2) == 0))
        world.applied[batch][item]++;
    outcome.reply.method = request->method;
    if (request->method == PS_METHOD_PULL) {
        content.size = world.items[batch][item].size;
        outcome.reply.pull = (struct ps_pull_reply){.dtype = PS_F32};
        outcome.reply.pull.content = ps_view_of(&content);
    }
    ps_engine_outcome(world.engine, flight.action.call, &outcome, world.now_ms);
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
        if (item->status == PS_OK)
            ck_assert_str_eq(item->text, "");
        else
            ck_assert_str_ne(item->text, "");
    }
}

static void one_event(void)
{
    uint64_t kind = below(10);
    if (kind < 5 && world.flight_count > 0) {
        answer((uint32_t)below(world.flight_count));
    } else if (kind < 8) {
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
    world.now_ms = below(1000);
    const struct ps_engine_options options = {.memory = &world.memory,
                                              .shard_count = world.shard_count,
                                              .split_bytes = 16,
                                              .calls_per_shard_max = 2,
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
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
