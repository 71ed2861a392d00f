/* SPDX-License-Identifier: Apache-2.0 */
/* The network of small worlds, and the engines of their clients: how messages leave, and how each
 * comes to one outcome, whatever becomes of it. */
#include "tests/sim/sim_small.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/retry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Requests ---- */

static uint8_t *copy_of(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    PS_ASSERT(copy != NULL);
    memcpy(copy, bytes, size);
    return copy;
}

/* The request as it goes over the network. */
static void write_message(const struct ps_call_request *request, struct sim_small_event *event)
{
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), 1 << 20);
    ps_method_row(request->method)->encode(request, &bytes);
    for (size_t i = 0; i < request->ask_content.piece_count; i++)
        ps_buffer_append(&bytes, request->ask_content.pieces[i]);
    PS_ASSERT(!bytes.failed);
    event->size = bytes.size;
    event->bytes = copy_of(bytes.text, bytes.size);
    ps_buffer_fini(&bytes);
}

static struct sim_small_attempt *find_attempt(struct sim_small_client *client, uint64_t number)
{
    for (size_t i = 0; i < SIM_SMALL_ATTEMPTS_MAX; i++)
        if (client->attempts[i].number == number)
            return &client->attempts[i];
    return NULL;
}

/* The server hears of a call's end some time after its client has it. */
static void post_leave(struct sim_small *world, uint32_t shard, uint64_t attempt, uint64_t least_ms,
                       uint64_t most_ms)
{
    const struct sim_small_event gone = {
        .run = sim_small_leave, .server = shard, .attempt = attempt};
    sim_small_post(world, sim_small_between(world, least_ms, most_ms), &gone);
}

/* Once more, over the same connection and so to the same process: nobody waits for its reply. */
static void send_twice(struct sim_small *world, const struct sim_small_event *event)
{
    struct sim_small_event copy = *event;
    copy.bytes = copy_of(event->bytes, event->size);
    copy.attempt = ++world->attempts_made;
    sim_small_post(world, sim_small_between(world, 1, 300), &copy);
    post_leave(world, event->server, copy.attempt, 300, 600);
}

/* What happens to a message on its way, as long as anything goes wrong. */
static bool befalls(struct sim_small *world, uint32_t permille, enum sim_small_fault fault)
{
    bool does = !world->is_healed && sim_small_chance(world, permille);
    world->result.faults[fault] += does;
    return does;
}

/* A channel that breaks: the server may get the request all the same, before or later. A call that
 * broke leaves its place at the server, as soon as that hears of it. */
static void send_message(struct sim_small_client *client, const struct ps_engine_action *action)
{
    struct sim_small *world = client->world;
    struct sim_small_attempt *attempt = find_attempt(client, 0);
    struct sim_small_event event = {.run = sim_small_serve,
                                    .client = client->number,
                                    .server = action->shard,
                                    .generation = world->servers[action->shard].generation,
                                    .attempt = ++world->attempts_made,
                                    .method = action->request->method};
    PS_ASSERT(attempt != NULL && action->part_count == 1);
    *attempt = (struct sim_small_attempt){event.attempt, action->call, action->shard};
    write_message(action->request, &event);
    world->result.faults[SIM_SMALL_MESSAGES]++;
    bool is_lost = befalls(world, world->lose_permille, SIM_SMALL_LOST);
    bool is_late = befalls(world, world->late_permille, SIM_SMALL_LATE);
    if (befalls(world, world->twice_permille, SIM_SMALL_TWICE))
        send_twice(world, &event);
    if (is_lost || is_late)
        sim_small_break(world, event.client, event.attempt, 30, "the connection broke");
    if (is_lost)
        free(event.bytes);
    else
        sim_small_post(world, sim_small_between(world, 1, is_late ? 500 : 5), &event);
    if (is_late)
        post_leave(world, event.server, event.attempt, 500, 700);
}

/* ---- Outcomes ---- */

static void take_outcome(struct sim_small *world, const struct sim_small_event *event);

/* The engine waits no longer: its outcome comes soon, and the server hears of it later. */
static void give_up(struct sim_small_client *client, uint64_t call)
{
    struct sim_small *world = client->world;
    for (size_t i = 0; i < SIM_SMALL_ATTEMPTS_MAX; i++) {
        const struct sim_small_attempt *attempt = &client->attempts[i];
        if (attempt->number == 0 || attempt->call != call)
            continue;
        const struct sim_small_event ended = {.run = take_outcome,
                                              .client = client->number,
                                              .attempt = attempt->number,
                                              .status = PS_ERR_TIMEOUT,
                                              .text = "given up"};
        sim_small_post(world, 1, &ended);
        post_leave(world, attempt->shard, attempt->number, 1, 200);
    }
}

/* What the engine wants to be done. */
static void act(struct sim_small_client *client)
{
    struct ps_engine_action action;
    while (ps_engine_next_action(client->engine, &action)) {
        if (action.type == PS_ENGINE_SEND)
            send_message(client, &action);
        else if (action.type == PS_ENGINE_CANCEL)
            give_up(client, action.call);
        else
            *(bool *)action.owner = true;
    }
}

/* An outcome comes once for each message, from whichever of its ends is first. */
static void take_outcome(struct sim_small *world, const struct sim_small_event *event)
{
    struct sim_small_client *client = &world->clients[event->client];
    struct sim_small_attempt *attempt = find_attempt(client, event->attempt);
    const struct ps_bytes piece = {event->bytes, event->size};
    if (event->attempt == 0 || attempt == NULL || client->engine == NULL)
        return;
    struct ps_call_outcome outcome = {
        .status = event->status, .refused = event->refused, .session = event->told};
    (void)snprintf(outcome.text, sizeof outcome.text, "%s", event->text);
    if (event->status == PS_OK) {
        outcome.reply = (struct ps_call_reply){.method = event->method};
        outcome.reply.ask = ps_view_of(&piece);
    }
    attempt->number = 0;
    (void)ps_engine_outcome(client->engine, attempt->call, &outcome, world->fake.now_ms);
    act(client);
}

void sim_small_break(struct sim_small *world, uint32_t client, uint64_t attempt, uint64_t most_ms,
                     const char *why)
{
    struct sim_small_event broken = {
        .run = take_outcome, .client = client, .attempt = attempt, .status = PS_ERR_UNAVAILABLE};
    (void)snprintf(broken.text, sizeof broken.text, "%s", why);
    sim_small_post(world, sim_small_between(world, 1, most_ms), &broken);
}

/* What a server says itself is known for a refusal where it is one. */
void sim_small_reply(struct sim_small *world, const struct sim_small_call *call,
                     enum ps_status status, const struct ps_error *error,
                     const struct ps_buffer *bytes)
{
    struct sim_small_event event = {.run = take_outcome,
                                    .client = call->client,
                                    .attempt = call->attempt,
                                    .method = call->method,
                                    .status = status};
    (void)snprintf(event.text, sizeof event.text, "%.150s", error->text);
    if (befalls(world, world->lose_permille, SIM_SMALL_LOST)) {
        event.status = PS_ERR_UNAVAILABLE;
    } else if (status != PS_OK) {
        event.refused = ps_retry_is_refusal(call->method, status);
        event.told = call->method == PS_METHOD_ASK ? error->session : 0;
    } else if (bytes->size > 0) {
        event.size = bytes->size;
        event.bytes = copy_of(bytes->text, bytes->size);
    }
    sim_small_post(world, sim_small_between(world, 1, 5), &event);
}

/* ---- Clients ---- */

void sim_small_start_client(struct sim_small_client *client)
{
    struct sim_small *world = client->world;
    struct ps_engine_options options = {.memory = &world->memory,
                                        .shard_count = world->shard_count,
                                        .pause_min_ms = 5,
                                        .pause_max_ms = 100,
                                        .seed = ps_random_next(&world->random)};
    options.client_id.bytes[0] = (uint8_t)(client->number + 1);
    enum ps_status status = ps_engine_create(&options, &client->engine, NULL);
    PS_ASSERT(status == PS_OK);
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            ps_engine_member(client->engine, i, world->servers[i].generation);
    world->kind->start_client(client);
}

/* Its connections break, and nobody hears of what it had: at the end of time every batch is given
 * up, and what is out is answered by nobody. */
void sim_small_stop_client(struct sim_small_client *client)
{
    struct sim_small *world = client->world;
    sim_small_trace(world, "client %" PRIu32 " dies", client->number);
    ps_engine_tick(client->engine, PS_DEADLINE_NEVER - 1);
    for (int turn = 0; turn < 3; turn++) {
        act(client);
        for (size_t i = 0; i < SIM_SMALL_ATTEMPTS_MAX; i++) {
            const struct sim_small_event event = {.client = client->number,
                                                  .attempt = client->attempts[i].number,
                                                  .status = PS_ERR_TIMEOUT};
            if (event.attempt == 0)
                continue;
            post_leave(world, client->attempts[i].shard, event.attempt, 1, 200);
            take_outcome(world, &event);
        }
    }
    world->kind->end_client(client);
    ps_engine_destroy(client->engine);
    client->engine = NULL;
}

struct ps_batch *sim_small_begin(struct sim_small_client *client, enum ps_method method,
                                 struct ps_item *items, size_t count, uint64_t deadline_ms,
                                 bool *is_finished)
{
    struct ps_batch *batch = NULL;
    const struct ps_batch_request request = {.method = method,
                                             .items = items,
                                             .item_count = count,
                                             .deadline_ms = deadline_ms,
                                             .owner = is_finished};
    *is_finished = false;
    enum ps_status status =
        ps_engine_start(client->engine, &request, client->world->fake.now_ms, &batch, NULL);
    PS_ASSERT(status == PS_OK);
    act(client);
    return batch;
}

void sim_small_look_client(struct sim_small_client *client)
{
    struct sim_small *world = client->world;
    if (client->engine == NULL)
        return;
    if (ps_engine_wake_ms(client->engine) <= world->fake.now_ms) {
        ps_engine_tick(client->engine, world->fake.now_ms);
        act(client);
    }
    world->kind->go_on(client);
    ps_engine_check(client->engine);
}
