/* SPDX-License-Identifier: Apache-2.0 */
/* The worlds: chance, time, what goes wrong, and the accounts at the end. */
#include "tests/sim/sim_programs_parts.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 500, HEAL_MS = 60000, ASK_MS_MAX = 3000 };

/* ---- Small things ---- */

bool sim_prg_chance(struct prg_world *world, uint32_t permille)
{
    return permille > 0 && ps_random_below(&world->random, 1000) < permille;
}

uint64_t sim_prg_between(struct prg_world *world, uint64_t least, uint64_t most)
{
    PS_ASSERT(least <= most);
    return least + ps_random_below(&world->random, most - least + 1);
}

void sim_prg_trace(struct prg_world *world, const char *format, ...)
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

void sim_prg_fail(struct prg_world *world, const char *format, ...)
{
    va_list arguments;
    if (world->result.failed)
        return;
    world->result.failed = true;
    va_start(arguments, format);
    (void)vsnprintf(world->result.failure, sizeof world->result.failure, format, arguments);
    va_end(arguments);
    sim_prg_trace(world, "!! %s", world->result.failure);
}

void sim_prg_fill(uint8_t *content, size_t size, uint64_t number, bool is_answer)
{
    for (size_t i = 0; i < size; i++)
        content[i] = (uint8_t)(number * 131 + i + i / 200 + (is_answer ? 7 : 0));
}

/* The heart of the checks: a request is begun once, unless its program says that others may have
 * begun it; and nobody begins what its worker was told that nobody would. */
struct prg_request *sim_prg_run(struct prg_world *world, uint64_t number, bool again)
{
    if (number == 0 || number > world->request_count) {
        sim_prg_fail(world, "somebody has request %" PRIu64 ", which there is not", number);
        return NULL;
    }
    struct prg_request *request = &world->requests[number - 1];
    sim_prg_trace(world, "request %" PRIu64 " is begun%s", number, again ? " again" : "");
    request->runs++;
    world->result.runs++;
    world->result.taken_again += again;
    if (request->runs > 1 && !again)
        sim_prg_fail(world, "request %" PRIu64 " is carried out twice", number);
    if (again && request->app != PRG_AGAIN)
        sim_prg_fail(world, "request %" PRIu64 " is given out again", number);
    if (request->is_untaken)
        sim_prg_fail(world, "request %" PRIu64 " is begun, and nobody was said to take it", number);
    return request;
}

/* ---- Time ---- */

void sim_prg_post(struct prg_world *world, uint64_t after_ms, const struct prg_event *event)
{
    PS_ASSERT(world->event_count < PRG_EVENTS_MAX);
    struct prg_event *posted = &world->events[world->event_count++];
    *posted = *event;
    posted->at_ms = world->fake.now_ms + after_ms;
    posted->sequence = ++world->sequence;
}

/* When something happens next: an event, or what an engine waits for (SIZE_MAX). */
static uint64_t next_ms(const struct prg_world *world, size_t *which)
{
    uint64_t least_ms = PS_DEADLINE_NEVER;
    uint64_t sequence = UINT64_MAX;
    *which = SIZE_MAX;
    for (size_t i = 0; i < world->event_count; i++) {
        const struct prg_event *event = &world->events[i];
        if (event->at_ms > least_ms || (event->at_ms == least_ms && event->sequence > sequence))
            continue;
        least_ms = event->at_ms;
        sequence = event->sequence;
        *which = i;
    }
    for (uint32_t i = 0; i < PRG_CLIENTS_MAX; i++) {
        const struct prg_client *client = &world->clients[i];
        uint64_t wake_ms =
            client->engine != NULL ? ps_engine_wake_ms(client->engine) : PS_DEADLINE_NEVER;
        if (wake_ms < least_ms) {
            least_ms = wake_ms;
            *which = SIZE_MAX;
        }
    }
    return least_ms;
}

static void look_at_all(struct prg_world *world)
{
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < world->shard_count; i++)
            sim_prg_server_look(&world->servers[i]);
        for (uint32_t i = 0; i < PRG_CLIENTS_MAX; i++)
            sim_prg_client_look(&world->clients[i]);
    }
}

static void run(struct prg_world *world, uint64_t span_ms)
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
            struct prg_event event = world->events[which];
            world->events[which] = world->events[--world->event_count];
            event.run(world, &event);
            free(event.bytes);
        }
        look_at_all(world);
    }
    world->fake.now_ms = end_ms;
}

/* ---- What happens ---- */

static struct prg_client *any_worker(struct prg_world *world)
{
    return &world->clients[sim_prg_between(world, 0, world->worker_count - 1)];
}

static struct prg_client *any_program(struct prg_world *world)
{
    return &world->clients[PRG_WORKERS_MAX + sim_prg_between(world, 0, 2 * world->shard_count - 1)];
}

static void start_server(struct prg_world *world, const struct prg_event *event)
{
    if (world->servers[event->server].service == NULL)
        sim_prg_server_start(&world->servers[event->server]);
}

static void start_client(struct prg_world *world, const struct prg_event *event)
{
    if (world->clients[event->client].engine == NULL)
        sim_prg_client_start(&world->clients[event->client]);
}

static void crash_a_server(struct prg_world *world)
{
    struct prg_server *server = &world->servers[sim_prg_between(world, 0, world->shard_count - 1)];
    const struct prg_event back = {.run = start_server, .server = server->shard};
    if (server->service == NULL)
        return;
    if (sim_prg_chance(world, 300)) {
        sim_prg_server_lose(server);
        return;
    }
    sim_prg_server_crash(server);
    sim_prg_post(world, sim_prg_between(world, 1, 1500), &back);
}

static void client_dies(struct prg_world *world, struct prg_client *client)
{
    const struct prg_event back = {.run = start_client, .client = client->number};
    if (client->engine == NULL)
        return;
    sim_prg_client_die(client);
    sim_prg_post(world, sim_prg_between(world, 1, 800), &back);
}

/* Programs take whenever they have nothing else to do. */
static void programs_take(struct prg_world *world)
{
    for (uint32_t i = PRG_WORKERS_MAX; i < PRG_WORKERS_MAX + 2 * world->shard_count; i++)
        if (world->is_healed || world->is_calm || sim_prg_chance(world, 700))
            sim_prg_take(&world->clients[i], sim_prg_between(world, 50, 1000));
}

static void do_something(struct prg_world *world)
{
    uint64_t what = sim_prg_between(world, 0, 999);
    uint32_t shard = (uint32_t)sim_prg_between(world, 0, world->shard_count - 1);
    enum prg_app app = (enum prg_app)sim_prg_between(world, 0, PRG_APPS - 1);
    programs_take(world);
    if (what < 750)
        sim_prg_ask(any_worker(world), shard, app,
                    world->is_calm ? 60000 : sim_prg_between(world, 20, ASK_MS_MAX));
    else if (what < 950 || world->is_calm)
        sim_prg_meet(any_worker(world), (uint32_t)sim_prg_between(world, 0, PRG_BARRIERS - 1),
                     world->is_calm ? 60000 : sim_prg_between(world, 50, ASK_MS_MAX));
    else if (what < 975)
        crash_a_server(world);
    else
        client_dies(world, sim_prg_chance(world, 500) ? any_worker(world) : any_program(world));
}

/* ---- The end ---- */

static bool is_quiet(const struct prg_world *world)
{
    for (uint32_t i = 0; i < world->worker_count; i++)
        if (world->clients[i].engine == NULL || !sim_prg_client_is_idle(&world->clients[i]))
            return false;
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service == NULL)
            return false;
    return true;
}

/* Every barrier has let everybody go who came to the last round that anybody has come to. */
static bool has_met(const struct prg_world *world, uint32_t barrier)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < world->worker_count; i++)
        last = world->clients[i].rounds[barrier] > last ? world->clients[i].rounds[barrier] : last;
    for (uint32_t i = 0; i < world->worker_count; i++)
        if (world->clients[i].passed[barrier] < last)
            return false;
    return true;
}

static bool have_all_met(const struct prg_world *world)
{
    for (uint32_t i = 0; i < PRG_BARRIERS; i++)
        if (!has_met(world, i))
            return false;
    return true;
}

/* Nothing goes wrong any more: all who wait are answered, and whoever has not met comes. */
static void settle(struct prg_world *world)
{
    uint64_t end_ms = world->fake.now_ms + HEAL_MS;
    do {
        programs_take(world);
        for (uint32_t barrier = 0; barrier < PRG_BARRIERS; barrier++)
            for (uint32_t i = 0; !has_met(world, barrier) && i < world->worker_count; i++)
                if (world->clients[i].engine != NULL && sim_prg_chance(world, 300))
                    sim_prg_meet(&world->clients[i], barrier, sim_prg_between(world, 100, 2000));
        run(world, 20);
    } while (!world->result.failed && !(is_quiet(world) && have_all_met(world)) &&
             world->fake.now_ms < end_ms);
    if (!is_quiet(world))
        sim_prg_fail(world, "somebody still waits %d ms after the healing", HEAL_MS);
    if (!have_all_met(world))
        sim_prg_fail(world, "somebody is still at a barrier %d ms after the healing", HEAL_MS);
}

/* What a new request gets behind all that: an answer, of every app at every server. Behind the
 * leases of programs that have died just before, which may be given a request yet. */
static void ask_all(struct prg_world *world)
{
    run(world, 2000);
    uint64_t before = world->result.answered, asked = 0;
    for (uint32_t shard = 0; shard < world->shard_count; shard++) {
        for (int app = 0; app < PRG_APPS && !world->result.failed; app++) {
            sim_prg_ask(&world->clients[0], shard, (enum prg_app)app, 20000);
            asked++;
            settle(world);
        }
    }
    if (!world->result.failed && world->request_count < PRG_REQUESTS_MAX &&
        world->result.answered != before + asked)
        sim_prg_fail(world, "requests behind the healing are not answered");
}

/* ---- A world ---- */

static struct prg_world *create(uint64_t seed, enum sim_programs_mutation mutation, bool trace)
{
    struct prg_world *world = calloc(1, sizeof *world);
    PS_ASSERT(world != NULL);
    world->heap.refuse_at = -1;
    world->memory = fault_heap_allocator(&world->heap);
    world->clock = fake_clock_clock(&world->fake);
    world->fake.now_ms = 1000;
    world->mutation = mutation;
    world->traces = trace;
    ps_random_init(&world->random, seed);
    world->is_calm = mutation == SIM_PROGRAMS_NONE && sim_prg_chance(world, 250);
    world->shard_count = (uint32_t)sim_prg_between(world, 1, PRG_SHARDS_MAX);
    world->worker_count = (uint32_t)sim_prg_between(world, 1, PRG_WORKERS_MAX);
    if (!world->is_calm) {
        world->lose_permille = (uint32_t)sim_prg_between(world, 0, 150);
        world->late_permille = (uint32_t)sim_prg_between(world, 0, 100);
        world->twice_permille = (uint32_t)sim_prg_between(world, 0, 100);
    }
    for (uint32_t i = 0; i < world->shard_count; i++) {
        world->servers[i].world = world;
        world->servers[i].shard = i;
        sim_prg_server_start(&world->servers[i]);
    }
    for (uint32_t i = 0; i < PRG_CLIENTS_MAX; i++) {
        struct prg_client *client = &world->clients[i];
        client->world = world;
        client->number = i;
        if (sim_prg_is_worker(client) ? i < world->worker_count
                                      : sim_prg_shard_of(client) < world->shard_count)
            sim_prg_client_start(client);
    }
    return world;
}

static void destroy(struct prg_world *world)
{
    for (uint32_t i = 0; i < PRG_CLIENTS_MAX; i++)
        if (world->clients[i].engine != NULL)
            sim_prg_client_die(&world->clients[i]);
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            sim_prg_server_crash(&world->servers[i]);
    for (size_t i = 0; i < world->event_count; i++)
        free(world->events[i].bytes);
    if (world->heap.live != 0)
        sim_prg_fail(world, "%" PRId64 " blocks of memory are left", world->heap.live);
}

struct sim_programs_result sim_programs_world(uint64_t seed, enum sim_programs_mutation mutation,
                                              bool trace)
{
    struct prg_world *world = create(seed, mutation, trace);
    uint64_t turns = sim_prg_between(world, 50, TURNS_MAX);
    uint64_t pause_ms = sim_prg_between(world, 1, 60);
    for (uint64_t i = 0; i < turns && !world->result.failed; i++) {
        do_something(world);
        run(world, sim_prg_between(world, 0, pause_ms));
    }
    world->is_healed = true;
    settle(world);
    if (!world->result.failed)
        ask_all(world);
    destroy(world);
    struct sim_programs_result result = world->result;
    free(world);
    return result;
}
