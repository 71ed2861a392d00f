/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of programs, written. The size of a nested message stands before it, and is the sum
 * of its parts: a small one is written aside, a large one summed up first.
 *
 * Whoever sums up repeats what the writing does, in other words; so each such sum is asserted
 * behind the writing, where a mistake shows at the first message and not at its reader. Contents
 * are never touched here: they follow the head on the wire, from wherever they lie.
 *
 * What steers a call stands before what the program gets: a server that refuses it for its bounds
 * need not have read the rest. Lists are written in the order in which they were given, since that
 * is the order in which their contents lie.
 *
 * A tensor, a taker and the facts of a request are written on the stack first. Their bounds are
 * those of the codec that reads them: eight dimensions of ten bytes, a name of 64. So there is room
 * for the largest of each, which is asserted and not tested for. */
#include "proto/program_codec.h"

#include "base/assert.h"
#include "proto/program_read.h"
#include "proto/shared_range.h"
#include "proto/wire.h"

#include <string.h>

/* A tensor's facts: four numbers, and eight lengths of ten bytes. */
enum { ENTRY_BYTES = 192 };

static void put_tensors(const struct ps_program_tensor *tensors, size_t count, uint32_t number,
                        struct ps_buffer *head);
static size_t tensors_size(const struct ps_program_tensor *tensors, size_t count);
static void put_stamps(const struct ps_program_stamps *stamps, struct ps_buffer *head);
static void put_asked(const struct ps_program_asked *asked, struct ps_buffer *head);
static void put_payload(const struct ps_program_payload *payload, struct ps_buffer *head);
static void put_content(size_t size, struct ps_buffer *head);

/* Numbers below zero take ten bytes, as proto3 writes them. */
static void put_signed(struct ps_buffer *head, uint32_t number, int32_t value)
{
    ps_wire_put_uint(head, number, (uint64_t)(int64_t)value);
}

/* Aside, since its size comes first. Eight lengths of ten bytes and four numbers fit. */
static void write_tensor(const struct ps_program_tensor *tensor, char *text,
                         struct ps_buffer *entry)
{
    /* Summed up first: a length stands before what it counts. */
    size_t size = 0;
    PS_ASSERT(tensor->facts.rank <= PS_VALUE_RANK_MAX);
    ps_buffer_init_fixed(entry, text, ENTRY_BYTES);
    /* In the order of the .proto; what is 0 is left out, as proto3 does. */
    ps_wire_put_uint(entry, PS_TENSOR_KEY, tensor->key);
    ps_wire_put_uint(entry, PS_TENSOR_SIZE, tensor->size);
    ps_wire_put_uint(entry, PS_TENSOR_DTYPE, tensor->facts.dtype);
    ps_wire_put_uint(entry, PS_TENSOR_ELEMENT_SIZE, tensor->facts.element_size);
    for (uint32_t i = 0; i < tensor->facts.rank; i++)
        size += ps_wire_varint_size(tensor->facts.extents[i]);
    if (size > 0)
        ps_wire_put_head(entry, PS_TENSOR_SHAPE, size);
    for (uint32_t i = 0; i < tensor->facts.rank; i++)
        ps_wire_put_packed(entry, tensor->facts.extents[i]);
    PS_ASSERT(!entry->failed);
}

static void put_tensors(const struct ps_program_tensor *tensors, size_t count, uint32_t number,
                        struct ps_buffer *head)
{
    char text[ENTRY_BYTES];
    /* One entry at a time, in room on the stack: a list of a thousand tensors needs no memory
     * of its own. */
    struct ps_buffer entry;
    for (size_t i = 0; i < count; i++) {
        write_tensor(&tensors[i], text, &entry);
        /* A tensor without any fact is one, too: it is not left out. */
        ps_wire_put_head(head, number, entry.size);
        ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)entry.text, entry.size});
    }
}

/* Stamps that are not there yet are at the end, and left out. */
static void put_stamps(const struct ps_program_stamps *stamps, struct ps_buffer *head)
{
    /* Little-endian by shifts, whatever the machine's own order is. */
    uint8_t bytes[8 * PS_PROGRAM_STAMPS_MAX];
    size_t count = PS_PROGRAM_STAMPS_MAX;
    ps_wire_put_uint(head, PS_PROGRAM_HOST, stamps->host);
    while (count > 0 && stamps->ns[count - 1] == 0)
        count--;
    for (size_t i = 0; i < 8 * count; i++)
        bytes[i] = (uint8_t)(stamps->ns[i / 8] >> (8 * (i % 8)));
    ps_wire_put_bytes(head, PS_PROGRAM_STAMPS, (struct ps_bytes){bytes, 8 * count});
}

/* In the order of the .proto, but for the app, which only an Ask says. */
static void put_asked(const struct ps_program_asked *asked, struct ps_buffer *head)
{
    ps_wire_put_uint(head, PS_ASK_WORKER, asked->worker);
    ps_wire_put_uint(head, PS_ASK_CUSTOMER, asked->customer);
    ps_wire_put_uint(head, PS_ASK_KIND, asked->kind);
    put_signed(head, PS_ASK_COMMAND, asked->command);
    put_signed(head, PS_ASK_PRIORITY, asked->priority);
    ps_wire_put_uint(head, PS_PROGRAM_TIMESTAMP, asked->timestamp);
    put_stamps(&asked->stamps, head);
}

/* The smaller fields first. */
static void put_payload(const struct ps_program_payload *payload, struct ps_buffer *head)
{
    put_tensors(payload->tensors, payload->tensor_count, PS_PROGRAM_TENSORS, head);
    put_tensors(payload->outputs, payload->output_count, PS_PROGRAM_OUTPUTS, head);
    ps_wire_put_bytes(head, PS_PROGRAM_BODY, payload->body);
    ps_wire_put_bytes(head, PS_PROGRAM_LENS, payload->lens);
    ps_wire_put_bytes(head, PS_PROGRAM_KEYS, payload->keys);
}

/* No content is no field. */
static void put_content(size_t size, struct ps_buffer *head)
{
    if (size > 0)
        ps_wire_put_head(head, PS_PROGRAM_CONTENT, size);
}

/* For a client that learns only with each attempt whether there is shared memory. */
void ps_encode_program_places(size_t content_size, const struct ps_shared_range *shared,
                              const struct ps_shared_range *room, struct ps_buffer *head)
{
    ps_shared_range_put(head, PS_PROGRAM_SHARED, shared);
    ps_shared_range_put(head, PS_PROGRAM_ROOM, room);
    put_content(content_size, head);
}

/* In a request of a customer the field stands here and nowhere before. */
void ps_encode_program_epoch(uint64_t epoch, struct ps_buffer *head)
{
    ps_wire_put_uint(head, PS_PROGRAM_EPOCH, epoch);
}

/* What steers the call goes before what the program gets, and the content last: a server may look
 * at the one while the other is still on its way. */
void ps_encode_ask(const struct ps_ask_request *request, struct ps_buffer *head)
{
    /* What a server needs to refuse the call stands first. */
    ps_wire_put_uint(head, PS_ASK_APP, request->asked.app);
    put_asked(&request->asked, head);
    ps_wire_put_uint(head, PS_PROGRAM_TOKEN, request->token);
    ps_wire_put_uint(head, PS_ASK_SENDER, request->sender);
    ps_wire_put_uint(head, PS_ASK_ORDER, request->order);
    ps_wire_put_uint(head, PS_ASK_ORDER_FROM, request->order_from);
    ps_wire_put_uint(head, PS_PROGRAM_SHARD, request->shard);
    ps_shared_range_put(head, PS_PROGRAM_SHARED, &request->shared);
    ps_shared_range_put(head, PS_PROGRAM_ROOM, &request->room);
    ps_wire_put_uint(head, PS_PROGRAM_WAIT_MS, request->wait_ms);
    ps_wire_put_uint(head, PS_PROGRAM_EPOCH, request->epoch);
    put_payload(&request->payload, head);
    put_content(request->payload.content.size, head);
}

/* Ranks are packed, and their size is summed up first. A Take has no bulk: all of it is written. */
void ps_encode_take(const struct ps_take_request *request, struct ps_buffer *bytes)
{
    size_t size = 0;
    ps_wire_put_uint(bytes, PS_ASK_APP, request->app);
    ps_wire_put_uint(bytes, PS_TAKE_TAKER, request->taker);
    ps_wire_put_uint(bytes, PS_TAKE_TURN, request->turn);
    for (size_t i = 0; i < request->worker_count; i++)
        size += ps_wire_varint_size(request->workers[i]);
    if (size > 0)
        ps_wire_put_head(bytes, PS_TAKE_WORKERS, size);
    for (size_t i = 0; i < request->worker_count; i++)
        ps_wire_put_packed(bytes, request->workers[i]);
    ps_wire_put_uint(bytes, PS_TAKE_MAX, request->max);
    ps_wire_put_uint(bytes, PS_TAKE_PARTIAL, request->partial);
    ps_wire_put_uint(bytes, PS_TAKE_WAIT_MS, request->wait_ms);
    ps_wire_put_uint(bytes, PS_TAKE_AGAIN, request->again);
    ps_wire_put_uint(bytes, PS_TAKE_LEASE_MS, request->lease_ms);
    ps_wire_put_uint(bytes, PS_TAKE_TOUCH, request->touch);
    ps_wire_put_uint(bytes, PS_PROGRAM_SHARD, request->shard);
    ps_shared_range_put(bytes, PS_PROGRAM_ROOM, &request->room);
    ps_wire_put_uint(bytes, PS_TAKE_LEAVE, request->leave);
    ps_wire_put_bytes(bytes, PS_TAKE_NAME, request->name);
}

/* ---- Answers ---- */

/* A zero is left out, and any other number has a tag of one byte. */
static size_t uint_size(uint64_t value)
{
    return value == 0 ? 0 : 1 + ps_wire_varint_size(value);
}

static size_t part_size(const struct ps_answer_part *part)
{
    return uint_size(part->tensor) + uint_size(part->row_begin) + uint_size(part->rows) +
           uint_size(part->key);
}

/* Tags up to 15 take one byte, those behind it two. */
static size_t bytes_size(size_t tag_size, struct ps_bytes bytes)
{
    return bytes.size == 0 ? 0 : tag_size + ps_wire_varint_size(bytes.size) + bytes.size;
}

/* Must be what put_answered writes: that asserts it. */
static size_t answered_size(const struct ps_program_answered *answered, struct ps_bytes word)
{
    size_t size = uint_size(answered->handle) + bytes_size(1, word) +
                  bytes_size(1, answered->text) + bytes_size(2, answered->body) +
                  bytes_size(2, answered->lens);
    for (size_t i = 0; i < answered->part_count; i++) {
        /* A part of nothing but zeros is one of two bytes: it is the whole of the first tensor.
         */
        size_t part = part_size(&answered->parts[i]);
        size += 1 + ps_wire_varint_size(part) + part;
    }
    return size;
}

/* The handle is what the taker was given; a word stands only where it failed. */
static void put_answered(const struct ps_program_answered *answered, struct ps_buffer *head)
{
    struct ps_bytes word = {0};
    /* An answer that went well has no word, and so no field. */
    if (answered->status != PS_OK)
        word = ps_bytes_of_text(ps_status_word(answered->status));
    size_t size = answered_size(answered, word);
    ps_wire_put_head(head, PS_PROGRAM_ANSWERS, size);
    /* For the assertion at the end: the size that was written first must be that of what
     * follows. */
    size_t before = head->size;
    ps_wire_put_uint(head, PS_REPLY_HANDLE, answered->handle);
    ps_wire_put_bytes(head, PS_ANSWERED_STATUS, word);
    ps_wire_put_bytes(head, PS_ANSWERED_TEXT, answered->text);
    for (size_t i = 0; i < answered->part_count; i++) {
        const struct ps_answer_part *part = &answered->parts[i];
        ps_wire_put_head(head, PS_ANSWERED_PARTS, part_size(part));
        ps_wire_put_uint(head, PS_PART_TENSOR, part->tensor);
        ps_wire_put_uint(head, PS_PART_ROW_BEGIN, part->row_begin);
        ps_wire_put_uint(head, PS_PART_ROWS, part->rows);
        ps_wire_put_uint(head, PS_PART_KEY, part->key);
    }
    ps_wire_put_bytes(head, PS_PROGRAM_BODY, answered->body);
    ps_wire_put_bytes(head, PS_PROGRAM_LENS, answered->lens);
    PS_ASSERT(head->failed || head->size - before == size);
}

/* Each tensor once, whatever number of answers has rows of it. */
void ps_encode_answer(const struct ps_answer_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, PS_ASK_APP, request->app);
    ps_wire_put_uint(head, PS_TAKE_TAKER, request->taker);
    ps_wire_put_uint(head, PS_PROGRAM_TOKEN, request->token);
    ps_wire_put_uint(head, PS_PROGRAM_SHARD, request->shard);
    ps_shared_range_put(head, PS_PROGRAM_SHARED, &request->shared);
    put_tensors(request->tensors, request->tensor_count, PS_PROGRAM_TENSORS, head);
    for (size_t i = 0; i < request->answer_count; i++)
        put_answered(&request->answers[i], head);
    put_content(request->content.size, head);
}

void ps_encode_answer_reply(const enum ps_status *statuses, size_t count, struct ps_buffer *bytes)
{
    for (size_t i = 0; i < count; i++) {
        /* What went well is an empty text, which is an entry all the same. */
        const char *word = statuses[i] == PS_OK ? "" : ps_status_word(statuses[i]);
        ps_wire_put_head(bytes, PS_ANSWER_REPLY_STATUS, strlen(word));
        ps_buffer_append_text(bytes, word);
    }
}

/* ---- Replies ---- */

/* An answer wants nothing and has no keys: the caller has left them empty. */
void ps_encode_ask_reply(const struct ps_ask_reply *reply, struct ps_buffer *head)
{
    ps_wire_put_uint(head, PS_REPLY_HANDLE, reply->handle);
    ps_wire_put_uint(head, PS_REPLY_KEPT, reply->kept);
    ps_wire_put_uint(head, PS_PROGRAM_SHARED_SIZE, reply->shared_size);
    ps_wire_put_uint(head, PS_PROGRAM_EPOCH, reply->epoch);
    put_stamps(&reply->stamps, head);
    put_payload(&reply->payload, head);
    put_content(reply->payload.content.size, head);
}

/* Written once for the size and once for good: cheaper than a list of sizes. */
static size_t tensors_size(const struct ps_program_tensor *tensors, size_t count)
{
    char text[ENTRY_BYTES];
    struct ps_buffer entry;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        write_tensor(&tensors[i], text, &entry);
        size += 2 + ps_wire_varint_size(entry.size) + entry.size;
    }
    return size;
}

/* The facts are written aside: nine numbers, and four stamps. */
void ps_encode_taken(const struct ps_program_taken *taken, struct ps_buffer *head)
{
    const struct ps_program_payload *payload = &taken->payload;
    char text[256];
    struct ps_buffer facts;
    ps_buffer_init_fixed(&facts, text, sizeof text);
    /* A handle is never 0, so that no request is an empty message. */
    ps_wire_put_uint(&facts, PS_REPLY_HANDLE, taken->handle);
    put_asked(&taken->asked, &facts);
    ps_wire_put_uint(&facts, PS_TAKEN_AGAIN, taken->again);
    PS_ASSERT(!facts.failed);
    size_t size = facts.size + tensors_size(payload->tensors, payload->tensor_count) +
                  tensors_size(payload->outputs, payload->output_count) +
                  bytes_size(2, payload->body) + bytes_size(2, payload->lens) +
                  bytes_size(2, payload->keys);
    ps_wire_put_head(head, PS_TAKE_REPLY_TAKEN, size);
    size_t before = head->size;
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)facts.text, facts.size});
    put_payload(payload, head);
    PS_ASSERT(head->failed || head->size - before == size);
}

/* Behind the last request: the sizes of their tensors cut it. */
void ps_encode_take_content(uint64_t shared_size, size_t content_size, struct ps_buffer *head)
{
    ps_wire_put_uint(head, PS_PROGRAM_SHARED_SIZE, shared_size);
    put_content(content_size, head);
}

/* ---- Apps ---- */

void ps_encode_apps_epoch(uint64_t epoch, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, PS_APPS_EPOCH, epoch);
}

static void write_taker(const struct ps_app_taker *taker, char *text, size_t size,
                        struct ps_buffer *entry)
{
    ps_buffer_init_fixed(entry, text, size);
    /* Names are bounded where they come in, so that the entry has room. */
    ps_wire_put_uint(entry, PS_TAKER_ID, taker->taker);
    ps_wire_put_bytes(entry, PS_TAKER_NAME, taker->name);
    ps_wire_put_uint(entry, PS_TAKER_HEARD_MS, taker->heard_ms);
    ps_wire_put_uint(entry, PS_TAKER_TAKEN, taker->taken);
    ps_wire_put_uint(entry, PS_TAKER_AGAIN, taker->again);
    PS_ASSERT(!entry->failed);
}

/* Must be what ps_encode_app_state writes. */
static size_t state_size(const struct ps_app_state *state)
{
    char text[ENTRY_BYTES];
    struct ps_buffer entry;
    size_t size = uint_size(state->app) + uint_size(state->waiting) + uint_size(state->taken) +
                  uint_size(state->bytes) + uint_size(state->answered) + uint_size(state->failed);
    for (size_t i = 0; i < state->taker_count; i++) {
        write_taker(&state->takers[i], text, sizeof text, &entry);
        size += 1 + ps_wire_varint_size(entry.size) + entry.size;
    }
    return size;
}

/* Every app has its entry, also one of which all numbers are zero. */
void ps_encode_app_state(const struct ps_app_state *state, struct ps_buffer *bytes)
{
    char text[ENTRY_BYTES];
    struct ps_buffer entry;
    /* Summed up first, since it may have dozens of takers. */
    ps_wire_put_head(bytes, PS_APPS_APP, state_size(state));
    ps_wire_put_uint(bytes, PS_ASK_APP, state->app);
    ps_wire_put_uint(bytes, PS_APP_WAITING, state->waiting);
    ps_wire_put_uint(bytes, PS_APP_TAKEN, state->taken);
    ps_wire_put_uint(bytes, PS_APP_BYTES, state->bytes);
    ps_wire_put_uint(bytes, PS_APP_ANSWERED, state->answered);
    ps_wire_put_uint(bytes, PS_APP_FAILED, state->failed);
    for (size_t i = 0; i < state->taker_count; i++) {
        write_taker(&state->takers[i], text, sizeof text, &entry);
        ps_wire_put_head(bytes, PS_APP_TAKERS, entry.size);
        ps_buffer_append(bytes, (struct ps_bytes){(const uint8_t *)entry.text, entry.size});
    }
}
