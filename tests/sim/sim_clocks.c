/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a clock from a trainer to a shard and back, past the engine. */
#include "tests/sim/sim_clocks.h"

#include "base/assert.h"
#include "server/core/requests/clock_calls.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_clocks_told.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TURN_MS 40        /* how often a trainer looks whether a shard is to be told */
#define AGAIN_MS 700      /* without an answer it tells again */
#define LOOK_MS 5         /* how often a server looks whether it may answer */
#define READ_PERMILLE 600 /* of pulls: at the trainer's clock */
#define REMOVE_PERMILLE 3 /* of looks at a shard that has been told everything */

/* One request on its way, there and back. */
struct call {
    uint32_t client, server, shard;
    uint64_t client_generation, server_generation;
    uint8_t id[2];
    uint64_t session, sequence;
    enum sim_clock_wish wish;
    uint64_t clock;
    bool done; /* and not answered yet */
    struct ps_clocks_reply reply;
    struct ps_push_wait wait;
    enum ps_status status;
    struct ps_error error;
};

static void turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);
static void send_call(struct sim_client *client, uint32_t shard);
static void arrive(struct sim_world *world, void *subject, uint64_t a, uint64_t b);
static void come_back(struct sim_world *world, void *subject, uint64_t a, uint64_t b);
static void drop(struct sim_world *world, void *subject);

/* ---- The trainer ---- */

void sim_clocks_join(struct sim_client *client)
{
    memset(&client->clock, 0, sizeof client->clock);
    if (!client->world->options.clocks.present || !client->trains || client->changes)
        return;
    client->clock.session = ps_unix_ns(&client->world->clock) / 1000 + client->generation;
    sim_post(client->world, TURN_MS, turn, client, client->generation, 0);
}

/* False: the shard has been told everything. Whoever removes the clocks asks nobody: the others
 * find out when they read or say something, and set them anew. */
static bool choose_wish(struct sim_client *client, struct sim_clock_place *place)
{
    struct sim_world *world = client->world;
    place->wish = place->is_set ? SIM_CLOCK_SAYS : SIM_CLOCK_SETS;
    if (!place->is_set || !place->is_known || place->told < client->clock.clock)
        return true;
    if (!world->options.clocks.removes || !sim_chance(world, REMOVE_PERMILLE))
        return false;
    place->wish = SIM_CLOCK_REMOVES;
    return true;
}

static void turn(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_client *client = subject;
    struct sim_worker *worker = &client->clock;
    (void)b;
    if (!client->running || client->generation != generation)
        return;
    sim_post(world, TURN_MS, turn, client, generation, 0);
    if (sim_now(world) < client->paused_until_ms || client->phase < SIM_PHASE_IDLE)
        return;
    for (uint32_t i = 0; i < client->members.shard_count; i++) {
        struct sim_clock_place *place = &worker->shards[i];
        if (place->sequence_open == 0 && !choose_wish(client, place))
            continue;
        if (place->sequence_open == 0) {
            place->sequence_open = ++place->sequence;
            place->says = worker->clock;
            place->sent_ms = 0;
        }
        if (place->sent_ms == 0 || sim_now(world) >= place->sent_ms + AGAIN_MS)
            send_call(client, i);
    }
}

static bool all_are_told(const struct sim_client *client)
{
    const struct sim_worker *worker = &client->clock;
    for (uint32_t i = 0; i < client->members.shard_count; i++) {
        const struct sim_clock_place *place = &worker->shards[i];
        if (!place->is_set || !place->is_known || place->told != worker->clock)
            return false;
    }
    return true;
}

void sim_clocks_read(struct sim_client *client)
{
    client->clock.reads = client->clock.session > 0 && all_are_told(client) &&
                          sim_chance(client->world, READ_PERMILLE);
    for (size_t i = 0; i < client->item_count && client->clock.reads; i++) {
        struct ps_item *item = &client->items[i];
        item->worker = client->number + 1;
        item->clock = client->clock.clock;
        item->clocks = ps_bytes_of_text(SIM_CLOCKS_NAME);
    }
}

/* A read that failed may have found a shard that has lost what it was told. */
void sim_clocks_note(struct sim_client *client)
{
    struct sim_worker *worker = &client->clock;
    bool good = true;
    if (worker->session == 0)
        return;
    for (size_t i = 0; i < client->item_count; i++)
        good = good && client->items[i].status == PS_OK;
    if (client->method == PS_METHOD_PULL && worker->reads) {
        worker->has_read = good;
        for (uint32_t i = 0; i < SIM_SHARDS_MAX && !good; i++)
            worker->shards[i].is_known = false;
    }
    bool pushed = client->method == PS_METHOD_PUSH || client->method == PS_METHOD_PUSH_PULL;
    if (pushed && good && worker->has_read) {
        worker->clock++;
        worker->has_read = false;
    }
    worker->reads = false;
}

/* ---- The way ---- */

static bool is_lost(struct sim_world *world, uint32_t from, uint32_t to)
{
    return world->cut[from][to] || sim_chance(world, world->options.lose_permille);
}

static void send_call(struct sim_client *client, uint32_t shard)
{
    struct sim_world *world = client->world;
    struct sim_clock_place *place = &client->clock.shards[shard];
    const struct sim_server *server = sim_client_server(client, shard);
    place->sent_ms = sim_now(world);
    if (server == NULL || is_lost(world, sim_node_of_client(world, client->number),
                                  sim_node_of_server(world, server->number)))
        return;
    struct call *call = calloc(1, sizeof *call);
    PS_ASSERT(call != NULL);
    *call = (struct call){.client = client->number,
                          .server = server->number,
                          .shard = shard,
                          .client_generation = client->generation,
                          .server_generation = server->generation,
                          .id = {'k', (uint8_t)('0' + client->number)},
                          .session = client->clock.session,
                          .sequence = place->sequence_open,
                          .wish = place->wish,
                          .clock = place->says};
    sim_post_owned(world,
                   sim_between(world, world->options.delay_min_ms, world->options.delay_max_ms),
                   arrive, call, drop);
}

static void drop(struct sim_world *world, void *subject)
{
    (void)world;
    free(subject);
}

/* ---- The server ---- */

static enum ps_status serve(struct sim_server *server, struct call *call)
{
    const struct sim_clock_settings *settings = &server->world->options.clocks;
    const struct ps_request_id id = {.present = true,
                                     .client_id = {call->id, sizeof call->id},
                                     .session = call->session,
                                     .sequence = call->sequence};
    const struct ps_set_clocks_request set = {.name = ps_bytes_of_text(SIM_CLOCKS_NAME),
                                              .workers = sim_trainers(server->world),
                                              .consistency = settings->consistency,
                                              .staleness = settings->staleness,
                                              .straggler = settings->evicts ? 1 : 0,
                                              .ttl_ms = settings->ttl_ms,
                                              .shard = call->shard + 1,
                                              .request = id};
    const struct ps_clock_request say = {.name = ps_bytes_of_text(SIM_CLOCKS_NAME),
                                         .worker = call->client + 1,
                                         .clock = call->clock,
                                         .shard = call->shard + 1,
                                         .request = id};
    const struct ps_set_clocks_request removal = {.name = ps_bytes_of_text(SIM_CLOCKS_NAME),
                                                  .removes = true,
                                                  .shard = call->shard + 1,
                                                  .request = id};
    if (call->wish != SIM_CLOCK_SAYS)
        return ps_service_set_clocks(server->service,
                                     call->wish == SIM_CLOCK_SETS ? &set : &removal, &call->reply,
                                     &call->wait, &call->error);
    return ps_service_clock(server->service, &say, &call->reply, &call->wait, &call->error);
}

/* The first time that the call is here: what the checkers are to know of it. */
static void take(struct sim_server *server, struct call *call)
{
    static const char *const words[] = {"clock", "of clocks", "of no clocks"};
    struct sim_world *world = server->world;
    call->status = serve(server, call);
    call->done = true;
    sim_trace(world, server->name, "is told %s %" PRIu64 " by c%u: %s, at %" PRIu64,
              words[call->wish], call->clock, call->client + 1, ps_status_word(call->status),
              call->reply.clock);
    if (call->status == PS_OK && call->wish == SIM_CLOCK_SAYS)
        sim_clocks_told(server, call->client, &call->reply);
    else if (call->status == PS_OK)
        sim_clocks_begun(server, call->wish == SIM_CLOCK_REMOVES, &call->reply);
    sim_checker_state(world, server);
}

/* False: it is not durable yet. */
static bool may_be_answered(struct sim_server *server, struct call *call)
{
    struct ps_push_reply durable = {0};
    if (call->status != PS_OK)
        return true;
    enum ps_status status =
        ps_service_acknowledge(server->service, &call->wait, &durable, &call->error);
    if (status == PS_ERR_NOT_READY)
        return false;
    call->status = status;
    if (status == PS_OK && call->wish == SIM_CLOCK_SAYS)
        sim_clocks_acknowledged(server, call->client, &call->reply);
    else if (status == PS_OK && call->wish == SIM_CLOCK_REMOVES)
        sim_clocks_removed(server, &call->reply);
    return true;
}

static void answer(struct sim_world *world, struct call *call)
{
    const struct sim_options *options = &world->options;
    if (is_lost(world, sim_node_of_server(world, call->server),
                sim_node_of_client(world, call->client)))
        free(call);
    else
        sim_post_owned(world, sim_between(world, options->delay_min_ms, options->delay_max_ms),
                       come_back, call, drop);
}

/* The call comes here again and again until its record is durable. A process that is gone answers
 * nothing, and the trainer says it again. */
static void arrive(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    struct call *call = subject;
    struct sim_server *server = &world->servers[call->server];
    (void)a;
    (void)b;
    if (!server->running || server->generation != call->server_generation || !server->listening) {
        free(call);
        return;
    }
    if (server->paused) {
        sim_post_owned(world, LOOK_MS, arrive, call, drop);
        return;
    }
    if (!call->done)
        take(server, call);
    if (may_be_answered(server, call))
        answer(world, call);
    else
        sim_post_owned(world, LOOK_MS, arrive, call, drop);
    sim_server_ask_parked(server);
}

/* ---- The answer ---- */

static void take_answer(struct sim_client *client, const struct call *call)
{
    struct sim_worker *worker = &client->clock;
    struct sim_clock_place *place = &worker->shards[call->shard];
    place->sequence_open = 0;
    if (call->wish != SIM_CLOCK_SAYS) {
        place->is_set = call->wish == SIM_CLOCK_SETS;
        place->is_known = false;
        return;
    }
    place->is_known = true;
    place->told = call->reply.clock;
    /* A worker that was evicted, or that begins anew, goes on where the shard has it. */
    if (call->reply.clock > worker->clock) {
        worker->clock = call->reply.clock;
        worker->has_read = false;
    }
}

/* A shard that is not ready or has another owner is asked again; any other refusal may be about the
 * session. */
static void take_failure(struct sim_client *client, const struct call *call)
{
    struct sim_worker *worker = &client->clock;
    struct sim_clock_place *place = &worker->shards[call->shard];
    if (call->status == PS_ERR_NOT_READY || call->status == PS_ERR_UNAVAILABLE ||
        call->status == PS_ERR_NOT_OWNER || call->status == PS_ERR_BUSY)
        return;
    if (call->status == PS_ERR_NOT_FOUND)
        place->is_set = false;
    uint64_t now_us = ps_unix_ns(&client->world->clock) / 1000;
    worker->session = call->error.session > now_us ? call->error.session : now_us;
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        worker->shards[i].sequence = 0;
        worker->shards[i].sequence_open = 0;
        worker->shards[i].is_known = false;
    }
}

static void come_back(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    const struct call *call = subject;
    struct sim_client *client = &world->clients[call->client];
    struct sim_worker *worker = &client->clock;
    (void)a;
    (void)b;
    if (client->running && client->generation == call->client_generation &&
        worker->session == call->session &&
        worker->shards[call->shard].sequence_open == call->sequence) {
        if (call->status == PS_OK)
            take_answer(client, call);
        else
            take_failure(client, call);
    }
    free(subject);
}
