/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's channel. */
#include "tests/sim/sim_client_calls.h"

#include "base/assert.h"
#include "client/calls/retry.h"
#include "optimizer/encoded.h"
#include "proto/bundle_codec.h"
#include "proto/change_codec.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client_rounds.h"
#include "tests/sim/sim_clocks.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_calls(struct sim_client *client, const struct ps_engine_action *action);
static struct sim_attempt *find_attempt(struct sim_client *client, uint64_t number);

/* ---- SIM_MUTATION_MADE_BELIEVED ---- */

/* The linker puts these in the place of client/ranges/early_values.c: the engine itself is not
 * changed, only what it believes. */
static bool believes_early_values;
void __real_ps_early_values_reset(struct ps_early_values *early);
void __wrap_ps_early_values_reset(struct ps_early_values *early);
bool __real_ps_early_values_holds(const struct ps_early_values *early,
                                  const struct ps_push_reply *push);
bool __wrap_ps_early_values_holds(const struct ps_early_values *early,
                                  const struct ps_push_reply *push);

void __wrap_ps_early_values_reset(struct ps_early_values *early)
{
    if (believes_early_values)
        early->asks = false;
    else
        __real_ps_early_values_reset(early);
}

bool __wrap_ps_early_values_holds(const struct ps_early_values *early,
                                  const struct ps_push_reply *push)
{
    return believes_early_values ? early->version != 0 : __real_ps_early_values_holds(early, push);
}

/* ---- Actions ---- */

void sim_client_do_actions(struct sim_client *client)
{
    struct ps_engine_action action;
    while (ps_engine_next_action(client->engine, &action)) {
        switch (action.type) {
        case PS_ENGINE_SEND:
            send_calls(client, &action);
            break;
        case PS_ENGINE_CANCEL:
            for (size_t i = 0; i < SIM_ATTEMPTS_MAX; i++)
                if (client->attempts[i].call == action.call)
                    sim_client_break_attempt(client, &client->attempts[i]);
            break;
        case PS_ENGINE_FINISHED:
            PS_ASSERT(action.batch == client->batch || client->batch == NULL);
            client->finished = true;
            break;
        }
    }
}

static void give(struct sim_client *client, uint64_t call, enum ps_status status, bool refused,
                 const char *text)
{
    struct ps_call_outcome outcome = {.status = status, .refused = refused};
    snprintf(outcome.text, sizeof outcome.text, "%s", text);
    ps_engine_outcome(client->engine, call, &outcome, sim_now(client->world));
}

static void end_attempt(struct sim_client *client, struct sim_attempt *attempt,
                        enum ps_status status, const char *text)
{
    const struct sim_attempt ended = *attempt;
    if (ended.number == 0)
        return;
    *attempt = (struct sim_attempt){0};
    give(client, ended.call, status, false, text);
}

void sim_client_break_attempt(struct sim_client *client, struct sim_attempt *attempt)
{
    end_attempt(client, attempt, PS_ERR_CANCELLED, "given up");
}

void sim_client_leave(struct sim_client *client, uint32_t shard)
{
    for (size_t i = 0; i < SIM_ATTEMPTS_MAX; i++)
        if (client->attempts[i].shard == shard)
            end_attempt(client, &client->attempts[i], PS_ERR_UNAVAILABLE,
                        "the connection was given up");
    sim_client_do_actions(client);
}

struct sim_server *sim_client_server(const struct sim_client *client, uint32_t shard)
{
    struct sim_world *world = client->world;
    const char *address = client->members.rows[shard].address;
    for (uint32_t i = 0; i < world->options.server_count; i++)
        if (strcmp(world->servers[i].address, address) == 0 && world->servers[i].running)
            return &world->servers[i];
    return NULL;
}

static void refuse_calls(struct sim_client *client, const struct ps_call_part *parts, size_t count,
                         enum ps_status status, const char *text)
{
    for (size_t i = 0; i < count; i++)
        give(client, parts[i].call, status, true, text);
}

static struct sim_message *make_message(struct sim_client *client, const struct sim_server *server,
                                        uint32_t shard, uint64_t deadline_ms,
                                        const struct ps_call_part *part)
{
    struct sim_attempt *attempt = find_attempt(client, 0);
    *attempt = (struct sim_attempt){
        .number = ++client->attempt_number, .call = part->call, .shard = shard};
    struct sim_message *message = sim_message_of_request(part->request);
    message->client = client->number;
    message->server = server->number;
    message->client_generation = client->generation;
    message->server_generation = server->generation;
    message->call = part->call;
    message->attempt = attempt->number;
    message->shard = shard;
    message->deadline_ms = deadline_ms;
    return message;
}

static size_t free_attempts(const struct sim_client *client)
{
    size_t count = 0;
    for (size_t i = 0; i < SIM_ATTEMPTS_MAX; i++)
        count += client->attempts[i].number == 0 ? 1 : 0;
    return count;
}

/* The calls of one message arrive together or not at all; each is answered by itself, so that here
 * also a part of the answers can be lost, which a real channel never does. */
static void send_calls(struct sim_client *client, const struct ps_engine_action *action)
{
    struct ps_call_part parts[PS_MESSAGE_CALLS_MAX];
    struct sim_message *messages[PS_MESSAGE_CALLS_MAX];
    struct sim_server *server = sim_client_server(client, action->shard);
    size_t count = action->part_count;
    memcpy(parts, action->parts, count * sizeof *parts); /* outcomes change the engine's list */
    if (!client->running || server == NULL) {
        refuse_calls(client, parts, count, PS_ERR_UNAVAILABLE, "no connection");
        return;
    }
    if (free_attempts(client) < count) {
        sim_fail(client->world, "P6: %s has more than %d messages out", client->name,
                 SIM_ATTEMPTS_MAX);
        refuse_calls(client, parts, count, PS_ERR_BUSY, "too many calls");
        return;
    }
    for (size_t i = 0; i < count; i++)
        messages[i] = make_message(client, server, action->shard, action->deadline_ms, &parts[i]);
    sim_send_together(client->world, messages, count);
}

static struct sim_attempt *find_attempt(struct sim_client *client, uint64_t number)
{
    for (size_t i = 0; i < SIM_ATTEMPTS_MAX; i++)
        if (client->attempts[i].number == number)
            return &client->attempts[i];
    return NULL;
}

static enum ps_status decode(const struct sim_message *message, struct ps_view bytes,
                             const struct ps_allocator *memory, struct ps_call_reply *reply,
                             struct ps_decoded *decoded)
{
    reply->method = message->method;
    if (message->method == PS_METHOD_INIT || message->method == PS_METHOD_DEFINE)
        return ps_decode_init_reply(bytes, memory, &reply->init, NULL);
    if (message->method == PS_METHOD_DROP || message->method == PS_METHOD_CONFIGURE)
        return ps_decode_change_reply(bytes, memory, &reply->change, decoded, NULL);
    if (message->method == PS_METHOD_PUSH)
        return ps_decode_push_reply(bytes, memory, &reply->push, NULL);
    if (message->method == PS_METHOD_PULL)
        return ps_decode_pull_reply(bytes, memory, &reply->pull, decoded, NULL);
    if (message->method == PS_METHOD_SINCE)
        return ps_decode_bundle_reply(bytes, memory, &reply->since, decoded, NULL);
    if (message->method == PS_METHOD_PUSH_PULL) {
        struct ps_bundle_reply both;
        PS_TRY(ps_decode_bundle_reply(bytes, memory, &both, decoded, NULL));
        PS_ASSERT(both.push_count == 1 && both.pull_count == 1);
        reply->push_pull.push = both.pushes[0].reply;
        reply->push_pull.pull =
            both.pulls[0].status.status == PS_OK ? both.pulls[0].reply : (struct ps_pull_reply){0};
    }
    return PS_OK;
}

/* What came as one reply is judged at once; ranges are when all of them are there. */
static void judge_pull(struct sim_client *client, const struct sim_message *message,
                       const struct ps_call_outcome *outcome)
{
    const struct ps_pull_reply *reply = NULL;
    if (message->method == PS_METHOD_PULL)
        reply = &outcome->reply.pull;
    if (message->method == PS_METHOD_PUSH_PULL)
        reply = &outcome->reply.push_pull.pull;
    if (reply == NULL || outcome->status != PS_OK || reply->name.size == 0 ||
        sim_is_table(reply->name))
        return;
    sim_reads_note(&client->reads, reply, &message->chain);
    if (reply->range.count == 0)
        sim_truths_judge(client, reply->name, &message->chain, reply);
}

/* As the client library does: whatever leaves now leaves before the content is moved. */
static void give_answer(struct sim_client *client, uint64_t call,
                        const struct ps_call_outcome *outcome)
{
    uint64_t now_ms = sim_now(client->world);
    believes_early_values = client->world->options.mutation == SIM_MUTATION_MADE_BELIEVED;
    if (!ps_engine_outcome(client->engine, call, outcome, now_ms))
        return;
    sim_client_do_actions(client);
    ps_engine_keep(client->engine, call, outcome, now_ms);
}

void sim_client_take(struct sim_world *world, const struct sim_message *message)
{
    struct sim_client *client = &world->clients[message->client];
    if (!client->running || client->generation != message->client_generation)
        return;
    struct sim_attempt *attempt = find_attempt(client, message->attempt);
    if (attempt == NULL)
        return; /* given up, or answered before */
    PS_ASSERT(attempt->call == message->call);
    *attempt = (struct sim_attempt){0};

    const struct ps_bytes piece = {message->bytes, message->size};
    struct ps_decoded decoded = {0};
    struct ps_call_outcome outcome = {.status = message->status, .session = message->session};
    outcome.refused = message->refused && ps_retry_is_refusal(message->method, message->status);
    memcpy(outcome.text, message->text, sizeof outcome.text);
    if (outcome.status == PS_OK)
        outcome.status =
            decode(message, ps_view_of(&piece), &world->memory, &outcome.reply, &decoded);
    judge_pull(client, message, &outcome);
    give_answer(client, message->call, &outcome);
    ps_decoded_release(&decoded);
    sim_client_do_actions(client);
    ps_engine_check(client->engine);
    if (client->finished)
        sim_client_wake(client, 0);
}

void sim_client_trace_items(const struct sim_client *client)
{
    static const char *const words[] = {
        [SIM_PHASE_INITIALISING] = "init",     [SIM_PHASE_FINISHING] = "finish",
        [SIM_PHASE_PUSHING] = "push",          [SIM_PHASE_PULLING] = "pull",
        [SIM_PHASE_CATCHING_UP] = "since",     [SIM_PHASE_CHANGING] = "change",
        [SIM_PHASE_CONFIGURING] = "configure", [SIM_PHASE_ROWS] = "rows"};
    for (size_t i = 0; i < client->item_count; i++) {
        const struct ps_item *item = &client->items[i];
        char what[64];
        char came[64] = "";
        snprintf(what, sizeof what, "%s %.*s", words[client->phase], (int)item->name.size,
                 item->name.size > 0 ? (const char *)item->name.data : "");
        if (client->phase == SIM_PHASE_FINISHING || client->phase == SIM_PHASE_CATCHING_UP)
            snprintf(what, sizeof what, "%s shard %u", words[client->phase], item->shard);
        if (item->status == PS_OK && client->phase == SIM_PHASE_PUSHING)
            snprintf(came, sizeof came, ", version %llu", (unsigned long long)item->version);
        if (item->status == PS_OK && client->phase == SIM_PHASE_PULLING)
            snprintf(came, sizeof came, ", version %llu, first value %g",
                     (unsigned long long)item->version, sim_client_first_value(client, i));
        sim_trace(client->world, client->name, "%s: %s%s%s", what, ps_status_word(item->status),
                  item->before ? " (before)" : "", came);
    }
}

void sim_client_judge_batch(struct sim_client *client)
{
    if (client->phase == SIM_PHASE_ROWS) {
        sim_tables_trained(client);
        return;
    }
    if (client->method == PS_METHOD_PULL || client->method == PS_METHOD_PUSH_PULL)
        sim_reads_judge(client);
    sim_client_note_rounds(client);
    sim_clocks_note(client);
}

/* ---- Values ---- */

void sim_client_fill(struct sim_client *client, size_t i, size_t parameter, double value)
{
    PS_ASSERT(parameter < client->parameter_count);
    sim_client_fill_with(client, i, &client->parameters[parameter], value);
}

void sim_client_fill_with(struct sim_client *client, size_t i, const struct sim_parameter *about,
                          double value)
{
    void *values = client->values[i];
    PS_ASSERT(about->count <= SIM_ELEMENTS_MAX);
    for (size_t k = 0; k < about->count; k++) {
        switch (about->dtype) {
#define FILL(TAG, suffix, T, SUM, label) \
    case TAG:                            \
        ((T *)values)[k] = (T)value;     \
        break;
            PS_DTYPE_TABLE(FILL)
#undef FILL
        default:
            PS_ASSERT(false && "no such type");
        }
    }
    /* Of an initialisation; a push does not say it. */
    client->shapes[i][0] = 1;
    client->shapes[i][1] = about->count;
    client->items[i] = (struct ps_item){.name = ps_bytes_of_text(about->name),
                                        .dtype = about->dtype,
                                        .content = values,
                                        .destination = (uint8_t *)client->pulled[i],
                                        .size = about->count * ps_dtype_size(about->dtype),
                                        .shape = client->shapes[i],
                                        .rank = 2};
}

/* A number stays. */
void sim_client_place(struct sim_client *client, uint64_t placement)
{
    if (placement == 0)
        return;
    client->placement = placement;
    ps_engine_place(client->engine, placement);
}

/* Each client proposes another number, so that two that went by their own would be found out. */
enum ps_status sim_client_turn(struct sim_client *client, uint64_t deadline_ms,
                               enum ps_init_turn *turn)
{
    const struct sim_options *options = &client->world->options;
    uint64_t placement = 0;
    PS_TRY(ps_registry_init_turn(&client->registry, options->ttl_ms, &client->lock, deadline_ms,
                                 turn, NULL));
    if (options->placement == 0 || *turn == PS_INIT_WAIT)
        return PS_OK;
    if (*turn == PS_INIT_SELECTED)
        PS_TRY(ps_registry_decide_placement(&client->registry, &client->lock,
                                            options->placement + client->number, deadline_ms,
                                            &placement, NULL));
    else
        PS_TRY(ps_registry_read_placement(&client->registry, deadline_ms, &placement, NULL));
    sim_client_place(client, placement);
    return PS_OK;
}

/* In the ranges that the parameter is cut into. Of pairs all are sent: elements stay equal. */
void sim_client_encode(struct sim_client *client, size_t i)
{
    struct ps_item *item = &client->items[i];
    struct sim_encoded *encoded = &client->encoded[i];
    if (client->encoding == PS_ENCODING_NATIVE || !ps_dtype_is_float(item->dtype))
        return;
    /* What a contribution is must be known to the checker. */
    if (sim_rounds_of(sim_checker_rounds(client->world), item->name) != NULL &&
        !sim_rounds_can_read(client->encoding))
        return;
    size_t element_size = ps_dtype_size(item->dtype);
    const struct ps_layout layout = sim_client_layout(client);
    struct ps_placement placement = ps_placement_of(item->size, element_size, &layout);
    uint8_t *to = (uint8_t *)encoded->bytes;
    for (uint32_t k = 0; k < placement.range_count; k++) {
        struct ps_range range = ps_placement_range(&placement, item->name, k);
        size_t count = range.size / element_size;
        if (client->encoding == PS_ENCODING_TOP_K) {
            ps_encode_top_k(item->dtype, item->content + range.offset, count, count, to);
            encoded->ranges[k] = (struct ps_bytes){to, count * PS_ENCODING_PAIR_BYTES};
        } else {
            enum ps_status status = ps_encode_all(client->encoding, item->dtype,
                                                  item->content + range.offset, count, to, NULL);
            PS_ASSERT(status == PS_OK);
            encoded->ranges[k] = (struct ps_bytes){
                to, (size_t)ps_encoding_bytes(client->encoding, item->dtype, count)};
        }
        to += encoded->ranges[k].size;
        PS_ASSERT(to <= (uint8_t *)encoded->bytes + sizeof encoded->bytes);
    }
    encoded->push =
        (struct ps_encoded_push){.encoding = client->encoding, .ranges = encoded->ranges};
    item->encoded = &encoded->push;
}

double sim_client_first_value(const struct sim_client *client, size_t i)
{
    const void *values = client->pulled[i];
    switch (client->items[i].dtype) {
#define FIRST(TAG, suffix, T, SUM, label) \
    case TAG:                             \
        return (double)((const T *)values)[0];
        PS_DTYPE_TABLE(FIRST)
#undef FIRST
    default:
        return 0.0;
    }
}
