/* SPDX-License-Identifier: Apache-2.0 */
/* One value on its way to the server of its key: as one message, or in parts that leave
 * together, as many at a time as the engine has calls to one server on their way.
 *
 * All parts have one token, and each answer says whether the value was whole by then. The last
 * to be answered says so, unless the server has let go of the first parts meanwhile, because
 * nothing came for long, or an answer was lost: then all parts are sent again, under the same
 * token, and those that are there are known by it. */
#include "client/tensor_receives.h"

#include "base/assert.h"
#include "client/ask.h"
#include "proto/rendezvous_codec.h"

#include <inttypes.h>
#include <string.h>

enum { HEAD_BYTES = 256 }; /* of a message, beside its key */

/* A send in all its parts. */
struct sending {
    struct psclient_rendezvous *rendezvous;
    uint32_t shard;
    bool is_whole; /* some answer said so */
};

static enum ps_status run_parts(struct sending *sending,
                                const struct ps_send_tensor_request *request, uint64_t deadline_ms,
                                struct ps_error *error);

/* The first epoch that is told stays: a part that comes to another step of this number fails. */
static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    struct sending *sending = self;
    struct ps_send_tensor_reply read;
    /* With the client's lock, as every answer. */
    PS_TRY(ps_decode_send_tensor_reply(reply->ask, &read, error));
    ps_tensor_note_epoch(sending->rendezvous, sending->shard, read.epoch);
    sending->is_whole = sending->is_whole || read.is_whole;
    return PS_OK;
}

/* What no server would take is refused before anything is sent. */
static enum ps_status check_tensor(const char *key, const struct psclient_tensor *tensor,
                                   struct ps_error *error)
{
    size_t size = strlen(key);
    if (tensor->rank > PSCLIENT_TENSOR_RANK_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a value has at most 8 dimensions");
    if (size == 0 || size > PS_RENDEZVOUS_KEY_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a key has 1 to 1024 bytes");
    PS_ASSERT(tensor->content != NULL || tensor->size == 0);
    return PS_OK;
}

/* Round after round until some answer says that the value is whole: one is enough unless a server
 * forgot parts. */
enum ps_status ps_tensor_send(struct psclient_rendezvous *rendezvous, const char *key,
                              const struct psclient_tensor *tensor, uint64_t deadline_ms,
                              struct ps_error *error)
{
    PS_TRY(check_tensor(key, tensor, error));
    struct psclient *client = rendezvous->client;
    struct sending sending = {rendezvous, ps_tensor_shard(rendezvous, key), false};
    const struct ps_bytes content = {tensor->content, tensor->size};
    struct ps_send_tensor_request request = {
        .step = rendezvous->step,
        .token = ps_tensor_new_ids(rendezvous, 1),
        .key = ps_bytes_of_text(key),
        .facts = {.dtype = tensor->dtype,
                  .element_size = tensor->element_size,
                  .rank = tensor->rank,
                  .dead = tensor->dead != 0},
        .content = ps_view_of(&content),
        .total = ps_tensor_cut_count(tensor->size) > 1 ? tensor->size : 0,
        .shard = ps_tensor_named_shard(client, sending.shard)};
    memcpy(request.facts.extents, tensor->shape, tensor->rank * sizeof tensor->shape[0]);
    /* Each round says the step that the first answer was of: a step of the same number that
     * somebody began since gets no part of it. */
    do {
        request.epoch = ps_tensor_epoch(rendezvous, sending.shard);
        PS_TRY(run_parts(&sending, &request, deadline_ms, error));
        if (!sending.is_whole && ps_time_left_ms(client->clock, deadline_ms) == 0)
            return ps_fail(error, PS_ERR_TIMEOUT,
                           "step %" PRIu64 ": the server let go of parts of the value",
                           rendezvous->step);
    } while (!sending.is_whole && request.total != 0);
    return PS_OK;
}

/* Part `i`, whose content follows from where it lies. */
static struct ps_item item_of(struct sending *sending, const struct ps_send_tensor_request *request,
                              size_t i, char *room, size_t room_bytes, struct ps_bytes *piece)
{
    /* The caller's memory is one piece. */
    struct ps_bytes all = request->content.pieces[0];
    struct ps_tensor_part part = ps_tensor_cut_part(all.size, i);
    /* All that parts say is the same but for this. */
    struct ps_send_tensor_request own = *request;
    struct ps_buffer message;
    own.offset = part.offset;
    ps_buffer_init_fixed(&message, room, room_bytes);
    ps_encode_send_tensor(&own, &message);
    PS_ASSERT(!message.failed);
    *piece = (struct ps_bytes){all.data + part.offset, (size_t)part.size};
    return (struct ps_item){.shard = sending->shard,
                            .ask = {(const uint8_t *)room, message.size},
                            .ask_content = ps_view_of(piece),
                            .answer = {take_answer, sending}};
}

/* One batch of all parts. The engine repeats the same bytes, and with them the same token. */
static enum ps_status run_parts(struct sending *sending,
                                const struct ps_send_tensor_request *request, uint64_t deadline_ms,
                                struct ps_error *error)
{
    struct psclient *client = sending->rendezvous->client;
    const struct ps_allocator *memory = client->memory;
    size_t count = ps_tensor_cut_count(request->content.size);
    size_t room_bytes = HEAD_BYTES + request->key.size;
    struct ps_item *items = ps_zeroed_array(memory, count, sizeof *items);
    char *rooms = ps_zeroed_array(memory, count, room_bytes);
    enum ps_status status = PS_OK;
    struct ps_bytes *pieces = ps_zeroed_array(memory, count, sizeof *pieces);
    if (items == NULL || rooms == NULL || pieces == NULL) {
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu parts", count);
    } else {
        /* Every part has a message of its own, which lives as long as the batch. */
        for (size_t i = 0; i < count; i++)
            items[i] = item_of(sending, request, i, rooms + i * room_bytes, room_bytes, &pieces[i]);
        const struct ps_batch_request batch =
            ps_client_request(client, PS_METHOD_SEND_TENSOR, items, count,
                              ps_time_left_ms(client->clock, deadline_ms));
        status = ps_client_run(client, &batch, error);
    }
    /* The first part that failed is the one that is told. */
    for (size_t i = 0; i < count && status == PS_OK; i++) {
        if (items[i].status != PS_OK)
            status = ps_fail(error, items[i].status, "%s", items[i].text);
    }
    ps_release(memory, pieces);
    ps_release(memory, rooms);
    ps_release(memory, items);
    return status;
}
