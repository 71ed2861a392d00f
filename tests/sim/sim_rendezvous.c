/* SPDX-License-Identifier: Apache-2.0 */
/* The worlds: chance, time, what goes wrong, and the accounts at the end. */
#include "tests/sim/sim_rendezvous_parts.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 600, HEAL_MS = 30000 };

/* ---- Small things ---- */

const char *sim_rdv_key(uint32_t key)
{
    static const char *const texts[RDV_KEYS] = {"a", "b", "c;d", "e"};
    PS_ASSERT(key < RDV_KEYS);
    return texts[key];
}

bool sim_rdv_chance(struct rdv_world *world, uint32_t permille)
{
    return permille > 0 && ps_random_below(&world->random, 1000) < permille;
}

uint64_t sim_rdv_between(struct rdv_world *world, uint64_t least, uint64_t most)
{
    PS_ASSERT(least <= most);
    return least + ps_random_below(&world->random, most - least + 1);
}

void sim_rdv_trace(struct rdv_world *world, const char *format, ...)
{
    va_list arguments;
    if (!world->traces)
        return;
    va_start(arguments, format);
    (void)printf("[%6" PRIu64 "] ", world->fake.now_ms);
    (void)vprintf(format, arguments);
    (void)printf("\n");
    va_end(arguments);
}

void sim_rdv_fail(struct rdv_world *world, const char *format, ...)
{
    va_list arguments;
    if (world->result.failed)
        return;
    world->result.failed = true;
    va_start(arguments, format);
    (void)vsnprintf(world->result.failure, sizeof world->result.failure, format, arguments);
    va_end(arguments);
    sim_rdv_trace(world, "!! %s", world->result.failure);
}

/* ---- Time ---- */

void sim_rdv_post(struct rdv_world *world, uint64_t after_ms, const struct rdv_event *event)
{
    PS_ASSERT(world->event_count < RDV_EVENTS_MAX);
    struct rdv_event *posted = &world->events[world->event_count++];
    *posted = *event;
    posted->at_ms = world->fake.now_ms + after_ms;
    posted->sequence = ++world->sequence;
}

/* When something happens next: an event, or what an engine waits for. */
static uint64_t next_ms(const struct rdv_world *world, size_t *which)
{
    uint64_t least_ms = PS_DEADLINE_NEVER;
    uint64_t sequence = UINT64_MAX;
    *which = SIZE_MAX;
    for (size_t i = 0; i < world->event_count; i++) {
        const struct rdv_event *event = &world->events[i];
        if (event->at_ms > least_ms || (event->at_ms == least_ms && event->sequence > sequence))
            continue;
        least_ms = event->at_ms;
        sequence = event->sequence;
        *which = i;
    }
    for (uint32_t i = 0; i < world->client_count; i++) {
        const struct rdv_client *client = &world->clients[i];
        uint64_t wake_ms =
            client->engine != NULL ? ps_engine_wake_ms(client->engine) : PS_DEADLINE_NEVER;
        if (wake_ms < least_ms) {
            least_ms = wake_ms;
            *which = SIZE_MAX;
        }
    }
    return least_ms;
}

static void look_at_all(struct rdv_world *world)
{
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < world->shard_count; i++)
            sim_rdv_server_look(&world->servers[i]);
        for (uint32_t i = 0; i < world->client_count; i++)
            sim_rdv_client_look(&world->clients[i]);
    }
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            ps_service_check(world->servers[i].service);
}

static void run(struct rdv_world *world, uint64_t span_ms)
{
    uint64_t end_ms = world->fake.now_ms + span_ms;
    size_t which;
    for (;;) {
        uint64_t at_ms = next_ms(world, &which);
        if (world->result.failed || at_ms > end_ms)
            break;
        if (at_ms > world->fake.now_ms)
            world->fake.now_ms = at_ms;
        if (which != SIZE_MAX) {
            struct rdv_event event = world->events[which];
            world->events[which] = world->events[--world->event_count];
            event.run(world, &event);
            free(event.bytes);
        }
        look_at_all(world);
    }
    world->fake.now_ms = end_ms;
}

/* ---- What happens ---- */

static struct rdv_client *any_client(struct rdv_world *world)
{
    return &world->clients[sim_rdv_between(world, 0, world->client_count - 1)];
}

/* In a calm world a key has one sender and one receiver at a time, so that there is an order. */
static bool is_taken(const struct rdv_world *world, enum rdv_kind kind, uint32_t step, uint32_t key)
{
    for (uint32_t i = 0; world->is_calm && i < world->client_count; i++) {
        for (size_t k = 0; k < RDV_OPS_MAX; k++) {
            const struct rdv_op *op = &world->clients[i].ops[k];
            if (op->kind != kind || op->step != step)
                continue;
            if (kind == RDV_SEND && op->key == key)
                return true;
            for (size_t n = 0; kind == RDV_RECEIVE && n < op->wish_count; n++)
                if (op->key_numbers[n] == key)
                    return true;
        }
    }
    return false;
}

static void send_or_receive(struct rdv_world *world, struct rdv_op *op)
{
    uint32_t step = (uint32_t)sim_rdv_between(world, 0, RDV_STEPS - 1);
    uint32_t keys[RDV_WISHES_MAX];
    size_t count = (size_t)sim_rdv_between(world, 1, RDV_WISHES_MAX);
    bool sends = sim_rdv_chance(world, 500);
    for (size_t i = 0; i < RDV_WISHES_MAX; i++) {
        keys[i] = (uint32_t)sim_rdv_between(world, 0, RDV_KEYS - 1);
        /* Two wishes of one key in one receive have the order of their ids. */
        if (is_taken(world, sends ? RDV_SEND : RDV_RECEIVE, step, keys[i]) || i >= count)
            count = i < count ? i : count;
    }
    if (sends && count > 0 && world->value_count < RDV_VALUES_MAX)
        sim_rdv_send(op, step, keys[0]);
    else if (!sends && count > 0)
        sim_rdv_receive(op, step, keys, world->is_calm ? 1 : count,
                        sim_rdv_between(world, 1, 3000));
}

static void start_server(struct rdv_world *world, const struct rdv_event *event)
{
    struct rdv_server *server = &world->servers[event->server];
    if (server->service == NULL)
        sim_rdv_server_start(server);
}

static void start_client(struct rdv_world *world, const struct rdv_event *event)
{
    struct rdv_client *client = &world->clients[event->client];
    if (client->engine == NULL)
        sim_rdv_client_start(client);
}

static void crash_a_server(struct rdv_world *world)
{
    struct rdv_server *server = &world->servers[sim_rdv_between(world, 0, world->shard_count - 1)];
    const struct rdv_event back = {.run = start_server, .server = server->shard};
    if (server->service == NULL)
        return;
    sim_rdv_server_crash(server);
    sim_rdv_post(world, sim_rdv_between(world, 1, 1500), &back);
}

static void client_dies(struct rdv_world *world)
{
    struct rdv_client *client = any_client(world);
    const struct rdv_event back = {.run = start_client, .client = client->number};
    if (client->engine == NULL)
        return;
    sim_rdv_client_die(client);
    sim_rdv_post(world, sim_rdv_between(world, 1, 500), &back);
}

static void do_something(struct rdv_world *world)
{
    static const enum ps_step_act acts[] = {PS_STEP_BEGIN, PS_STEP_ABORT, PS_STEP_CLEANUP};
    struct rdv_client *client = any_client(world);
    struct rdv_op *op = sim_rdv_client_place(client);
    uint64_t what = sim_rdv_between(world, 0, 999);
    uint32_t step = (uint32_t)sim_rdv_between(world, 0, RDV_STEPS - 1);
    if (op == NULL)
        return;
    if (what < 850 || world->is_calm)
        send_or_receive(world, op);
    else if (what < 900)
        sim_rdv_control(op, step, acts[sim_rdv_between(world, 0, 2)]);
    else if (what < 940)
        (void)sim_rdv_flush(op, step);
    else if (what < 970)
        sim_rdv_cancel(op, step);
    else if (what < 985)
        crash_a_server(world);
    else
        client_dies(world);
}

/* ---- The end ---- */

static bool is_quiet(const struct rdv_world *world)
{
    for (uint32_t i = 0; i < world->client_count; i++)
        if (world->clients[i].engine == NULL || !sim_rdv_client_is_idle(&world->clients[i]))
            return false;
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service == NULL)
            return false;
    return true;
}

static void run_until_quiet(struct rdv_world *world)
{
    uint64_t end_ms = world->fake.now_ms + HEAL_MS;
    do {
        run(world, 100);
    } while (!world->result.failed && !is_quiet(world) && world->fake.now_ms < end_ms);
    if (!is_quiet(world))
        sim_rdv_fail(world, "somebody still waits %d ms after the healing", HEAL_MS);
}

/* What clients still had to tell, and calls that came late. */
static void settle(struct rdv_world *world)
{
    run_until_quiet(world);
    run(world, 1000);
    for (uint32_t i = 0; i < world->client_count; i++) {
        for (uint32_t step = 0; step < RDV_STEPS && !world->result.failed; step++) {
            struct rdv_op *op = sim_rdv_client_place(&world->clients[i]);
            PS_ASSERT(op != NULL);
            if (sim_rdv_flush(op, step))
                run_until_quiet(world);
        }
    }
}

/* One client takes what is left, until there is nothing. */
static void drain(struct rdv_world *world)
{
    struct rdv_client *client = &world->clients[0];
    for (uint32_t step = 0; step < RDV_STEPS; step++) {
        for (uint32_t key = 0; key < RDV_KEYS; key++) {
            uint64_t before;
            int failures = 0;
            do {
                struct rdv_op *op = sim_rdv_client_place(client);
                before = world->last_delivered[step][key];
                if (op == NULL || world->result.failed)
                    return;
                world->last_delivered[step][key] = 0;
                sim_rdv_receive(op, step, &key, 1, 50);
                run_until_quiet(world);
                failures += world->last_delivered[step][key] == 0;
                (void)before;
                /* The first may hear that the step is another one. */
            } while (failures < 3);
        }
    }
}

static void account(struct rdv_world *world)
{
    uint32_t missing[RDV_STEPS][RDV_KEYS] = {0};
    for (size_t i = 0; i < world->value_count; i++) {
        const struct rdv_value *value = &world->values[i];
        world->result.delivered += value->delivered;
        if (value->delivered > 0 || !value->is_stored)
            continue;
        if (value->is_dropped) {
            world->result.dropped++;
            continue;
        }
        missing[value->step][value->key]++;
        world->result.taken_along++;
        if (missing[value->step][value->key] > world->dead_receives[value->step][value->key])
            sim_rdv_fail(world, "value %zu of step %" PRIu32 " is nowhere", i + 1, value->step);
    }
}

static void clean_up(struct rdv_world *world)
{
    for (uint32_t step = 0; step < RDV_STEPS && !world->result.failed; step++) {
        struct rdv_op *op = sim_rdv_client_place(&world->clients[0]);
        PS_ASSERT(op != NULL);
        sim_rdv_control(op, step, PS_STEP_CLEANUP);
        run_until_quiet(world);
    }
    for (uint32_t i = 0; i < world->shard_count && !world->result.failed; i++) {
        struct ps_metrics *none = NULL;
        (void)none;
        ps_service_sweep_rendezvous(world->servers[i].service);
    }
}

/* ---- A world ---- */

static struct rdv_world *create(uint64_t seed, enum sim_rendezvous_mutation mutation, bool trace)
{
    struct rdv_world *world = calloc(1, sizeof *world);
    PS_ASSERT(world != NULL);
    world->heap.refuse_at = -1;
    world->memory = fault_heap_allocator(&world->heap);
    world->clock = fake_clock_clock(&world->fake);
    world->fake.now_ms = 1000;
    world->mutation = mutation;
    world->traces = trace;
    ps_random_init(&world->random, seed);
    world->is_calm = mutation == SIM_RENDEZVOUS_NONE && sim_rdv_chance(world, 250);
    world->shard_count = (uint32_t)sim_rdv_between(world, 1, RDV_SHARDS_MAX);
    world->client_count = (uint32_t)sim_rdv_between(world, 1, RDV_CLIENTS_MAX);
    if (!world->is_calm) {
        world->lose_permille = (uint32_t)sim_rdv_between(world, 0, 150);
        world->late_permille = (uint32_t)sim_rdv_between(world, 0, 100);
    }
    for (uint32_t i = 0; i < world->shard_count; i++) {
        world->servers[i].world = world;
        world->servers[i].shard = i;
        sim_rdv_server_start(&world->servers[i]);
    }
    for (uint32_t i = 0; i < world->client_count; i++) {
        world->clients[i].world = world;
        world->clients[i].number = i;
        sim_rdv_client_start(&world->clients[i]);
    }
    return world;
}

static void destroy(struct rdv_world *world)
{
    for (uint32_t i = 0; i < world->client_count; i++)
        if (world->clients[i].engine != NULL)
            sim_rdv_client_die(&world->clients[i]);
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            sim_rdv_server_crash(&world->servers[i]);
    for (size_t i = 0; i < world->event_count; i++)
        free(world->events[i].bytes);
    if (world->heap.live != 0)
        sim_rdv_fail(world, "%" PRId64 " blocks of memory are left", world->heap.live);
}

struct sim_rendezvous_result sim_rendezvous_world(uint64_t seed,
                                                  enum sim_rendezvous_mutation mutation, bool trace)
{
    struct rdv_world *world = create(seed, mutation, trace);
    uint64_t turns = sim_rdv_between(world, 50, TURNS_MAX);
    uint64_t pause_ms = sim_rdv_between(world, 1, 60);
    for (uint64_t i = 0; i < turns && !world->result.failed; i++) {
        do_something(world);
        run(world, sim_rdv_between(world, 0, pause_ms));
    }
    world->is_healed = true;
    settle(world);
    if (!world->result.failed)
        drain(world);
    if (!world->result.failed)
        account(world);
    clean_up(world);
    destroy(world);
    struct sim_rendezvous_result result = world->result;
    free(world);
    return result;
}
