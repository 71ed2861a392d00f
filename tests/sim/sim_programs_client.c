/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that ask and meet, as client/program_customer.c and client/psclient_barrier.c do it, and
 * programs that take and answer, as client/serving_taker.c does; all without threads. */
#include "tests/sim/sim_programs.h"

#include "base/assert.h"
#include "proto/program_codec.h"
#include "proto/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LAST_MS = 4000 };

void sim_prg_client_start(struct sim_small_client *base)
{
    struct prg_client *client = sim_prg_client(base);
    client->world = sim_prg_world(base->world);
    client->base = base;
    client->sender = ps_random_next(&base->world->random) | 1;
    client->taker = ps_random_next(&base->world->random) | 1;
    client->turn = 1;
    memset(client->orders, 0, sizeof client->orders);
    memset(client->epochs, 0, sizeof client->epochs);
}

/* Programs come in pairs: of each server one takes, and one takes what others may take again. */
static uint32_t shard_of(const struct prg_client *client)
{
    PS_ASSERT(client->base->number >= client->world->small.worker_count);
    return (client->base->number - client->world->small.worker_count) / PRG_BESIDE;
}

static enum prg_app app_of(const struct prg_client *client)
{
    uint32_t place = client->base->number - client->world->small.worker_count;
    return place % PRG_BESIDE == 0 ? PRG_TAKEN : PRG_AGAIN;
}

static struct prg_op *find_place(struct prg_client *client)
{
    for (size_t i = 0; client->base->engine != NULL && i < PRG_OPS_MAX; i++) {
        struct prg_op *op = &client->ops[i];
        if (op->kind != PRG_IDLE)
            continue;
        *op = (struct prg_op){.client = client};
        ps_buffer_init(&op->message, ps_allocator_heap(), 1 << 16);
        return op;
    }
    return NULL;
}

bool sim_prg_client_is_idle(const struct sim_small_client *base)
{
    const struct prg_client *client = sim_prg_client(base);
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
    op->deadline_ms = client->world->small.fake.now_ms + timeout_ms;
    op->item.shard = op->shard;
    op->item.ask = (struct ps_bytes){(const uint8_t *)op->message.text, op->message.size};
    op->batch =
        sim_small_begin(client->base, method, &op->item, 1, op->deadline_ms, &op->is_finished);
}

static void end_op(struct prg_op *op)
{
    PS_ASSERT(op->is_finished);
    ps_engine_end(op->client->base->engine, op->batch);
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
    PS_TRY(ps_decode_ask_reply(reply->ask, &world->small.memory, &read, &decoded, error));
    op->client->epochs[op->shard] = read.epoch;
    sim_prg_fill(own, request->size, op->number, true);
    if (read.payload.content.size == request->size)
        ps_view_copy(read.payload.content, 0, came, request->size);
    if (read.payload.content.size != request->size || memcmp(own, came, request->size) != 0)
        sim_small_fail(&world->small, "the answer to request %" PRIu64 " has other bytes",
                       op->number);
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
        .worker = client->base->number,
        .shard = shard,
        .app = app,
        .size = (uint32_t)sim_small_between(&world->small, 1,
                                            sim_small_chance(&world->small, 100) ? 6000 : 40),
        .token = ps_random_next(&world->small.random) | 1,
        .order = ++client->orders[shard][app]};
    request->order_from = oldest_order(client, shard, app);
    const struct ps_program_tensor tensor = {.size = request->size};
    const struct ps_ask_request asked = {
        .asked = {.app = app, .worker = client->base->number, .timestamp = op->number},
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
    world->small.result.counts[PRG_ASKED]++;
    sim_small_trace(&world->small, "worker %" PRIu32 " asks %" PRIu64 " of app %d at %" PRIu32,
                    client->base->number, op->number, (int)app, shard);
    begin_batch(op, PS_METHOD_ASK, timeout_ms);
}

/* What its worker is told must be what became of it. */
static void ask_on(struct prg_op *op)
{
    struct prg_world *world = op->client->world;
    struct prg_request *request = &world->requests[op->number - 1];
    const struct ps_item *item = &op->item;
    sim_small_trace(&world->small, "request %" PRIu64 ": %s %s", op->number,
                    ps_status_word(item->status), item->text);
    bool is_answered =
        item->status == PS_OK || (item->status == PS_ERR_BUSY && request->is_refused);
    world->small.result.counts[PRG_ANSWERED] += is_answered;
    world->small.result.counts[PRG_ABORTED] += item->status == PS_ERR_ABORTED;
    request->is_untaken =
        item->status == PS_ERR_TIMEOUT && (strstr(item->text, "nobody has taken") != NULL ||
                                           strstr(item->text, "nobody took") != NULL ||
                                           strstr(item->text, "no program takes") != NULL);
    world->small.result.counts[PRG_UNTAKEN] += request->is_untaken;
    if (item->status == PS_ERR_ABORTED)
        op->client->epochs[op->shard] = 0;
    if (is_answered && request->runs == 0)
        sim_small_fail(&world->small, "request %" PRIu64 " is answered, and nobody had it",
                       op->number);
    if (request->is_untaken && request->runs > 0)
        sim_small_fail(&world->small,
                       "request %" PRIu64 " was begun, and nobody is said to have taken it",
                       op->number);
    if (world->small.is_calm && !is_answered)
        sim_small_fail(&world->small, "request %" PRIu64 ": %s, where nothing goes wrong",
                       op->number, item->text);
    end_op(op);
}

/* ---- Meeting ---- */

bool sim_prg_is_meeting(const struct prg_client *client, uint32_t barrier)
{
    for (size_t i = 0; i < PRG_OPS_MAX; i++)
        if (client->ops[i].kind == PRG_MEET && client->ops[i].barrier == barrier)
            return true;
    return false;
}

/* A round that has failed is said again, as a caller does who must not go on alone. */
void sim_prg_meet(struct prg_client *client, uint32_t barrier, uint64_t timeout_ms)
{
    struct prg_world *world = client->world;
    char name[16];
    struct prg_op *op = sim_prg_is_meeting(client, barrier) ? NULL : find_place(client);
    if (op == NULL)
        return;
    op->kind = PRG_MEET;
    op->barrier = barrier;
    op->shard = barrier % world->small.shard_count;
    client->rounds[barrier] = client->passed[barrier] + 1;
    (void)snprintf(name, sizeof name, "meeting %" PRIu32, barrier);
    ps_wire_put_text(&op->message, 1, name);
    ps_wire_put_uint(&op->message, 2, client->rounds[barrier]);
    ps_wire_put_uint(&op->message, 3, client->base->number);
    ps_wire_put_uint(&op->message, 4, world->small.worker_count);
    ps_wire_put_uint(&op->message, 5, timeout_ms);
    ps_wire_put_uint(&op->message, 6, ps_random_next(&world->small.random) | 1);
    sim_small_trace(&world->small,
                    "worker %" PRIu32 " comes to meeting %" PRIu32 ", round %" PRIu64,
                    client->base->number, barrier, client->rounds[barrier]);
    begin_batch(op, PS_METHOD_BARRIER, timeout_ms + timeout_ms / 10 + 10);
}

static bool has_anybody_passed(const struct prg_world *world, uint32_t barrier, uint64_t round)
{
    for (uint32_t i = 0; i < world->small.worker_count; i++)
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
    sim_small_trace(&world->small, "worker %" PRIu32 " at meeting %" PRIu32 ": %s %s",
                    op->client->base->number, op->barrier, ps_status_word(status), op->item.text);
    for (uint32_t i = 0; status == PS_OK && i < world->small.worker_count; i++)
        if (world->clients[i].rounds[op->barrier] < round)
            sim_small_fail(&world->small,
                           "round %" PRIu64 " is over, and worker %" PRIu32 " has not come", round,
                           i);
    bool is_torn = status == PS_ERR_MISMATCH && has_anybody_passed(world, op->barrier, round);
    if (is_torn && world->small.is_calm)
        sim_small_fail(&world->small, "round %" PRIu64 " is torn where nothing goes wrong", round);
    if (status == PS_OK || is_torn)
        op->client->passed[op->barrier] = round;
    world->small.result.counts[PRG_PASSED] += status == PS_OK;
    world->small.result.counts[PRG_TORN] += is_torn;
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
    PS_TRY(ps_decode_take_reply(reply->ask, &world->small.memory, &read, &decoded, error));
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
    const struct ps_take_request take = {.app = app_of(client),
                                         .taker = client->taker,
                                         .turn = client->turn,
                                         .max = PRG_TAKEN_MAX,
                                         .wait_ms = timeout_ms - timeout_ms / 10,
                                         .again = app_of(client) == PRG_AGAIN,
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
    struct prg_op *op = sim_prg_client_is_idle(client->base) ? find_place(client) : NULL;
    if (op == NULL)
        return;
    op->shard = shard_of(client);
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
        bool is_moved = world->small.mutation == SIM_PROGRAMS_ANSWER_MOVED && number > 1;
        sim_prg_fill(op->content + at, size, is_moved ? number - 1 : number, true);
        at += size;
        tensors[i] = (struct ps_program_tensor){.size = size};
        parts[i] = (struct ps_answer_part){.tensor = i};
        answers[i] = (struct ps_program_answered){
            .handle = op->handles[i], .parts = &parts[i], .part_count = 1};
    }
    const struct ps_answer_request request = {.app = app_of(op->client),
                                              .taker = op->client->taker,
                                              .token = ps_random_next(&world->small.random) | 1,
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
    ps_engine_end(client->base->engine, op->batch);
    ps_buffer_clear(&op->message);
    op->is_finished = false;
    if (status == PS_OK)
        client->turn++;
    else if (status == PS_ERR_ABORTED)
        client->taker = ps_random_next(&world->small.random) | 1;
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

void sim_prg_client_go_on(struct sim_small_client *base)
{
    struct prg_client *client = sim_prg_client(base);
    for (size_t i = 0; i < PRG_OPS_MAX; i++) {
        struct prg_op *op = &client->ops[i];
        if (op->kind != PRG_IDLE && op->is_finished)
            go_on(op);
        if (op->kind != PRG_IDLE && base->world->fake.now_ms > op->deadline_ms + LAST_MS)
            sim_small_fail(base->world, "an operation of client %" PRIu32 " hangs", base->number);
    }
}

void sim_prg_client_end(struct sim_small_client *base)
{
    struct prg_client *client = sim_prg_client(base);
    for (size_t i = 0; i < PRG_OPS_MAX; i++)
        if (client->ops[i].kind != PRG_IDLE)
            end_op(&client->ops[i]);
}
