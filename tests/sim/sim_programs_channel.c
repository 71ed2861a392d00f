/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the programs' clients: how they leave, and how each comes to one outcome, whatever
 * becomes of it. */
#include "tests/sim/sim_programs_parts.h"

#include "base/assert.h"
#include "client/calls/method_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The request as it goes over the network. */
static void write_message(const struct ps_call_request *request, struct prg_event *event)
{
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), 1 << 20);
    ps_method_row(request->method)->encode(request, &bytes);
    for (size_t i = 0; i < request->ask_content.piece_count; i++)
        ps_buffer_append(&bytes, request->ask_content.pieces[i]);
    event->size = bytes.size;
    event->bytes = malloc(bytes.size + 1);
    PS_ASSERT(event->bytes != NULL && !bytes.failed);
    memcpy(event->bytes, bytes.text, bytes.size);
    ps_buffer_fini(&bytes);
}

/* Once more, over the same connection and so to the same process: nobody waits for its reply. */
static void send_twice(struct prg_world *world, const struct prg_event *event)
{
    struct prg_event copy = *event;
    copy.bytes = malloc(event->size + 1);
    PS_ASSERT(copy.bytes != NULL);
    memcpy(copy.bytes, event->bytes, event->size);
    copy.attempt = ++world->attempts_made;
    sim_prg_post(world, sim_prg_between(world, 1, 300), &copy);
    const struct prg_event gone = {
        .run = sim_prg_server_leave, .server = event->server, .attempt = copy.attempt};
    sim_prg_post(world, sim_prg_between(world, 300, 600), &gone);
}

/* A channel that breaks: the server may get the request all the same, before or later. */
static void send_message(struct prg_client *client, const struct ps_engine_action *action)
{
    struct prg_world *world = client->world;
    struct prg_event event = {.run = sim_prg_server_take,
                              .client = client->number,
                              .server = action->shard,
                              .generation = world->servers[action->shard].generation,
                              .attempt = ++world->attempts_made,
                              .method = action->request->method};
    size_t place = 0;
    while (place < PRG_ATTEMPTS_MAX && client->attempts[place].number != 0)
        place++;
    PS_ASSERT(place < PRG_ATTEMPTS_MAX && action->part_count == 1);
    client->attempts[place] = (struct prg_attempt){event.attempt, action->call, action->shard};
    write_message(action->request, &event);
    bool is_lost = !world->is_healed && sim_prg_chance(world, world->lose_permille);
    bool is_late = !world->is_healed && sim_prg_chance(world, world->late_permille);
    if (!world->is_healed && sim_prg_chance(world, world->twice_permille))
        send_twice(world, &event);
    if (is_lost || is_late) {
        const struct prg_event broken = {.run = sim_prg_client_take,
                                         .client = client->number,
                                         .attempt = event.attempt,
                                         .status = PS_ERR_UNAVAILABLE,
                                         .text = "the connection broke"};
        sim_prg_post(world, sim_prg_between(world, 1, 30), &broken);
    }
    if (is_lost)
        free(event.bytes);
    else
        sim_prg_post(world, is_late ? sim_prg_between(world, 1, 500) : sim_prg_between(world, 1, 5),
                     &event);
    /* A call that broke leaves its place at the server, as soon as that hears of it. */
    const struct prg_event gone = {
        .run = sim_prg_server_leave, .server = action->shard, .attempt = event.attempt};
    if (is_late)
        sim_prg_post(world, sim_prg_between(world, 500, 700), &gone);
}

/* The engine waits no longer: its outcome comes soon, and the server hears of it later. */
static void give_up(struct prg_client *client, uint64_t call)
{
    struct prg_world *world = client->world;
    for (size_t i = 0; i < PRG_ATTEMPTS_MAX; i++) {
        const struct prg_attempt *attempt = &client->attempts[i];
        if (attempt->number == 0 || attempt->call != call)
            continue;
        const struct prg_event ended = {.run = sim_prg_client_take,
                                        .client = client->number,
                                        .attempt = attempt->number,
                                        .status = PS_ERR_TIMEOUT,
                                        .text = "given up"};
        const struct prg_event gone = {
            .run = sim_prg_server_leave, .server = attempt->shard, .attempt = attempt->number};
        sim_prg_post(world, 1, &ended);
        sim_prg_post(world, sim_prg_between(world, 1, 200), &gone);
    }
}

void sim_prg_act(struct prg_client *client)
{
    struct ps_engine_action action;
    while (ps_engine_next_action(client->engine, &action)) {
        if (action.type == PS_ENGINE_SEND)
            send_message(client, &action);
        else if (action.type == PS_ENGINE_CANCEL)
            give_up(client, action.call);
        else
            ((struct prg_op *)action.owner)->is_finished = true;
    }
}

/* An outcome comes once for each message, from whichever of its ends is first. */
void sim_prg_client_take(struct prg_world *world, const struct prg_event *event)
{
    struct prg_client *client = &world->clients[event->client];
    const struct ps_bytes piece = {event->bytes, event->size};
    size_t place = 0;
    while (place < PRG_ATTEMPTS_MAX && client->attempts[place].number != event->attempt)
        place++;
    if (event->attempt == 0 || place == PRG_ATTEMPTS_MAX || client->engine == NULL)
        return;
    struct ps_call_outcome outcome = {
        .status = event->status, .refused = event->refused, .session = event->told};
    (void)snprintf(outcome.text, sizeof outcome.text, "%s", event->text);
    if (event->status == PS_OK) {
        outcome.reply = (struct ps_call_reply){.method = event->method};
        outcome.reply.ask = ps_view_of(&piece);
    }
    uint64_t call = client->attempts[place].call;
    client->attempts[place].number = 0;
    (void)ps_engine_outcome(client->engine, call, &outcome, world->fake.now_ms);
    sim_prg_act(client);
}
