/* SPDX-License-Identifier: Apache-2.0 */
/* The world: its clock, its queue of events, its making and its end. */
#include "tests/sim/sim.h"

#include "base/assert.h"
#include "tests/sim/sim_chance.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_BYTES_MAX (1 << 20)

struct sim_options sim_options_quiet(void)
{
    return (struct sim_options){.seed = 1,
                                .shard_count = 1,
                                .server_count = 1,
                                .client_count = 1,
                                .ttl_ms = 10000,
                                .save_interval_ms = 60000,
                                .saves = true,
                                .delay_min_ms = 1,
                                .delay_max_ms = 1,
                                .disk_ms = 10,
                                .traces = true};
}

struct sim_world *sim_world_create(const struct sim_options *options)
{
    PS_ASSERT(options->shard_count > 0 && options->shard_count <= SIM_SHARDS_MAX);
    PS_ASSERT(options->server_count > 0 && options->server_count <= SIM_SERVERS_MAX);
    PS_ASSERT(options->client_count <= SIM_CLIENTS_MAX);
    struct sim_world *world = calloc(1, sizeof *world);
    PS_ASSERT(world != NULL);
    world->options = *options;
    world->clock = fake_clock_clock(&world->fake);
    world->heap.refuse_at = -1;
    world->memory = fault_heap_allocator(&world->heap);
    ps_random_init(&world->random, options->seed);
    sim_chance_begin(options->seed);
    ps_buffer_init(&world->trace, ps_allocator_heap(), TRACE_BYTES_MAX);
    enum ps_status status = ps_kv_hub_create(&world->clock, ps_allocator_heap(), &world->hub);
    PS_ASSERT(status == PS_OK);
    status = ps_kv_memory_open(world->hub, &world->truth);
    PS_ASSERT(status == PS_OK);
    for (uint32_t i = 0; i < options->shard_count; i++) {
        world->disks[i] = memory_files_create(options->seed * SIM_SHARDS_MAX + i);
        /* Journals and checkpoints are written in whole blocks, each once. */
        memory_files_knobs(world->disks[i])->spoils = true;
    }
    world->checker = sim_checker_create(world);
    world->truths = sim_truths_create();
    world->servers = sim_servers_create(world);
    world->clients = sim_clients_create(world);
    return world;
}

void sim_world_destroy(struct sim_world *world)
{
    if (world == NULL)
        return;
    sim_clients_destroy(world);
    sim_servers_destroy(world);
    for (size_t i = 0; i < world->event_count; i++)
        if (world->events[i].drop != NULL)
            world->events[i].drop(world, world->events[i].subject);
    sim_checker_destroy(world->checker);
    sim_truths_destroy(world->truths);
    for (uint32_t i = 0; i < world->options.shard_count; i++)
        memory_files_destroy(world->disks[i]);
    ps_kv_destroy(world->truth);
    ps_kv_hub_destroy(world->hub);
    ps_buffer_fini(&world->trace);
    PS_ASSERT(world->heap.live == 0);
    free(world);
}

/* ---- Events ---- */

static bool sooner(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void push_event(struct sim_world *world, struct sim_event event)
{
    PS_ASSERT(world->event_count < SIM_EVENTS_MAX);
    size_t i = world->event_count++;
    for (; i > 0 && sooner(&event, &world->events[(i - 1) / 2]); i = (i - 1) / 2)
        world->events[i] = world->events[(i - 1) / 2];
    world->events[i] = event;
}

static struct sim_event pop_event(struct sim_world *world)
{
    PS_ASSERT(world->event_count > 0);
    struct sim_event first = world->events[0];
    struct sim_event last = world->events[--world->event_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= world->event_count)
            break;
        if (child + 1 < world->event_count &&
            sooner(&world->events[child + 1], &world->events[child]))
            child++;
        if (!sooner(&world->events[child], &last))
            break;
        world->events[i] = world->events[child];
        i = child;
    }
    world->events[i] = last;
    return first;
}

void sim_post(struct sim_world *world, uint64_t after_ms, sim_event_fn run, void *subject,
              uint64_t a, uint64_t b)
{
    push_event(world, (struct sim_event){.at_ms = sim_now(world) + after_ms,
                                         .sequence = ++world->event_sequence,
                                         .run = run,
                                         .subject = subject,
                                         .a = a,
                                         .b = b});
}

void sim_post_owned(struct sim_world *world, uint64_t after_ms, sim_event_fn run, void *subject,
                    void (*drop)(struct sim_world *world, void *subject))
{
    push_event(world, (struct sim_event){.at_ms = sim_now(world) + after_ms,
                                         .sequence = ++world->event_sequence,
                                         .run = run,
                                         .subject = subject,
                                         .drop = drop});
}

static bool run_one(struct sim_world *world, uint64_t end_ms)
{
    if (world->failed || world->event_count == 0 || world->events[0].at_ms > end_ms)
        return false;
    struct sim_event event = pop_event(world);
    PS_ASSERT(event.at_ms >= world->fake.now_ms);
    world->fake.now_ms = event.at_ms;
    event.run(world, event.subject, event.a, event.b);
    sim_checker_after_event(world);
    return true;
}

void sim_run(struct sim_world *world, uint64_t span_ms)
{
    uint64_t end_ms = sim_now(world) + span_ms;
    while (run_one(world, end_ms))
        continue;
    if (!world->failed)
        world->fake.now_ms = end_ms;
}

void sim_run_until_quiet(struct sim_world *world, uint64_t span_ms)
{
    uint64_t end_ms = sim_now(world) + span_ms;
    while (world->messages > 0 || sim_clients_are_busy(world))
        if (!run_one(world, end_ms))
            return;
}

/* ---- Small things ---- */

uint64_t sim_now(const struct sim_world *world)
{
    return world->fake.now_ms;
}

bool sim_chance(struct sim_world *world, uint32_t permille)
{
    return permille > 0 && ps_random_below(&world->random, 1000) < permille;
}

uint64_t sim_between(struct sim_world *world, uint64_t least, uint64_t most)
{
    PS_ASSERT(least <= most);
    return least == most ? least : least + ps_random_below(&world->random, most - least + 1);
}

void sim_trace(struct sim_world *world, const char *who, const char *format, ...)
{
    char line[256];
    va_list arguments;
    if (!world->options.traces)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ps_buffer_append_format(&world->trace, "[%6" PRIu64 "] %-4s %s\n", sim_now(world), who, line);
}

void sim_fail(struct sim_world *world, const char *format, ...)
{
    va_list arguments;
    if (world->failed)
        return;
    world->failed = true;
    va_start(arguments, format);
    vsnprintf(world->failure, sizeof world->failure, format, arguments);
    va_end(arguments);
    sim_trace(world, "!!", "%s", world->failure);
}

uint32_t sim_trainers(const struct sim_world *world)
{
    return world->options.client_count - (world->options.changes ? 1 : 0);
}

uint32_t sim_node_of_server(const struct sim_world *world, uint32_t number)
{
    PS_ASSERT(number < world->options.server_count);
    return 1 + number;
}

uint32_t sim_node_of_client(const struct sim_world *world, uint32_t number)
{
    PS_ASSERT(number < world->options.client_count);
    return 1 + world->options.server_count + number;
}

void sim_cut(struct sim_world *world, uint32_t a, uint32_t b, bool cut)
{
    world->cut[a][b] = cut;
    world->cut[b][a] = cut;
}

void sim_heal(struct sim_world *world)
{
    memset(world->cut, 0, sizeof world->cut);
    memset(world->drop_next, 0, sizeof world->drop_next);
    world->store_down = false;
}
