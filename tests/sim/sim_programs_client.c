/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that ask and meet, as client/program_customer.c and client/psclient_barrier.c do it, and
 * programs that take and answer, as client/serving_taker.c does; all without threads. */
#include "tests/sim/sim_programs_parts.h"

#include "base/assert.h"
#include "proto/program_codec.h"
#include "proto/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LAST_MS = 4000 };

static struct prg_op *find_place(struct prg_client *client);
static void begin_batch(struct prg_op *op, enum ps_method method, uint64_t timeout_ms);
static void go_on(struct prg_op *op);

void sim_prg_client_start(struct prg_client *client)
{
    struct prg_world *world = client->world;
    struct ps_engine_options options = {.memory = &world->memory,
                                        .shard_count = world->shard_count,
                                        .pause_min_ms = 5,
                                        .pause_max_ms = 100,
                                        .seed = ps_random_next(&world->random)};
    options.client_id.bytes[0] = (uint8_t)(client->number + 1);
    client->sender = ps_random_next(&world->random) | 1;
    client->taker = ps_random_next(&world->random) | 1;
    client->turn = 1;
    memset(client->orders, 0, sizeof client->orders);
    memset(client->epochs, 0, sizeof client->epochs);
    enum ps_status status = ps_engine_create(&options, &client->engine, NULL);
    PS_ASSERT(status == PS_OK);
    for (uint32_t i = 0; i < world->shard_count; i++)
        if (world->servers[i].service != NULL)
            ps_engine_member(client->engine, i, world->servers[i].generation);
}

/* Programs come in pairs: of each server one takes, and one takes what others may take again. */
uint32_t sim_prg_shard_of(const struct prg_client *client)
{
    PS_ASSERT(!sim_prg_is_worker(client));
    return (client->number - PRG_WORKERS_MAX) / 2;
}

enum prg_app sim_prg_app_of(const struct prg_client *client)
{
    return (client->number - PRG_WORKERS_MAX) % 2 == 0 ? PRG_TAKEN : PRG_AGAIN;
}

static struct prg_op *find_place(struct prg_client *client)
{
    for (size_t i = 0; client->engine != NULL && i < PRG_OPS_MAX; i++) {
        struct prg_op *op = &client->ops[i];
        if (op->kind != PRG_IDLE)
            continue;
        *op = (struct prg_op){.client = client};
        ps_buffer_init(&op->message, ps_allocator_heap(), 1 << 16);
        return op;
    }
    return NULL;
}

bool sim_prg_client_is_idle(const struct prg_client *client)
{
    for (size_t i = 0; i < PRG_OPS_MAX; i++)
        if (client->ops[i].kind != PRG_IDLE)
            return false;
    return true;
}

/* The server gives up before its client does, to say why. */
static void begin_batch(struct prg_op *op, enum ps_method method, uint64_t timeout_ms)
{
    struct prg_client *client = op->client;
    PS_ASSERT(!op->message.failed);
    op->deadline_ms = client->world->fake.now_ms + timeout_ms;
    op->item.shard = op->shard;
    op->item.ask = (struct ps_bytes){(const uint8_t *)op->message.text, op->message.size};
    const struct ps_batch_request request = {.method = method,
                                             .items = &op->item,
                                             .item_count = 1,
                                             .deadline_ms = op->deadline_ms,
                                             .owner = op};
    enum ps_status status =
        ps_engine_start(client->engine, &request, client->world->fake.now_ms, &op->batch, NULL);
    PS_ASSERT(status == PS_OK);
    sim_prg_act(client);
}

static void end_op(struct prg_op *op)
{
    PS_ASSERT(op->is_finished);
    ps_engine_end(op->client->engine, op->batch);
    ps_buffer_fini(&op->message);
    op->kind = PRG_IDLE;
}

/* ---- Asking ---- */

static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    struct prg_op *op = self;
    struct prg_world *world = op->client->world;
    const struct prg_request *request = &world->requests[op->number - 1];
    uint8_t own[PRG_BYTES_MAX], came[PRG_BYTES_MAX];
    struct ps_ask_reply read;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_ask_reply(reply->ask, &world->memory, &read, &decoded, error));
    op->client->epochs[op->shard] = read.epoch;
    sim_prg_fill(own, request->size, op->number, true);
    if (read.payload.content.size == request->size)
        ps_view_copy(read.payload.content, 0, came, request->size);
    if (read.payload.content.size != request->size || memcmp(own, came, request->size) != 0)
        sim_prg_fail(world, "the answer to request %" PRIu64 " has other bytes", op->number);
    ps_decoded_release(&decoded);
    return PS_OK;
}

/* Of this client's requests that are open: all before it are over for the sender. */
static uint64_t oldest_order(const struct prg_client *client, uint32_t shard, enum prg_app app)
{
    uint64_t least = client->orders[shard][app];
    for (size_t i = 0; i < PRG_OPS_MAX; i++) {
        const struct prg_op *op = &client->ops[i];
        if (op->kind != PRG_ASK || op->shard != shard)
            continue;
        const struct prg_request *request = &client->world->requests[op->number - 1];
        if (request->app == app && request->order < least)
            least = request->order;
    }
    return least;
}

/* In a calm world nobody gives up. */
void sim_prg_ask(struct prg_client *client, uint32_t shard, enum prg_app app, uint64_t timeout_ms)
{
    struct prg_world *world = client->world;
    struct prg_op *op = find_place(client);
    if (op == NULL || world->request_count == PRG_REQUESTS_MAX)
        return;
    struct prg_request *request = &world->requests[world->request_count++];
    op->kind = PRG_ASK;
    op->shard = shard;
    op->number = world->request_count;
    *request = (struct prg_request){
        .worker = client->number,
        .shard = shard,
        .app = app,
        .size = (uint32_t)sim_prg_between(world, 1, sim_prg_chance(world, 100) ? 6000 : 40),
        .token = ps_random_next(&world->random) | 1,
        .order = ++client->orders[shard][app]};
    request->order_from = oldest_order(client, shard, app);
    const struct ps_program_tensor tensor = {.size = request->size};
    const struct ps_ask_request asked = {
        .asked = {.app = app, .worker = client->number, .timestamp = op->number},
        .payload = {.tensors = &tensor, .tensor_count = 1},
        .token = request->token,
        .sender = client->sender,
        .order = request->order,
        .order_from = request->order_from,
        .wait_ms = timeout_ms - timeout_ms / 10,
        .shard = shard + 1};
    sim_prg_fill(op->content, request->size, op->number, false);
    op->piece = (struct ps_bytes){op->content, request->size};
    ps_encode_ask(&asked, &op->message);
    op->item = (struct ps_item){.ask_content = ps_view_of(&op->piece),
                                .ask_epoch = client->epochs[shard],
                                .answer = {take_answer, op}};
    world->result.asked++;
    sim_prg_trace(world, "worker %" PRIu32 " asks %" PRIu64 " of app %d at %" PRIu32,
                  client->number, op->number, (int)app, shard);
    begin_batch(op, PS_METHOD_ASK, timeout_ms);
}

/* What its worker is told must be what became of it. */
static void ask_on(struct prg_op *op)
{
    struct prg_world *world = op->client->world;
    struct prg_request *request = &world->requests[op->number - 1];
    const struct ps_item *item = &op->item;
    sim_prg_trace(world, "request %" PRIu64 ": %s %s", op->number, ps_status_word(item->status),
                  item->text);
    bool is_answered =
        item->status == PS_OK || (item->status == PS_ERR_BUSY && request->is_refused);
    request->is_answered = is_answered;
    world->result.answered += is_answered;
    world->result.aborted += item->status == PS_ERR_ABORTED;
    request->is_untaken =
        item->status == PS_ERR_TIMEOUT && (strstr(item->text, "nobody has taken") != NULL ||
                                           strstr(item->text, "nobody took") != NULL ||
                                           strstr(item->text, "no program takes") != NULL);
    world->result.untaken += request->is_untaken;
    if (item->status == PS_ERR_ABORTED)
        op->client->epochs[op->shard] = 0;
    if (is_answered && request->runs == 0)
        sim_prg_fail(world, "request %" PRIu64 " is answered, and nobody had it", op->number);
    if (request->is_untaken && request->runs > 0)
        sim_prg_fail(world, "request %" PRIu64 " was begun, and nobody is said to have taken it",
                     op->number);
    if (world->is_calm && !is_answered)
        sim_prg_fail(world, "request %" PRIu64 ": %s, where nothing goes wrong", op->number,
                     item->text);
    end_op(op);
}

/* ---- Meeting ---- */

/* A round that has failed is said again, as a caller does who must not go on alone. */
void sim_prg_meet(struct prg_client *client, uint32_t barrier, uint64_t timeout_ms)
{
    struct prg_world *world = client->world;
    char name[16];
    for (size_t i = 0; i < PRG_OPS_MAX; i++)
        if (client->ops[i].kind == PRG_MEET && client->ops[i].barrier == barrier)
            return;
    struct prg_op *op = find_place(client);
    if (op == NULL)
        return;
    op->kind = PRG_MEET;
    op->barrier = barrier;
    op->shard = barrier % world->shard_count;
    client->rounds[barrier] = client->passed[barrier] + 1;
    (void)snprintf(name, sizeof name, "meeting %" PRIu32, barrier);
    ps_wire_put_text(&op->message, 1, name);
    ps_wire_put_uint(&op->message, 2, client->rounds[barrier]);
    ps_wire_put_uint(&op->message, 3, client->number);
    ps_wire_put_uint(&op->message, 4, world->worker_count);
    ps_wire_put_uint(&op->message, 5, timeout_ms);
    ps_wire_put_uint(&op->message, 6, ps_random_next(&world->random) | 1);
    sim_prg_trace(world, "worker %" PRIu32 " comes to meeting %" PRIu32 ", round %" PRIu64,
                  client->number, barrier, client->rounds[barrier]);
    begin_batch(op, PS_METHOD_BARRIER, timeout_ms + timeout_ms / 10 + 10);
}

static bool has_anybody_passed(const struct prg_world *world, uint32_t barrier, uint64_t round)
{
    for (uint32_t i = 0; i < world->worker_count; i++)
        if (world->clients[i].passed[barrier] >= round)
            return true;
    return false;
}

/* Who was let go while a server died may meet others that were not: they hear of another round. */
static void meet_on(struct prg_op *op)
{
    struct prg_world *world = op->client->world;
    uint64_t round = op->client->rounds[op->barrier];
    enum ps_status status = op->item.status;
    sim_prg_trace(world, "worker %" PRIu32 " at meeting %" PRIu32 ": %s %s", op->client->number,
                  op->barrier, ps_status_word(status), op->item.text);
    for (uint32_t i = 0; status == PS_OK && i < world->worker_count; i++)
        if (world->clients[i].rounds[op->barrier] < round)
            sim_prg_fail(world, "round %" PRIu64 " is over, and worker %" PRIu32 " has not come",
                         round, i);
    bool is_torn = status == PS_ERR_MISMATCH && has_anybody_passed(world, op->barrier, round);
    if (is_torn && world->is_calm)
        sim_prg_fail(world, "round %" PRIu64 " is torn where nothing goes wrong", round);
    if (status == PS_OK || is_torn)
        op->client->passed[op->barrier] = round;
    world->result.passed += status == PS_OK;
    world->result.torn += is_torn;
    end_op(op);
}

/* ---- Taking and answering ---- */

static enum ps_status take_requests(void *self, const struct ps_call_reply *reply,
                                    struct ps_error *error)
{
    struct prg_op *op = self;
    struct prg_world *world = op->client->world;
    struct ps_take_reply read;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_take_reply(reply->ask, &world->memory, &read, &decoded, error));
    PS_ASSERT(read.taken_count <= PRG_TAKEN_MAX);
    for (size_t i = 0; i < read.taken_count; i++) {
        const struct ps_program_taken *taken = &read.taken[i];
        op->handles[i] = taken->handle;
        op->numbers[i] = taken->asked.timestamp;
        (void)sim_prg_run(world, taken->asked.timestamp, taken->again);
    }
    op->taken_count = read.taken_count;
    ps_decoded_release(&decoded);
    return PS_OK;
}

static void take_turn(struct prg_op *op, uint64_t timeout_ms)
{
    const struct prg_client *client = op->client;
    const struct ps_take_request take = {.app = sim_prg_app_of(client),
                                         .taker = client->taker,
                                         .turn = client->turn,
                                         .max = PRG_TAKEN_MAX,
                                         .wait_ms = timeout_ms - timeout_ms / 10,
                                         .again = sim_prg_app_of(client) == PRG_AGAIN,
                                         .shard = op->shard + 1,
                                         .name = ps_bytes_of_text("taker")};
    op->kind = PRG_TAKE;
    ps_encode_take(&take, &op->message);
    op->item = (struct ps_item){.answer = {take_requests, op}};
    begin_batch(op, PS_METHOD_TAKE, timeout_ms);
}

/* One turn at a time. */
void sim_prg_take(struct prg_client *client, uint64_t timeout_ms)
{
    struct prg_op *op = sim_prg_client_is_idle(client) ? find_place(client) : NULL;
    if (op == NULL)
        return;
    op->shard = sim_prg_shard_of(client);
    take_turn(op, timeout_ms);
}

static enum ps_status take_statuses(void *self, const struct ps_call_reply *reply,
                                    struct ps_error *error)
{
    const struct prg_op *op = self;
    enum ps_status statuses[PRG_TAKEN_MAX];
    return ps_decode_answer_reply(reply->ask, statuses, op->taken_count, error);
}

/* All of a turn in one message, each with a tensor of its own. */
static void answer_all(struct prg_op *op)
{
    struct prg_world *world = op->client->world;
    struct ps_program_tensor tensors[PRG_TAKEN_MAX];
    struct ps_answer_part parts[PRG_TAKEN_MAX];
    struct ps_program_answered answers[PRG_TAKEN_MAX];
    size_t at = 0;
    for (uint32_t i = 0; i < op->taken_count; i++) {
        uint64_t number = op->numbers[i];
        uint32_t size = world->requests[number - 1].size;
        bool is_moved = world->mutation == SIM_PROGRAMS_ANSWER_MOVED && number > 1;
        sim_prg_fill(op->content + at, size, is_moved ? number - 1 : number, true);
        at += size;
        tensors[i] = (struct ps_program_tensor){.size = size};
        parts[i] = (struct ps_answer_part){.tensor = i};
        answers[i] = (struct ps_program_answered){
            .handle = op->handles[i], .parts = &parts[i], .part_count = 1};
    }
    const struct ps_answer_request request = {.app = sim_prg_app_of(op->client),
                                              .taker = op->client->taker,
                                              .token = ps_random_next(&world->random) | 1,
                                              .shard = op->shard + 1,
                                              .tensors = tensors,
                                              .tensor_count = op->taken_count,
                                              .answers = answers,
                                              .answer_count = op->taken_count};
    op->kind = PRG_ANSWER;
    op->piece = (struct ps_bytes){op->content, at};
    ps_encode_answer(&request, &op->message);
    op->item =
        (struct ps_item){.ask_content = ps_view_of(&op->piece), .answer = {take_statuses, op}};
    begin_batch(op, PS_METHOD_ANSWER, 2000);
}

/* A turn whose end was not heard is said again, under its number. A program that has lost its place
 * comes as a new one, as one does that was started anew. */
static void take_on(struct prg_op *op)
{
    struct prg_client *client = op->client;
    struct prg_world *world = client->world;
    enum ps_status status = op->item.status;
    ps_engine_end(client->engine, op->batch);
    ps_buffer_clear(&op->message);
    op->is_finished = false;
    if (status == PS_OK)
        client->turn++;
    else if (status == PS_ERR_ABORTED)
        client->taker = ps_random_next(&world->random) | 1;
    if (status == PS_OK && op->taken_count > 0) {
        answer_all(op);
        return;
    }
    ps_buffer_fini(&op->message);
    op->kind = PRG_IDLE;
}

/* ---- Time ---- */

static void go_on(struct prg_op *op)
{
    switch (op->kind) {
    case PRG_ASK:
        ask_on(op);
        return;
    case PRG_MEET:
        meet_on(op);
        return;
    case PRG_TAKE:
        take_on(op);
        return;
    case PRG_ANSWER:
        end_op(op);
        return;
    case PRG_IDLE:
        return;
    }
}

void sim_prg_client_look(struct prg_client *client)
{
    struct prg_world *world = client->world;
    if (client->engine == NULL)
        return;
    if (ps_engine_wake_ms(client->engine) <= world->fake.now_ms) {
        ps_engine_tick(client->engine, world->fake.now_ms);
        sim_prg_act(client);
    }
    for (size_t i = 0; i < PRG_OPS_MAX; i++) {
        struct prg_op *op = &client->ops[i];
        if (op->kind != PRG_IDLE && op->is_finished)
            go_on(op);
        if (op->kind != PRG_IDLE && world->fake.now_ms > op->deadline_ms + LAST_MS)
            sim_prg_fail(world, "an operation of client %" PRIu32 " hangs", client->number);
    }
    ps_engine_check(client->engine);
}

/* Its connections break, and nobody hears of what it had. */
void sim_prg_client_die(struct prg_client *client)
{
    struct prg_world *world = client->world;
    sim_prg_trace(world, "client %" PRIu32 " dies", client->number);
    /* At the end of time every batch is given up, and what is out is answered by nobody. */
    ps_engine_tick(client->engine, PS_DEADLINE_NEVER - 1);
    for (int turn = 0; turn < 3; turn++) {
        sim_prg_act(client);
        for (size_t i = 0; i < PRG_ATTEMPTS_MAX; i++) {
            const struct prg_event event = {.client = client->number,
                                            .attempt = client->attempts[i].number,
                                            .status = PS_ERR_TIMEOUT};
            const struct prg_event gone = {.run = sim_prg_server_leave,
                                           .server = client->attempts[i].shard,
                                           .attempt = event.attempt};
            if (event.attempt == 0)
                continue;
            sim_prg_post(world, sim_prg_between(world, 1, 200), &gone);
            sim_prg_client_take(world, &event);
        }
    }
    for (size_t i = 0; i < PRG_OPS_MAX; i++)
        if (client->ops[i].kind != PRG_IDLE)
            end_op(&client->ops[i]);
    ps_engine_destroy(client->engine);
    client->engine = NULL;
}
