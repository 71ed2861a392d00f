/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: values with what they are, and lists of receives; replies are in
 * rendezvous_reply_codec.c. The content of a value is never copied here: a request is read as a
 * view of the network's slices, and written as a head that its content follows. Where the content
 * is, in the message or in shared memory, is the last that is written, by whoever sends it.
 *
 * The lists of a RecvTensors are counted before they are read, since each may have thousands of
 * entries and most have one: the memory for all of them is one block of the right size. Both walks
 * are the same function, which fills lists where there are any and counts in any case; so the
 * second cannot find more than the first.
 *
 * A value of the wrong length for its shape is refused here, so that nobody behind has to look.
 *
 * Fields that this program does not know are passed over. A known field beyond its bound refuses
 * the whole message: half of a request must not be carried out.
 *
 * Values travel in two places, in a request and in an answer, under the same numbers of fields, so
 * that one reader and one writer serve both. */
#include "proto/rendezvous_codec.h"

#include "base/assert.h"
#include "proto/arena.h"
#include "proto/decode_parts.h"
#include "proto/shared_range.h"
#include "proto/value_facts_codec.h"
#include "proto/wire.h"

#include <string.h>

/* Numbers of the fields, as in rendezvous.proto; those between TOKEN and CONTENT are a value's own
 * (value_facts_codec.c). */
enum { STEP = 1, KEY, EPOCH, TOKEN, CONTENT = 9, OFFSET, SHARD, SHARED, TOTAL };
enum { RECEIVES = 2, WANTED = 4, WAIT_MS, DONE_WITH, GIVE_BACK, RANGE_BYTES = 13, CANCEL };
enum { RECEIVE_ID = 1, RECEIVE_KEY, RECEIVE_OFFSET, RECEIVE_COUNT };

/* What a request's lists take: counted first, then filled. */
struct lists {
    size_t wish_count, done_count, give_back_count, cancel_count, key_bytes;
    struct ps_rendezvous_wish *wishes; /* NULL: they are being counted */
    uint64_t *done_with, *give_back, *cancel;
    uint8_t *keys; /* where the next key goes that lies in two slices */
};

static enum ps_status check_sent(const struct ps_send_tensor_request *read, struct ps_error *error);
static enum ps_status read_lists(struct ps_view bytes, struct ps_recv_tensors_request *read,
                                 struct lists *lists, struct ps_error *error);
static void read_receive(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct lists *lists);
static void read_numbers(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         uint64_t *numbers, size_t *count);

/* ---- Values ---- */

/* The key is found as a configuration is, which is bytes of any kind: as a name it would have to be
 * text. */
enum ps_status ps_decode_send_tensor(struct ps_view bytes, const struct ps_allocator *memory,
                                     struct ps_send_tensor_request *request,
                                     struct ps_decoded *decoded, struct ps_error *error)
{
    struct ps_send_tensor_request read = {.step = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == STEP)
            read.step = ps_wire_uint(&reader, &field, UINT64_MAX, "step");
        else if (field.number == KEY)
            found.config = ps_wire_bytes(&reader, &field, PS_RENDEZVOUS_KEY_BYTES_MAX, "key");
        else if (field.number == EPOCH)
            read.epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        else if (field.number == TOKEN)
            read.token = ps_wire_uint(&reader, &field, UINT64_MAX, "token");
        else if (field.number == CONTENT)
            found.content = ps_wire_bytes(&reader, &field, SIZE_MAX, "content");
        else if (field.number == OFFSET)
            read.offset = ps_wire_uint(&reader, &field, UINT64_MAX, "offset");
        else if (field.number == TOTAL)
            read.total = ps_wire_uint(&reader, &field, UINT64_MAX, "total");
        else if (field.number == SHARED)
            ps_shared_range_read(&reader, &field, &read.shared);
        else if (field.number == SHARD)
            read.shard = ps_decode_shard(&reader, &field);
        else
            (void)ps_value_facts_read(&reader, &field, &read.facts);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.key = kept.config;
    read.content = kept.content;
    /* Behind the keeping, which knows how long the content is. */
    enum ps_status status = check_sent(&read, error);
    if (status != PS_OK)
        ps_decoded_release(decoded);
    else
        *request = read;
    return status;
}

/* Content in shared memory is as long as its place says, which is looked at where it is found. */
static enum ps_status check_sent(const struct ps_send_tensor_request *read, struct ps_error *error)
{
    /* One of the two is 0. */
    uint64_t here = read->content.size + read->shared.size;
    if (read->content.size > 0 && read->shared.size > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "content in the message and in shared memory");
    if (read->total != 0 && (here > read->total || read->offset > read->total - here))
        return ps_fail(error, PS_ERR_BAD_INPUT, "a part that leaves its value");
    if (read->total != 0 && here < PS_TENSOR_PART_BYTES_MIN && read->offset + here != read->total)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a part has 64 KiB at least, or ends its value");
    return ps_value_facts_check(&read->facts, read->total != 0 ? read->total : here, error);
}

/* The shard and the numbers come before the value's own fields, whose last is the content: it
 * follows from the caller's memory. */
void ps_encode_send_tensor(const struct ps_send_tensor_request *request, struct ps_buffer *head)
{
    ps_wire_put_uint(head, STEP, request->step);
    ps_wire_put_bytes(head, KEY, request->key);
    ps_wire_put_uint(head, EPOCH, request->epoch);
    ps_wire_put_uint(head, TOKEN, request->token);
    ps_wire_put_uint(head, SHARD, request->shard);
    ps_wire_put_uint(head, OFFSET, request->offset);
    ps_wire_put_uint(head, TOTAL, request->total);
    ps_value_facts_put(&request->facts, head);
}

/* Last of the message. Empty content is no field at all, which is how proto3 reads it. */
void ps_encode_sent_content(size_t size, const struct ps_shared_range *shared,
                            struct ps_buffer *head)
{
    PS_ASSERT(size == 0 || shared->size == 0);
    ps_shared_range_put(head, SHARED, shared);
    if (size > 0)
        ps_wire_put_head(head, CONTENT, size);
}

/* Told like the place of what is sent. */
void ps_encode_receive_room(const struct ps_shared_range *shared, struct ps_buffer *head)
{
    ps_shared_range_put(head, SHARED, shared);
}

/* ---- Receives ---- */

/* One block for all lists, wishes first, since they need the strictest alignment. */
static enum ps_status make_lists(const struct ps_allocator *memory, struct lists *lists,
                                 struct ps_decoded *decoded, struct ps_error *error)
{
    struct ps_arena arena;
    size_t numbers = lists->done_count + lists->give_back_count + lists->cancel_count;
    size_t size = lists->wish_count * sizeof *lists->wishes + numbers * sizeof(uint64_t) +
                  lists->key_bytes + 1;
    *decoded = (struct ps_decoded){.memory = memory};
    /* One byte more than is needed, so that a request without any list is not a block of nothing.
     * */
    ps_arena_init(&arena, memory, size);
    uint8_t *block = ps_arena_take(&arena, size);
    if (block == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu bytes", size);
    decoded->message = ps_arena_detach(&arena);
    /* The arena's blocks are aligned for anything, and each list is as long as it was counted. */
    lists->wishes = (void *)block;
    lists->done_with = (void *)(block + lists->wish_count * sizeof *lists->wishes);
    lists->give_back = lists->done_with + lists->done_count;
    lists->cancel = lists->give_back + lists->give_back_count;
    lists->keys = (uint8_t *)(lists->cancel + lists->cancel_count);
    return PS_OK;
}

/* The same walk twice: the second fills what the first has counted. */
enum ps_status ps_decode_recv_tensors(struct ps_view bytes, const struct ps_allocator *memory,
                                      struct ps_recv_tensors_request *request,
                                      struct ps_decoded *decoded, struct ps_error *error)
{
    struct ps_recv_tensors_request read = {.step = 0};
    /* Without lists the first walk counts. */
    struct lists lists = {.wishes = NULL};
    *decoded = (struct ps_decoded){0};
    PS_TRY(read_lists(bytes, &read, &lists, error));
    PS_TRY(make_lists(memory, &lists, decoded, error));
    /* The lists stay where they are, and are filled from their beginnings. */
    const struct lists counted = lists;
    lists.wish_count = 0;
    lists.done_count = 0;
    lists.give_back_count = 0;
    lists.cancel_count = 0;
    /* What was counted is filled now, in the same order. */
    enum ps_status status = read_lists(bytes, &read, &lists, error);
    PS_ASSERT(status == PS_OK && lists.wish_count == counted.wish_count);
    PS_ASSERT(lists.done_count == counted.done_count);
    /* From where they began: the second walk has moved only the place of the keys. */
    read.wishes = counted.wishes;
    read.wish_count = counted.wish_count;
    read.done_with = counted.done_with;
    read.done_count = counted.done_count;
    read.give_back = counted.give_back;
    read.give_back_count = counted.give_back_count;
    read.cancel = counted.cancel;
    read.cancel_count = counted.cancel_count;
    *request = read;
    return status;
}

/* One walk over the request. Fields come in any order, and a list may be cut in several fields:
 * what belongs to it follows what came before. */
static enum ps_status read_lists(struct ps_view bytes, struct ps_recv_tensors_request *read,
                                 struct lists *lists, struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == STEP)
            read->step = ps_wire_uint(&reader, &field, UINT64_MAX, "step");
        else if (field.number == RECEIVES)
            read_receive(&reader, &field, lists);
        else if (field.number == EPOCH)
            read->epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        else if (field.number == WANTED)
            read->wanted = (uint32_t)ps_wire_uint(&reader, &field, UINT32_MAX, "wanted");
        else if (field.number == WAIT_MS)
            read->wait_ms = ps_wire_uint(&reader, &field, UINT64_MAX, "wait_ms");
        else if (field.number == DONE_WITH)
            read_numbers(&reader, &field, lists->done_with, &lists->done_count);
        else if (field.number == GIVE_BACK)
            read_numbers(&reader, &field, lists->give_back, &lists->give_back_count);
        else if (field.number == CANCEL)
            read_numbers(&reader, &field, lists->cancel, &lists->cancel_count);
        else if (field.number == SHARD)
            read->shard = ps_decode_shard(&reader, &field);
        else if (field.number == SHARED)
            ps_shared_range_read(&reader, &field, &read->shared);
        else if (field.number == RANGE_BYTES)
            read->range_bytes = ps_wire_uint(&reader, &field, UINT64_MAX, "range_bytes");
    }
    return reader.status;
}

/* A key that lies in one slice stays there. The bound on their number is the service's, too; here
 * it keeps the block in proportion. */
static void read_receive(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct lists *lists)
{
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    struct ps_rendezvous_wish wish = {0};
    /* A receive without a key has an empty one, which the service refuses in words. */
    struct ps_wire_range key = {.size = 0};
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "receive");
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (reader->status == PS_OK && ps_wire_next(&nested, &part)) {
        if (part.number == RECEIVE_ID)
            wish.id = ps_wire_uint(&nested, &part, UINT64_MAX, "id");
        else if (part.number == RECEIVE_KEY)
            key = ps_wire_bytes(&nested, &part, PS_RENDEZVOUS_KEY_BYTES_MAX, "key");
        else if (part.number == RECEIVE_OFFSET)
            wish.offset = ps_wire_uint(&nested, &part, UINT64_MAX, "offset");
        else if (part.number == RECEIVE_COUNT)
            wish.count = ps_wire_uint(&nested, &part, UINT64_MAX, "count");
    }
    if (reader->status == PS_OK)
        reader->status = nested.status;
    /* Looked at before the receive is noted: the list has room for as many as were counted. */
    if (reader->status == PS_OK && lists->wish_count == PS_RENDEZVOUS_WISHES_MAX)
        ps_wire_refuse(reader, "more than %d receives", PS_RENDEZVOUS_WISHES_MAX);
    if (reader->status != PS_OK)
        return;
    /* Most keys lie within one slice of the network's, and are used there. */
    bool in_one = ps_wire_range_in_one(&key, &wish.key);
    /* The first walk adds up how much room the keys take that are cut. */
    if (lists->wishes == NULL) {
        lists->key_bytes += in_one ? 0 : key.size;
    } else if (!in_one) {
        ps_wire_range_copy(&key, lists->keys);
        wish.key = (struct ps_bytes){lists->keys, key.size};
        lists->keys += key.size;
    }
    if (lists->wishes != NULL)
        lists->wishes[lists->wish_count] = wish;
    lists->wish_count++;
}

/* Bounded as the receives are: a message of some bytes must not make the server look for millions
 * of ids. */
static void add_number(struct ps_wire_reader *reader, uint64_t number, uint64_t *numbers,
                       size_t *count)
{
    if (*count == PS_RENDEZVOUS_WISHES_MAX) {
        ps_wire_refuse(reader, "more than %d ids", PS_RENDEZVOUS_WISHES_MAX);
        return;
    }
    /* Without a list they are being counted. */
    if (numbers != NULL)
        numbers[*count] = number;
    (*count)++;
}

/* Packed, as proto3 writes them, or a field for each. */
static void read_numbers(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         uint64_t *numbers, size_t *count)
{
    struct ps_wire_reader nested;
    uint64_t number = 0;
    if (field->type == PS_WIRE_VARINT) {
        add_number(reader, field->value, numbers, count);
        return;
    }
    struct ps_wire_range packed = ps_wire_bytes(reader, field, SIZE_MAX, "ids");
    ps_wire_reader_nested(&nested, &packed, reader->error);
    while (reader->status == PS_OK && ps_wire_next_packed(&nested, &number))
        add_number(reader, number, numbers, count);
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* Packed. Their size stands before them, and is summed up first. */
static void put_numbers(const uint64_t *numbers, size_t count, uint32_t field,
                        struct ps_buffer *bytes)
{
    size_t size = 0;
    /* The first pass is over sizes, the second over bytes. */
    for (size_t i = 0; i < count; i++)
        size += ps_wire_varint_size(numbers[i]);
    if (count > 0)
        ps_wire_put_head(bytes, field, size);
    for (size_t i = 0; i < count; i++)
        ps_wire_put_packed(bytes, numbers[i]);
}

/* The size of a nested message stands before it, and is summed up first: one byte for each tag and
 * for the length of a short key, two for that of a longer one. */
void ps_encode_recv_tensors(const struct ps_recv_tensors_request *request, struct ps_buffer *bytes)
{
    ps_wire_put_uint(bytes, STEP, request->step);
    ps_wire_put_uint(bytes, EPOCH, request->epoch);
    ps_wire_put_uint(bytes, WANTED, request->wanted);
    ps_wire_put_uint(bytes, WAIT_MS, request->wait_ms);
    ps_wire_put_uint(bytes, SHARD, request->shard);
    ps_wire_put_uint(bytes, RANGE_BYTES, request->range_bytes);
    put_numbers(request->done_with, request->done_count, DONE_WITH, bytes);
    put_numbers(request->give_back, request->give_back_count, GIVE_BACK, bytes);
    put_numbers(request->cancel, request->cancel_count, CANCEL, bytes);
    for (size_t i = 0; i < request->wish_count; i++) {
        /* An id and a key, both of which are always there. */
        const struct ps_rendezvous_wish *wish = &request->wishes[i];
        /* What the server would refuse is a mistake of ours here: the callers have looked. */
        PS_ASSERT(wish->id != 0 && wish->key.size > 0);
        size_t range = (wish->offset != 0 ? 1 + ps_wire_varint_size(wish->offset) : 0) +
                       (wish->count != 0 ? 1 + ps_wire_varint_size(wish->count) : 0);
        ps_wire_put_head(bytes, RECEIVES,
                         1 + ps_wire_varint_size(wish->id) + 1 +
                             ps_wire_varint_size(wish->key.size) + wish->key.size + range);
        ps_wire_put_uint(bytes, RECEIVE_ID, wish->id);
        ps_wire_put_bytes(bytes, RECEIVE_KEY, wish->key);
        ps_wire_put_uint(bytes, RECEIVE_OFFSET, wish->offset);
        ps_wire_put_uint(bytes, RECEIVE_COUNT, wish->count);
    }
}
