/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: start, turn, pause, crash. */
#include "tests/sim/sim_server.h"

#include "base/assert.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_MS 100       /* how soon a spare hears of a change */
#define CLOCK_LATE_MS 4000 /* of SIM_MUTATION_CLOCK_LATE */
#define DRAIN_MS 500

static void turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t number);

static uint64_t service_now(void *self)
{
    const struct sim_server *server = self;
    uint64_t now_ms = sim_now(server->world);
    if (server->world->options.mutation != SIM_MUTATION_CLOCK_LATE)
        return now_ms;
    return now_ms > CLOCK_LATE_MS ? now_ms - CLOCK_LATE_MS : 0;
}

static uint64_t service_unix_ns(void *self)
{
    const struct sim_server *server = self;
    return ps_unix_ns(&server->world->clock);
}

struct sim_server *sim_servers_create(struct sim_world *world)
{
    struct sim_server *servers = calloc(world->options.server_count, sizeof *servers);
    PS_ASSERT(servers != NULL);
    for (uint32_t i = 0; i < world->options.server_count; i++) {
        struct sim_server *server = &servers[i];
        server->world = world;
        server->number = i;
        server->service_clock = (struct ps_clock){service_now, service_unix_ns, server};
        server->die_at_operation = -1;
        ps_random_init(&server->note_random, i);
        snprintf(server->name, sizeof server->name, "s%u", i + 1);
    }
    return servers;
}

/* ---- A process ---- */

static void on_changed(void *self, uint64_t topics)
{
    struct sim_server *server = self;
    server->topics |= topics;
    sim_notes_wake(server);
}

static void on_checkpoint_wanted(void *self)
{
    struct sim_server *server = self;
    ps_coordinator_driver_tell_checkpoint_wanted(server->driver);
    sim_server_wake(server);
}

static void create_service(struct sim_server *server)
{
    struct sim_world *world = server->world;
    const struct ps_service_options options = {
        .memory = &world->memory,
        .clock = &server->service_clock,
        .saves = world->options.saves,
        .journals = world->options.journals,
        .ack = world->options.journals ? PS_ACK_LOGGED : PS_ACK_MEMORY,
        .staging_bytes = world->options.staging_bytes,
        .checkpoint_journal_bytes = world->options.journal_bytes,
        .clients_max = world->options.clients_max,
        .device = "cpu",
        .job = ""};
    const struct ps_service_listener listener = {.changed = on_changed,
                                                 .checkpoint_wanted = on_checkpoint_wanted,
                                                 .journal_wanted = sim_journal_wake,
                                                 .self = server};
    enum ps_status status = ps_service_create(&options, &server->service, NULL);
    PS_ASSERT(status == PS_OK);
    ps_service_listen(server->service, &listener);
}

static void create_driver(struct sim_server *server, uint32_t index_wish)
{
    struct sim_world *world = server->world;
    struct ps_coordinator_driver_options options = {
        .coordinator = {.ttl_ms = world->options.ttl_ms,
                        .index_wish = index_wish,
                        .saves = world->options.saves,
                        .save_interval_ms = world->options.save_interval_ms,
                        .drain_ms = DRAIN_MS,
                        .seed = ps_random_next(&world->random)},
        .shard_count_wish = world->options.shard_count,
        .address = server->address,
        .registry = &server->registry,
        .service = server->service,
        .memory = &world->memory,
        .clock = &world->clock};
    sim_server_hooks(server, &options.hooks);
    enum ps_status status = ps_coordinator_driver_create(&options, &server->driver, NULL);
    PS_ASSERT(status == PS_OK);
}

void sim_server_start(struct sim_server *server, uint32_t index_wish)
{
    struct sim_world *world = server->world;
    uint32_t node = sim_node_of_server(world, server->number);
    PS_ASSERT(!server->running);
    server->running = true;
    server->paused = false;
    server->generation++;
    snprintf(server->address, sizeof server->address, "%s-%" PRIu64, server->name,
             world->options.keeps_addresses ? 1 : server->generation);
    server->listening = false;
    server->fenced = server->spare = false;
    server->claimed_epoch = 0;
    server->state = PS_COORDINATOR_LEARNING;
    server->busy_until_ms = 0;
    server->die_at_operation = -1;
    server->kv = sim_kv_create(world, node);
    server->job_kv = sim_kv_create(world, node);
    server->note_kv = sim_kv_create(world, node);
    server->notes = (struct ps_note_writer){0};
    server->noting = false;
    enum ps_status status = ps_registry_init(&server->registry, &server->kv->base, "", NULL);
    PS_ASSERT(status == PS_OK);
    status = ps_registry_init(&server->job_registry, &server->job_kv->base, "", NULL);
    PS_ASSERT(status == PS_OK);
    status = ps_registry_init(&server->note_registry, &server->note_kv->base, "", NULL);
    PS_ASSERT(status == PS_OK);
    ps_increments_init(&server->increments, &world->memory, world->options.increments);
    server->increments.percent_max = 1000;
    create_service(server);
    create_driver(server, index_wish);
    sim_trace(world, server->name, "starts");
    sim_server_wake(server);
}

static void end_process(struct sim_server *server)
{
    server->running = false;
    server->paused = false;
    server->notes.epoch = 0;
    sim_server_forget_calls(server);
    sim_journal_close(server);
    ps_saver_give_up(&server->saving);
    ps_increments_fini(&server->increments);
    ps_coordinator_driver_destroy(server->driver);
    ps_service_destroy(server->service);
    ps_kv_destroy(&server->kv->base);
    ps_kv_destroy(&server->job_kv->base);
    ps_kv_destroy(&server->note_kv->base);
    server->driver = NULL;
    server->service = NULL;
}

void sim_server_crash(struct sim_server *server, bool power)
{
    struct sim_world *world = server->world;
    PS_ASSERT(server->running);
    sim_trace(world, server->name, power ? "loses power" : "crashes");
    end_process(server);
    uint32_t index = server->claim.index;
    if (power && server->claim.epoch != 0)
        memory_files_crash(world->disks[index], MEMORY_CRASH_SEEDED);
    sim_checker_disk_changed(world, index);
    server->claim = (struct ps_claim){0};
}

void sim_server_stop(struct sim_server *server)
{
    PS_ASSERT(server->running);
    sim_trace(server->world, server->name, "is told to stop");
    ps_coordinator_driver_tell_stop(server->driver);
    sim_server_wake(server);
}

void sim_server_pause(struct sim_server *server)
{
    PS_ASSERT(server->running && !server->paused);
    sim_trace(server->world, server->name, "is paused");
    server->paused = true;
}

/* What arrived meanwhile is served before the coordinator learns how late it is: the worst case. */
void sim_server_resume(struct sim_server *server)
{
    PS_ASSERT(server->running && server->paused);
    sim_trace(server->world, server->name, "goes on");
    server->paused = false;
    size_t count = server->inbox_count;
    server->inbox_count = 0;
    for (size_t i = 0; i < count; i++) {
        sim_server_answer(server, server->inbox[i]);
        sim_message_free(server->inbox[i]);
    }
    sim_server_ask_parked(server);
    sim_server_wake(server);
}

void sim_servers_destroy(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.server_count; i++)
        if (world->servers[i].running)
            end_process(&world->servers[i]);
    free(world->servers);
}

/* ---- Turns of its coordinator ---- */

static void post_turn(struct sim_server *server, uint64_t at_ms)
{
    uint64_t now_ms = sim_now(server->world);
    if (at_ms < server->busy_until_ms)
        at_ms = server->busy_until_ms;
    sim_post(server->world, at_ms > now_ms ? at_ms - now_ms : 0, turn, server, server->generation,
             ++server->turn_number);
}

void sim_server_wake(struct sim_server *server)
{
    post_turn(server, sim_now(server->world));
}

static void trace_claim(struct sim_server *server, const struct ps_coordinator *coordinator)
{
    struct sim_world *world = server->world;
    uint64_t epoch = coordinator->claim.epoch;
    if (epoch == server->claimed_epoch)
        return;
    server->claimed_epoch = epoch;
    server->spare = false;
    if (epoch != 0) {
        sim_checker_claimed(world, server);
        sim_trace(world, server->name, "claims index %u, epoch %" PRIu64, coordinator->claim.index,
                  epoch);
    } else if (!coordinator->stopping) {
        sim_trace(world, server->name, "has lost its claim");
    }
}

static void trace_state(struct sim_server *server)
{
    struct sim_world *world = server->world;
    const struct ps_coordinator *coordinator = ps_coordinator_driver_coordinator(server->driver);
    bool serving = coordinator->state == PS_COORDINATOR_SERVING;
    bool fenced = serving && !ps_coordinator_is_proved(coordinator, sim_now(world));

    trace_claim(server, coordinator);
    if (fenced != server->fenced && serving)
        sim_trace(world, server->name, fenced ? "cannot prove its lease: fenced" : "proved again");
    server->fenced = fenced;
    if (coordinator->state == server->state)
        return;
    server->state = coordinator->state;
    if (server->state == PS_COORDINATOR_SPARE && !server->spare)
        sim_trace(world, server->name, "waits as a spare");
    server->spare = server->spare || server->state == PS_COORDINATOR_SPARE;
    if (server->state == PS_COORDINATOR_FORGETTING)
        sim_trace(world, server->name, "begins empty");
    if (serving)
        sim_trace(world, server->name, "serves shard %u", coordinator->claim.index);
}

static void turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t number)
{
    struct sim_server *server = subject;
    struct ps_error why;
    if (!server->running || server->generation != generation || server->turn_number != number ||
        server->paused)
        return;

    uint64_t now_ms = sim_now(world);
    ps_coordinator_driver_wait(server->driver, now_ms);
    sim_rows_turn(server);
    uint64_t next_ms = ps_coordinator_driver_turn(server->driver);
    server->busy_until_ms = now_ms + sim_kv_take_spent(server->kv);
    sim_rows_turned(server);
    trace_state(server);
    sim_server_ask_parked(server);
    if (ps_coordinator_driver_ended(server->driver, &why)) {
        sim_trace(world, server->name, "ends: %s%s%s", ps_status_word(why.status),
                  why.text[0] != '\0' ? ": " : "", why.text);
        end_process(server);
        return;
    }
    if (ps_coordinator_driver_coordinator(server->driver)->watching && next_ms > now_ms + WATCH_MS)
        next_ms = now_ms + WATCH_MS;
    /* Pushes, crashes and lost shards come between two pieces of a sweep. */
    if (next_ms <= now_ms && sim_rows_sweep(server))
        next_ms = now_ms + sim_between(world, 0, 50);
    if (next_ms != PS_DEADLINE_NEVER)
        post_turn(server, next_ms);
}

bool sim_server_take(struct sim_world *world, const struct sim_message *message)
{
    struct sim_server *server = &world->servers[message->server];
    if (!server->running || server->generation != message->server_generation || !server->listening)
        return false;
    if (!server->paused) {
        sim_server_answer(server, message);
        return true;
    }
    if (server->inbox_count == SIM_PARKED_MAX)
        return false;
    struct sim_message *kept = sim_message_copy(message);
    struct sim_message **end = &kept->next;
    for (message = message->next; message != NULL; message = message->next, end = &(*end)->next)
        *end = sim_message_copy(message);
    server->inbox[server->inbox_count++] = kept;
    return true;
}
