/* SPDX-License-Identifier: Apache-2.0 */
/* What libpsclient does with the engine and client/tensors, without its threads: one operation is a
 * few batches, and what the servers are to be told of ended receives goes along. */
#include "tests/sim/sim_rendezvous.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "proto/rendezvous_codec.h"
#include "proto/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_MS = 4000 };

void sim_rdv_client_start(struct sim_small_client *base)
{
    struct rdv_client *client = sim_rdv_client(base);
    client->world = sim_rdv_world(base->world);
    client->base = base;
    client->next_id = ps_random_next(&base->world->random) / 2 + 1;
    memset(client->epochs, 0, sizeof client->epochs);
    memset(client->ended, 0, sizeof client->ended);
    memset(client->is_over, 0, sizeof client->is_over);
}

/* ---- Operations ---- */

struct rdv_op *sim_rdv_client_place(struct rdv_client *client)
{
    for (size_t i = 0; client->base->engine != NULL && i < RDV_OPS_MAX; i++) {
        struct rdv_op *op = &client->ops[i];
        if (op->kind != RDV_IDLE)
            continue;
        memset(op, 0, sizeof *op);
        op->client = client;
        return op;
    }
    return NULL;
}

bool sim_rdv_client_is_idle(const struct sim_small_client *base)
{
    const struct rdv_client *client = sim_rdv_client(base);
    for (size_t i = 0; i < RDV_OPS_MAX; i++)
        if (client->ops[i].kind != RDV_IDLE)
            return false;
    return true;
}

struct ps_buffer *sim_rdv_add_item(struct rdv_op *op, uint32_t shard,
                                   enum ps_status (*take)(void *self,
                                                          const struct ps_call_reply *reply,
                                                          struct ps_error *error))
{
    PS_ASSERT(op->item_count < RDV_ITEMS_MAX);
    struct ps_buffer *message = &op->messages[op->item_count];
    ps_buffer_init(message, ps_allocator_heap(), 1 << 16);
    op->items[op->item_count++] = (struct ps_item){.shard = shard, .answer = {take, op}};
    return message;
}

void sim_rdv_begin_batch(struct rdv_op *op, enum ps_method method, uint64_t deadline_ms)
{
    for (size_t i = 0; i < op->item_count; i++)
        op->items[i].ask =
            (struct ps_bytes){(const uint8_t *)op->messages[i].text, op->messages[i].size};
    op->deadline_ms = deadline_ms + LAST_MS;
    op->batch = sim_small_begin(op->client->base, method, op->items, op->item_count, deadline_ms,
                                &op->is_finished);
}

/* The first item that failed; PS_OK: none. */
enum ps_status sim_rdv_end_batch(struct rdv_op *op, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < op->item_count; i++) {
        if (status == PS_OK && op->items[i].status != PS_OK)
            status = ps_fail(error, op->items[i].status, "%s", op->items[i].text);
        ps_buffer_fini(&op->messages[i]);
    }
    ps_engine_end(op->client->base->engine, op->batch);
    op->batch = NULL;
    op->item_count = 0;
    return status;
}

static void note_epoch(struct rdv_op *op, uint32_t shard, uint64_t epoch)
{
    uint64_t *known = &op->client->epochs[op->step][shard];
    if (*known == 0)
        *known = epoch;
}

/* A process that hears that its step has ended begins it again, as if it were another. */
void sim_rdv_note_end_of_step(struct rdv_op *op, enum ps_status status)
{
    if (status == PS_ERR_ABORTED)
        op->client->is_over[op->step] = true;
}

/* What a handle has not told when it is closed stays with it: values that it gave back may be its
 * receives' until the step ends. */
static void take_along(struct rdv_client *client, uint32_t step)
{
    struct rdv_world *world = client->world;
    for (uint32_t key = 0; key < RDV_KEYS; key++) {
        uint32_t shard =
            ps_tensor_shard_of(ps_bytes_of_text(sim_rdv_key(key)), world->small.shard_count);
        world->dead_receives[step][key] += (uint32_t)client->ended[step][shard].give_back_count;
    }
}

/* The handle is closed, and the next operation opens another: when none uses it any more. */
static void close_step(struct rdv_client *client, uint32_t step)
{
    for (size_t i = 0; i < RDV_OPS_MAX; i++)
        if (client->ops[i].kind != RDV_IDLE && client->ops[i].step == step)
            return;
    take_along(client, step);
    memset(client->epochs[step], 0, sizeof client->epochs[step]);
    memset(client->ended[step], 0, sizeof client->ended[step]);
    client->is_over[step] = false;
}

void sim_rdv_end_op(struct rdv_op *op)
{
    PS_ASSERT(op->batch == NULL);
    if (op->wishes.values != NULL)
        ps_tensor_wishes_fini(&op->wishes);
    op->kind = RDV_IDLE;
    if (op->client->is_over[op->step])
        close_step(op->client, op->step);
}

/* ---- Sends ---- */

/* Bytes that say which value they are of, wherever one looks. */
void sim_rdv_fill(uint8_t *content, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++)
        content[i] = (uint8_t)(number * 131 + i + i / 200);
    if (size >= sizeof(uint32_t)) {
        uint32_t word = (uint32_t)number;
        memcpy(content, &word, sizeof word);
    }
}

static enum ps_status take_sent(void *self, const struct ps_call_reply *reply,
                                struct ps_error *error)
{
    struct rdv_op *op = self;
    struct ps_send_tensor_reply read;
    PS_TRY(ps_decode_send_tensor_reply(reply->ask, &read, error));
    note_epoch(op, op->client->world->values[op->value - 1].shard, read.epoch);
    op->is_whole = op->is_whole || read.is_whole;
    return PS_OK;
}

static void send_parts(struct rdv_op *op, uint64_t deadline_ms)
{
    struct rdv_client *client = op->client;
    const struct rdv_value *value = &client->world->values[op->value - 1];
    size_t count = ps_tensor_cut_count(value->size);
    struct ps_send_tensor_request request = {.step = op->step,
                                             .epoch = client->epochs[op->step][value->shard],
                                             .token = value->token,
                                             .key = ps_bytes_of_text(sim_rdv_key(op->key)),
                                             .facts = {.dtype = 1},
                                             .total = count > 1 ? value->size : 0,
                                             .shard = value->shard + 1};
    if (request.epoch == 0)
        client->world->values[op->value - 1].is_blind = true;
    for (size_t i = 0; i < count; i++) {
        struct ps_tensor_part part = ps_tensor_cut_part(value->size, i);
        request.offset = part.offset;
        ps_encode_send_tensor(&request, sim_rdv_add_item(op, value->shard, take_sent));
        op->pieces[i] = (struct ps_bytes){op->content + part.offset, (size_t)part.size};
        op->items[i].ask_content = ps_view_of(&op->pieces[i]);
    }
    sim_rdv_begin_batch(op, PS_METHOD_SEND_TENSOR, deadline_ms);
}

void sim_rdv_send(struct rdv_op *op, uint32_t step, uint32_t key)
{
    struct rdv_world *world = op->client->world;
    PS_ASSERT(world->value_count < RDV_VALUES_MAX);
    struct rdv_value *value = &world->values[world->value_count++];
    op->kind = RDV_SEND;
    op->step = step;
    op->key = key;
    op->value = world->value_count;
    *value = (struct rdv_value){
        .step = step,
        .key = key,
        .shard = ps_tensor_shard_of(ps_bytes_of_text(sim_rdv_key(key)), world->small.shard_count),
        .size = (uint32_t)sim_small_between(
            &world->small, 4, sim_small_chance(&world->small, 300) ? RDV_VALUE_BYTES_MAX : 40),
        .token = op->client->next_id++};
    sim_rdv_fill(op->content, value->size, op->value);
    world->small.result.counts[RDV_SENT]++;
    sim_small_trace(&world->small,
                    "client %" PRIu32 " sends value %" PRIu64 " to step %" PRIu32 ", key %s",
                    op->client->base->number, op->value, step, sim_rdv_key(key));
    send_parts(op, world->small.fake.now_ms + sim_small_between(&world->small, 50, 3000));
}

static void send_on(struct rdv_op *op)
{
    struct rdv_world *world = op->client->world;
    struct ps_error error = {.text = ""};
    enum ps_status status = sim_rdv_end_batch(op, &error);
    sim_rdv_note_end_of_step(op, status);
    if (status == PS_OK && !op->is_whole && op->deadline_ms > world->small.fake.now_ms + LAST_MS) {
        send_parts(op, op->deadline_ms - LAST_MS);
        return;
    }
    if (status != PS_OK)
        world->small.result.counts[RDV_REFUSED]++;
    if (status == PS_OK && op->is_whole && !world->values[op->value - 1].is_stored)
        sim_small_fail(&world->small, "value %" PRIu64 " is said to be whole, and no server has it",
                       op->value);
    sim_rdv_end_op(op);
}

/* ---- Steps ---- */

static enum ps_status take_nothing(void *self, const struct ps_call_reply *reply,
                                   struct ps_error *error)
{
    (void)self;
    (void)reply;
    (void)error;
    return PS_OK;
}

void sim_rdv_control(struct rdv_op *op, uint32_t step, enum ps_step_act act_of)
{
    struct rdv_client *client = op->client;
    op->kind = RDV_CONTROL;
    op->step = step;
    op->act = act_of;
    for (uint32_t shard = 0; shard < client->world->small.shard_count; shard++) {
        struct ps_buffer *message = sim_rdv_add_item(op, shard, take_nothing);
        ps_wire_put_uint(message, PS_STEP_FIELD_STEP, step);
        ps_wire_put_uint(message, PS_STEP_FIELD_ACT, act_of);
        if (act_of == PS_STEP_BEGIN)
            ps_wire_put_text(message, PS_STEP_FIELD_SESSION, "s");
        if (act_of == PS_STEP_ABORT)
            ps_wire_put_text(message, PS_STEP_FIELD_REASON, "fantasia!");
        if (act_of != PS_STEP_CLEANUP)
            ps_wire_put_uint(message, PS_STEP_FIELD_EPOCH, client->epochs[step][shard]);
        ps_wire_put_uint(message, PS_STEP_FIELD_SHARD, shard + 1);
    }
    sim_rdv_begin_batch(op, PS_METHOD_STEP, client->world->small.fake.now_ms + 2000);
}

static void control_on(struct rdv_op *op)
{
    struct ps_error error = {.text = ""};
    sim_rdv_note_end_of_step(op, sim_rdv_end_batch(op, &error));
    sim_rdv_end_op(op);
}

/* ---- Time ---- */

static void go_on(struct rdv_op *op)
{
    switch (op->kind) {
    case RDV_SEND:
        send_on(op);
        return;
    case RDV_RECEIVE:
        sim_rdv_receive_on(op);
        return;
    case RDV_CONTROL:
        control_on(op);
        return;
    case RDV_FLUSH:
        sim_rdv_flush_on(op);
        return;
    case RDV_IDLE:
        return;
    }
}

void sim_rdv_client_go_on(struct sim_small_client *base)
{
    struct rdv_client *client = sim_rdv_client(base);
    for (size_t i = 0; i < RDV_OPS_MAX; i++) {
        struct rdv_op *op = &client->ops[i];
        if (op->kind != RDV_IDLE && op->is_finished)
            go_on(op);
        if (op->kind != RDV_IDLE && base->world->fake.now_ms > op->deadline_ms + 2 * LAST_MS)
            sim_small_fail(base->world, "an operation of client %" PRIu32 " hangs", base->number);
    }
}

void sim_rdv_client_end(struct sim_small_client *base)
{
    struct rdv_client *client = sim_rdv_client(base);
    struct rdv_world *world = client->world;
    for (size_t i = 0; i < RDV_OPS_MAX; i++) {
        struct rdv_op *op = &client->ops[i];
        struct ps_error error;
        if (op->kind == RDV_IDLE)
            continue;
        for (size_t k = 0; op->kind == RDV_RECEIVE && k < op->wish_count; k++)
            world->dead_receives[op->step][op->key_numbers[k]]++;
        PS_ASSERT(op->is_finished);
        (void)sim_rdv_end_batch(op, &error);
        sim_rdv_end_op(op);
    }
    for (uint32_t step = 0; step < RDV_STEPS; step++)
        take_along(client, step);
}
