/* SPDX-License-Identifier: Apache-2.0 */
/* The network: delay, loss, repetition, partitions. */
#include "tests/sim/sim_network.h"

#include "base/assert.h"
#include "proto/bundle_codec.h"
#include "proto/change_codec.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/sim_server_serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES_MAX (1 << 20)
#define MESSAGES_MAX 512
#define BREAK_MS_MAX 1500 /* until a broken connection is noticed */

static void deliver(struct sim_world *world, void *subject, uint64_t a, uint64_t b);

/* ---- Bytes ---- */

static struct sim_message *message_of(const struct ps_buffer *head, struct ps_view content)
{
    struct sim_message *message = calloc(1, sizeof *message + head->size + content.size);
    PS_ASSERT(message != NULL && !head->failed);
    message->size = head->size + content.size;
    if (head->size > 0)
        memcpy(message->bytes, head->text, head->size);
    if (content.size > 0)
        ps_view_copy(content, 0, message->bytes + head->size, content.size);
    return message;
}

static void append(struct ps_buffer *buffer, struct ps_view content)
{
    for (size_t i = 0; i < content.piece_count; i++)
        ps_buffer_append(buffer, content.pieces[i]);
}

static void encode_push_pull(const struct ps_call_request *request, struct ps_buffer *bytes)
{
    const struct ps_push_request *push = &request->push_pull.push;
    ps_encode_bundle_id(&push->request, bytes);
    ps_encode_bundle_push(push, &push->request, 0, bytes);
    append(bytes, push->content);
    ps_encode_bundle_pull(&request->push_pull.pull, bytes);
    append(bytes, request->push_pull.pull.keys);
}

static void encode_push_pull_reply(const struct ps_call_reply *reply, struct ps_buffer *bytes)
{
    const struct ps_push_result push = {.reply = reply->push_pull.push};
    const struct ps_pull_result pull = {
        .status = {.status = sim_has_pull(reply) ? PS_OK : PS_ERR_CONFLICT},
        .reply = reply->push_pull.pull};
    ps_encode_push_result(&push, bytes);
    ps_encode_pull_result(&pull, bytes);
    append(bytes, pull.reply.content);
}

static void encode_since_reply(const struct ps_bundle_reply *reply, struct ps_buffer *bytes)
{
    for (size_t i = 0; i < reply->pull_count; i++) {
        ps_encode_pull_result(&reply->pulls[i], bytes);
        append(bytes, reply->pulls[i].reply.content);
    }
}

bool sim_has_pull(const struct ps_call_reply *reply)
{
    return reply->push_pull.pull.name.size > 0;
}

struct sim_message *sim_message_of_request(const struct ps_call_request *request)
{
    struct ps_view content = {0};
    struct ps_buffer head;
    ps_buffer_init(&head, ps_allocator_heap(), MESSAGE_BYTES_MAX);
    switch (request->method) {
    case PS_METHOD_INIT:
    case PS_METHOD_DEFINE:
        ps_encode_init(&request->init, &head);
        content = request->init.content;
        break;
    case PS_METHOD_DROP:
    case PS_METHOD_CONFIGURE:
        ps_encode_change(&request->change, &head);
        break;
    case PS_METHOD_FINISH:
        ps_encode_finish(&request->finish, &head);
        break;
    case PS_METHOD_PUSH:
        ps_encode_push(&request->push, &head);
        content = request->push.content;
        break;
    case PS_METHOD_PUSH_PULL:
        encode_push_pull(request, &head);
        break;
    case PS_METHOD_SINCE:
        ps_encode_since(&request->since, &head);
        break;
    default:
        PS_ASSERT(request->method == PS_METHOD_PULL);
        ps_encode_pull(&request->pull, &head);
        content = request->pull.keys;
        break;
    }
    struct sim_message *message = message_of(&head, content);
    message->method = request->method;
    ps_buffer_fini(&head);
    return message;
}

struct sim_message *sim_message_of_reply(const struct sim_message *request, enum ps_status status,
                                         const char *text, const struct ps_call_reply *reply)
{
    struct ps_view content = {0};
    struct ps_buffer head;
    ps_buffer_init(&head, ps_allocator_heap(), MESSAGE_BYTES_MAX);
    if (status == PS_OK &&
        (request->method == PS_METHOD_INIT || request->method == PS_METHOD_DEFINE))
        ps_encode_init_reply(&reply->init, &head);
    if (status == PS_OK &&
        (request->method == PS_METHOD_DROP || request->method == PS_METHOD_CONFIGURE))
        ps_encode_change_reply(&reply->change, &head);
    if (status == PS_OK && request->method == PS_METHOD_PUSH)
        ps_encode_push_reply(&reply->push, &head);
    if (status == PS_OK && request->method == PS_METHOD_PULL) {
        ps_encode_pull_reply(&reply->pull, &head);
        content = reply->pull.content;
    }
    if (status == PS_OK && request->method == PS_METHOD_PUSH_PULL)
        encode_push_pull_reply(reply, &head);
    if (status == PS_OK && request->method == PS_METHOD_SINCE)
        encode_since_reply(&reply->since, &head);
    struct sim_message *message = message_of(&head, content);
    ps_buffer_fini(&head);
    message->is_reply = true;
    message->client = request->client;
    message->server = request->server;
    message->server_generation = request->server_generation;
    message->client_generation = request->client_generation;
    message->call = request->call;
    message->attempt = request->attempt;
    message->method = request->method;
    message->status = status;
    snprintf(message->text, sizeof message->text, "%s", text);
    return message;
}

/* ---- Ways ---- */

static void drop(struct sim_world *world, void *subject)
{
    (void)world;
    sim_message_free(subject);
}

static void post(struct sim_world *world, uint64_t after_ms, struct sim_message *message)
{
    world->messages++;
    if (world->messages > MESSAGES_MAX)
        sim_fail(world, "P6: %zu messages are on the way", world->messages);
    sim_post_owned(world, after_ms, deliver, message, drop);
}

/* The client hears that the connection broke; whether its request was served, it cannot know. */
static void post_break(struct sim_world *world, const struct sim_message *message)
{
    struct sim_message *news =
        sim_message_of_reply(message, PS_ERR_UNAVAILABLE, "the connection broke", NULL);
    post(world, sim_between(world, 1, BREAK_MS_MAX), news);
}

void sim_break(struct sim_world *world, const struct sim_message *request)
{
    post_break(world, request);
}

static bool is_lost(struct sim_world *world, const struct sim_message *message)
{
    uint32_t client = sim_node_of_client(world, message->client);
    uint32_t server = sim_node_of_server(world, message->server);
    uint32_t from = message->is_reply ? server : client;
    uint32_t to = message->is_reply ? client : server;
    if (world->drop_next[from][to] > 0) {
        world->drop_next[from][to]--;
        sim_trace(world, "net", "%s of c%u and s%u dropped",
                  message->is_reply ? "reply" : "request", message->client + 1,
                  message->server + 1);
        return true;
    }
    return world->cut[from][to] || sim_chance(world, world->options.lose_permille);
}

struct sim_message *sim_message_copy(const struct sim_message *message)
{
    struct sim_message *copy = malloc(sizeof *copy + message->size);
    PS_ASSERT(copy != NULL);
    memcpy(copy, message, sizeof *copy + message->size);
    copy->next = NULL;
    return copy;
}

void sim_message_free(struct sim_message *message)
{
    while (message != NULL) {
        struct sim_message *next = message->next;
        free(message);
        message = next;
    }
}

/* The calls as one message, in their order. */
static struct sim_message *joined(struct sim_message **messages, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        messages[i]->next = messages[i + 1];
    return messages[0];
}

void sim_send(struct sim_world *world, struct sim_message *message)
{
    sim_send_together(world, &message, 1);
}

static void take_turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    (void)world;
    (void)b;
    if (server->running && !server->paused && server->generation == generation)
        sim_server_wake(server);
}

/* Rows are looked for in turns of the coordinator: some of these come while a push is on its way,
 * which may then step a row between the look and its end (sim_table_expiry.c). */
static void look_before(struct sim_world *world, const struct sim_message *message,
                        uint64_t delay_ms)
{
    struct sim_server *server = &world->servers[message->server];
    if (world->options.rows_expire && !message->is_reply && sim_chance(world, 200))
        sim_post(world, sim_between(world, 0, delay_ms), take_turn, server, server->generation, 0);
}

void sim_send_together(struct sim_world *world, struct sim_message **messages, size_t count)
{
    const struct sim_options *options = &world->options;
    PS_ASSERT(count > 0 && count <= PS_MESSAGE_CALLS_MAX);
    uint64_t delay_ms = sim_between(world, options->delay_min_ms, options->delay_max_ms);
    if (is_lost(world, messages[0])) {
        for (size_t i = 0; i < count; i++) {
            post_break(world, messages[i]);
            free(messages[i]);
        }
        return;
    }
    if (!messages[0]->is_reply && sim_chance(world, options->repeat_permille)) {
        uint64_t again_ms = sim_between(world, options->delay_min_ms, 4 * options->delay_max_ms);
        struct sim_message *twins[PS_MESSAGE_CALLS_MAX];
        for (size_t i = 0; i < count; i++)
            twins[i] = sim_message_copy(messages[i]);
        post(world, again_ms, joined(twins, count));
    }
    look_before(world, messages[0], delay_ms);
    post(world, delay_ms, joined(messages, count));
}

/* What defines, drops or configures would wait for the cut. */
static bool may_hurry(const struct sim_message *message, const struct sim_server *server)
{
    bool pushes = false;
    if (message->is_reply || message->came_early || message->server != server->number ||
        message->server_generation != server->generation)
        return false;
    for (; message != NULL; message = message->next) {
        if (!sim_is_bundled(message->method))
            return false;
        pushes = pushes || message->method != PS_METHOD_PULL;
    }
    return pushes;
}

/* What is left of it in the queue is nothing but a note that it came. */
void sim_hurry(struct sim_world *world, const struct sim_server *server)
{
    for (size_t i = 0; i < world->event_count; i++) {
        struct sim_message *message = world->events[i].subject;
        if (world->events[i].run != deliver || !may_hurry(message, server))
            continue;
        message->came_early = sim_server_take(world, message);
        return;
    }
}

static void deliver(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    struct sim_message *message = subject;
    (void)a;
    (void)b;
    world->messages--;
    if (message->came_early) {
        sim_message_free(message);
        return;
    }
    uint64_t wait_ms = message->is_reply ? sim_client_pause_left_ms(world, message) : 0;
    if (wait_ms > 0) {
        post(world, wait_ms, message);
        return;
    }
    if (message->is_reply) {
        sim_client_take(world, message);
    } else if (!sim_server_take(world, message)) {
        /* That process is gone. */
        for (const struct sim_message *call = message; call != NULL; call = call->next)
            post_break(world, call);
    }
    sim_message_free(message);
}
