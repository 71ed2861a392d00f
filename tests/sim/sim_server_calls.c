/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's lanes do: decode, serve, reply now or later. */
#include "base/assert.h"
#include "proto/codec.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_server_change.h"
#include "tests/sim/sim_server_serve.h"

#include <inttypes.h>
#include <stdlib.h>

/* Until a message that was served in part has its next turn. */
#define TURN_MS_MAX 3

static void answer_init(struct sim_server *server, const struct sim_message *message);
static void answer_finish(struct sim_server *server, const struct sim_message *message);
static void answer_change(struct sim_server *server, const struct sim_message *message);
static void serve(struct sim_server *server, const struct sim_message *messages, size_t count);
static bool serve_on(struct sim_server *server, struct sim_served *served);
static void take_turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t unused);
static void park(struct sim_server *server, const struct sim_parked *parked);
static void end_parked(struct sim_parked *parked);

/* How many calls from this one on are served as one bundle. */
static size_t bundled_count(const struct sim_message *message)
{
    size_t count = 0;
    for (; message != NULL && sim_is_bundled(message->method); message = message->next)
        count++;
    return count;
}

void sim_server_answer(struct sim_server *server, const struct sim_message *message)
{
    while (message != NULL) {
        size_t count = bundled_count(message);
        if (message->method == PS_METHOD_INIT)
            answer_init(server, message);
        else if (message->method == PS_METHOD_FINISH)
            answer_finish(server, message);
        else if (sim_is_change(message->method))
            answer_change(server, message);
        else
            serve(server, message, count > 0 ? count : 1);
        do {
            message = message->next;
        } while (count-- > 1);
        sim_checker_state(server->world, server);
        sim_server_ask_parked(server);
    }
}

static const char *word_of(enum ps_method method)
{
    static const char *const words[PS_METHOD_COUNT] = {
        [PS_METHOD_INIT] = "init",          [PS_METHOD_FINISH] = "finish",
        [PS_METHOD_PUSH] = "push",          [PS_METHOD_PULL] = "pull",
        [PS_METHOD_PUSH_PULL] = "pushpull", [PS_METHOD_SINCE] = "since",
        [PS_METHOD_DEFINE] = "define",      [PS_METHOD_DROP] = "drop",
        [PS_METHOD_CONFIGURE] = "configure"};
    return words[method];
}

/* What is said of the shard: of many pulls, by the best of them. */
static enum ps_status said(const struct sim_message *message, enum ps_status status,
                           const struct ps_call_reply *answer)
{
    if (status != PS_OK || message->method != PS_METHOD_SINCE)
        return status;
    for (size_t i = 0; i < answer->since.pull_count; i++) {
        status = answer->since.pulls[i].status.status;
        if (status == PS_OK)
            break;
    }
    return status;
}

static bool is_staged(const struct sim_message *message, const struct ps_call_reply *answer)
{
    return (message->method == PS_METHOD_INIT && answer->init.staged) ||
           (message->method == PS_METHOD_PUSH && answer->push.staged) ||
           (message->method == PS_METHOD_PUSH_PULL && answer->push_pull.push.staged);
}

void sim_server_reply(struct sim_server *server, const struct sim_message *message,
                      enum ps_status status, const struct ps_error *error,
                      const struct ps_call_reply *answer, const struct ps_chain *chain)
{
    sim_checker_replied(server->world, server, message, said(message, status, answer));
    sim_trace(server->world, server->name, "answers %s of c%u: %s%s", word_of(message->method),
              message->client + 1, ps_status_word(status),
              status == PS_OK && is_staged(message, answer) ? ", waits for the rest" : "");
    const char *text = error != NULL ? error->text : "";
    struct sim_message *sent = sim_message_of_reply(message, status, text, answer);
    sent->session = error != NULL ? error->session : 0;
    sent->chain = *chain;
    sent->refused = status != PS_OK; /* the server's own word */
    sim_send(server->world, sent);
}

/* An init or a finish: no version leaves. */
static void reply(struct sim_server *server, const struct sim_message *message,
                  enum ps_status status, const struct ps_error *error,
                  const struct ps_call_reply *answer)
{
    const struct ps_chain nowhere = {0};
    sim_server_reply(server, message, status, error, answer, &nowhere);
}

void sim_server_hide_shard(const struct sim_server *server, uint32_t *shard)
{
    if (server->world->options.mutation == SIM_MUTATION_SHARD_UNCHECKED)
        *shard = 0;
}

static void answer_init(struct sim_server *server, const struct sim_message *message)
{
    const struct ps_bytes piece = {message->bytes, message->size};
    struct ps_init_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_call_reply answer = {.method = PS_METHOD_INIT};
    enum ps_status status =
        ps_decode_init(ps_view_of(&piece), &server->world->memory, &request, &decoded, &error);
    sim_server_hide_shard(server, &request.shard);
    if (status == PS_OK)
        status = ps_service_init(server->service, &request, &answer.init, &error);
    ps_decoded_release(&decoded);
    reply(server, message, status, &error, &answer);
}

static void answer_finish(struct sim_server *server, const struct sim_message *message)
{
    const struct ps_bytes piece = {message->bytes, message->size};
    struct ps_finish_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_ticket ticket = {0};
    enum ps_status status =
        ps_decode_finish(ps_view_of(&piece), &server->world->memory, &request, &decoded, &error);
    sim_server_hide_shard(server, &request.shard);
    if (status == PS_OK)
        status = ps_service_finish(server->service, &request, &ticket, &error);
    ps_decoded_release(&decoded);
    if (ps_service_await_finish(server->service, ticket, NULL) == PS_OK)
        reply(server, message, status, &error, NULL);
    else
        park(server, &(struct sim_parked){
                         .finish = sim_message_copy(message), .ticket = ticket, .status = status});
}

/* A parameter that comes, goes or is configured. */
static void answer_change(struct sim_server *server, const struct sim_message *message)
{
    struct sim_change *change = sim_change_begin(message);
    if (sim_change_step(server, change))
        sim_change_release(change);
    else
        park(server, &(struct sim_parked){.change = change});
}

/* Gradients and pulls that came in one message. */
static void serve(struct sim_server *server, const struct sim_message *messages, size_t count)
{
    struct sim_served *served = sim_serve_begin(server, messages, count);
    if (serve_on(server, served))
        sim_served_release(served);
    else
        park(server, &(struct sim_parked){.served = served});
}

/* One step: true when all is answered. A message that goes on has its next turn after what others
 * do meanwhile. */
static bool serve_on(struct sim_server *server, struct sim_served *served)
{
    enum ps_serve_progress progress = sim_serve_step(server, served);
    if (progress == PS_SERVE_GOES_ON)
        sim_post(server->world, sim_between(server->world, 0, TURN_MS_MAX), take_turn, server,
                 server->generation, 0);
    uint64_t ask_ms = progress == PS_SERVE_WAITS ? sim_served_ask_ms(server, served) : 0;
    if (ask_ms > 0)
        sim_post(server->world, ask_ms - sim_now(server->world), take_turn, server,
                 server->generation, 0);
    return progress == PS_SERVE_DONE;
}

/* A process that is paused takes the turns when it goes on. */
static void take_turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t unused)
{
    struct sim_server *server = subject;
    (void)world;
    (void)unused;
    if (!server->running || server->generation != generation)
        return;
    server->topics |= SIM_TURN_BIT;
    if (!server->paused)
        sim_server_ask_parked(server);
}

/* ---- Calls that wait ---- */

static bool is_free(const struct sim_parked *parked)
{
    return parked->finish == NULL && parked->served == NULL && parked->change == NULL;
}

/* Takes what the call has. */
static void park(struct sim_server *server, const struct sim_parked *parked)
{
    struct sim_parked refused = *parked;
    size_t i = 0;
    while (i < SIM_PARKED_MAX && !is_free(&server->parked[i]))
        i++;
    if (i < SIM_PARKED_MAX) {
        server->parked[i] = *parked;
        return;
    }
    if (parked->finish != NULL)
        reply(server, parked->finish, PS_ERR_BUSY, NULL, NULL);
    else if (parked->change != NULL)
        sim_change_refuse(server, parked->change, PS_ERR_UNAVAILABLE);
    else
        sim_serve_refuse(server, parked->served, PS_ERR_BUSY);
    end_parked(&refused);
}

static bool finish_is_answered(struct sim_server *server, const struct sim_parked *parked)
{
    enum ps_status status = ps_service_await_finish(server->service, parked->ticket, NULL);
    if (status == PS_ERR_NOT_READY)
        return false;
    reply(server, parked->finish, status == PS_OK ? parked->status : status, NULL, NULL);
    return true;
}

/* Only the calls whose topic has changed, as the lanes of a server do: a topic that the service
 * fails to tell leaves its calls to their deadlines. */
static bool is_concerned(const struct sim_parked *parked, uint64_t topics)
{
    if (parked->change != NULL)
        return (SIM_CHANGE_TOPICS & topics) != 0;
    const uint64_t of_finish = PS_TOPIC_BIT(PS_TOPIC_LIFE) | PS_TOPIC_BIT(PS_TOPIC_CHECKPOINT);
    uint64_t waits_for = parked->finish != NULL ? of_finish : sim_served_topics(parked->served);
    return (waits_for & topics) != 0;
}

static uint64_t deadline_of(const struct sim_parked *parked)
{
    if (parked->change != NULL)
        return sim_change_deadline_ms(parked->change);
    return parked->finish != NULL ? parked->finish->deadline_ms
                                  : sim_served_deadline_ms(parked->served);
}

/* True when the call is answered, or will never be: its caller has given up. */
static bool is_answered(struct sim_server *server, const struct sim_parked *parked, uint64_t topics)
{
    if (sim_now(server->world) >= deadline_of(parked))
        return true;
    if (!is_concerned(parked, topics))
        return false;
    if (parked->change != NULL)
        return sim_change_step(server, parked->change);
    return parked->finish != NULL ? finish_is_answered(server, parked)
                                  : serve_on(server, parked->served);
}

void sim_server_ask_parked(struct sim_server *server)
{
    uint64_t topics = server->topics;
    server->topics = 0;
    if (topics == 0)
        return;
    for (size_t i = 0; i < SIM_PARKED_MAX; i++) {
        struct sim_parked *parked = &server->parked[i];
        if (!is_free(parked) && is_answered(server, parked, topics))
            end_parked(parked);
    }
}

static void end_parked(struct sim_parked *parked)
{
    free(parked->finish);
    sim_served_release(parked->served);
    sim_change_release(parked->change);
    *parked = (struct sim_parked){0};
}

void sim_server_forget_calls(struct sim_server *server)
{
    for (size_t i = 0; i < SIM_PARKED_MAX; i++) {
        struct sim_parked *parked = &server->parked[i];
        if (parked->finish != NULL)
            sim_break(server->world, parked->finish);
        if (parked->served != NULL)
            sim_serve_break(server, parked->served);
        if (parked->change != NULL)
            sim_change_break(server, parked->change);
        end_parked(parked);
    }
    for (size_t i = 0; i < server->inbox_count; i++)
        sim_message_free(server->inbox[i]);
    server->inbox_count = 0;
}
