/* SPDX-License-Identifier: Apache-2.0 */
/* A mutation bends a request before it is served, or an answer before it leaves: what is
 * in between is the code that ships. */
#include "tests/sim/sim_server_serve.h"

#include "base/assert.h"
#include "proto/arena.h"
#include "proto/bundle_codec.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_clocks_told.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_faults.h"
#include "tests/sim/sim_table_follow.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdlib.h>

/* Calls that go together in one message of a simulated trainer. */
#define CALLS_MAX 16
#define PULLS_MAX (SIM_PULLS_MAX > CALLS_MAX ? SIM_PULLS_MAX : CALLS_MAX)

#define LATE_MS 100 /* before its caller gives up, what waits says what is missing */

/* One of the calls, and which items of the bundle it has. */
struct served_call {
    struct sim_message *message; /* owned, alone */
    struct ps_decoded decoded;
    size_t push, pull; /* of which it has one at least, by its method */
};

struct sim_served {
    struct sim_server *server; /* borrowed */
    struct served_call calls[CALLS_MAX];
    size_t call_count;
    bool goes_on;    /* as its last step said */
    uint64_t ask_ms; /* it is asked again then; 0: it has not asked for it */
    struct ps_serve serve;
    struct ps_serve_content content; /* all of it lies in messages; told of each push */
    struct ps_error error;
    struct ps_arena texts;
    struct ps_push_request push_requests[CALLS_MAX];
    struct ps_pull_request pull_requests[PULLS_MAX];
    struct ps_push_result pushes[CALLS_MAX];
    struct ps_served_pull pulls[PULLS_MAX];
    struct ps_request_id ids[CALLS_MAX];     /* of pushes, as the trainer gave them */
    struct ps_pull_request asked[PULLS_MAX]; /* as the trainers sent them */
    struct ps_view contents[CALLS_MAX];      /* of pushes, as the trainer gave them */
    struct ps_bytes pieces[CALLS_MAX];       /* of contents that were bent */
    struct sim_bent_rows bent[CALLS_MAX];    /* ... of tables */
    size_t entries[CALLS_MAX];               /* of pushes in the checker's history */
    struct ps_chain chains[PULLS_MAX];       /* in which the pulled versions are */
    uint64_t wanted[PULLS_MAX];              /* versions that a mutation has hidden */
    size_t noted_pushes, noted_pulls;
};

static void decode(struct sim_server *server, struct sim_served *served, struct served_call *call);
static void bend_requests(struct sim_server *server, struct sim_served *served);
static void note_workers(struct sim_server *server, struct sim_served *served, bool waits);
static void note_pushes(struct sim_server *server, struct sim_served *served);
static void note_pulls(struct sim_server *server, struct sim_served *served);
static void reply_to(struct sim_server *server, struct sim_served *served,
                     const struct served_call *call);

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
        struct served_call *call = &served->calls[served->call_count++];
        call->message = sim_message_copy(messages);
        decode(server, served, call);
    }
    bend_requests(server, served);
    ps_serve_begin(&served->serve);
    return served;
}

static void add_push(struct sim_served *served, struct served_call *call,
                     const struct ps_push_request *push)
{
    struct ps_bundle_request *request = &served->serve.request;
    PS_ASSERT(request->push_count < CALLS_MAX);
    call->push = request->push_count++;
    request->pushes[call->push] = *push;
    served->ids[call->push] = push->request;
}

static void add_pull(struct sim_served *served, struct served_call *call,
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
                      struct served_call *call, const struct ps_bundle_request *since)
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
static void decode(struct sim_server *server, struct sim_served *served, struct served_call *call)
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
    note_workers(server, served, progress == PS_SERVE_WAITS);
    note_pushes(server, served);
    /* A pull that waits may have ended a round. */
    if (server->world->options.rounds || server->world->options.clocks.present)
        sim_checker_state(server->world, server);
    note_pulls(server, served);
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

/* A version that has become true is known to the checker before it may be replaced. */
static void note_early_values(struct sim_server *server, struct sim_served *served, size_t i)
{
    const struct ps_pull_request *wish = &served->pull_requests[i];
    const struct ps_pull_request before = {.name = wish->name, .range = wish->range};
    struct ps_pull *pull = &served->pulls[i].pull;
    uint64_t version = pull->reply.version;
    if (pull->held == NULL)
        return;
    sim_truths_pulled(server, &before, &pull->reply, &served->chains[i]);
    if (!is_mutated(server, SIM_MUTATION_MADE_BEFORE))
        return;
    ps_pull_release(pull);
    enum ps_status status = ps_service_pull(server->service, &before, pull, NULL);
    PS_ASSERT(status == PS_OK);
    pull->reply.version = version;
}

static void note_pushes(struct sim_server *server, struct sim_served *served)
{
    const struct ps_bundle_request *request = &served->serve.request;
    size_t before = served->noted_pushes;
    for (; served->noted_pushes < ps_serve_pushed(&served->serve); served->noted_pushes++) {
        size_t i = served->noted_pushes;
        struct ps_push_request given = request->pushes[i];
        given.request = served->ids[i];
        given.content = served->contents[i];
        if (sim_is_full(&served->pushes[i].status))
            sim_rows_refused(server, &given);
        if (served->pushes[i].status.status != PS_OK)
            continue;
        served->entries[i] =
            sim_checker_pushed(server->world, server, &given, &served->pushes[i].reply);
        if (i < request->pull_count && request->pulls[i].of_push)
            note_early_values(server, served, i);
    }
    if (served->noted_pushes > before)
        sim_checker_ids(server->world, server);
}

/* Those whose pulls were looked at and not refused, up to the one that waits. What goes on with a
 * version has waited before, and what waits for a version has not come to its clock. */
static void note_workers(struct sim_server *server, struct sim_served *served, bool waits)
{
    size_t count = served->serve.request.pull_count;
    if (served->serve.stage < PS_SERVE_STAGE_PULLING)
        return;
    size_t pulled = ps_serve_pulled(&served->serve);
    for (size_t i = served->noted_pulls; i < count && i < pulled + (waits ? 1 : 0); i++) {
        const struct ps_pull_request *asked = &served->asked[i];
        bool refused = i < pulled && served->pulls[i].status.status != PS_OK;
        if (asked->worker > 0 && asked->version == 0 && asked->at_least_version == 0 && !refused)
            sim_clocks_heard(server, asked->worker - 1);
    }
}

static void note_pulls(struct sim_server *server, struct sim_served *served)
{
    for (; served->noted_pulls < ps_serve_pulled(&served->serve); served->noted_pulls++) {
        size_t i = served->noted_pulls;
        struct ps_pull_reply *pull = &served->pulls[i].pull.reply;
        if (served->pulls[i].status.status != PS_OK || served->pull_requests[i].of_push)
            continue;
        if (pull->version < served->asked[i].at_least_version)
            sim_fail(server->world,
                     "waits: %s answers version %" PRIu64 " where %" PRIu64 " is waited for",
                     server->name, pull->version, served->asked[i].at_least_version);
        if (served->asked[i].worker > 0)
            sim_clocks_judge(server, &served->asked[i]);
        if (sim_is_table(pull->name) && pull->delta.present) {
            sim_moments_note(server, pull);
            continue;
        }
        if (sim_is_table(pull->name)) {
            sim_rows_bend_pull(server, &served->asked[i], pull);
            sim_rows_pulled(server, &served->asked[i], pull);
            continue;
        }
        if (served->wanted[i] > 0)
            pull->version = served->wanted[i] - 1;
        const struct ps_pull_request request = {.name = pull->name};
        sim_truths_pulled(server, &request, pull, &served->chains[i]);
    }
}

/* ---- Replies ---- */

static void refuse(struct sim_server *server, const struct served_call *call, enum ps_status status,
                   const struct ps_item_status *why)
{
    struct ps_error error = {.status = status, .session = why->session};
    size_t size = why->text.size < sizeof error.text ? why->text.size : sizeof error.text - 1;
    for (size_t i = 0; i < size; i++)
        error.text[i] = (char)why->text.data[i];
    const struct ps_chain nowhere = {0};
    sim_server_reply(server, call->message, status, &error, NULL, &nowhere);
}

static void reply_since(struct sim_server *server, struct sim_served *served,
                        const struct served_call *call)
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
                     const struct served_call *call)
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
