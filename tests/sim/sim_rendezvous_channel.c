/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of clients: how they leave, and how each comes to one outcome, whatever becomes of
 * it. */
#include "tests/sim/sim_rendezvous_parts.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "proto/rendezvous_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A channel that breaks: the server may get the request all the same, before or later. */
static void send_message(struct rdv_client *client, const struct ps_engine_action *action)
{
    struct rdv_world *world = client->world;
    const struct ps_call_request *request = action->request;
    struct ps_buffer bytes;
    struct rdv_event event = {.run = sim_rdv_server_take,
                              .client = client->number,
                              .server = action->shard,
                              .generation = world->servers[action->shard].generation,
                              .attempt = ++world->attempts_made,
                              .method = request->method};
    size_t place = 0;
    while (place < RDV_ATTEMPTS_MAX && client->attempts[place].number != 0)
        place++;
    PS_ASSERT(place < RDV_ATTEMPTS_MAX && action->part_count == 1);
    client->attempts[place] = (struct rdv_attempt){event.attempt, action->call, action->shard};
    ps_buffer_init(&bytes, ps_allocator_heap(), 1 << 20);
    ps_method_row(request->method)->encode(request, &bytes);
    for (size_t i = 0; i < request->ask_content.piece_count; i++)
        ps_buffer_append(&bytes, request->ask_content.pieces[i]);
    event.size = bytes.size;
    event.bytes = malloc(bytes.size + 1);
    memcpy(event.bytes, bytes.text, bytes.size);
    ps_buffer_fini(&bytes);
    bool is_lost = !world->is_healed && sim_rdv_chance(world, world->lose_permille);
    bool is_late = !world->is_healed && sim_rdv_chance(world, world->late_permille);
    if (is_lost || is_late) {
        const struct rdv_event broken = {.run = sim_rdv_client_take,
                                         .client = client->number,
                                         .attempt = event.attempt,
                                         .method = event.method,
                                         .status = PS_ERR_UNAVAILABLE,
                                         .text = "the connection broke"};
        sim_rdv_post(world, sim_rdv_between(world, 1, 30), &broken);
    }
    if (is_lost)
        free(event.bytes);
    else
        sim_rdv_post(world, is_late ? sim_rdv_between(world, 1, 500) : sim_rdv_between(world, 1, 5),
                     &event);
    /* A call that broke leaves its place at the server, as soon as that hears of it. */
    const struct rdv_event gone = {
        .run = sim_rdv_server_leave, .server = action->shard, .attempt = event.attempt};
    if (is_late)
        sim_rdv_post(world, sim_rdv_between(world, 500, 700), &gone);
}

/* The engine waits no longer: its outcome comes soon, and the server hears of it later. */
static void give_up(struct rdv_client *client, uint64_t call)
{
    struct rdv_world *world = client->world;
    for (size_t i = 0; i < RDV_ATTEMPTS_MAX; i++) {
        const struct rdv_attempt *attempt = &client->attempts[i];
        if (attempt->number == 0 || attempt->call != call)
            continue;
        const struct rdv_event ended = {.run = sim_rdv_client_take,
                                        .client = client->number,
                                        .attempt = attempt->number,
                                        .status = PS_ERR_TIMEOUT,
                                        .text = "given up"};
        const struct rdv_event gone = {
            .run = sim_rdv_server_leave, .server = attempt->shard, .attempt = attempt->number};
        sim_rdv_post(world, 1, &ended);
        sim_rdv_post(world, sim_rdv_between(world, 1, 200), &gone);
    }
}

void sim_rdv_act(struct rdv_client *client)
{
    struct ps_engine_action action;
    while (ps_engine_next_action(client->engine, &action)) {
        if (action.type == PS_ENGINE_SEND)
            send_message(client, &action);
        else if (action.type == PS_ENGINE_CANCEL)
            give_up(client, action.call);
        else
            ((struct rdv_op *)action.owner)->is_finished = true;
    }
}

/* An outcome comes once for each message, from whichever of its ends is first. */
void sim_rdv_client_take(struct rdv_world *world, const struct rdv_event *event)
{
    struct rdv_client *client = &world->clients[event->client];
    const struct ps_bytes piece = {event->bytes, event->size};
    size_t place = 0;
    while (place < RDV_ATTEMPTS_MAX && client->attempts[place].number != event->attempt)
        place++;
    if (event->attempt == 0 || place == RDV_ATTEMPTS_MAX || client->engine == NULL)
        return;
    struct ps_call_outcome outcome = {.status = event->status};
    (void)snprintf(outcome.text, sizeof outcome.text, "%s", event->text);
    if (event->status == PS_OK)
        outcome.reply = (struct ps_call_reply){.method = event->method};
    if (event->status == PS_OK)
        outcome.reply.ask = ps_view_of(&piece);
    uint64_t call = client->attempts[place].call;
    client->attempts[place].number = 0;
    (void)ps_engine_outcome(client->engine, call, &outcome, world->fake.now_ms);
    sim_rdv_act(client);
}
