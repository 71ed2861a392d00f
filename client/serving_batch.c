/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: what a take has brought, in memory of the program's own. The network's slices go with
 * the reply, so that each tensor is copied once, to where it stays: into the buffer that was
 * registered for it, or into the block of the batch.
 *
 * Why a copy, and not the slices themselves: a program keeps a batch for as long as it computes,
 * and slices of the network are of any length and alignment, while tensors are arrays. The copy is
 * also the only one: the server hands on the worker's slices as they came.
 *
 * The block of the last batch that was released is kept for the next: fresh memory of many
 * megabytes costs a page fault for every 4 KiB, which is more than the copy. */
#include "client/serving_state.h"

#include "base/assert.h"
#include "client/psclient.h"
#include "client/status_map.h"

#include <string.h>

/* Tensors begin at multiples of so many bytes. */
enum { ALIGNMENT = 64 };

/* Half of a segment: the other is for the answers. */
#define ROOM_BYTES_MAX ((size_t)68 << 20)

/* The batch, and what is behind its pointers. */
struct batch {
    struct ps_serving_batch batch; /* first: what the program sees */
    struct ps_serving *serving;    /* borrowed; the serving outlives its batches */
    struct psclient_tensor *tensors;
    uint64_t *keys; /* of tensors, and of requests with keys */
    uint32_t *lens;
    uint8_t *block;
    size_t block_size;
};

/* How much of each a batch needs. */
struct needs {
    size_t tensors, keys, lens, bytes;
};

/* What is left of the batch's arrays while it is filled. */
struct filler {
    struct psclient_tensor *tensors;
    uint64_t *keys;
    uint32_t *lens;
    uint8_t *block;
    struct ps_view_cursor shared; /* over the content of all; empty: each has its own */
};

static void fill(struct ps_serving *serving, const struct ps_program_taken *taken,
                 struct filler *filler, struct ps_serving_request *request);

/* A line of the processor's cache, which is also what vector instructions like best. */
static size_t aligned(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Counted as if no tensor had a registered buffer: what that wastes is address space only, since
 * memory that is never written does not exist. */
static struct needs count_needs(const struct ps_program_taken *taken, size_t count)
{
    struct needs needs = {0};
    for (size_t i = 0; i < count; i++) {
        const struct ps_program_payload *payload = &taken[i].payload;
        needs.tensors += payload->tensor_count + payload->output_count;
        needs.keys +=
            payload->tensor_count + payload->output_count + payload->keys.size / sizeof(uint64_t);
        needs.lens += payload->lens.size / sizeof(uint32_t);
        needs.bytes += aligned(payload->body.size);
        for (size_t k = 0; k < payload->tensor_count; k++)
            needs.bytes += aligned((size_t)payload->tensors[k].size);
    }
    return needs;
}

/* The spare block, if it is large enough and not wastefully so. */
static uint8_t *take_block(struct ps_serving *serving, size_t size, size_t *block_size)
{
    uint8_t *block = NULL;
    ps_mutex_lock(&serving->lock);
    if (serving->spare != NULL && serving->spare_size >= size &&
        serving->spare_size / 2 <= size + (1 << 20)) {
        block = serving->spare;
        *block_size = serving->spare_size;
        serving->spare = NULL;
    }
    ps_mutex_unlock(&serving->lock);
    if (block != NULL)
        return block;
    *block_size = aligned(size + 1);
    return ps_plain(ps_allocator_heap(), *block_size);
}

/* On failure there is none. */
enum ps_status ps_serving_make_batch(struct ps_serving *serving,
                                     const struct ps_program_taken *taken, size_t count,
                                     struct ps_bytes shared, struct ps_serving_batch **out,
                                     struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    struct needs needs = count_needs(taken, count);
    struct batch *made = ps_zeroed(heap, sizeof *made);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    made->serving = serving;
    made->batch.requests = ps_zeroed_array(heap, count + 1, sizeof *made->batch.requests);
    made->tensors = ps_zeroed_array(heap, needs.tensors + 1, sizeof *made->tensors);
    made->keys = ps_zeroed_array(heap, needs.keys + 1, sizeof *made->keys);
    made->lens = ps_zeroed_array(heap, needs.lens + 1, sizeof *made->lens);
    made->block = take_block(serving, needs.bytes, &made->block_size);
    if (made->batch.requests == NULL || made->tensors == NULL || made->keys == NULL ||
        made->lens == NULL || made->block == NULL) {
        ps_serving_batch_release(&made->batch);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch of %zu bytes", needs.bytes);
    }
    /* Everything is handed out from the front of one array each, in the order of the requests. */
    struct filler filler = {
        made->tensors, made->keys, made->lens, made->block, {.view = ps_view_of(&shared)}};
    for (size_t i = 0; i < count; i++)
        fill(serving, &taken[i], &filler, &made->batch.requests[i]);
    PS_ASSERT(filler.block <= made->block + made->block_size);
    made->batch.count = count;
    /* Next time so much room is offered in shared memory, of which there is a bounded amount. */
    serving->room_bytes = needs.bytes < ROOM_BYTES_MAX ? needs.bytes : 0;
    *out = &made->batch;
    return PS_OK;
}

/* The registered place of a tensor; NULL: none of its size. */
static uint8_t *room_of(struct ps_serving *serving, uint32_t worker,
                        const struct ps_program_tensor *tensor)
{
    uint8_t *content = NULL;
    ps_mutex_lock(&serving->lock);
    for (size_t i = 0; i < serving->room_count; i++) {
        const struct ps_serving_room *room = &serving->rooms[i];
        /* A tensor of another size goes where it goes without a buffer: to cut it, or to leave the
         * rest of the room as it was, would be a wrong tensor in either case. */
        if (room->worker == worker && room->key == tensor->key && room->size == tensor->size)
            content = room->content;
    }
    ps_mutex_unlock(&serving->lock);
    return content;
}

/* The tensors of one request, each copied to its place. */
static void fill_tensors(struct ps_serving *serving, const struct ps_program_taken *taken,
                         struct filler *filler, struct ps_serving_request *request)
{
    const struct ps_program_payload *payload = &taken->payload;
    struct ps_view_cursor own = {.view = payload->content};
    struct ps_view_cursor *cursor = filler->shared.view.size > 0 ? &filler->shared : &own;
    for (size_t i = 0; i < payload->tensor_count; i++) {
        const struct ps_program_tensor *from = &payload->tensors[i];
        size_t size = (size_t)from->size;
        uint8_t *content = room_of(serving, taken->asked.worker, from);
        /* Into the block, behind the tensor before it. */
        if (content == NULL) {
            content = filler->block;
            filler->block += aligned(size);
        }
        ps_view_read(cursor, content, size);
        request->tensors[i] = ps_serving_tensor_out(from);
        request->tensors[i].content = content;
        request->tensor_keys[i] = from->key;
    }
    for (size_t i = 0; i < payload->output_count; i++) {
        request->wanted[i] = ps_serving_tensor_out(&payload->outputs[i]);
        request->wanted_keys[i] = payload->outputs[i].key;
    }
}

/* Packed numbers are little-endian and of any alignment: they are copied. */
static void fill(struct ps_serving *serving, const struct ps_program_taken *taken,
                 struct filler *filler, struct ps_serving_request *request)
{
    const struct ps_program_payload *payload = &taken->payload;
    size_t keys = payload->keys.size / sizeof(uint64_t);
    size_t lens = payload->lens.size / sizeof(uint32_t);
    *request = (struct ps_serving_request){.handler = taken->handle,
                                           .worker = taken->asked.worker,
                                           .customer = taken->asked.customer,
                                           .kind = (enum ps_serving_kind)taken->asked.kind,
                                           .command = taken->asked.command,
                                           .timestamp = taken->asked.timestamp,
                                           .again = taken->again ? 1 : 0,
                                           .tensors = filler->tensors,
                                           .tensor_keys = filler->keys,
                                           .tensor_count = payload->tensor_count,
                                           .wanted_count = payload->output_count,
                                           .key_count = keys,
                                           .body_size = payload->body.size};
    /* What is wanted follows what is pushed in the same arrays. */
    request->wanted = request->tensors + payload->tensor_count;
    request->wanted_keys = request->tensor_keys + payload->tensor_count;
    filler->tensors = request->wanted + payload->output_count;
    filler->keys = request->wanted_keys + payload->output_count;
    if (keys > 0)
        memcpy(filler->keys, payload->keys.data, payload->keys.size);
    request->keys = filler->keys;
    filler->keys += keys;
    if (lens > 0) {
        memcpy(filler->lens, payload->lens.data, payload->lens.size);
        request->lens = filler->lens;
        filler->lens += lens;
    }
    if (payload->body.size > 0)
        memcpy(filler->block, payload->body.data, payload->body.size);
    request->body = filler->block;
    filler->block += aligned(payload->body.size);
    fill_tensors(serving, taken, filler, request);
}

/* The larger of two spare blocks stays. */
PS_EXPORT void ps_serving_batch_release(struct ps_serving_batch *batch)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    struct batch *made = (struct batch *)batch;
    if (made == NULL)
        return;
    void *dropped = made->block;
    ps_mutex_lock(&made->serving->lock);
    if (made->block != NULL &&
        (made->serving->spare == NULL || made->serving->spare_size < made->block_size)) {
        dropped = made->serving->spare;
        made->serving->spare = made->block;
        made->serving->spare_size = made->block_size;
    }
    ps_mutex_unlock(&made->serving->lock);
    ps_release(heap, dropped);
    ps_release(heap, made->lens);
    ps_release(heap, made->keys);
    ps_release(heap, made->tensors);
    ps_release(heap, made->batch.requests);
    ps_release(heap, made);
}

/* ---- Buffers ---- */

/* Every pair is checked before any is noted. With the lock. */
static enum ps_status check_rooms(const struct ps_serving *serving, const uint32_t *workers,
                                  const uint64_t *keys, size_t count, struct ps_error *error)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < serving->room_count; k++)
            if (serving->rooms[k].worker == workers[i] && serving->rooms[k].key == keys[i])
                return ps_fail(error, PS_ERR_BAD_INPUT,
                               "worker %u has a buffer for this key already", workers[i]);
        for (size_t k = 0; k < i; k++)
            if (workers[k] == workers[i] && keys[k] == keys[i])
                return ps_fail(error, PS_ERR_BAD_INPUT, "worker %u and its key are there twice",
                               workers[i]);
    }
    return PS_OK;
}

/* With the lock. */
static enum ps_status add_rooms(struct ps_serving *serving, uint8_t *buffer, size_t each,
                                const uint32_t *workers, const uint64_t *keys, size_t count,
                                struct ps_error *error)
{
    const struct ps_allocator *memory = serving->client->memory;
    PS_TRY(check_rooms(serving, workers, keys, count, error));
    struct ps_serving_room *rooms =
        ps_zeroed_array(memory, serving->room_count + count, sizeof *rooms);
    if (rooms == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the list of buffers");
    for (size_t i = 0; i < serving->room_count; i++)
        rooms[i] = serving->rooms[i];
    for (size_t i = 0; i < count; i++)
        rooms[serving->room_count + i] =
            (struct ps_serving_room){workers[i], keys[i], buffer + i * each, each};
    ps_release(memory, serving->rooms);
    serving->rooms = rooms;
    serving->room_count += count;
    return PS_OK;
}

/* Over RDMA the network itself would write there. Over TCP it is the one copy that goes there
 * instead of into the batch: what is saved is the program's own copy, and its tensors are always
 * at the same place. */
PS_EXPORT int ps_serving_register_recv_buffer(struct ps_serving *serving, void *buffer, size_t size,
                                              const uint32_t *workers, const uint64_t *keys,
                                              size_t count, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    if (serving->role != PS_SERVING_SERVER)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a worker receives into what it pulls");
    if (buffer == NULL || count == 0 || size % count != 0 || size == 0)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "the buffer is not cut evenly by its workers");
    ps_mutex_lock(&serving->lock);
    enum ps_status status = add_rooms(serving, buffer, size / count, workers, keys, count, &why);
    ps_mutex_unlock(&serving->lock);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}
