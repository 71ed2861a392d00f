/* SPDX-License-Identifier: Apache-2.0 */
/* What servers of programs do: a handler that answers at once or later, and the service's calls
 * over the real codec. */
#include "tests/sim/sim_programs.h"

#include "base/assert.h"
#include "proto/fields.h"
#include "proto/program_codec.h"
#include "server/core/programs/program_request.h"

#include <inttypes.h>
#include <string.h>

enum { LEASE_MS = 400, TICK_MS = 100 };

static void handle(void *self, struct ps_service *service, struct ps_program_request *request);

/* The turns of the coordinator. */
static void tick(struct sim_small *small, const struct sim_small_event *event)
{
    struct sim_small_server *server = &small->servers[event->server];
    if (server->service == NULL || server->generation != event->generation)
        return;
    ps_service_sweep_programs(server->service);
    sim_small_post(small, TICK_MS, event);
}

static void forget_runs(const struct sim_small_server *server)
{
    struct prg_world *world = sim_prg_world(server->world);
    memset(world->last_run[server->shard], 0, sizeof world->last_run[server->shard]);
}

void sim_prg_server_start(struct sim_small_server *server)
{
    const struct ps_program_handler handler = {handle, server};
    const struct sim_small_event turn = {
        .run = tick, .server = server->shard, .generation = server->generation};
    forget_runs(server);
    enum ps_status status =
        ps_service_register_program(server->service, PRG_HANDLED, &handler, NULL);
    PS_ASSERT(status == PS_OK);
    sim_small_post(server->world, TICK_MS, &turn);
}

void sim_prg_server_lose(struct sim_small_server *server)
{
    sim_small_trace(server->world, "server %" PRIu32 " loses its shard, and owns it again",
                    server->shard);
    ps_service_lose_programs(server->service);
    forget_runs(server);
    server->topics = UINT64_MAX;
}

/* ---- The handler ---- */

static struct ps_parcel *make_answer(struct prg_world *world, uint64_t number)
{
    uint8_t content[PRG_BYTES_MAX];
    const struct prg_request *request = &world->requests[number - 1];
    uint64_t of =
        world->small.mutation == SIM_PROGRAMS_ANSWER_MOVED && number > 1 ? number - 1 : number;
    const struct ps_program_tensor tensor = {.size = request->size};
    const struct ps_bytes piece = {content, request->size};
    const struct ps_program_payload payload = {
        .tensors = &tensor, .tensor_count = 1, .content = ps_view_of(&piece)};
    sim_prg_fill(content, request->size, of, true);
    struct ps_parcel *parcel = ps_parcel_create(&world->small.memory, &payload, NULL);
    PS_ASSERT(parcel != NULL);
    return parcel;
}

static void answer(struct sim_small_server *server, uint64_t handle_of, uint64_t number)
{
    struct prg_world *world = sim_prg_world(server->world);
    const struct prg_request *request = &world->requests[number - 1];
    const struct ps_mailbox_answer made = {
        .handle = handle_of,
        .status = request->is_refused ? PS_ERR_BUSY : PS_OK,
        .text = ps_bytes_of_text("not today"),
        .parcel = request->is_refused ? NULL : make_answer(world, number)};
    enum ps_status status = ps_service_answer(server->service, &made);
    /* A request that was given up meanwhile is nobody's; a second answer there is none. */
    if (status != PS_OK && status != PS_ERR_NOT_FOUND && status != PS_ERR_EXISTS)
        sim_small_fail(&world->small, "an answer to request %" PRIu64 " is refused: %s", number,
                       ps_status_word(status));
}

static void answer_later(struct sim_small *small, const struct sim_small_event *event)
{
    struct sim_small_server *server = &small->servers[event->server];
    if (server->service != NULL && server->generation == event->generation)
        answer(server, event->handle, event->number);
}

/* The question must be its own, whichever of its repeats has brought it. */
static void check_question(struct prg_world *world, const struct ps_view *content, uint64_t number)
{
    uint8_t own[PRG_BYTES_MAX], came[PRG_BYTES_MAX];
    const struct prg_request *request = &world->requests[number - 1];
    sim_prg_fill(own, request->size, number, false);
    if (content->size == request->size)
        ps_view_copy(*content, 0, came, request->size);
    if (content->size != request->size || memcmp(own, came, request->size) != 0)
        sim_small_fail(&world->small, "request %" PRIu64 " has come with other bytes", number);
}

static void handle(void *self, struct ps_service *service, struct ps_program_request *request)
{
    struct sim_small_server *server = self;
    struct prg_world *world = sim_prg_world(server->world);
    uint64_t number = request->asked.timestamp;
    struct prg_request *known = sim_prg_run(world, number, false);
    PS_ASSERT(service == server->service);
    if (known == NULL)
        return;
    check_question(world, &request->question->payload.content, number);
    if (world->small.is_calm && known->order < world->last_run[server->shard][known->worker])
        sim_small_fail(&world->small, "request %" PRIu64 " is handled behind a later one", number);
    world->last_run[server->shard][known->worker] = known->order;
    known->is_refused = sim_small_chance(&world->small, 50);
    const struct sim_small_event later = {.run = answer_later,
                                          .server = server->shard,
                                          .generation = server->generation,
                                          .handle = request->handle,
                                          .number = number};
    if (sim_small_chance(&world->small, 400))
        sim_small_post(&world->small, sim_small_between(&world->small, 1, 300), &later);
    else
        answer(server, request->handle, number);
}

/* ---- Replies ---- */

static void append_content(const struct ps_view *content, struct ps_buffer *to)
{
    for (size_t i = 0; i < content->piece_count; i++)
        ps_buffer_append(to, content->pieces[i]);
}

/* As server/rpc/program_message.c puts them together. */
static void write_answer(const struct sim_small_call *call, struct ps_buffer *to)
{
    struct ps_ask_reply told;
    struct ps_parcel *parcel;
    ps_asking_answer(&call->ask.asking, &told, &parcel);
    ps_encode_ask_reply(&told, to);
    append_content(&told.payload.content, to);
}

static void write_taken(const struct sim_small_call *call, struct ps_buffer *to)
{
    uint64_t size = 0;
    const struct ps_taking *taking = &call->take.taking;
    for (size_t i = 0; i < taking->row_count; i++) {
        const struct ps_taken_row *row = &taking->rows[i];
        const struct ps_program_taken taken = {.handle = row->handle,
                                               .again = row->again,
                                               .asked = row->asked,
                                               .payload = row->question->payload};
        ps_encode_taken(&taken, to);
        size += row->question->payload.content.size;
    }
    ps_encode_take_content(0, (size_t)size, to);
    for (size_t i = 0; i < taking->row_count; i++)
        append_content(&taking->rows[i].question->payload.content, to);
}

void sim_prg_write_reply(struct sim_small_server *server, struct sim_small_call *call,
                         struct ps_buffer *to)
{
    PS_ASSERT(server->service != NULL);
    if (call->method == PS_METHOD_ASK)
        write_answer(call, to);
    if (call->method == PS_METHOD_TAKE)
        write_taken(call, to);
}

/* ---- What comes ---- */

static enum ps_status serve_ask(struct sim_small_server *server, struct ps_view bytes,
                                struct sim_small_call *call, struct ps_error *error)
{
    struct prg_world *world = sim_prg_world(server->world);
    const struct ps_program_room none = {.size = 0};
    struct ps_ask_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_ask(bytes, &world->small.memory, &request, &decoded, error));
    if (world->small.mutation == SIM_PROGRAMS_EPOCH_LOST)
        request.epoch = 0;
    if (world->small.mutation == SIM_PROGRAMS_TOKEN_CHANGED) {
        request.token = ps_random_next(&world->small.random) | 1;
        request.sender = 0;
    }
    enum ps_status status =
        ps_service_ask(server->service, &request, NULL, &none, request.wait_ms, &call->ask, error);
    ps_decoded_release(&decoded);
    return status;
}

static enum ps_status serve_take(struct sim_small_server *server, struct ps_view bytes,
                                 struct sim_small_call *call, struct ps_error *error)
{
    struct ps_take_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_take(bytes, &server->world->memory, &request, &decoded, error));
    request.lease_ms = LEASE_MS;
    enum ps_status status =
        ps_service_take(server->service, &request, request.wait_ms, 0, &call->take, error);
    ps_decoded_release(&decoded);
    return status;
}

/* Every answer by itself: none is refused but for a request that is over. */
static enum ps_status serve_answer(struct sim_small_server *server, struct ps_view bytes,
                                   struct ps_buffer *to, struct ps_error *error)
{
    enum ps_status statuses[PS_PROGRAM_TAKEN_MAX];
    struct ps_answer_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_answer(bytes, &server->world->memory, &request, &decoded, error));
    enum ps_status status =
        ps_service_answer_taken(server->service, &request, NULL, statuses, error);
    if (status == PS_OK)
        ps_encode_answer_reply(statuses, request.answer_count, to);
    ps_decoded_release(&decoded);
    return status;
}

static enum ps_status serve_meeting(struct sim_small_server *server, struct ps_view bytes,
                                    struct sim_small_call *call, struct ps_error *error)
{
    struct ps_fields fields;
    PS_TRY(ps_fields_read(bytes, &fields, error));
    uint32_t less = server->world->mutation == SIM_PROGRAMS_MEMBER_ALONE ? 1 : 0;
    struct ps_arrival arrival = {.name = ps_bytes_of_text(fields.text[1]),
                                 .round = fields.number[2],
                                 .member = (uint32_t)fields.number[3],
                                 .of = (uint32_t)fields.number[4],
                                 .token = fields.number[6]};
    if (arrival.of > 1 && arrival.member < arrival.of - less)
        arrival.of -= less;
    return ps_service_arrive(server->service, &arrival, fields.number[5], &call->barrier, error);
}

enum ps_status sim_prg_serve(struct sim_small_server *server, struct sim_small_call *call,
                             struct ps_view bytes, struct ps_buffer *to, struct ps_error *error)
{
    switch (call->method) {
    case PS_METHOD_ASK:
        return serve_ask(server, bytes, call, error);
    case PS_METHOD_TAKE:
        return serve_take(server, bytes, call, error);
    case PS_METHOD_ANSWER:
        return serve_answer(server, bytes, to, error);
    default:
        PS_ASSERT(call->method == PS_METHOD_BARRIER);
        return serve_meeting(server, bytes, call, error);
    }
}
