/* SPDX-License-Identifier: Apache-2.0 */
/* A mutation bends a request before it is served, or an answer before it leaves: what is
 * in between is the code that ships. */
#include "tests/sim/sim_server_serve.h"

#include "base/assert.h"
#include "proto/bundle_codec.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_served.h"
#include "tests/sim/sim_server_aside.h"
#include "tests/sim/sim_table_faults.h"
#include "tests/sim/sim_table_rows.h"

#include <stdlib.h>

#define LATE_MS 100 /* before its caller gives up, what waits says what is missing */

static void make_short(struct sim_served *served);
static void decode(struct sim_server *server, struct sim_served *served,
                   struct sim_served_call *call);
static void bend_requests(struct sim_server *server, struct sim_served *served);
static void reply_to(struct sim_server *server, struct sim_served *served,
                     const struct sim_served_call *call);

bool sim_is_bundled(enum ps_method method)
{
    return method == PS_METHOD_PUSH || method == PS_METHOD_PULL || method == PS_METHOD_PUSH_PULL;
}

static bool is_mutated(const struct sim_server *server, enum sim_mutation mutation)
{
    return server->world->options.mutation == mutation;
}

static enum ps_status open_content(void *self, struct ps_push_request *request,
                                   struct ps_error *error)
{
    (void)self;
    (void)request;
    (void)error;
    return PS_OK;
}

/* Under its mutation: the next worker contributes the same, and nobody has asked for it. */
static void hold_twice(const struct sim_server *server, const struct ps_push_request *request,
                       uint64_t sequence)
{
    static const uint8_t nobody[] = {'n'};
    struct ps_push_request again = *request;
    struct ps_push_reply reply;
    again.worker = request->worker % sim_trainers(server->world) + 1;
    again.request.client_id = (struct ps_bytes){nobody, sizeof nobody};
    again.request.sequence = sequence;
    (void)!ps_service_push(server->service, &again, &reply, NULL, NULL);
}

/* A push is over, others of the same step follow: the state between them is one that a recovery may
 * come to, so that the checker has to know of it. */
static void close_content(void *self)
{
    struct sim_served *served = self;
    struct sim_server *server = served->server;
    size_t i = served->serve.next;
    const struct ps_push_reply *reply = &served->pushes[i].reply;
    /* A reply is written on success alone, and every push that was taken has made a version. */
    const struct ps_push_request *request = &served->serve.request.pushes[i];
    if (reply->version > 0)
        sim_rounds_pushed(server->world, server, request, reply);
    struct ps_push_request given = *request;
    given.content = served->contents[i];
    if (reply->version > 0)
        sim_rows_pushed(server, &given, reply);
    /* Of a round that this push has ended, perhaps. */
    if (reply->version > 0 && !reply->held && !reply->duplicate)
        sim_server_pull_aside(server, request->name);
    if (reply->held && is_mutated(server, SIM_MUTATION_HELD_TWICE))
        hold_twice(server, request, reply->position);
    sim_checker_state(server->world, server);
}

static enum ps_status give_content(void *self, const struct ps_shared_range *room,
                                   struct ps_pull_reply *reply, struct ps_error *error)
{
    (void)self;
    (void)room;
    (void)reply;
    (void)error;
    return PS_OK;
}

struct sim_served *sim_serve_begin(struct sim_server *server, const struct sim_message *messages,
                                   size_t count)
{
    struct sim_world *world = server->world;
    struct sim_served *served = calloc(1, sizeof *served);
    PS_ASSERT(served != NULL && count > 0 && count <= CALLS_MAX);
    served->server = server;
    served->content = (struct ps_serve_content){
        .open = open_content, .close = close_content, .give = give_content, .self = served};
    served->serve = (struct ps_serve){
        .service = server->service,
        .content = &served->content,
        .request = {.pushes = served->push_requests, .pulls = served->pull_requests},
        .pushes = served->pushes,
        .pulls = served->pulls,
        .texts = &served->texts,
        .error = &served->error};
    ps_arena_init(&served->texts, &world->memory,
                  (CALLS_MAX + PULLS_MAX) * sizeof served->error.text);
    for (; served->call_count < count; messages = messages->next) {
        struct sim_served_call *call = &served->calls[served->call_count++];
        call->message = sim_message_copy(messages);
        decode(server, served, call);
    }
    bend_requests(server, served);
    ps_serve_begin(&served->serve);
    make_short(served);
    return served;
}

/* Answers have room for a block at least, which is more than a world's table: of rows they get what
 * was asked for, so that a delta comes in several. */
static void make_short(struct sim_served *served)
{
    const struct ps_bundle_request *request = &served->serve.request;
    if (request->bytes_max > 0 && request->pull_count > 0 && sim_is_table(request->pulls[0].name))
        served->serve.delta_bytes_left = request->bytes_max;
}

static void add_push(struct sim_served *served, struct sim_served_call *call,
                     const struct ps_push_request *push)
{
    struct ps_bundle_request *request = &served->serve.request;
    PS_ASSERT(request->push_count < CALLS_MAX);
    call->push = request->push_count++;
    request->pushes[call->push] = *push;
    served->ids[call->push] = push->request;
}

static void add_pull(struct sim_served *served, struct sim_served_call *call,
                     const struct ps_pull_request *pull)
{
    struct ps_bundle_request *request = &served->serve.request;
    PS_ASSERT(request->pull_count < PULLS_MAX);
    PS_ASSERT(!pull->of_push || request->pull_count + 1 == request->push_count);
    call->pull = request->pull_count++;
    request->pulls[call->pull] = *pull;
}

/* As much as goes into one answer: of large parameters a few blocks. */
static void add_since(struct sim_server *server, struct sim_served *served,
                      struct sim_served_call *call, const struct ps_bundle_request *since)
{
    served->serve.request.bytes_max = since->bytes_max;
    if (server->world->options.large)
        served->serve.request.bytes_max = PS_BLOCK_BYTES * sim_between(server->world, 1, 4);
    for (size_t i = 0; i < since->pull_count; i++) {
        add_pull(served, call, &since->pulls[i]);
        served->pull_requests[call->pull].held.present = true;
    }
}

/* A trainer's bytes are never wrong here: the codec's tests and fuzzers see to that. */
static void decode(struct sim_server *server, struct sim_served *served,
                   struct sim_served_call *call)
{
    const struct ps_allocator *memory = &server->world->memory;
    const struct ps_bytes piece = {call->message->bytes, call->message->size};
    struct ps_view bytes = ps_view_of(&piece);
    enum ps_method method = call->message->method;
    struct ps_push_request push;
    struct ps_pull_request pull;
    struct ps_bundle_request bundle;
    enum ps_status status;
    if (method == PS_METHOD_PUSH)
        status = ps_decode_push(bytes, memory, &push, &call->decoded, NULL);
    else if (method == PS_METHOD_PULL)
        status = ps_decode_pull(bytes, memory, &pull, &call->decoded, NULL);
    else
        status = ps_decode_bundle(bytes, memory, &bundle, &call->decoded, NULL);
    PS_ASSERT(status == PS_OK);
    if (method == PS_METHOD_PUSH_PULL) {
        PS_ASSERT(bundle.push_count == 1 && bundle.pull_count == 1);
        push = bundle.pushes[0];
        pull = bundle.pulls[0];
    }
    if (method == PS_METHOD_PUSH || method == PS_METHOD_PUSH_PULL)
        add_push(served, call, &push);
    if (method == PS_METHOD_PULL || method == PS_METHOD_PUSH_PULL)
        add_pull(served, call, &pull);
    if (method == PS_METHOD_SINCE)
        add_since(server, served, call, &bundle);
}

/* ---- Mutations of requests ---- */

static void bend_range(struct sim_server *server, struct ps_push_request *request,
                       struct ps_bytes *piece)
{
    static const uint8_t zeros[SIM_ELEMENTS_MAX * 8];
    if (!is_mutated(server, SIM_MUTATION_RANGE_BENT) || request->range.count == 0 ||
        !sim_chance(server->world, 100))
        return;
    *piece = (struct ps_bytes){zeros, request->content.size};
    request->content = ps_view_of(piece);
}

static void bend_requests(struct sim_server *server, struct sim_served *served)
{
    const struct ps_bundle_request *request = &served->serve.request;
    for (size_t i = 0; i < request->push_count; i++) {
        sim_server_hide_shard(server, &request->pushes[i].shard);
        bend_range(server, &request->pushes[i], &served->pieces[i]);
        served->contents[i] = request->pushes[i].content;
        sim_rows_bend_push(server, &request->pushes[i], &served->bent[i]);
        if (is_mutated(server, SIM_MUTATION_ID_FORGOTTEN))
            request->pushes[i].request.present = false;
    }
    for (size_t i = 0; i < request->pull_count; i++) {
        sim_server_hide_shard(server, &request->pulls[i].shard);
        if (request->pulls[i].held.present)
            sim_replica_forget_chain(server, &request->pulls[i]);
        served->asked[i] = request->pulls[i];
        if (is_mutated(server, SIM_MUTATION_WAIT_IGNORED))
            request->pulls[i].at_least_version = 0;
        if (is_mutated(server, SIM_MUTATION_CLOCK_EARLY) && request->pulls[i].clock > 0)
            request->pulls[i].clock--;
        if (!is_mutated(server, SIM_MUTATION_VERSION_IGNORED))
            continue;
        served->wanted[i] = request->pulls[i].version;
        request->pulls[i].version = 0;
    }
}

/* ---- Steps ---- */

/* Under its mutation what was promised is forgotten as soon as it would have to be waited for. */
static enum ps_serve_progress step(const struct sim_server *server, struct sim_served *served)
{
    const struct ps_serve_turn turn = {.may_wait = true,
                                       .is_late = sim_now(server->world) + LATE_MS >=
                                                  sim_served_deadline_ms(served)};
    enum ps_serve_progress progress = ps_serve_step(&served->serve, turn);
    if (progress != PS_SERVE_WAITS || served->serve.stage != PS_SERVE_STAGE_ACKNOWLEDGING ||
        !is_mutated(server, SIM_MUTATION_REPLY_EARLY))
        return progress;
    served->serve.wait.position = served->serve.wait.lagging = 0;
    return ps_serve_step(&served->serve, turn);
}

enum ps_serve_progress sim_serve_step(struct sim_server *server, struct sim_served *served)
{
    enum ps_serve_progress progress = step(server, served);
    sim_served_note_workers(server, served, progress == PS_SERVE_WAITS);
    sim_served_note_pushes(server, served);
    /* A pull that waits may have ended a round. */
    if (server->world->options.rounds || server->world->options.clocks.present)
        sim_checker_state(server->world, server);
    sim_served_note_pulls(server, served);
    PS_ASSERT(progress != PS_SERVE_LEAVES);
    served->goes_on = progress == PS_SERVE_GOES_ON;
    if (progress != PS_SERVE_DONE)
        return progress;
    for (size_t i = 0; i < served->serve.request.push_count; i++)
        if (served->pushes[i].status.status == PS_OK)
            sim_checker_acknowledged(server->world, server, served->entries[i]);
    for (size_t i = 0; i < served->call_count; i++)
        reply_to(server, served, &served->calls[i]);
    return PS_SERVE_DONE;
}

uint64_t sim_served_topics(const struct sim_served *served)
{
    if (served->goes_on)
        return SIM_TURN_BIT;
    return SIM_TURN_BIT | PS_TOPIC_BIT(PS_TOPIC_LIFE) | PS_TOPIC_BIT(served->serve.topic);
}

/* What waits for other clients is asked before its caller gives up. */
uint64_t sim_served_ask_ms(const struct sim_server *server, struct sim_served *served)
{
    uint64_t now_ms = sim_now(server->world);
    uint64_t late_ms = sim_served_deadline_ms(served) - LATE_MS;
    uint64_t ask_ms = late_ms > now_ms ? late_ms : now_ms + 1;
    if (served->goes_on || served->serve.topic < PS_TOPIC_NAMED)
        return 0;
    if (served->serve.again_ms != 0 && now_ms + served->serve.again_ms < ask_ms)
        ask_ms = now_ms + served->serve.again_ms;
    if (served->ask_ms > now_ms && served->ask_ms <= ask_ms)
        return 0;
    served->ask_ms = ask_ms;
    return ask_ms;
}

/* ---- Replies ---- */

static void refuse(struct sim_server *server, const struct sim_served_call *call,
                   enum ps_status status, const struct ps_item_status *why)
{
    struct ps_error error = {.status = status, .session = why->session};
    size_t size = why->text.size < sizeof error.text ? why->text.size : sizeof error.text - 1;
    for (size_t i = 0; i < size; i++)
        error.text[i] = (char)why->text.data[i];
    const struct ps_chain nowhere = {0};
    sim_server_reply(server, call->message, status, &error, NULL, &nowhere);
}

static void reply_since(struct sim_server *server, struct sim_served *served,
                        const struct sim_served_call *call)
{
    struct ps_pull_result results[PULLS_MAX];
    size_t count = served->serve.request.pull_count;
    const struct ps_chain nowhere = {0};
    for (size_t i = 0; i < count; i++) {
        results[i] = (struct ps_pull_result){
            .status = {.status = served->pulls[i].status.status, .from_server = true},
            .reply = served->pulls[i].pull.reply};
    }
    const struct ps_call_reply answer = {.method = PS_METHOD_SINCE,
                                         .since = {.pulls = results, .pull_count = count}};
    sim_server_reply(server, call->message, PS_OK, NULL, &answer, &nowhere);
}

/* That a pull was refused does not say that the push beside it was; and a pull that asks for what a
 * range makes is not refused when that is not known: its reply is empty. */
static void reply_to(struct sim_server *server, struct sim_served *served,
                     const struct sim_served_call *call)
{
    enum ps_method method = call->message->method;
    const struct ps_push_result *push = &served->pushes[call->push];
    const struct ps_served_pull *pull = &served->pulls[call->pull];
    struct ps_call_reply answer = {.method = method};
    const struct ps_chain nowhere = {0};
    if (method == PS_METHOD_SINCE) {
        reply_since(server, served, call);
        return;
    }
    if (method != PS_METHOD_PULL && push->status.status != PS_OK) {
        refuse(server, call, push->status.status, &push->status);
        return;
    }
    bool is_early = method == PS_METHOD_PUSH_PULL && served->pull_requests[call->pull].of_push;
    if (method != PS_METHOD_PUSH && pull->status.status != PS_OK && !is_early) {
        refuse(server, call, method == PS_METHOD_PULL ? pull->status.status : PS_ERR_UNAVAILABLE,
               &pull->status);
        return;
    }
    if (method == PS_METHOD_PUSH)
        answer.push = push->reply;
    else if (method == PS_METHOD_PULL)
        answer.pull = pull->pull.reply;
    else
        answer.push_pull.push = push->reply;
    if (method == PS_METHOD_PUSH_PULL)
        answer.push_pull.pull = pull->pull.reply;
    sim_server_reply(server, call->message, PS_OK, NULL, &answer,
                     method != PS_METHOD_PUSH ? &served->chains[call->pull] : &nowhere);
}

void sim_serve_refuse(struct sim_server *server, struct sim_served *served, enum ps_status status)
{
    const struct ps_item_status nothing = {0};
    for (size_t i = 0; i < served->call_count; i++)
        refuse(server, &served->calls[i], status, &nothing);
}

void sim_serve_break(struct sim_server *server, struct sim_served *served)
{
    for (size_t i = 0; i < served->call_count; i++)
        sim_break(server->world, served->calls[i].message);
}

uint64_t sim_served_deadline_ms(const struct sim_served *served)
{
    return served->calls[0].message->deadline_ms;
}

void sim_served_release(struct sim_served *served)
{
    if (served == NULL)
        return;
    ps_serve_release_pulls(&served->serve);
    ps_arena_release(&served->texts);
    for (size_t i = 0; i < served->call_count; i++) {
        ps_decoded_release(&served->calls[i].decoded);
        free(served->calls[i].message);
    }
    free(served);
}
