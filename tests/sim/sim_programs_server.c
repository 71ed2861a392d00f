/* SPDX-License-Identifier: Apache-2.0 */
/* The real service, and what a server has around it: calls that are parked, a handler that answers
 * at once or later, replies, and deaths. */
#include "tests/sim/sim_programs_parts.h"

#include "base/assert.h"
#include "client/calls/retry.h"
#include "proto/fields.h"
#include "proto/program_codec.h"
#include "server/core/programs/program_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 400, TICK_MS = 100 };

static void reply(struct prg_server *server, const struct prg_event *request, enum ps_status status,
                  const struct ps_error *error, const struct ps_buffer *bytes);
static void handle(void *self, struct ps_service *service, struct ps_program_request *request);
static void tick(struct prg_world *world, const struct prg_event *event);

static void note_topics(void *self, uint64_t topics)
{
    ((struct prg_server *)self)->topics |= topics;
}

static void ignore(void *self)
{
    (void)self;
}

void sim_prg_server_start(struct prg_server *server)
{
    struct prg_world *world = server->world;
    struct ps_random own = world->random;
    const struct ps_service_options options = {.memory = &world->memory,
                                               .clock = &world->clock,
                                               .device = "cpu",
                                               .job = "sim",
                                               .random = &own};
    const struct ps_program_handler handler = {handle, server};
    const struct ps_service_listener listener = {.changed = note_topics,
                                                 .checkpoint_wanted = ignore,
                                                 .journal_wanted = ignore,
                                                 .self = server};
    (void)ps_random_next(&world->random);
    server->generation++;
    memset(server->last_run, 0, sizeof server->last_run);
    enum ps_status status = ps_service_create(&options, &server->service, NULL);
    PS_ASSERT(status == PS_OK);
    status = ps_service_register_program(server->service, PRG_HANDLED, &handler, NULL);
    PS_ASSERT(status == PS_OK);
    ps_service_listen(server->service, &listener);
    ps_service_own(server->service, server->shard, world->shard_count, server->generation, "sim");
    ps_service_prove(server->service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(server->service);
    for (uint32_t i = 0; i < PRG_CLIENTS_MAX; i++)
        if (world->clients[i].engine != NULL)
            ps_engine_member(world->clients[i].engine, server->shard, server->generation);
    const struct prg_event turn = {
        .run = tick, .server = server->shard, .generation = server->generation};
    sim_prg_post(world, TICK_MS, &turn);
    sim_prg_trace(world, "server %" PRIu32 " begins life %" PRIu64, server->shard,
                  server->generation);
}

/* The turns of the coordinator. */
static void tick(struct prg_world *world, const struct prg_event *event)
{
    struct prg_server *server = &world->servers[event->server];
    if (server->service == NULL || server->generation != event->generation)
        return;
    ps_service_sweep_programs(server->service);
    sim_prg_post(world, TICK_MS, event);
}

static void leave(struct prg_server *server, struct prg_parked *parked)
{
    (void)ps_service_leave_ask(server->service, &parked->ask);
    ps_service_leave_take(server->service, &parked->take);
    ps_service_leave(server->service, &parked->barrier);
    parked->is_used = false;
}

void sim_prg_server_crash(struct prg_server *server)
{
    struct prg_world *world = server->world;
    PS_ASSERT(server->service != NULL);
    sim_prg_trace(world, "server %" PRIu32 " dies", server->shard);
    for (size_t i = 0; i < PRG_PARKED_MAX; i++) {
        struct prg_parked *parked = &server->parked[i];
        const struct prg_event broken = {.run = sim_prg_client_take,
                                         .client = parked->client,
                                         .attempt = parked->attempt,
                                         .status = PS_ERR_UNAVAILABLE,
                                         .text = "the connection broke"};
        if (!parked->is_used)
            continue;
        leave(server, parked);
        sim_prg_post(world, sim_prg_between(world, 1, 5), &broken);
    }
    ps_service_destroy(server->service);
    server->service = NULL;
}

void sim_prg_server_lose(struct prg_server *server)
{
    sim_prg_trace(server->world, "server %" PRIu32 " loses its shard, and owns it again",
                  server->shard);
    ps_service_lose_programs(server->service);
    memset(server->last_run, 0, sizeof server->last_run);
    server->topics = UINT64_MAX;
}

/* ---- The handler ---- */

static struct ps_parcel *make_answer(struct prg_world *world, uint64_t number)
{
    uint8_t content[PRG_BYTES_MAX];
    const struct prg_request *request = &world->requests[number - 1];
    uint64_t of = world->mutation == SIM_PROGRAMS_ANSWER_MOVED && number > 1 ? number - 1 : number;
    const struct ps_program_tensor tensor = {.size = request->size};
    const struct ps_bytes piece = {content, request->size};
    const struct ps_program_payload payload = {
        .tensors = &tensor, .tensor_count = 1, .content = ps_view_of(&piece)};
    sim_prg_fill(content, request->size, of, true);
    struct ps_parcel *parcel = ps_parcel_create(&world->memory, &payload, NULL);
    PS_ASSERT(parcel != NULL);
    return parcel;
}

static void answer(struct prg_server *server, uint64_t handle_of, uint64_t number)
{
    struct prg_world *world = server->world;
    const struct prg_request *request = &world->requests[number - 1];
    const struct ps_mailbox_answer made = {
        .handle = handle_of,
        .status = request->is_refused ? PS_ERR_BUSY : PS_OK,
        .text = ps_bytes_of_text("not today"),
        .parcel = request->is_refused ? NULL : make_answer(world, number)};
    enum ps_status status = ps_service_answer(server->service, &made);
    /* A request that was given up meanwhile is nobody's; a second answer there is none. */
    if (status != PS_OK && status != PS_ERR_NOT_FOUND && status != PS_ERR_EXISTS)
        sim_prg_fail(world, "an answer to request %" PRIu64 " is refused: %s", number,
                     ps_status_word(status));
}

static void answer_later(struct prg_world *world, const struct prg_event *event)
{
    struct prg_server *server = &world->servers[event->server];
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
        sim_prg_fail(world, "request %" PRIu64 " has come with other bytes", number);
}

static void handle(void *self, struct ps_service *service, struct ps_program_request *request)
{
    struct prg_server *server = self;
    struct prg_world *world = server->world;
    uint64_t number = request->asked.timestamp;
    struct prg_request *known = sim_prg_run(world, number, false);
    PS_ASSERT(service == server->service);
    if (known == NULL)
        return;
    check_question(world, &request->question->payload.content, number);
    if (world->is_calm && known->order < server->last_run[known->worker])
        sim_prg_fail(world, "request %" PRIu64 " is handled behind a later one", number);
    server->last_run[known->worker] = known->order;
    known->is_refused = sim_prg_chance(world, 50);
    const struct prg_event later = {.run = answer_later,
                                    .server = server->shard,
                                    .generation = server->generation,
                                    .handle = request->handle,
                                    .number = number};
    if (sim_prg_chance(world, 400))
        sim_prg_post(world, sim_prg_between(world, 1, 300), &later);
    else
        answer(server, request->handle, number);
}

/* ---- Replies ---- */

/* The client hears nothing of a reply that is lost but that its connection broke. */
static void reply(struct prg_server *server, const struct prg_event *request, enum ps_status status,
                  const struct ps_error *error, const struct ps_buffer *bytes)
{
    struct prg_world *world = server->world;
    struct prg_event event = {.run = sim_prg_client_take,
                              .client = request->client,
                              .attempt = request->attempt,
                              .method = request->method,
                              .status = status};
    (void)snprintf(event.text, sizeof event.text, "%.150s", error->text);
    if (!world->is_healed && sim_prg_chance(world, world->lose_permille)) {
        event.status = PS_ERR_UNAVAILABLE;
    } else if (status != PS_OK) {
        /* In the server's own words. */
        event.refused = ps_retry_is_refusal(request->method, status);
        event.told = request->method == PS_METHOD_ASK ? error->session : 0;
    } else if (bytes != NULL && bytes->size > 0) {
        event.bytes = malloc(bytes->size);
        PS_ASSERT(event.bytes != NULL);
        event.size = bytes->size;
        memcpy(event.bytes, bytes->text, bytes->size);
    }
    sim_prg_post(world, sim_prg_between(world, 1, 5), &event);
}

static void append_content(const struct ps_view *content, struct ps_buffer *to)
{
    for (size_t i = 0; i < content->piece_count; i++)
        ps_buffer_append(to, content->pieces[i]);
}

/* As server/rpc/program_message.c puts them together. */
static void write_reply(struct prg_parked *call, struct ps_buffer *to)
{
    if (call->ask.asking.request != NULL) {
        struct ps_ask_reply told;
        struct ps_parcel *parcel;
        ps_asking_answer(&call->ask.asking, &told, &parcel);
        ps_encode_ask_reply(&told, to);
        append_content(&told.payload.content, to);
        return;
    }
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

/* The end of a call's first or later look, if it is one. */
static bool end_look(struct prg_server *server, struct prg_parked *call, enum ps_status status,
                     const struct ps_error *error)
{
    const struct prg_event request = {
        .client = call->client, .attempt = call->attempt, .method = call->method};
    struct ps_buffer bytes;
    if (status == PS_ERR_NOT_READY)
        return false;
    ps_buffer_init(&bytes, ps_allocator_heap(), 1 << 20);
    if (status == PS_OK && call->method != PS_METHOD_BARRIER)
        write_reply(call, &bytes);
    leave(server, call);
    reply(server, &request, status, error, &bytes);
    ps_buffer_fini(&bytes);
    return true;
}

/* ---- What comes ---- */

static enum ps_status serve_ask(struct prg_server *server, struct ps_view bytes,
                                struct prg_parked *call, struct ps_error *error)
{
    struct prg_world *world = server->world;
    const struct ps_program_room none = {.size = 0};
    struct ps_ask_request request;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_ask(bytes, &world->memory, &request, &decoded, error));
    if (world->mutation == SIM_PROGRAMS_EPOCH_LOST)
        request.epoch = 0;
    if (world->mutation == SIM_PROGRAMS_TOKEN_CHANGED) {
        request.token = ps_random_next(&world->random) | 1;
        request.sender = 0;
    }
    enum ps_status status =
        ps_service_ask(server->service, &request, NULL, &none, request.wait_ms, &call->ask, error);
    ps_decoded_release(&decoded);
    return status;
}

static enum ps_status serve_take(struct prg_server *server, struct ps_view bytes,
                                 struct prg_parked *call, struct ps_error *error)
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
static enum ps_status serve_answer(struct prg_server *server, struct ps_view bytes,
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

static enum ps_status serve_meeting(struct prg_server *server, struct ps_view bytes,
                                    struct prg_parked *call, struct ps_error *error)
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

static void wake_up(struct prg_world *world, const struct prg_event *event)
{
    struct prg_server *server = &world->servers[event->server];
    if (server->generation == event->generation && server->service != NULL)
        server->topics = UINT64_MAX;
}

/* Until its topic is told or its time has come. */
static void park(struct prg_server *server, const struct prg_parked *call)
{
    const struct prg_event again = {
        .run = wake_up, .server = server->shard, .generation = server->generation};
    uint64_t until_ms = call->method == PS_METHOD_ASK    ? call->ask.until_ms
                        : call->method == PS_METHOD_TAKE ? call->take.until_ms
                                                         : call->barrier.until_ms;
    size_t i = 0;
    while (i < PRG_PARKED_MAX && server->parked[i].is_used)
        i++;
    PS_ASSERT(i < PRG_PARKED_MAX);
    server->parked[i] = *call;
    sim_prg_post(server->world, ps_service_programs_again_ms(server->service, until_ms), &again);
}

void sim_prg_server_take(struct prg_world *world, const struct prg_event *event)
{
    struct prg_server *server = &world->servers[event->server];
    const struct ps_bytes piece = {event->bytes, event->size};
    struct prg_parked call = {.is_used = true,
                              .client = event->client,
                              .attempt = event->attempt,
                              .method = event->method};
    struct ps_error error = {.text = ""};
    enum ps_status status = PS_OK;
    if (server->service == NULL || server->generation != event->generation) {
        (void)ps_fail(&error, PS_ERR_UNAVAILABLE, "nobody is there");
        const struct prg_event broken = {.run = sim_prg_client_take,
                                         .client = event->client,
                                         .attempt = event->attempt,
                                         .status = PS_ERR_UNAVAILABLE,
                                         .text = "nobody is there"};
        sim_prg_post(world, sim_prg_between(world, 1, 5), &broken);
        return;
    }
    if (event->method == PS_METHOD_ANSWER) {
        struct ps_buffer bytes;
        ps_buffer_init(&bytes, ps_allocator_heap(), 4096);
        status = serve_answer(server, ps_view_of(&piece), &bytes, &error);
        reply(server, event, status, &error, &bytes);
        ps_buffer_fini(&bytes);
        return;
    }
    if (event->method == PS_METHOD_ASK)
        status = serve_ask(server, ps_view_of(&piece), &call, &error);
    else if (event->method == PS_METHOD_TAKE)
        status = serve_take(server, ps_view_of(&piece), &call, &error);
    else
        status = serve_meeting(server, ps_view_of(&piece), &call, &error);
    if (!end_look(server, &call, status, &error))
        park(server, &call);
}

void sim_prg_server_leave(struct prg_world *world, const struct prg_event *event)
{
    struct prg_server *server = &world->servers[event->server];
    for (size_t i = 0; i < PRG_PARKED_MAX && server->service != NULL; i++)
        if (server->parked[i].is_used && server->parked[i].attempt == event->attempt)
            leave(server, &server->parked[i]);
}

static uint32_t topic_of(const struct prg_parked *call)
{
    if (call->method == PS_METHOD_ASK)
        return call->ask.topic;
    return call->method == PS_METHOD_TAKE ? call->take.topic : call->barrier.topic;
}

void sim_prg_server_look(struct prg_server *server)
{
    while (server->service != NULL && server->topics != 0) {
        uint64_t topics = server->topics;
        server->topics = 0;
        for (size_t i = 0; i < PRG_PARKED_MAX; i++) {
            struct prg_parked *call = &server->parked[i];
            struct ps_error error = {.text = ""};
            enum ps_status status;
            if (!call->is_used || (topics & PS_TOPIC_BIT(topic_of(call))) == 0)
                continue;
            if (call->method == PS_METHOD_ASK)
                status = ps_service_await_answer(server->service, &call->ask, &error);
            else if (call->method == PS_METHOD_TAKE)
                status = ps_service_await_requests(server->service, 0, &call->take, &error);
            else
                status = ps_service_await_members(server->service, &call->barrier, &error);
            (void)end_look(server, call, status, &error);
        }
    }
    if (server->service != NULL)
        ps_mailbox_check(ps_service_mailbox(server->service));
}
