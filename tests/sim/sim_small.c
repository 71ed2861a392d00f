/* SPDX-License-Identifier: Apache-2.0 */
/* A small world: chance, time, deaths, and its life from the first event to the last. */
#include "tests/sim/sim_small.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Small things ---- */

bool sim_small_chance(struct sim_small *world, uint32_t permille)
{
    return permille > 0 && ps_random_below(&world->random, 1000) < permille;
}

uint64_t sim_small_between(struct sim_small *world, uint64_t least, uint64_t most)
{
    PS_ASSERT(least <= most);
    return least + ps_random_below(&world->random, most - least + 1);
}

void sim_small_trace(struct sim_small *world, const char *format, ...)
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

void sim_small_fail(struct sim_small *world, const char *format, ...)
{
    va_list arguments;
    if (world->result.failed)
        return;
    world->result.failed = true;
    va_start(arguments, format);
    (void)vsnprintf(world->result.failure, sizeof world->result.failure, format, arguments);
    va_end(arguments);
    sim_small_trace(world, "!! %s", world->result.failure);
}

struct sim_small_server *sim_small_any_server(struct sim_small *world)
{
    return &world->servers[sim_small_between(world, 0, world->shard_count - 1)];
}

struct sim_small_client *sim_small_any_worker(struct sim_small *world)
{
    return &world->clients[sim_small_between(world, 0, world->worker_count - 1)];
}

bool sim_small_is_quiet(const struct sim_small *world)
{
    for (uint32_t i = 0; i < world->worker_count; i++)
        if (world->clients[i].engine == NULL || !world->kind->is_idle(&world->clients[i]))
            return false;
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service == NULL)
            return false;
    return true;
}

/* ---- Time ---- */

void sim_small_post(struct sim_small *world, uint64_t after_ms, const struct sim_small_event *event)
{
    PS_ASSERT(world->event_count < SIM_SMALL_EVENTS_MAX);
    struct sim_small_event *posted = &world->events[world->event_count++];
    *posted = *event;
    posted->at_ms = world->fake.now_ms + after_ms;
    posted->sequence = ++world->sequence;
}

/* When something happens next: an event, or what an engine waits for (SIZE_MAX). */
static uint64_t next_ms(const struct sim_small *world, size_t *which)
{
    uint64_t least_ms = PS_DEADLINE_NEVER;
    uint64_t sequence = UINT64_MAX;
    *which = SIZE_MAX;
    for (size_t i = 0; i < world->event_count; i++) {
        const struct sim_small_event *event = &world->events[i];
        if (event->at_ms > least_ms || (event->at_ms == least_ms && event->sequence > sequence))
            continue;
        least_ms = event->at_ms;
        sequence = event->sequence;
        *which = i;
    }
    for (uint32_t i = 0; i < world->client_count; i++) {
        const struct sim_small_client *client = &world->clients[i];
        uint64_t wake_ms =
            client->engine != NULL ? ps_engine_wake_ms(client->engine) : PS_DEADLINE_NEVER;
        if (wake_ms < least_ms) {
            least_ms = wake_ms;
            *which = SIZE_MAX;
        }
    }
    return least_ms;
}

static void look_at_all(struct sim_small *world)
{
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < world->shard_count; i++)
            sim_small_look_server(&world->servers[i]);
        for (uint32_t i = 0; i < world->client_count; i++)
            sim_small_look_client(&world->clients[i]);
    }
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            ps_service_check(world->servers[i].service);
}

void sim_small_run(struct sim_small *world, uint64_t span_ms)
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
            struct sim_small_event event = world->events[which];
            world->events[which] = world->events[--world->event_count];
            event.run(world, &event);
            free(event.bytes);
        }
        look_at_all(world);
    }
    world->fake.now_ms = end_ms;
}

/* ---- Deaths ---- */

static void server_returns(struct sim_small *world, const struct sim_small_event *event)
{
    if (world->servers[event->server].service == NULL)
        sim_small_start_server(&world->servers[event->server]);
}

static void client_returns(struct sim_small *world, const struct sim_small_event *event)
{
    if (world->clients[event->client].engine == NULL)
        sim_small_start_client(&world->clients[event->client]);
}

void sim_small_server_dies(struct sim_small_server *server, uint64_t most_ms)
{
    struct sim_small *world = server->world;
    const struct sim_small_event back = {.run = server_returns, .server = server->shard};
    if (server->service == NULL)
        return;
    world->result.faults[SIM_SMALL_SERVER_DEATHS]++;
    sim_small_stop_server(server);
    sim_small_post(world, sim_small_between(world, 1, most_ms), &back);
}

void sim_small_client_dies(struct sim_small_client *client, uint64_t most_ms)
{
    struct sim_small *world = client->world;
    const struct sim_small_event back = {.run = client_returns, .client = client->number};
    if (client->engine == NULL)
        return;
    world->result.faults[SIM_SMALL_CLIENT_DEATHS]++;
    sim_small_stop_client(client);
    sim_small_post(world, sim_small_between(world, 1, most_ms), &back);
}

/* ---- A world ---- */

/* How large it is and how much goes wrong; a mutation is looked for where things do. */
static void draw(struct sim_small *world)
{
    const struct sim_small_kind *kind = world->kind;
    world->is_calm = world->mutation == 0 && sim_small_chance(world, 250);
    world->shard_count = (uint32_t)sim_small_between(world, 1, kind->shards_max);
    world->worker_count = (uint32_t)sim_small_between(world, 1, kind->workers_max);
    world->client_count = world->worker_count + world->shard_count * kind->beside;
    if (world->is_calm)
        return;
    world->lose_permille = (uint32_t)sim_small_between(world, 0, 150);
    world->late_permille = (uint32_t)sim_small_between(world, 0, 100);
    if (kind->repeats)
        world->twice_permille = (uint32_t)sim_small_between(world, 0, 100);
}

static struct sim_small *create(uint64_t seed, int mutation, bool traces)
{
    PS_ASSERT(sim_small_kind.world_bytes >= sizeof(struct sim_small));
    struct sim_small *world = calloc(1, sim_small_kind.world_bytes);
    PS_ASSERT(world != NULL);
    world->kind = &sim_small_kind;
    world->heap.refuse_at = -1;
    world->memory = fault_heap_allocator(&world->heap);
    world->clock = fake_clock_clock(&world->fake);
    world->fake.now_ms = 1000;
    world->mutation = mutation;
    world->traces = traces;
    ps_random_init(&world->random, seed);
    draw(world);
    PS_ASSERT(world->shard_count <= SIM_SMALL_SHARDS_MAX &&
              world->client_count <= SIM_SMALL_CLIENTS_MAX);
    for (uint32_t i = 0; i < world->shard_count; i++) {
        world->servers[i].world = world;
        world->servers[i].shard = i;
        sim_small_start_server(&world->servers[i]);
    }
    for (uint32_t i = 0; i < world->client_count; i++) {
        world->clients[i].world = world;
        world->clients[i].number = i;
        sim_small_start_client(&world->clients[i]);
    }
    return world;
}

static void stop_all(struct sim_small *world)
{
    for (uint32_t i = 0; i < world->client_count; i++)
        if (world->clients[i].engine != NULL)
            sim_small_stop_client(&world->clients[i]);
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            sim_small_stop_server(&world->servers[i]);
    for (size_t i = 0; i < world->event_count; i++)
        free(world->events[i].bytes);
    if (world->heap.live != 0)
        sim_small_fail(world, "%" PRId64 " blocks of memory are left", world->heap.live);
}

struct sim_small_result sim_small_world(uint64_t seed, int mutation, bool traces)
{
    struct sim_small *world = create(seed, mutation, traces);
    uint64_t turns = sim_small_between(world, 50, world->kind->turns_max);
    uint64_t pause_ms = sim_small_between(world, 1, 60);
    for (uint64_t i = 0; i < turns && !world->result.failed; i++) {
        world->kind->act(world);
        sim_small_run(world, sim_small_between(world, 0, pause_ms));
    }
    world->is_healed = true;
    world->kind->finish(world);
    stop_all(world);
    struct sim_small_result result = world->result;
    free(world);
    return result;
}
