/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's life: find the servers, initialise, train. */
#include "tests/sim/sim_client.h"

#include "base/assert.h"
#include "client/engine/init_epoch.h"
#include "client/engine/numbering.h"
#include "server/core/sessions/sessions.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_client_change.h"
#include "tests/sim/sim_client_rounds.h"
#include "tests/sim/sim_clocks.h"
#include "tests/sim/sim_replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PS_NUMBERING_REMEMBERED == PS_SESSION_SLOTS,
               "the client counts on what the server remembers");

#define POLL_MS 100     /* how soon it hears of changed members */
#define MEMBERS_MS 2000 /* and looks by itself */
#define STORE_MS 3000   /* most that it waits for the store */
#define TURN_MS 200     /* between two looks at the lock */
#define BATCH_MS 8000

static void step(struct sim_world *world, void *subject, uint64_t generation, uint64_t number);
static void look_at_members(struct sim_client *client);
static void keep_lock(struct sim_client *client);
static void go_on(struct sim_client *client);
static void take_turn(struct sim_client *client);
static void finish_shards(struct sim_client *client);
static void mark_done(struct sim_client *client);
static void on_batch(struct sim_client *client);
static void train(struct sim_client *client);
static void catch_up(struct sim_client *client);

struct sim_client *sim_clients_create(struct sim_world *world)
{
    struct sim_client *clients = calloc(world->options.client_count + 1, sizeof *clients);
    PS_ASSERT(clients != NULL);
    for (uint32_t i = 0; i < world->options.client_count; i++) {
        clients[i].world = world;
        clients[i].number = i;
        snprintf(clients[i].name, sizeof clients[i].name, "c%u", i + 1);
    }
    return clients;
}

void sim_clients_destroy(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.client_count; i++)
        if (world->clients[i].running)
            sim_client_crash(&world->clients[i]);
    free(world->clients);
}

bool sim_clients_are_busy(const struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.client_count; i++)
        if (world->clients[i].running && world->clients[i].phase != SIM_PHASE_IDLE)
            return true;
    return false;
}

void sim_client_start(struct sim_client *client, const struct sim_parameter *parameters,
                      size_t parameter_count, bool trains)
{
    struct sim_world *world = client->world;
    PS_ASSERT(!client->running && parameter_count <= SIM_PARAMETERS_MAX);
    client->running = true;
    client->generation++;
    client->phase = SIM_PHASE_OPENING;
    client->parameters = parameters;
    client->parameter_count = parameter_count;
    client->trains = trains;
    /* The last one, where there is one. */
    client->changes =
        trains && world->options.changes && client->number + 1 == world->options.client_count;
    client->own = (struct sim_own){0};
    memset(&client->tables, 0, sizeof client->tables);
    memset(client->round_places, 0, sizeof client->round_places);
    sim_clocks_join(client);
    client->next_ms = client->busy_until_ms = client->members_due_ms = 0;
    client->paused_until_ms = 0;
    client->watching = false;
    memset(client->epochs, 0, sizeof client->epochs);
    client->lock = (struct ps_init_lock){0};
    memset(client->attempts, 0, sizeof client->attempts);
    client->kv = sim_kv_create(world, sim_node_of_client(world, client->number));
    enum ps_status status = ps_registry_init(&client->registry, &client->kv->base, "", NULL);
    PS_ASSERT(status == PS_OK);
    sim_client_wake(client, 0);
}

static void end_batch(struct sim_client *client)
{
    if (client->batch != NULL)
        ps_engine_end(client->engine, client->batch);
    client->batch = NULL;
    client->finished = false;
}

/* The engine insists on an end of every batch; a process that dies has no such scruples, so what
 * is out is answered first. */
static void break_batch(struct sim_client *client)
{
    if (client->batch == NULL)
        return;
    ps_engine_tick(client->engine, PS_DEADLINE_NEVER - 1);
    for (size_t i = 0; i < SIM_ATTEMPTS_MAX; i++)
        sim_client_break_attempt(client, &client->attempts[i]);
    client->running = false;
    sim_client_do_actions(client);
    for (size_t i = 0; i < SIM_ATTEMPTS_MAX; i++)
        sim_client_break_attempt(client, &client->attempts[i]);
    end_batch(client);
}

void sim_client_crash(struct sim_client *client)
{
    PS_ASSERT(client->running);
    sim_trace(client->world, client->name, "dies");
    break_batch(client);
    client->running = false;
    ps_engine_destroy(client->engine);
    client->engine = NULL;
    sim_replica_destroy(client->replica);
    client->replica = NULL;
    sim_tables_forget(client);
    ps_members_release(&client->members);
    ps_kv_destroy(&client->kv->base);
}

void sim_client_pause(struct sim_client *client, uint64_t span_ms)
{
    PS_ASSERT(client->running);
    client->paused_until_ms = sim_now(client->world) + span_ms;
    sim_trace(client->world, client->name, "is paused for %llu ms", (unsigned long long)span_ms);
}

uint64_t sim_client_pause_left_ms(const struct sim_world *world, const struct sim_message *reply)
{
    const struct sim_client *client = &world->clients[reply->client];
    bool is_his = client->running && client->generation == reply->client_generation;
    return is_his && client->paused_until_ms > sim_now(world)
               ? client->paused_until_ms - sim_now(world)
               : 0;
}

/* ---- Steps ---- */

void sim_client_wake(struct sim_client *client, uint64_t after_ms)
{
    sim_post(client->world, after_ms, step, client, client->generation, ++client->step_number);
}

static void step(struct sim_world *world, void *subject, uint64_t generation, uint64_t number)
{
    struct sim_client *client = subject;
    if (!client->running || client->generation != generation || client->step_number != number)
        return;
    uint64_t now_ms = sim_now(world);
    if (now_ms < client->paused_until_ms) {
        sim_client_wake(client, client->paused_until_ms - now_ms);
        return;
    }
    if (now_ms >= client->busy_until_ms)
        look_at_members(client);
    if (client->engine != NULL) {
        ps_engine_tick(client->engine, now_ms);
        sim_client_do_actions(client);
        ps_engine_check(client->engine);
    }
    if (client->finished)
        on_batch(client);
    if (now_ms >= client->busy_until_ms)
        go_on(client);
    uint64_t spent_ms = sim_kv_take_spent(client->kv);
    if (spent_ms > 0)
        client->busy_until_ms = now_ms + spent_ms;

    uint64_t wake_ms = now_ms + POLL_MS;
    if (client->busy_until_ms > now_ms && client->busy_until_ms < wake_ms)
        wake_ms = client->busy_until_ms;
    if (client->engine != NULL && ps_engine_wake_ms(client->engine) < wake_ms)
        wake_ms = ps_engine_wake_ms(client->engine);
    if (client->finished)
        wake_ms = now_ms;
    sim_client_wake(client, wake_ms > now_ms ? wake_ms - now_ms : 0);
}

/* By the trainer's own clock, which may be before or behind those of the servers. */
static uint64_t begin_session(const struct sim_client *client)
{
    int64_t now_us = (int64_t)(ps_unix_ns(&client->world->clock) / 1000) + client->skew_us;
    return now_us > 0 ? (uint64_t)now_us : 1;
}

/* A trainer whose calls all go as one has no content that is large enough. */
static struct ps_ranges_options ranges_of(const struct sim_client *client)
{
    size_t bytes = client->part_bytes;
    return (struct ps_ranges_options){.above_bytes = bytes > 0 ? bytes : SIZE_MAX,
                                      .range_bytes = bytes,
                                      .no_early_values = !client->asks_early};
}

static void open_engine(struct sim_client *client)
{
    const struct sim_options *world = &client->world->options;
    struct ps_engine_options options = {.memory = &client->world->memory,
                                        .shard_count = client->members.shard_count,
                                        .split_bytes = SIM_SPLIT_BYTES,
                                        .message_calls_max = world->message_calls_max,
                                        .session = begin_session(client),
                                        .client_name = world->named ? client->name : NULL,
                                        .ranges = ranges_of(client),
                                        .seed = ps_random_next(&client->world->random)};
    struct ps_random random;
    ps_random_init(&random, options.seed);
    for (size_t i = 0; i < sizeof options.client_id.bytes; i++)
        options.client_id.bytes[i] = (uint8_t)ps_random_next(&random);
    enum ps_status status = ps_engine_create(&options, &client->engine, NULL);
    PS_ASSERT(status == PS_OK);
    client->phase = client->trains ? SIM_PHASE_QUEUEING : SIM_PHASE_IDLE;
}

/* As the client library does: a watch says when to look, and looking is reading everything. */
static void look_at_members(struct sim_client *client)
{
    struct sim_world *world = client->world;
    uint64_t deadline_ms = sim_now(world) + STORE_MS;
    bool changed = false;
    if (client->watching && ps_kv_watch_wait(&client->kv->base, 0, &changed, NULL) != PS_OK)
        client->watching = false;
    if (client->watching && !changed && sim_now(world) < client->members_due_ms)
        return;
    client->members_due_ms = sim_now(world) + MEMBERS_MS;
    if (ps_registry_read_members(&client->registry, &world->memory, deadline_ms, &client->members,
                                 NULL) != PS_OK)
        return;
    client->watching = ps_registry_watch_members(&client->registry, client->members.revision + 1,
                                                 deadline_ms, NULL) == PS_OK;
    if (client->engine == NULL)
        open_engine(client);
    sim_client_place(client, client->members.placement);
    for (uint32_t i = 0; i < client->members.shard_count; i++) {
        const struct ps_member *row = &client->members.rows[i];
        uint64_t epoch = row->address[0] != '\0' ? row->epoch : 0;
        bool moved = epoch != 0 && epoch != client->epochs[i];
        client->epochs[i] = epoch;
        ps_engine_member(client->engine, i, epoch);
        if (moved)
            sim_client_leave(client, i);
    }
}

/* What the phase wants, once nothing is out. */
static void go_on(struct sim_client *client)
{
    keep_lock(client);
    if (client->batch != NULL || sim_now(client->world) < client->next_ms)
        return;
    switch (client->phase) {
    case SIM_PHASE_QUEUEING:
        take_turn(client);
        return;
    case SIM_PHASE_PREPARING:
        finish_shards(client);
        return;
    case SIM_PHASE_MARKING:
        mark_done(client);
        return;
    case SIM_PHASE_IDLE:
        if (client->changes)
            sim_client_change(client);
        else if (client->trains)
            train(client);
        return;
    default:
        return;
    }
}

static void pause_for(struct sim_client *client, uint64_t span_ms)
{
    client->next_ms = sim_now(client->world) + span_ms;
}

static void keep_lock(struct sim_client *client)
{
    struct sim_world *world = client->world;
    uint64_t now_ms = sim_now(world);
    if (client->lock.lease.id == 0 || now_ms < client->lock_kept_ms + world->options.ttl_ms / 3)
        return;
    enum ps_status status =
        ps_kv_lease_keep(&client->kv->base, client->lock.lease, now_ms + STORE_MS, NULL);
    if (status == PS_OK)
        client->lock_kept_ms = now_ms;
}

static void take_turn(struct sim_client *client)
{
    struct sim_world *world = client->world;
    enum ps_init_turn turn = PS_INIT_WAIT;
    if (client->lock.lease.id == 0)
        client->lock_kept_ms = sim_now(world);
    enum ps_status status = sim_client_turn(client, sim_now(world) + STORE_MS, &turn);
    if (status != PS_OK || turn == PS_INIT_WAIT) {
        pause_for(client, TURN_MS);
        return;
    }
    if (turn == PS_INIT_DONE) {
        sim_trace(world, client->name, "finds the job initialised");
        client->phase = SIM_PHASE_IDLE;
        return;
    }
    sim_trace(world, client->name, "is selected to initialise");
    ps_init_epochs_begin(client->init_epochs, SIM_SHARDS_MAX);
    client->item_count = client->parameter_count;
    for (size_t i = 0; i < client->item_count; i++) {
        sim_client_fill(client, i, i, 0.0);
        client->items[i].config = client->parameters[i].config;
    }
    sim_client_start_batch(client, PS_METHOD_INIT, SIM_PHASE_INITIALISING, BATCH_MS);
}

static void finish_shards(struct sim_client *client)
{
    if (ps_registry_init_prepare(&client->registry, &client->lock,
                                 sim_now(client->world) + STORE_MS, NULL) != PS_OK) {
        pause_for(client, TURN_MS);
        return;
    }
    client->item_count = client->members.shard_count;
    for (uint32_t i = 0; i < client->item_count; i++)
        client->items[i] = (struct ps_item){.shard = i};
    sim_client_start_batch(client, PS_METHOD_FINISH, SIM_PHASE_FINISHING, BATCH_MS);
}

static void mark_done(struct sim_client *client)
{
    struct sim_world *world = client->world;
    enum ps_status status =
        ps_registry_init_finish(&client->registry, &client->lock, sim_now(world) + STORE_MS, NULL);
    sim_trace(world, client->name, "marks the job as initialised: %s", ps_status_word(status));
    client->phase = status == PS_OK ? SIM_PHASE_IDLE : SIM_PHASE_QUEUEING;
    if (status == PS_ERR_CONFLICT)
        client->phase = SIM_PHASE_PREPARING;
    else
        pause_for(client, TURN_MS);
}

/* ---- Batches ---- */

void sim_client_start_batch(struct sim_client *client, enum ps_method method, enum sim_phase phase,
                            uint64_t timeout_ms)
{
    bool checked = client->world->options.mutation != SIM_MUTATION_FINISH_UNCHECKED;
    uint64_t *epochs = checked ? client->init_epochs : NULL;
    const struct ps_batch_request request = {.method = method,
                                             .items = client->items,
                                             .item_count = client->item_count,
                                             .deadline_ms = sim_now(client->world) + timeout_ms,
                                             .init_epochs = epochs};
    PS_ASSERT(client->batch == NULL);
    client->finished = false;
    client->method = method;
    client->reads.count = 0;
    client->phase = phase;
    enum ps_status status =
        ps_engine_start(client->engine, &request, sim_now(client->world), &client->batch, NULL);
    PS_ASSERT(status == PS_OK);
    sim_client_do_actions(client);
    if (client->finished)
        sim_client_wake(client, 0);
}

/* Did the shard perhaps begin empty? A pull waits there until its deadline, and hears of whatever
 * was in its way before. */
static bool may_be_lost(enum ps_status status)
{
    return status == PS_ERR_NOT_READY || status == PS_ERR_TIMEOUT || status == PS_ERR_UNAVAILABLE;
}

static enum ps_status worst_of(const struct sim_client *client)
{
    for (size_t i = 0; i < client->item_count; i++)
        if (client->items[i].status != PS_OK)
            return client->items[i].status;
    return PS_OK;
}

static void on_batch(struct sim_client *client)
{
    struct sim_world *world = client->world;
    enum sim_phase phase = client->phase;
    enum ps_status status = worst_of(client);
    sim_client_trace_items(client);
    sim_client_judge_batch(client);
    end_batch(client);

    if (phase == SIM_PHASE_CATCHING_UP || phase == SIM_PHASE_CHANGING) {
        if (phase == SIM_PHASE_CHANGING)
            sim_client_changed(client);
        else
            sim_replica_finished(client->replica, client->items);
        client->phase = SIM_PHASE_IDLE;
        pause_for(client, client->think_ms);
        return;
    }
    if (phase == SIM_PHASE_PUSHING || phase == SIM_PHASE_PULLING || phase == SIM_PHASE_ROWS ||
        phase == SIM_PHASE_CONFIGURING) {
        client->phase = client->trains && may_be_lost(status) ? SIM_PHASE_QUEUEING : SIM_PHASE_IDLE;
        client->rounds += phase == SIM_PHASE_PULLING && status == PS_OK;
        pause_for(client, client->think_ms);
        return;
    }
    if (status != PS_OK) {
        ps_registry_init_abandon(&client->registry, &client->lock, sim_now(world) + STORE_MS);
        client->phase = SIM_PHASE_QUEUEING;
        pause_for(client, TURN_MS);
        return;
    }
    client->phase = phase == SIM_PHASE_FINISHING ? SIM_PHASE_MARKING : SIM_PHASE_PREPARING;
}

/* Small whole numbers, so that float32 sums stay exact. */
static void train(struct sim_client *client)
{
    double value = (double)sim_between(client->world, 0, 8) - 4.0;
    if (client->world->pulls_only) {
        sim_client_pull(client, SIM_PARAMETERS_MAX, BATCH_MS);
    } else if (client->world->options.tables > 0 && sim_chance(client->world, 500)) {
        sim_tables_train(client);
    } else if (sim_client_configures(client)) {
        return;
    } else if (sim_chance(client->world, 200)) {
        catch_up(client);
    } else if (sim_chance(client->world, 300)) {
        sim_client_push_pull(client, SIM_PARAMETERS_MAX, value, BATCH_MS);
    } else if (sim_chance(client->world, 600)) {
        sim_client_push(client, SIM_PARAMETERS_MAX, value, BATCH_MS);
    } else {
        sim_client_pull(client, SIM_PARAMETERS_MAX, BATCH_MS);
    }
}

/* One message to each shard; what it does not get now it asks for the next time. */
static void catch_up(struct sim_client *client)
{
    if (client->replica == NULL)
        client->replica = sim_replica_create(client);
    client->item_count = sim_replica_begin(client->replica, client->items);
    sim_client_start_batch(client, PS_METHOD_SINCE, SIM_PHASE_CATCHING_UP, BATCH_MS);
}
