/* SPDX-License-Identifier: Apache-2.0 */
/* A request as a handler sees it, and its answer. A tensor is given where it lies, unless the
 * network has cut it or put it at an odd address: then it is copied once. An answer is copied once
 * at most: to where the worker reads it, if that is memory of this host. */
#include "server/program/program_parts.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/attributes.h"
#include "server/core/programs/program_request.h"

#include <string.h>

enum { ALIGNMENT = 16, ROOM_ALIGNMENT = 64 };

static int finish(struct pserver_request *request, struct ps_mailbox_answer *answer);

struct pserver_request *ps_handled_request_create(struct ps_service *service,
                                                  struct ps_program_request *request)
{
    struct pserver_request *made = ps_zeroed(ps_allocator_heap(), sizeof *made);
    if (made == NULL)
        return NULL;
    made->service = service;
    made->request = ps_program_request_acquire(ps_service_mailbox(service), request);
    return made;
}

/* Without memory for the handler's view the request fails at once. */
void ps_program_entry_handle(void *self, struct ps_service *service,
                             struct ps_program_request *request)
{
    struct ps_program_entry *entry = self;
    struct pserver_request *made = ps_handled_request_create(service, request);
    if (made != NULL) {
        entry->handler(entry->self, made);
        return;
    }
    const struct ps_mailbox_answer answer = {.handle = request->handle,
                                             .status = PS_ERR_NO_MEMORY,
                                             .text = ps_bytes_of_text("no memory")};
    enum ps_status status = ps_service_answer(service, &answer);
    PS_ASSERT(status == PS_OK || status == PS_ERR_EXISTS || status == PS_ERR_NOT_FOUND);
}

/* Nothing of the request may be read behind this. */
static void destroy(struct pserver_request *request)
{
    const struct ps_program_payload *payload = &request->request->question->payload;
    for (size_t i = 0; request->gathered != NULL && i < payload->tensor_count; i++)
        ps_release(ps_allocator_heap(), request->gathered[i]);
    ps_release(ps_allocator_heap(), request->gathered);
    ps_release(ps_allocator_heap(), request->room_block);
    ps_program_request_release(ps_service_mailbox(request->service), request->request);
    ps_release(ps_allocator_heap(), request);
}

/* ---- Reading ---- */

PS_EXPORT void pserver_request_question(const struct pserver_request *request,
                                        struct pserver_question *question)
{
    const struct ps_program_request *of = request->request;
    const struct ps_program_asked *asked = &of->asked;
    const struct ps_program_payload *payload = &of->question->payload;
    /* Parcels lay keys and lengths out so that they are arrays. */
    *question = (struct pserver_question){
        .handle = of->handle,
        .app = asked->app,
        .worker = asked->worker,
        .customer = asked->customer,
        .kind = (int)asked->kind,
        .command = asked->command,
        .priority = asked->priority,
        .timestamp = asked->timestamp,
        .keys = payload->keys.size > 0 ? (const void *)payload->keys.data : NULL,
        .key_count = payload->keys.size / sizeof(uint64_t),
        .lens = payload->lens.size > 0 ? (const void *)payload->lens.data : NULL,
        .len_count = payload->lens.size / sizeof(uint32_t),
        .body = payload->body.size > 0 ? payload->body.data : NULL,
        .body_size = payload->body.size,
        .tensor_count = payload->tensor_count,
        .output_count = payload->output_count};
}

/* All but where it lies. */
static void describe(const struct ps_program_tensor *from, struct pserver_tensor *tensor)
{
    *tensor = (struct pserver_tensor){.key = from->key,
                                      .dtype = from->facts.dtype,
                                      .element_size = from->facts.element_size,
                                      .rank = from->facts.rank,
                                      .size = from->size};
    memcpy(tensor->shape, from->facts.extents, sizeof tensor->shape);
}

/* One piece at an address that elements may have. */
static bool lies_well(struct ps_view content, uint64_t begin, uint64_t size, const void **data)
{
    struct ps_view_cursor cursor = {.view = content};
    ps_view_skip(&cursor, (size_t)begin);
    struct ps_bytes piece = ps_view_next(&cursor, (size_t)size);
    *data = piece.data;
    return piece.size == size && (uintptr_t)piece.data % ALIGNMENT == 0;
}

void ps_handled_request_describe(const struct pserver_request *request, size_t index,
                                 struct pserver_tensor *tensor)
{
    const struct ps_program_payload *payload = &request->request->question->payload;
    PS_ASSERT(index < payload->tensor_count);
    describe(&payload->tensors[index], tensor);
}

struct ps_view_cursor ps_handled_request_content(const struct pserver_request *request,
                                                 size_t index)
{
    const struct ps_program_payload *payload = &request->request->question->payload;
    struct ps_view_cursor cursor = {.view = payload->content};
    uint64_t begin = 0;
    PS_ASSERT(index < payload->tensor_count);
    for (size_t i = 0; i < index; i++)
        begin += payload->tensors[i].size;
    ps_view_skip(&cursor, (size_t)begin);
    return cursor;
}

/* Content that was gathered stays until the answer, so that each look gets the same address. */
PS_EXPORT int pserver_request_tensor(struct pserver_request *request, size_t index,
                                     struct pserver_tensor *tensor)
{
    const struct ps_program_payload *payload = &request->request->question->payload;
    uint64_t begin = 0;
    if (index >= payload->tensor_count)
        return PSERVER_NOT_FOUND;
    describe(&payload->tensors[index], tensor);
    for (size_t i = 0; i < index; i++)
        begin += payload->tensors[i].size;
    if (tensor->size == 0 || lies_well(payload->content, begin, tensor->size, &tensor->data))
        return PSERVER_OK;
    if (request->gathered == NULL)
        request->gathered =
            ps_zeroed_array(ps_allocator_heap(), payload->tensor_count, sizeof *request->gathered);
    if (request->gathered == NULL)
        return PSERVER_EXHAUSTED;
    if (request->gathered[index] == NULL) {
        request->gathered[index] = ps_plain(ps_allocator_heap(), (size_t)tensor->size);
        if (request->gathered[index] == NULL)
            return PSERVER_EXHAUSTED;
        ps_view_copy(payload->content, (size_t)begin, request->gathered[index],
                     (size_t)tensor->size);
    }
    tensor->data = request->gathered[index];
    return PSERVER_OK;
}

/* One that there is not is empty. */
PS_EXPORT void pserver_request_output(const struct pserver_request *request, size_t index,
                                      struct pserver_tensor *tensor)
{
    const struct ps_program_payload *payload = &request->request->question->payload;
    *tensor = (struct pserver_tensor){.size = 0};
    if (index < payload->output_count)
        describe(&payload->outputs[index], tensor);
}

/* The worker's own memory where it has given some, and else a block that goes out as it is. */
PS_EXPORT void *pserver_request_room(struct pserver_request *request, uint64_t size)
{
    const struct ps_program_room *room = &request->request->room;
    if (request->room != NULL || size > SIZE_MAX - ROOM_ALIGNMENT)
        return NULL;
    if (size > 0 && size <= room->size && (uintptr_t)room->bytes % ROOM_ALIGNMENT == 0) {
        request->room = room->bytes;
    } else {
        request->room_block = ps_plain(ps_allocator_heap(), (size_t)size + ROOM_ALIGNMENT);
        if (request->room_block == NULL)
            return NULL;
        uint8_t *block = request->room_block;
        request->room = block + (ROOM_ALIGNMENT - (uintptr_t)block % ROOM_ALIGNMENT);
    }
    request->room_size = size;
    return request->room;
}

/* ---- Answering ---- */

/* The tensors as the wire has them, with one view of their contents. */
struct assembled {
    struct ps_program_tensor *tensors;
    struct ps_bytes *pieces;
    uint64_t size;
    bool is_in_room; /* one behind another, from its beginning */
};

/* What a program has put together is looked at as what comes from the network is: a mistake of its
 * own fails this request and harms no other. */
static int assemble(const struct pserver_request *request, const struct pserver_answer *answer,
                    struct assembled *all)
{
    *all = (struct assembled){.is_in_room = request->room != NULL};
    all->tensors =
        ps_zeroed_array(ps_allocator_heap(), answer->tensor_count + 1, sizeof *all->tensors);
    all->pieces =
        ps_zeroed_array(ps_allocator_heap(), answer->tensor_count + 1, sizeof *all->pieces);
    if (all->tensors == NULL || all->pieces == NULL)
        return PSERVER_EXHAUSTED;
    if (answer->tensor_count > PS_PROGRAM_TENSORS_MAX)
        return PSERVER_INVALID;
    for (size_t i = 0; i < answer->tensor_count; i++) {
        const struct pserver_tensor *from = &answer->tensors[i];
        if (from->rank > PS_VALUE_RANK_MAX || (from->data == NULL && from->size > 0))
            return PSERVER_INVALID;
        all->is_in_room &= from->size == 0 || from->data == request->room + all->size;
        all->tensors[i] = (struct ps_program_tensor){.key = from->key,
                                                     .size = from->size,
                                                     .facts = {.dtype = from->dtype,
                                                               .element_size = from->element_size,
                                                               .rank = from->rank}};
        memcpy(all->tensors[i].facts.extents, from->shape, sizeof from->shape);
        all->pieces[i] = (struct ps_bytes){from->data, (size_t)from->size};
        all->size += from->size;
    }
    return request->room != NULL && (!all->is_in_room || all->size > request->room_size)
               ? PSERVER_INVALID
               : PSERVER_OK;
}

/* The block goes out as it is, and is the message's from then on. */
static void *keep_block(void *self)
{
    struct pserver_request *request = self;
    void *block = request->room_block;
    request->room_block = NULL;
    return block;
}

static void drop_block(void *block)
{
    ps_release(ps_allocator_heap(), block);
}

/* Where the worker has given room it is filled here, on the handler's thread: what the handler
 * changes next does not change this answer. */
static int make_answer(struct pserver_request *request, const struct pserver_answer *answer,
                       const struct assembled *all, struct ps_mailbox_answer *out)
{
    const struct ps_program_room *room = &request->request->room;
    struct ps_hold hold = {.keep = keep_block, .drop = drop_block, .self = request};
    struct ps_program_payload payload = {
        .tensors = all->tensors,
        .tensor_count = answer->tensor_count,
        .body = {answer->body, answer->body_size},
        .lens = {(const void *)answer->lens, answer->len_count * sizeof *answer->lens},
        .content = {all->pieces, answer->tensor_count, (size_t)all->size}};
    bool is_block = request->room_block != NULL;
    if (all->size > 0 && !is_block && all->size <= room->size) {
        /* The worker reads it there. */
        if (!all->is_in_room)
            ps_view_copy(payload.content, 0, room->bytes, (size_t)all->size);
        out->room_size = all->size;
        payload.content = (struct ps_view){0};
    }
    out->parcel = ps_parcel_create(ps_allocator_heap(), &payload, is_block ? &hold : NULL);
    return out->parcel != NULL ? PSERVER_OK : PSERVER_EXHAUSTED;
}

/* A failure to answer is an answer, too: the worker must not wait for one that never comes. */
PS_EXPORT int pserver_respond(struct pserver_request *request, const struct pserver_answer *answer)
{
    static const struct pserver_answer nothing;
    struct ps_mailbox_answer out = {.handle = request->request->handle};
    struct assembled all;
    const struct pserver_answer *said = answer != NULL ? answer : &nothing;
    int status = assemble(request, said, &all);
    if (status == PSERVER_OK)
        status = make_answer(request, said, &all, &out);
    ps_release(ps_allocator_heap(), all.tensors);
    ps_release(ps_allocator_heap(), all.pieces);
    if (status != PSERVER_OK) {
        out.status = status == PSERVER_INVALID ? PS_ERR_INTERNAL : PS_ERR_NO_MEMORY;
        out.text =
            ps_bytes_of_text(status == PSERVER_INVALID ? "the program's answer contradicts itself"
                                                       : "the program had no memory to answer");
    }
    int said_status = finish(request, &out);
    return status != PSERVER_OK ? status : said_status;
}

/* A status that is none is a mistake of the program, which the worker is told. */
PS_EXPORT int pserver_refuse(struct pserver_request *request, int status, const char *text)
{
    static const enum ps_status statuses[] = {
        [PSERVER_INVALID] = PS_ERR_BAD_INPUT,   [PSERVER_ALREADY] = PS_ERR_EXISTS,
        [PSERVER_NOT_FOUND] = PS_ERR_NOT_FOUND, [PSERVER_EXHAUSTED] = PS_ERR_BUSY,
        [PSERVER_ENDED] = PS_ERR_CANCELLED,     [PSERVER_GONE] = PS_ERR_ABORTED,
        [PSERVER_FAILED] = PS_ERR_INTERNAL};
    bool is_known = status > PSERVER_OK && status <= PSERVER_FAILED;
    struct ps_mailbox_answer out = {.handle = request->request->handle,
                                    .status = is_known ? statuses[status] : PS_ERR_INTERNAL,
                                    .text = ps_bytes_of_text(text)};
    return finish(request, &out);
}

/* The mailbox refuses a second answer and one that comes too late. */
static int finish(struct pserver_request *request, struct ps_mailbox_answer *answer)
{
    enum ps_status status = ps_service_answer(request->service, answer);
    destroy(request);
    return status == PS_OK ? PSERVER_OK : PSERVER_GONE;
}
