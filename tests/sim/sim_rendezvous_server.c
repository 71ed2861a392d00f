/* SPDX-License-Identifier: Apache-2.0 */
/* The real service, and what a server has around it: calls that are parked, replies, and a network
 * that brings requests late, once more, or not at all. */
#include "tests/sim/sim_rendezvous_parts.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "proto/fields.h"
#include "proto/rendezvous_codec.h"
#include "proto/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reply(struct rdv_server *server, const struct rdv_event *request, enum ps_status status,
                  const char *text, const struct ps_buffer *bytes);

static void note_topics(void *self, uint64_t topics)
{
    ((struct rdv_server *)self)->topics |= topics;
}

static void ignore(void *self)
{
    (void)self;
}

void sim_rdv_server_start(struct rdv_server *server)
{
    struct rdv_world *world = server->world;
    struct ps_random own = world->random;
    const struct ps_service_options options = {.memory = &world->memory,
                                               .clock = &world->clock,
                                               .device = "cpu",
                                               .job = "sim",
                                               .random = &own,
                                               .rendezvous_idle_ms = 300000};
    (void)ps_random_next(&world->random);
    server->generation++;
    enum ps_status status = ps_service_create(&options, &server->service, NULL);
    PS_ASSERT(status == PS_OK);
    const struct ps_service_listener listener = {.changed = note_topics,
                                                 .checkpoint_wanted = ignore,
                                                 .journal_wanted = ignore,
                                                 .self = server};
    ps_service_listen(server->service, &listener);
    ps_service_own(server->service, server->shard, world->shard_count, server->generation, "sim");
    ps_service_prove(server->service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(server->service);
    for (uint32_t i = 0; i < world->client_count; i++)
        if (world->clients[i].engine != NULL)
            ps_engine_member(world->clients[i].engine, server->shard, server->generation);
    sim_rdv_trace(world, "server %" PRIu32 " begins life %" PRIu64, server->shard,
                  server->generation);
}

/* What it had is lost with it. */
static void drop_values(struct rdv_server *server, uint32_t first_step, uint32_t last_step)
{
    struct rdv_world *world = server->world;
    for (size_t i = 0; i < world->value_count; i++) {
        struct rdv_value *value = &world->values[i];
        if (value->shard == server->shard && value->step >= first_step &&
            value->step <= last_step && value->is_stored)
            value->is_dropped = true;
    }
}

void sim_rdv_server_crash(struct rdv_server *server)
{
    struct rdv_world *world = server->world;
    PS_ASSERT(server->service != NULL);
    sim_rdv_trace(world, "server %" PRIu32 " dies", server->shard);
    for (size_t i = 0; i < RDV_PARKED_MAX; i++) {
        struct rdv_parked *parked = &server->parked[i];
        if (!parked->is_used)
            continue;
        const struct rdv_event broken = {.client = parked->client, .attempt = parked->attempt};
        ps_service_leave_tensors(server->service, &parked->wait);
        reply(server, &broken, PS_ERR_UNAVAILABLE, "the server has gone", NULL);
        parked->is_used = false;
    }
    drop_values(server, 0, RDV_STEPS);
    ps_service_destroy(server->service);
    server->service = NULL;
}

/* ---- Replies ---- */

/* The client hears nothing of a reply that is lost but that its connection broke. */
static void reply(struct rdv_server *server, const struct rdv_event *request, enum ps_status status,
                  const char *text, const struct ps_buffer *bytes)
{
    struct rdv_world *world = server->world;
    struct rdv_event event = {.run = sim_rdv_client_take,
                              .client = request->client,
                              .attempt = request->attempt,
                              .method = request->method,
                              .status = status};
    (void)snprintf(event.text, sizeof event.text, "%s", text);
    if (!world->is_healed && sim_rdv_chance(world, world->lose_permille)) {
        event.status = PS_ERR_UNAVAILABLE;
    } else if (bytes != NULL && bytes->size > 0) {
        event.bytes = malloc(bytes->size);
        event.size = bytes->size;
        memcpy(event.bytes, bytes->text, bytes->size);
    }
    sim_rdv_post(world, sim_rdv_between(world, 1, 5), &event);
}

/* ---- Sends ---- */

static struct rdv_value *value_of_token(struct rdv_world *world, uint64_t token)
{
    for (size_t i = world->value_count; i > 0; i--)
        if (world->values[i - 1].token == token)
            return &world->values[i - 1];
    return NULL;
}

static enum ps_status serve_send(struct rdv_server *server, struct ps_view bytes,
                                 struct ps_buffer *answer, struct ps_error *error)
{
    struct rdv_world *world = server->world;
    struct ps_send_tensor_request request;
    struct ps_send_tensor_reply made = {0};
    struct ps_decoded decoded;
    const struct ps_hold none = {.keep = NULL};
    PS_TRY(ps_decode_send_tensor(bytes, &world->memory, &request, &decoded, error));
    struct rdv_value *value = value_of_token(world, request.token);
    if (world->mutation == SIM_RENDEZVOUS_TOKEN_LOST && request.total == 0)
        request.token = 0;
    enum ps_status status = ps_service_send_tensor(server->service, &request, &none, &made, error);
    ps_decoded_release(&decoded);
    if (status != PS_OK)
        return status;
    PS_ASSERT(value != NULL);
    if (made.is_whole)
        value->is_stored = true;
    ps_encode_send_tensor_reply(&made, answer);
    return PS_OK;
}

/* ---- Receives ---- */

static void append_piece(void *self, struct ps_held_value *holder, struct ps_bytes piece)
{
    PS_ASSERT(holder != NULL);
    ps_buffer_append(self, piece);
}

static void write_rows(const struct rdv_server *server, const struct ps_tensor_wait *wait,
                       struct ps_buffer *answer)
{
    ps_wire_put_uint(answer, PS_RENDEZVOUS_EPOCH_FIELD, wait->receiving.epoch);
    for (size_t i = 0; i < wait->receiving.count; i++) {
        const struct ps_received *row = &wait->receiving.rows[i];
        struct ps_received_tensor told = {.id = row->id, .status = row->status};
        if (row->status == PS_ERR_NOT_READY)
            continue;
        if (row->value != NULL) {
            told.facts = row->value->facts;
            told.offset = row->offset;
            told.total = row->count < row->value->content.size ? row->value->content.size : 0;
            told.content.size = (size_t)row->count;
        }
        ps_encode_received_tensor(&told, answer);
        uint64_t offset = server->world->mutation == SIM_RENDEZVOUS_RANGE_BENT ? 0 : row->offset;
        if (row->value != NULL)
            ps_held_value_walk(row->value, offset, row->count, append_piece, answer);
    }
}

/* The end of a receive's first or later look. */
static void end_look(struct rdv_server *server, const struct rdv_event *request,
                     struct ps_tensor_wait *wait, enum ps_status status, struct ps_error *error)
{
    struct ps_buffer answer;
    ps_buffer_init(&answer, ps_allocator_heap(), 1 << 20);
    if (status == PS_OK)
        write_rows(server, wait, &answer);
    ps_service_leave_tensors(server->service, wait);
    reply(server, request, status, error->text, &answer);
    ps_buffer_fini(&answer);
}

static void wake_up(struct rdv_world *world, const struct rdv_event *event)
{
    struct rdv_server *server = &world->servers[event->server];
    if (server->generation == event->generation && server->service != NULL)
        server->topics = UINT64_MAX;
}

static void park(struct rdv_server *server, const struct rdv_event *request,
                 const struct ps_tensor_wait *wait)
{
    size_t i = 0;
    while (i < RDV_PARKED_MAX && server->parked[i].is_used)
        i++;
    PS_ASSERT(i < RDV_PARKED_MAX);
    server->parked[i] = (struct rdv_parked){true, request->client, request->attempt, *wait};
    const struct rdv_event again = {
        .run = wake_up, .server = server->shard, .generation = server->generation};
    sim_rdv_post(server->world, ps_service_tensors_again_ms(server->service, wait), &again);
}

static void serve_receive(struct rdv_server *server, const struct rdv_event *event,
                          struct ps_view bytes)
{
    struct ps_recv_tensors_request request;
    struct ps_decoded decoded;
    struct ps_tensor_wait wait = {.wanted = 0};
    struct ps_error error = {.text = ""};
    enum ps_status status =
        ps_decode_recv_tensors(bytes, &server->world->memory, &request, &decoded, &error);
    PS_ASSERT(status == PS_OK);
    status = ps_service_recv_tensors(server->service, &request, request.wait_ms, &wait, &error);
    ps_decoded_release(&decoded);
    if (status == PS_ERR_NOT_READY)
        park(server, event, &wait);
    else
        end_look(server, event, &wait, status, &error);
}

void sim_rdv_server_look(struct rdv_server *server)
{
    while (server->service != NULL && server->topics != 0) {
        uint64_t topics = server->topics;
        server->topics = 0;
        for (size_t i = 0; i < RDV_PARKED_MAX; i++) {
            struct rdv_parked *parked = &server->parked[i];
            struct ps_error error = {.text = ""};
            if (!parked->is_used || (topics & PS_TOPIC_BIT(parked->wait.topic)) == 0)
                continue;
            enum ps_status status =
                ps_service_await_tensors(server->service, &parked->wait, &error);
            if (status == PS_ERR_NOT_READY)
                continue;
            const struct rdv_event request = {.client = parked->client,
                                              .attempt = parked->attempt,
                                              .method = PS_METHOD_RECV_TENSORS};
            parked->is_used = false;
            end_look(server, &request, &parked->wait, status, &error);
        }
    }
}

void sim_rdv_server_leave(struct rdv_world *world, const struct rdv_event *event)
{
    struct rdv_server *server = &world->servers[event->server];
    for (size_t i = 0; i < RDV_PARKED_MAX && server->service != NULL; i++) {
        struct rdv_parked *parked = &server->parked[i];
        if (!parked->is_used || parked->attempt != event->attempt)
            continue;
        ps_service_leave_tensors(server->service, &parked->wait);
        parked->is_used = false;
    }
}

/* ---- Steps ---- */

static enum ps_status serve_control(struct rdv_server *server, struct ps_view bytes,
                                    struct ps_buffer *answer, struct ps_error *error)
{
    struct ps_fields fields;
    uint64_t epoch = 0;
    PS_TRY(ps_fields_read(bytes, &fields, error));
    const struct ps_step_request request = {
        .act = (enum ps_step_act)fields.number[PS_STEP_FIELD_ACT],
        .step = fields.number[PS_STEP_FIELD_STEP],
        .epoch = fields.number[PS_STEP_FIELD_EPOCH],
        .shard = (uint32_t)fields.number[PS_STEP_FIELD_SHARD],
        .session = ps_bytes_of_text(fields.text[PS_STEP_FIELD_SESSION]),
        .reason = fields.text[PS_STEP_FIELD_REASON]};
    PS_TRY(ps_service_control_step(server->service, &request, &epoch, error));
    if (request.act == PS_STEP_ABORT || request.act == PS_STEP_CLEANUP)
        drop_values(server, (uint32_t)request.step, (uint32_t)request.step);
    if (request.act == PS_STEP_CLEANUP_ALL)
        drop_values(server, 0, RDV_STEPS);
    ps_wire_put_uint(answer, PS_RENDEZVOUS_EPOCH_FIELD, epoch);
    return PS_OK;
}

/* ---- What comes ---- */

void sim_rdv_server_take(struct rdv_world *world, const struct rdv_event *event)
{
    struct rdv_server *server = &world->servers[event->server];
    const struct ps_bytes piece = {event->bytes, event->size};
    struct ps_buffer answer;
    struct ps_error error = {.text = ""};
    enum ps_status status = PS_OK;
    if (server->service == NULL || server->generation != event->generation) {
        reply(server, event, PS_ERR_UNAVAILABLE, "nobody is there", NULL);
        return;
    }
    if (event->method == PS_METHOD_RECV_TENSORS) {
        serve_receive(server, event, ps_view_of(&piece));
        return;
    }
    ps_buffer_init(&answer, ps_allocator_heap(), 4096);
    if (event->method == PS_METHOD_SEND_TENSOR)
        status = serve_send(server, ps_view_of(&piece), &answer, &error);
    else
        status = serve_control(server, ps_view_of(&piece), &answer, &error);
    reply(server, event, status, error.text, status == PS_OK ? &answer : NULL);
    ps_buffer_fini(&answer);
}
