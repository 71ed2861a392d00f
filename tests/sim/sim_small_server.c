/* SPDX-License-Identifier: Apache-2.0 */
/* The real service of a small world, and what a server has around it: calls that are parked. */
#include "tests/sim/sim_small.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

static void note_topics(void *self, uint64_t topics)
{
    ((struct sim_small_server *)self)->topics |= topics;
}

static void ignore(void *self)
{
    (void)self;
}

void sim_small_start_server(struct sim_small_server *server)
{
    struct sim_small *world = server->world;
    const struct ps_service_options options = {.memory = &world->memory,
                                               .clock = &world->clock,
                                               .device = "cpu",
                                               .job = "sim",
                                               .random = &server->lives,
                                               .rendezvous_idle_ms = 300000};
    const struct ps_service_listener listener = {.changed = note_topics,
                                                 .checkpoint_wanted = ignore,
                                                 .journal_wanted = ignore,
                                                 .self = server};
    server->lives = world->random;
    (void)ps_random_next(&world->random);
    server->generation++;
    enum ps_status status = ps_service_create(&options, &server->service, NULL);
    PS_ASSERT(status == PS_OK);
    if (world->kind->start_server != NULL)
        world->kind->start_server(server);
    ps_service_listen(server->service, &listener);
    ps_service_own(server->service, server->shard, world->shard_count, server->generation, "sim");
    ps_service_prove(server->service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(server->service);
    for (uint32_t i = 0; i < world->client_count; i++)
        if (world->clients[i].engine != NULL)
            ps_engine_member(world->clients[i].engine, server->shard, server->generation);
    sim_small_trace(world, "server %" PRIu32 " begins life %" PRIu64, server->shard,
                    server->generation);
}

/* Whatever it waited for. */
static void leave(struct sim_small_server *server, struct sim_small_call *call)
{
    (void)ps_service_leave_ask(server->service, &call->ask);
    ps_service_leave_take(server->service, &call->take);
    ps_service_leave(server->service, &call->barrier);
    ps_service_leave_tensors(server->service, &call->tensors);
    call->is_used = false;
}

void sim_small_stop_server(struct sim_small_server *server)
{
    struct sim_small *world = server->world;
    PS_ASSERT(server->service != NULL);
    sim_small_trace(world, "server %" PRIu32 " dies", server->shard);
    for (size_t i = 0; i < SIM_SMALL_PARKED_MAX; i++) {
        struct sim_small_call *call = &server->parked[i];
        if (!call->is_used)
            continue;
        leave(server, call);
        sim_small_break(world, call->client, call->attempt, 5, "the connection broke");
    }
    if (world->kind->end_server != NULL)
        world->kind->end_server(server);
    ps_service_destroy(server->service);
    server->service = NULL;
}

/* ---- Calls that wait ---- */

static void wake_up(struct sim_small *world, const struct sim_small_event *event)
{
    struct sim_small_server *server = &world->servers[event->server];
    if (server->generation == event->generation && server->service != NULL)
        server->topics = UINT64_MAX;
}

/* By what a call of its method waits. */
static uint32_t topic_of(const struct sim_small_call *call, uint64_t *until_ms)
{
    switch (call->method) {
    case PS_METHOD_ASK:
        *until_ms = call->ask.until_ms;
        return call->ask.topic;
    case PS_METHOD_TAKE:
        *until_ms = call->take.until_ms;
        return call->take.topic;
    case PS_METHOD_BARRIER:
        *until_ms = call->barrier.until_ms;
        return call->barrier.topic;
    default:
        PS_ASSERT(call->method == PS_METHOD_RECV_TENSORS);
        *until_ms = call->tensors.until_ms;
        return call->tensors.topic;
    }
}

/* Until its topic is told or its time has come. */
static void park(struct sim_small_server *server, const struct sim_small_call *call)
{
    uint64_t until_ms;
    (void)topic_of(call, &until_ms);
    const struct sim_small_event again = {
        .run = wake_up, .server = server->shard, .generation = server->generation};
    size_t i = 0;
    while (i < SIM_SMALL_PARKED_MAX && server->parked[i].is_used)
        i++;
    PS_ASSERT(i < SIM_SMALL_PARKED_MAX);
    server->parked[i] = *call;
    sim_small_post(server->world, ps_service_programs_again_ms(server->service, until_ms), &again);
}

static enum ps_status look_again(struct ps_service *service, struct sim_small_call *call,
                                 struct ps_error *error)
{
    switch (call->method) {
    case PS_METHOD_ASK:
        return ps_service_await_answer(service, &call->ask, error);
    case PS_METHOD_TAKE:
        return ps_service_await_requests(service, 0, &call->take, error);
    case PS_METHOD_BARRIER:
        return ps_service_await_members(service, &call->barrier, error);
    default:
        return ps_service_await_tensors(service, &call->tensors, error);
    }
}

/* The end of a call, with what was written of its reply already. */
static void end_call(struct sim_small_server *server, struct sim_small_call *call,
                     enum ps_status status, const struct ps_error *error, struct ps_buffer *bytes)
{
    if (status == PS_OK)
        server->world->kind->write_reply(server, call, bytes);
    leave(server, call);
    sim_small_reply(server->world, call, status, error, bytes);
}

void sim_small_serve(struct sim_small *world, const struct sim_small_event *event)
{
    struct sim_small_server *server = &world->servers[event->server];
    const struct ps_bytes piece = {event->bytes, event->size};
    struct sim_small_call call = {.is_used = true,
                                  .client = event->client,
                                  .attempt = event->attempt,
                                  .method = event->method};
    struct ps_error error = {.text = ""};
    struct ps_buffer bytes;
    if (server->service == NULL || server->generation != event->generation) {
        sim_small_break(world, event->client, event->attempt, 5, "nobody is there");
        return;
    }
    ps_buffer_init(&bytes, ps_allocator_heap(), 1 << 20);
    enum ps_status status = world->kind->serve(server, &call, ps_view_of(&piece), &bytes, &error);
    if (status != PS_ERR_NOT_READY)
        end_call(server, &call, status, &error, &bytes);
    else
        park(server, &call);
    ps_buffer_fini(&bytes);
}

void sim_small_leave(struct sim_small *world, const struct sim_small_event *event)
{
    struct sim_small_server *server = &world->servers[event->server];
    for (size_t i = 0; i < SIM_SMALL_PARKED_MAX && server->service != NULL; i++)
        if (server->parked[i].is_used && server->parked[i].attempt == event->attempt)
            leave(server, &server->parked[i]);
}

/* An end may tell topics anew. */
void sim_small_look_server(struct sim_small_server *server)
{
    uint64_t until_ms;
    while (server->service != NULL && server->topics != 0) {
        uint64_t topics = server->topics;
        server->topics = 0;
        for (size_t i = 0; i < SIM_SMALL_PARKED_MAX; i++) {
            struct sim_small_call *call = &server->parked[i];
            struct ps_error error = {.text = ""};
            struct ps_buffer bytes;
            if (!call->is_used || (topics & PS_TOPIC_BIT(topic_of(call, &until_ms))) == 0)
                continue;
            enum ps_status status = look_again(server->service, call, &error);
            if (status == PS_ERR_NOT_READY)
                continue;
            ps_buffer_init(&bytes, ps_allocator_heap(), 1 << 20);
            end_call(server, call, status, &error, &bytes);
            ps_buffer_fini(&bytes);
        }
    }
}
