/* What the server's lanes do: decode, call the service, reply now or later. */
#include "base/assert.h"
#include "proto/bundle_codec.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void reply(struct sim_server *server, const struct sim_message *message,
                  enum ps_status status, const struct ps_error *error,
                  const struct ps_call_reply *reply);
static void reply_in_chain(struct sim_server *server, const struct sim_message *message,
                           enum ps_status status, const struct ps_error *error,
                           const struct ps_call_reply *reply, const struct ps_chain *chain);
static void answer_init(struct sim_server *server, const struct sim_message *message,
                        struct ps_view bytes);
static void answer_finish(struct sim_server *server, const struct sim_message *message,
                          struct ps_view bytes);
static void answer_push(struct sim_server *server, const struct sim_message *message,
                        struct ps_view bytes);
static void answer_push_pull(struct sim_server *server, const struct sim_message *message,
                             struct ps_view bytes);
static void answer_pull(struct sim_server *server, const struct sim_message *message,
                        struct ps_view bytes);
static void answer_since(struct sim_server *server, const struct sim_message *message,
                         struct ps_view bytes);
static void take_push(struct sim_server *server, const struct sim_message *message,
                      const struct ps_push_request *request, const struct ps_pull_request *of_push);
static void note_made(struct sim_server *server, const struct ps_pull_request *wish,
                      struct sim_parked *pushed);
static void pull_after(struct sim_server *server, const struct sim_message *message,
                       const struct ps_push_reply *pushed);
static void reply_made(struct sim_server *server, const struct sim_message *message,
                       const struct sim_parked *parked, const struct ps_push_reply *pushed);
static void park(struct sim_server *server, const struct sim_message *message,
                 struct sim_parked *parked);
static void end_parked(struct sim_parked *parked);
static bool settle_push(struct sim_server *server, const struct sim_message *message,
                        const struct sim_parked *parked);

void sim_server_answer(struct sim_server *server, const struct sim_message *message)
{
    const struct ps_bytes piece = {message->bytes, message->size};
    struct ps_view bytes = ps_view_of(&piece);
    switch (message->method) {
    case PS_METHOD_INIT:
        answer_init(server, message, bytes);
        break;
    case PS_METHOD_FINISH:
        answer_finish(server, message, bytes);
        break;
    case PS_METHOD_PUSH:
        answer_push(server, message, bytes);
        break;
    case PS_METHOD_PUSH_PULL:
        answer_push_pull(server, message, bytes);
        break;
    case PS_METHOD_SINCE:
        answer_since(server, message, bytes);
        break;
    default:
        answer_pull(server, message, bytes);
        break;
    }
    sim_checker_state(server->world, server);
    sim_server_ask_parked(server);
}

static const char *word_of(enum ps_method method)
{
    static const char *const words[PS_METHOD_COUNT] = {
        [PS_METHOD_INIT] = "init", [PS_METHOD_FINISH] = "finish",      [PS_METHOD_PUSH] = "push",
        [PS_METHOD_PULL] = "pull", [PS_METHOD_PUSH_PULL] = "pushpull", [PS_METHOD_SINCE] = "since"};
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

/* For the checker: which version of which life leaves. */
static void note_pull(struct sim_server *server, const struct sim_message *message,
                      const struct ps_call_reply *answer, struct ps_chain *chain)
{
    const struct ps_pull_reply *pull = NULL;
    if (message->method == PS_METHOD_PULL)
        pull = &answer->pull;
    if (message->method == PS_METHOD_PUSH_PULL)
        pull = &answer->push_pull.pull;
    if (pull == NULL)
        return;
    const struct ps_pull_request request = {.name = pull->name};
    sim_truths_pulled(server, &request, pull, chain);
}

static void reply(struct sim_server *server, const struct sim_message *message,
                  enum ps_status status, const struct ps_error *error,
                  const struct ps_call_reply *answer)
{
    struct ps_chain chain = {0};
    if (status == PS_OK)
        note_pull(server, message, answer, &chain);
    reply_in_chain(server, message, status, error, answer, &chain);
}

static void reply_in_chain(struct sim_server *server, const struct sim_message *message,
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

static void hide_shard(const struct sim_server *server, uint32_t *shard)
{
    if (server->world->options.mutation == SIM_MUTATION_SHARD_UNCHECKED)
        *shard = 0;
}

static void answer_init(struct sim_server *server, const struct sim_message *message,
                        struct ps_view bytes)
{
    struct ps_init_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_call_reply answer = {.method = PS_METHOD_INIT};
    enum ps_status status =
        ps_decode_init(bytes, &server->world->memory, &request, &decoded, &error);
    hide_shard(server, &request.shard);
    if (status == PS_OK)
        status = ps_service_init(server->service, &request, &answer.init, &error);
    ps_decoded_release(&decoded);
    reply(server, message, status, &error, &answer);
}

static void answer_finish(struct sim_server *server, const struct sim_message *message,
                          struct ps_view bytes)
{
    struct ps_finish_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_ticket ticket = {0};
    enum ps_status status =
        ps_decode_finish(bytes, &server->world->memory, &request, &decoded, &error);
    hide_shard(server, &request.shard);
    if (status == PS_OK)
        status = ps_service_finish(server->service, &request, &ticket, &error);
    ps_decoded_release(&decoded);
    if (ps_service_satisfied(server->service, ticket))
        reply(server, message, status, &error, NULL);
    else
        park(server, message, &(struct sim_parked){.ticket = ticket, .status = status});
}

static void answer_push(struct sim_server *server, const struct sim_message *message,
                        struct ps_view bytes)
{
    struct ps_push_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    enum ps_status status =
        ps_decode_push(bytes, &server->world->memory, &request, &decoded, &error);
    if (status == PS_OK)
        take_push(server, message, &request, NULL);
    else
        reply(server, message, status, &error, NULL);
    ps_decoded_release(&decoded);
}

static void answer_push_pull(struct sim_server *server, const struct sim_message *message,
                             struct ps_view bytes)
{
    struct ps_bundle_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    enum ps_status status =
        ps_decode_bundle(bytes, &server->world->memory, &request, &decoded, &error);
    if (status == PS_OK)
        take_push(server, message, &request.pushes[0],
                  request.pulls[0].of_push ? &request.pulls[0] : NULL);
    else
        reply(server, message, status, &error, NULL);
    ps_decoded_release(&decoded);
}

static void bend_range(struct sim_server *server, struct ps_push_request *request,
                       struct ps_bytes *piece)
{
    static const uint8_t zeros[SIM_ELEMENTS_MAX * 8];
    if (server->world->options.mutation != SIM_MUTATION_RANGE_BENT || request->range.count == 0 ||
        !sim_chance(server->world, 100))
        return;
    *piece = (struct ps_bytes){zeros, request->content.size};
    request->content = ps_view_of(piece);
}

static void take_push(struct sim_server *server, const struct sim_message *message,
                      const struct ps_push_request *request, const struct ps_pull_request *of_push)
{
    struct ps_error error = {0};
    struct sim_parked pushed = {.status = PS_OK};
    struct ps_push_request shown = *request;
    struct ps_bytes piece = {NULL, 0};
    hide_shard(server, &shown.shard);
    bend_range(server, &shown, &piece);
    if (server->world->options.mutation == SIM_MUTATION_ID_FORGOTTEN)
        shown.request.present = false;
    enum ps_status status =
        ps_service_push_range(server->service, &shown, &pushed.push, &pushed.wait,
                              of_push != NULL ? &pushed.made : NULL, &error);
    if (status != PS_OK) {
        reply(server, message, status, &error, NULL);
        return;
    }
    pushed.entry = sim_checker_pushed(server->world, server, request, &pushed.push);
    pushed.is_of_push = of_push != NULL;
    if (pushed.made.held != NULL)
        note_made(server, of_push, &pushed);
    if (!settle_push(server, message, &pushed))
        park(server, message, &pushed);
    else
        ps_pull_release(&pushed.made);
}

/* A version that has become true is known to the checker before it may be replaced. */
static void note_made(struct sim_server *server, const struct ps_pull_request *wish,
                      struct sim_parked *pushed)
{
    const struct ps_pull_request before = {.name = wish->name, .range = wish->range};
    uint64_t version = pushed->made.reply.version;
    sim_truths_pulled(server, &before, &pushed->made.reply, &pushed->chain);
    if (server->world->options.mutation != SIM_MUTATION_MADE_BEFORE)
        return;
    ps_pull_release(&pushed->made);
    enum ps_status status = ps_service_pull(server->service, &before, &pushed->made, NULL);
    PS_ASSERT(status == PS_OK);
    pushed->made.reply.version = version;
}

/* True when the push is answered. */
static bool settle_push(struct sim_server *server, const struct sim_message *message,
                        const struct sim_parked *parked)
{
    struct ps_error error = {0};
    struct ps_call_reply answer = {.method = PS_METHOD_PUSH, .push = parked->push};
    enum ps_status status = ps_service_settle(server->service, &parked->wait, &answer.push, &error);
    if (server->world->options.mutation == SIM_MUTATION_REPLY_UNSETTLED)
        status = status == PS_ERR_NOT_READY ? PS_OK : status;
    if (status == PS_ERR_NOT_READY)
        return false;
    if (status == PS_OK)
        sim_checker_acknowledged(server->world, server, parked->entry);
    if (status == PS_OK && parked->is_of_push)
        reply_made(server, message, parked, &answer.push);
    else if (status == PS_OK && message->method == PS_METHOD_PUSH_PULL)
        pull_after(server, message, &answer.push);
    else
        reply(server, message, status, &error, &answer);
    return true;
}

static void reply_made(struct sim_server *server, const struct sim_message *message,
                       const struct sim_parked *parked, const struct ps_push_reply *pushed)
{
    const struct ps_call_reply answer = {
        .method = PS_METHOD_PUSH_PULL, .push_pull = {.push = *pushed, .pull = parked->made.reply}};
    reply_in_chain(server, message, PS_OK, NULL, &answer, &parked->chain);
}

/* The second half of a PushPull; the first is done, whatever becomes of this. */
static void pull_after(struct sim_server *server, const struct sim_message *message,
                       const struct ps_push_reply *pushed)
{
    const struct ps_bytes piece = {message->bytes, message->size};
    struct ps_bundle_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_pull pull = {0};
    enum ps_status status =
        ps_decode_bundle(ps_view_of(&piece), &server->world->memory, &request, &decoded, &error);
    PS_ASSERT(status == PS_OK && request.pull_count == 1);
    hide_shard(server, &request.pulls[0].shard);
    status = ps_service_pull(server->service, &request.pulls[0], &pull, &error);
    const struct ps_call_reply answer = {.method = PS_METHOD_PUSH_PULL,
                                         .push_pull = {.push = *pushed, .pull = pull.reply}};
    /* That the pull was refused does not say that the push was. */
    if (status != PS_OK)
        status = PS_ERR_UNAVAILABLE;
    reply(server, message, status, &error, &answer);
    ps_pull_release(&pull);
    ps_decoded_release(&decoded);
}

static void answer_pull(struct sim_server *server, const struct sim_message *message,
                        struct ps_view bytes)
{
    struct ps_pull_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_pull pull = {0};
    enum ps_status status =
        ps_decode_pull(bytes, &server->world->memory, &request, &decoded, &error);
    hide_shard(server, &request.shard);
    uint64_t wanted = request.version;
    if (server->world->options.mutation == SIM_MUTATION_VERSION_IGNORED)
        request.version = 0;
    if (status == PS_OK)
        status = ps_service_pull(server->service, &request, &pull, &error);
    if (wanted != request.version)
        pull.reply.version = wanted - 1;
    ps_decoded_release(&decoded);
    if (status == PS_ERR_NOT_READY) {
        park(server, message, &(struct sim_parked){.status = status});
        return;
    }
    const struct ps_call_reply answer = {.method = PS_METHOD_PULL, .pull = pull.reply};
    reply(server, message, status, &error, &answer);
    ps_pull_release(&pull);
}

/* ---- Delta pulls ---- */

static void since_one(struct sim_server *server, struct ps_pull_request *request,
                      uint64_t *bytes_left, struct ps_pull *pull, struct ps_pull_result *result,
                      struct ps_error *error)
{
    struct ps_chain chain;
    hide_shard(server, &request->shard);
    request->bytes_max = *bytes_left > 0 ? *bytes_left : 1;
    sim_replica_forget_chain(server, request);
    enum ps_status status = ps_service_pull(server->service, request, pull, error);
    *result = (struct ps_pull_result){.status = {.status = status, .from_server = true},
                                      .reply = pull->reply};
    if (status != PS_OK)
        return;
    *bytes_left -= pull->reply.content.size;
    sim_truths_pulled(server, request, &pull->reply, &chain);
}

/* As much as goes into one answer: of large parameters a few blocks. */
static void answer_since(struct sim_server *server, const struct sim_message *message,
                         struct ps_view bytes)
{
    struct ps_bundle_request request = {0};
    struct ps_decoded decoded = {0};
    struct ps_error error = {0};
    struct ps_pull pulls[SIM_PULLS_MAX] = {0};
    struct ps_pull_result results[SIM_PULLS_MAX];
    enum ps_status status =
        ps_decode_bundle(bytes, &server->world->memory, &request, &decoded, &error);
    PS_ASSERT(status == PS_OK && request.pull_count <= SIM_PULLS_MAX);
    bool waits = false;
    uint64_t bytes_left = PS_DELTA_BYTES_DEFAULT;
    if (server->world->options.large)
        bytes_left = PS_BLOCK_BYTES * sim_between(server->world, 1, 4);
    for (size_t i = 0; i < request.pull_count; i++) {
        since_one(server, &request.pulls[i], &bytes_left, &pulls[i], &results[i], &error);
        waits = waits || results[i].status.status == PS_ERR_NOT_READY;
    }
    const struct ps_call_reply answer = {
        .method = PS_METHOD_SINCE, .since = {.pulls = results, .pull_count = request.pull_count}};
    if (waits)
        park(server, message, &(struct sim_parked){.status = PS_ERR_NOT_READY});
    else
        reply(server, message, PS_OK, NULL, &answer);
    for (size_t i = 0; i < request.pull_count; i++)
        ps_pull_release(&pulls[i]);
    ps_decoded_release(&decoded);
}

/* ---- Calls that wait ---- */

/* Takes what the call has. */
static void park(struct sim_server *server, const struct sim_message *message,
                 struct sim_parked *parked)
{
    size_t i = 0;
    while (i < SIM_PARKED_MAX && server->parked[i].request != NULL)
        i++;
    if (i == SIM_PARKED_MAX) {
        reply(server, message, PS_ERR_BUSY, NULL, NULL);
        ps_pull_release(&parked->made);
        return;
    }
    size_t size = sizeof *message + message->size;
    struct sim_message *kept = malloc(size);
    PS_ASSERT(kept != NULL);
    memcpy(kept, message, size);
    server->parked[i] = *parked;
    server->parked[i].request = kept;
}

/* True when the call is answered, or will never be. */
static bool settle(struct sim_server *server, struct sim_parked *parked)
{
    struct sim_message *request = parked->request;
    if (sim_now(server->world) >= request->deadline_ms)
        return true; /* its caller has given up */
    if (request->method == PS_METHOD_PULL || request->method == PS_METHOD_SINCE) {
        parked->request = NULL; /* it may be parked again, in any place */
        sim_server_answer(server, request);
        free(request);
        return false;
    }
    if (request->method == PS_METHOD_PUSH || request->method == PS_METHOD_PUSH_PULL)
        return settle_push(server, request, parked);
    if (ps_service_abandoned(server->service, parked->ticket)) {
        reply(server, request, PS_ERR_UNAVAILABLE, NULL, NULL);
        return true;
    }
    if (!ps_service_satisfied(server->service, parked->ticket))
        return false;
    reply(server, request, parked->status, NULL, NULL);
    return true;
}

void sim_server_ask_parked(struct sim_server *server)
{
    if (!server->changed)
        return;
    server->changed = false;
    for (size_t i = 0; i < SIM_PARKED_MAX; i++) {
        struct sim_parked *parked = &server->parked[i];
        if (parked->request != NULL && settle(server, parked))
            end_parked(parked);
    }
}

static void end_parked(struct sim_parked *parked)
{
    ps_pull_release(&parked->made);
    free(parked->request);
    *parked = (struct sim_parked){0};
}

void sim_server_forget_calls(struct sim_server *server)
{
    for (size_t i = 0; i < SIM_PARKED_MAX; i++) {
        if (server->parked[i].request != NULL)
            sim_break(server->world, server->parked[i].request);
        end_parked(&server->parked[i]);
    }
    for (size_t i = 0; i < server->inbox_count; i++)
        free(server->inbox[i]);
    server->inbox_count = 0;
}
