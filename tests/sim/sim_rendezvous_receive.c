/* SPDX-License-Identifier: Apache-2.0 */
/* Receives: rounds and ranges over client/tensors, what is told of those that ended, and what
 * came. */
#include "tests/sim/sim_rendezvous.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "proto/rendezvous_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_MS = 400, MARGIN_MS = 300, LAST_MS = 4000 };

static void end_receive(struct rdv_op *op, bool is_delivered);

static enum ps_status open_place(void *self, size_t i, const struct ps_value_facts *facts,
                                 uint64_t size, uint8_t **content, struct ps_error *error)
{
    struct rdv_op *op = self;
    (void)facts;
    if (size > RDV_VALUE_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "too large");
    *content = op->places[i];
    return PS_OK;
}

static enum ps_status take_value(void *self, const struct ps_received_tensor *received,
                                 struct ps_error *error)
{
    struct rdv_op *op = self;
    return ps_tensor_wishes_take(&op->wishes, received, (struct ps_bytes){NULL, 0}, error);
}

static void forget(uint64_t *ids, size_t *count, const uint64_t *told, size_t told_count)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        bool was_told = false;
        for (size_t k = 0; k < told_count; k++)
            was_told = was_told || told[k] == ids[i];
        if (!was_told)
            ids[kept++] = ids[i];
    }
    *count = kept;
}

/* Which shard answered is known by the item; epochs are looked at by all. */
static enum ps_status take_received(void *self, const struct ps_call_reply *reply,
                                    struct ps_error *error)
{
    struct rdv_op *op = self;
    const struct ps_received_taker taker = {take_value, op};
    uint64_t epoch = 0;
    if (op->kind == RDV_FLUSH || op->wishes.values == NULL)
        return PS_OK;
    return ps_decode_recv_tensors_reply(reply->ask, ps_allocator_heap(), &taker, &epoch, error);
}

/* The message of one item; `told` rides along where it is not NULL. */
static void write_receive(struct rdv_op *op, uint32_t shard,
                          const struct ps_rendezvous_wish *wishes, size_t count,
                          const struct rdv_ended *told, uint64_t wait_ms)
{
    const struct ps_recv_tensors_request request = {
        .step = op->step,
        .epoch = op->client->epochs[op->step][shard],
        .wait_ms = wait_ms,
        .wishes = wishes,
        .wish_count = count,
        .done_with = told != NULL ? told->done_with : NULL,
        .done_count = told != NULL ? told->done_count : 0,
        .give_back = told != NULL ? told->give_back : NULL,
        .give_back_count = told != NULL ? told->give_back_count : 0,
        .range_bytes = PS_TENSOR_RANGE_BYTES,
        .shard = shard + 1};
    ps_encode_recv_tensors(&request, sim_rdv_add_item(op, shard, take_received));
}

static void write_cancel(struct rdv_op *op, uint32_t shard, const struct rdv_ended *list)
{
    struct rdv_world *world = op->client->world;
    struct ps_recv_tensors_request request = {.step = op->step,
                                              .epoch = op->client->epochs[op->step][shard],
                                              .wait_ms = 1,
                                              .shard = shard + 1};
    if (world->small.mutation == SIM_RENDEZVOUS_CANCEL_TAKES) {
        request.give_back = list->give_back;
        request.give_back_count = list->give_back_count;
    } else {
        request.cancel = list->give_back;
        request.cancel_count = list->give_back_count;
    }
    ps_encode_recv_tensors(&request, sim_rdv_add_item(op, shard, take_received));
}

static uint64_t time_left(const struct rdv_op *op)
{
    uint64_t end_ms = op->deadline_ms;
    uint64_t now_ms = op->client->world->small.fake.now_ms;
    return end_ms > now_ms ? end_ms - now_ms : 0;
}

/* Ranges of what has begun, or a round of what has not. */
static void ask(struct rdv_op *op)
{
    struct rdv_client *client = op->client;
    struct rdv_world *world = client->world;
    uint64_t end_ms = op->deadline_ms;
    uint64_t left_ms = time_left(op);
    uint64_t wait_ms = left_ms == 0 ? 1 : left_ms < ROUND_MS ? left_ms : ROUND_MS;
    uint32_t shard;
    ps_tensor_wishes_rewind(&op->wishes);
    op->tells = op->wishes.begun == 0;
    while (op->wishes.begun > 0 && op->item_count < RDV_ITEMS_MAX &&
           ps_tensor_wishes_next_range(&op->wishes, &op->asked[op->item_count][0], &shard))
        write_receive(op, shard, op->asked[op->item_count], 1, NULL, LAST_MS);
    for (shard = 0; op->tells && shard < world->small.shard_count; shard++) {
        ps_tensor_wishes_rewind(&op->wishes);
        size_t count =
            ps_tensor_wishes_next(&op->wishes, shard, op->asked[op->item_count], RDV_WISHES_MAX);
        if (count == 0)
            continue;
        if (world->small.mutation == SIM_RENDEZVOUS_ID_LOST && sim_small_chance(&world->small, 100))
            op->wishes.first_id = client->next_id += RDV_WISHES_MAX;
        op->told[shard] = client->ended[op->step][shard];
        write_receive(op, shard, op->asked[op->item_count], count, &op->told[shard], wait_ms);
    }
    PS_ASSERT(op->item_count > 0);
    sim_rdv_begin_batch(op, PS_METHOD_RECV_TENSORS, world->small.fake.now_ms + wait_ms + MARGIN_MS);
    op->deadline_ms = end_ms;
}

void sim_rdv_receive(struct rdv_op *op, uint32_t step, const uint32_t *keys, size_t count,
                     uint64_t timeout_ms)
{
    struct rdv_client *client = op->client;
    struct rdv_world *world = client->world;
    const struct ps_tensor_place place = {open_place, op};
    PS_ASSERT(count <= RDV_WISHES_MAX);
    op->kind = RDV_RECEIVE;
    op->step = step;
    op->wish_count = count;
    for (size_t i = 0; i < count; i++) {
        op->key_numbers[i] = keys[i];
        op->keys[i] = sim_rdv_key(keys[i]);
    }
    enum ps_status status =
        ps_tensor_wishes_init(&op->wishes, &world->small.memory, &place, op->keys, count,
                              client->next_id, world->small.shard_count, NULL);
    PS_ASSERT(status == PS_OK);
    client->next_id += count;
    op->deadline_ms = world->small.fake.now_ms + timeout_ms;
    ask(op);
}

static void note_told(struct rdv_op *op, const struct rdv_ended *told, uint32_t shard)
{
    struct rdv_ended *ended = &op->client->ended[op->step][shard];
    forget(ended->done_with, &ended->done_count, told->done_with, told->done_count);
    forget(ended->give_back, &ended->give_back_count, told->give_back, told->give_back_count);
}

/* Before the batch ends: whose items went well. */
static void note_answers(struct rdv_op *op)
{
    for (size_t i = 0; i < op->item_count; i++) {
        uint32_t shard = op->items[i].shard;
        if (op->items[i].status == PS_OK && op->tells)
            note_told(op, &op->told[shard], shard);
    }
}

void sim_rdv_receive_on(struct rdv_op *op)
{
    struct rdv_world *world = op->client->world;
    struct ps_error error = {.text = ""};
    bool was_late = time_left(op) == 0;
    note_answers(op);
    enum ps_status status = sim_rdv_end_batch(op, &error);
    sim_rdv_note_end_of_step(op, status);
    if (status == PS_OK)
        status = op->wishes.why.status;
    if (status == PS_OK && op->wishes.missing == 0) {
        end_receive(op, true);
        return;
    }
    if (status == PS_OK && (!was_late || op->wishes.begun > 0)) {
        ask(op);
        return;
    }
    world->small.result.counts[RDV_TIMED_OUT] += status == PS_OK;
    world->small.result.counts[RDV_REFUSED] += status != PS_OK;
    end_receive(op, false);
}

/* A value that came: is it one that was sent under this key, whole, and for the first time? */
static void judge(struct rdv_op *op, size_t i)
{
    struct rdv_world *world = op->client->world;
    const struct ps_tensor_wished *wished = &op->wishes.values[i];
    uint8_t expected[RDV_VALUE_BYTES_MAX];
    uint32_t number = 0;
    memcpy(&number, op->places[i], sizeof number);
    if (number == 0 || number > world->value_count) {
        sim_small_fail(&world->small, "value %" PRIu32 " was never sent", number);
        return;
    }
    struct rdv_value *value = &world->values[number - 1];
    sim_rdv_fill(expected, value->size, number);
    if (value->step != op->step || value->key != op->key_numbers[i] ||
        wished->total != value->size || memcmp(expected, op->places[i], value->size) != 0)
        sim_small_fail(&world->small,
                       "value %" PRIu32 " came under another key, or with other bytes", number);
    if (!value->is_stored)
        sim_small_fail(&world->small, "value %" PRIu32 " was delivered before it was whole",
                       number);
    if (++value->delivered > 1 && !(value->is_blind && value->is_dropped))
        sim_small_fail(&world->small, "value %" PRIu32 " was delivered twice", number);
    uint64_t *last = &world->last_delivered[op->step][value->key];
    if (world->small.is_calm && number < *last)
        sim_small_fail(&world->small, "value %" PRIu32 " came behind %" PRIu64, number, *last);
    *last = number;
    sim_small_trace(&world->small, "client %" PRIu32 " has value %" PRIu32 " by receive %" PRIu64,
                    op->client->base->number, number, op->wishes.first_id + i);
}

static void end_receive(struct rdv_op *op, bool is_delivered)
{
    struct rdv_client *client = op->client;
    struct rdv_world *world = client->world;
    for (size_t i = 0; i < op->wish_count; i++) {
        struct rdv_ended *ended = &client->ended[op->step][op->wishes.values[i].shard];
        uint64_t *list = is_delivered ? ended->done_with : ended->give_back;
        size_t *count = is_delivered ? &ended->done_count : &ended->give_back_count;
        PS_ASSERT(*count < RDV_ENDED_MAX);
        list[(*count)++] = op->wishes.first_id + i;
        sim_small_trace(&world->small,
                        "client %" PRIu32 " ends receive %" PRIu64 " of step %" PRIu32 ", %s",
                        client->base->number, op->wishes.first_id + i, op->step,
                        is_delivered ? "done" : "given back");
        if (is_delivered)
            judge(op, i);
    }
    sim_rdv_end_op(op);
}

bool sim_rdv_flush(struct rdv_op *op, uint32_t step)
{
    struct rdv_client *client = op->client;
    op->step = step;
    op->tells = true;
    for (uint32_t shard = 0; shard < client->world->small.shard_count; shard++) {
        op->told[shard] = client->ended[step][shard];
        if (op->told[shard].done_count + op->told[shard].give_back_count > 0)
            write_receive(op, shard, NULL, 0, &op->told[shard], 1);
    }
    if (op->item_count == 0)
        return false;
    op->kind = RDV_FLUSH;
    sim_rdv_begin_batch(op, PS_METHOD_RECV_TENSORS, client->world->small.fake.now_ms + 1000);
    return true;
}

void sim_rdv_flush_on(struct rdv_op *op)
{
    struct ps_error error = {.text = ""};
    note_answers(op);
    sim_rdv_note_end_of_step(op, sim_rdv_end_batch(op, &error));
    sim_rdv_end_op(op);
}

void sim_rdv_cancel(struct rdv_op *op, uint32_t step)
{
    struct rdv_client *client = op->client;
    const struct rdv_ended none = {.done_count = 0};
    op->step = step;
    for (uint32_t shard = 0; shard < client->world->small.shard_count; shard++) {
        struct rdv_ended *list = &op->told[shard];
        for (size_t k = 0; k < RDV_OPS_MAX; k++) {
            const struct rdv_op *other = &client->ops[k];
            for (size_t i = 0;
                 other->kind == RDV_RECEIVE && other->step == step && i < other->wish_count; i++)
                if (other->wishes.values[i].shard == shard)
                    list->give_back[list->give_back_count++] = other->wishes.first_id + i;
        }
        if (list->give_back_count > 0)
            write_cancel(op, shard, list);
        *list = none;
    }
    if (op->item_count == 0)
        return;
    op->kind = RDV_FLUSH;
    sim_rdv_begin_batch(op, PS_METHOD_RECV_TENSORS, client->world->small.fake.now_ms + 1000);
}
