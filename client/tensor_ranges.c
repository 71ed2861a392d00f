/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are longer than one range: the ranges behind the first are one batch, of which the
 * engine has a window on its way. Several answers are coming while one is copied. */
#include "client/tensor_receives.h"

#include "base/assert.h"
#include "proto/rendezvous_codec.h"

#include <inttypes.h>
#include <string.h>

enum {
    RANGES_EACH = 4096,     /* of one batch */
    RANGE_HEAD_BYTES = 128, /* of a message, beside its key */
    MARGIN_MS = 2000        /* the server gives up first */
};

/* The batch has a deadline behind the servers' own: what they answer at the end of their time is
 * still heard. */
enum ps_status ps_tensor_run_items(struct psclient *client, struct ps_item *items, size_t count,
                                   uint64_t left_ms, struct ps_error *error)
{
    const struct ps_batch_request request =
        ps_client_request(client, PS_METHOD_RECV_TENSORS, items, count, left_ms + MARGIN_MS);
    PS_TRY(ps_client_run(client, &request, error));
    /* Of several that failed the first is told. */
    for (size_t i = 0; i < count; i++) {
        if (items[i].status != PS_OK)
            return ps_fail(error, items[i].status, "%s", items[i].text);
    }
    return PS_OK;
}

/* ---- Answers ---- */

/* Shared memory of the call, where an answer may have its content. */
struct answering {
    struct ps_tensor_wishes *wishes;
    struct ps_bytes room;
};

/* On whichever thread polls for the client, with the client's lock. */
static enum ps_status take_received(void *self, const struct ps_received_tensor *received,
                                    struct ps_error *error)
{
    struct answering *answering = self;
    PS_ASSERT(answering->wishes->values != NULL);
    return ps_tensor_wishes_take(answering->wishes, received, answering->room, error);
}

/* With the client's lock, as every answer. */
enum ps_status ps_tensor_take_values(struct psclient_rendezvous *rendezvous,
                                     struct ps_tensor_wishes *wishes,
                                     const struct ps_call_reply *reply, uint64_t *epoch,
                                     struct ps_error *error)
{
    struct answering answering = {wishes, reply->ask_room};
    const struct ps_received_taker taker = {take_received, &answering};
    return ps_decode_recv_tensors_reply(reply->ask, rendezvous->client->memory, &taker, epoch,
                                        error);
}

/* ---- Ranges ---- */

/* The message of one range. */
static struct ps_bytes write_range(struct psclient_rendezvous *rendezvous,
                                   const struct ps_rendezvous_wish *wish, uint32_t shard,
                                   uint64_t wait_ms, char *room, size_t size)
{
    struct ps_buffer message;
    const struct ps_recv_tensors_request request = {
        .step = rendezvous->step,
        .epoch = ps_tensor_epoch(rendezvous, shard),
        .wait_ms = wait_ms,
        .wishes = wish,
        .wish_count = 1,
        .range_bytes = PS_TENSOR_RANGE_BYTES,
        .shard = ps_tensor_named_shard(rendezvous->client, shard)};
    /* The room is as large as the longest key needs. */
    ps_buffer_init_fixed(&message, room, size);
    ps_encode_recv_tensors(&request, &message);
    PS_ASSERT(!message.failed);
    return (struct ps_bytes){(const uint8_t *)room, message.size};
}

/* Who takes the answers of a batch. Answers of ranges have values only: nothing was told
 * besides. The engine repeats a call whose answer was lost; of the answers one comes here. */
struct ranges {
    struct psclient_rendezvous *rendezvous;
    struct ps_tensor_wishes *wishes;
};

static enum ps_status take_range(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    const struct ranges *ranges = self;
    uint64_t epoch = 0;
    PS_ASSERT(ranges->wishes->begun > 0);
    return ps_tensor_take_values(ranges->rendezvous, ranges->wishes, reply, &epoch, error);
}

/* The next so many of all values that have begun. Their order is that of the values, one after the
 * other, so that the first is there first, and a server reads each from its beginning to its end:
 * where it has sent one range from, the next one lies. */
static size_t cut_ranges(struct ranges *ranges, struct ps_item *items, char *rooms,
                         size_t room_bytes, size_t most, uint64_t wait_ms)
{
    struct ps_rendezvous_wish wish;
    uint32_t shard;
    size_t used = 0;
    ps_tensor_wishes_rewind(ranges->wishes);
    while (used < most && ps_tensor_wishes_next_range(ranges->wishes, &wish, &shard)) {
        items[used] = (struct ps_item){.shard = shard,
                                       .ask = write_range(ranges->rendezvous, &wish, shard, wait_ms,
                                                          rooms + used * room_bytes, room_bytes),
                                       .ask_room = (size_t)wish.count,
                                       .answer = {take_range, ranges}};
        used++;
    }
    return used;
}

/* How many ranges the values that have begun lack. */
static size_t count_ranges(const struct ps_tensor_wishes *wishes)
{
    uint64_t count = 0;
    PS_ASSERT(wishes->begun > 0);
    for (size_t i = 0; i < wishes->count; i++) {
        const struct ps_tensor_wished *value = &wishes->values[i];
        count += (value->total - value->asked + PS_TENSOR_RANGE_BYTES - 1) / PS_TENSOR_RANGE_BYTES;
    }
    return count < RANGES_EACH ? (size_t)count : RANGES_EACH;
}

/* One batch. The engine has a window of them on their way. What was told to be there is there, so
 * that a server answers each at once. */
enum ps_status ps_tensor_ask_ranges(struct psclient_rendezvous *rendezvous,
                                    struct ps_tensor_wishes *wishes, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    struct ranges ranges = {rendezvous, wishes};
    struct psclient *client = rendezvous->client;
    uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
    /* Of 3 GiB there are some 1,500: the messages are small, and all are written before. */
    size_t most = count_ranges(wishes);
    size_t room_bytes = RANGE_HEAD_BYTES;
    for (size_t i = 0; i < wishes->count; i++) {
        size_t needed = RANGE_HEAD_BYTES + wishes->values[i].key.size;
        room_bytes = needed > room_bytes ? needed : room_bytes;
    }
    /* One block for all messages, since each is a few numbers and its key. */
    struct ps_item *items = ps_zeroed_array(client->memory, most, sizeof *items);
    char *rooms = ps_zeroed_array(client->memory, most, room_bytes);
    enum ps_status status = PS_ERR_NO_MEMORY;
    if (items == NULL || rooms == NULL) {
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu ranges", most);
    } else {
        /* A wish whose time is nearly over has its values at the server: it gets them. */
        uint64_t wait_ms = left_ms < MARGIN_MS ? MARGIN_MS : left_ms;
        size_t count = cut_ranges(&ranges, items, rooms, room_bytes, most, wait_ms);
        PS_ASSERT(count == most);
        status = ps_tensor_run_items(client, items, count, left_ms, error);
    }
    ps_release(client->memory, rooms);
    ps_release(client->memory, items);
    return status;
}
