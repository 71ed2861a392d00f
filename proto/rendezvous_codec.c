/* SPDX-License-Identifier: Apache-2.0 */
/* Values with what they are, and lists of receives. The content of a value is never copied here: a
 * request is read as a view of the network's slices, and written as a head that its content
 * follows.
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
#include "proto/wire.h"

#include <string.h>

/* Numbers of the fields, as in rendezvous.proto. Those of a value are the same in a request that
 * brings one and in an answer that tells it. */
enum { STEP = 1, KEY, EPOCH, TOKEN, DTYPE, ELEMENT_SIZE, SHAPE, DEAD, CONTENT, SHARD = 11 };
enum { RECEIVES = 2, WANTED = 4, WAIT_MS, DONE_WITH, GIVE_BACK };
enum { RECEIVE_ID = 1, RECEIVE_KEY };
enum { RECEIVED_ID = 1, RECEIVED_STATUS };
enum { REPLY_EPOCH = 1, REPLY_RECEIVED };

/* Longest word of a status. */
enum { WORD_BYTES_MAX = 32 };

/* What a request's lists take: counted first, then filled. */
struct lists {
    size_t wish_count, done_count, give_back_count, key_bytes;
    struct ps_rendezvous_wish *wishes; /* NULL: they are being counted */
    uint64_t *done_with, *give_back;
    uint8_t *keys; /* where the next key goes that lies in two slices */
};

static bool read_fact(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      struct ps_value_facts *facts);
static void read_shape(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                       struct ps_value_facts *facts);
static enum ps_status check_content(const struct ps_value_facts *facts, uint64_t size,
                                    struct ps_error *error);
static enum ps_status read_lists(struct ps_view bytes, struct ps_recv_tensors_request *read,
                                 struct lists *lists, struct ps_error *error);
static void read_receive(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct lists *lists);
static void read_numbers(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         uint64_t *numbers, size_t *count);
static void put_facts(const struct ps_value_facts *facts, struct ps_buffer *head);
static enum ps_status take_received(const struct ps_wire_range *range,
                                    const struct ps_allocator *memory,
                                    const struct ps_received_taker *taker, struct ps_error *error);

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
        else if (field.number == SHARD)
            read.shard = ps_decode_shard(&reader, &field);
        else
            (void)read_fact(&reader, &field, &read.facts);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, decoded));
    read.key = kept.config;
    read.content = kept.content;
    /* Behind the keeping, which knows how long the content is. */
    enum ps_status status = check_content(&read.facts, read.content.size, error);
    if (status != PS_OK)
        ps_decoded_release(decoded);
    else
        *request = read;
    return status;
}

/* False: the field is another one. */
static bool read_fact(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      struct ps_value_facts *facts)
{
    if (field->number == DTYPE)
        facts->dtype = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "dtype");
    else if (field->number == ELEMENT_SIZE)
        facts->element_size = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "element_size");
    else if (field->number == SHAPE)
        read_shape(reader, field, facts);
    else if (field->number == DEAD)
        facts->dead = ps_wire_uint(reader, field, UINT64_MAX, "dead") != 0;
    else
        return false;
    return true;
}

/* More dimensions than there may be are refused and not cut: a shape that is cut is another one.
 * */
static void add_extent(struct ps_wire_reader *reader, struct ps_value_facts *facts, uint64_t extent)
{
    if (facts->rank == PS_VALUE_RANK_MAX)
        ps_wire_refuse(reader, "shape: more than %d dimensions", PS_VALUE_RANK_MAX);
    else
        facts->extents[facts->rank++] = extent;
}

/* Packed, or a field for each: old encoders write the latter, and readers take both. */
static void read_shape(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                       struct ps_value_facts *facts)
{
    struct ps_wire_reader nested;
    uint64_t extent = 0;
    if (field->type == PS_WIRE_VARINT) {
        add_extent(reader, facts, field->value);
        return;
    }
    /* Bounded by the number of dimensions, and not by the bytes. */
    struct ps_wire_range packed = ps_wire_bytes(reader, field, SIZE_MAX, "shape");
    ps_wire_reader_nested(&nested, &packed, reader->error);
    while (reader->status == PS_OK && ps_wire_next_packed(&nested, &extent))
        add_extent(reader, facts, extent);
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* Whoever receives makes an array of these facts, and fills it with these bytes: the two agree, or
 * the sender is told. Elements without a size, such as texts, have any number of bytes; and a dead
 * value need not have any. */
static enum ps_status check_content(const struct ps_value_facts *facts, uint64_t size,
                                    struct ps_error *error)
{
    /* A scalar has no dimensions, and one element. */
    uint64_t bytes = facts->element_size;
    /* Texts have elements of any size: for them there is nothing to compare. */
    if (facts->element_size == 0 || (facts->dead && size == 0))
        return PS_OK;
    for (uint32_t i = 0; i < facts->rank; i++) {
        /* Compared before it is multiplied: a product that wraps could be any size. */
        if (facts->extents[i] != 0 && bytes > UINT64_MAX / facts->extents[i])
            return ps_fail(error, PS_ERR_BAD_INPUT, "the shape of a value is too large");
        bytes *= facts->extents[i];
    }
    if (bytes == size)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "a value of %llu bytes by its shape has %llu bytes of content",
                   (unsigned long long)bytes, (unsigned long long)size);
}

/* The last field is the content, of which the head of the field alone is written here. */
static void put_facts(const struct ps_value_facts *facts, struct ps_buffer *head)
{
    size_t size = 0;
    PS_ASSERT(facts->rank <= PS_VALUE_RANK_MAX);
    ps_wire_put_uint(head, DTYPE, facts->dtype);
    ps_wire_put_uint(head, ELEMENT_SIZE, facts->element_size);
    for (uint32_t i = 0; i < facts->rank; i++)
        size += ps_wire_varint_size(facts->extents[i]);
    if (size > 0)
        ps_wire_put_head(head, SHAPE, size);
    for (uint32_t i = 0; i < facts->rank; i++)
        ps_wire_put_packed(head, facts->extents[i]);
    ps_wire_put_uint(head, DEAD, facts->dead);
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
    put_facts(&request->facts, head);
    /* Empty content is no field at all, which is how proto3 reads it. */
    if (request->content.size > 0)
        ps_wire_put_head(head, CONTENT, request->content.size);
}

/* ---- Receives ---- */

/* One block for all lists, wishes first, since they need the strictest alignment. */
static enum ps_status make_lists(const struct ps_allocator *memory, struct lists *lists,
                                 struct ps_decoded *decoded, struct ps_error *error)
{
    struct ps_arena arena;
    size_t numbers = lists->done_count + lists->give_back_count;
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
    lists->keys = (uint8_t *)(lists->give_back + lists->give_back_count);
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
        else if (field.number == SHARD)
            read->shard = ps_decode_shard(&reader, &field);
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
    put_numbers(request->done_with, request->done_count, DONE_WITH, bytes);
    put_numbers(request->give_back, request->give_back_count, GIVE_BACK, bytes);
    for (size_t i = 0; i < request->wish_count; i++) {
        /* An id and a key, both of which are always there. */
        const struct ps_rendezvous_wish *wish = &request->wishes[i];
        /* What the server would refuse is a mistake of ours here: the callers have looked. */
        PS_ASSERT(wish->id != 0 && wish->key.size > 0);
        ps_wire_put_head(bytes, RECEIVES,
                         1 + ps_wire_varint_size(wish->id) + 1 +
                             ps_wire_varint_size(wish->key.size) + wish->key.size);
        ps_wire_put_uint(bytes, RECEIVE_ID, wish->id);
        ps_wire_put_bytes(bytes, RECEIVE_KEY, wish->key);
    }
}

/* ---- Answers ---- */

/* The answer is written aside, since its size comes first: a few numbers and a word. */
void ps_encode_received_tensor(const struct ps_received_tensor *received, struct ps_buffer *head)
{
    char room[256];
    /* The largest of these is far below what the buffer has. */
    struct ps_buffer own;
    ps_buffer_init_fixed(&own, room, sizeof room);
    ps_wire_put_uint(&own, RECEIVED_ID, received->id);
    if (received->status != PS_OK)
        ps_wire_put_text(&own, RECEIVED_STATUS, ps_status_word(received->status));
    else
        put_facts(&received->facts, &own);
    if (received->content.size > 0)
        ps_wire_put_head(&own, CONTENT, received->content.size);
    /* Eight lengths of ten bytes, and six small fields: there is room. */
    PS_ASSERT(!own.failed);
    ps_wire_put_head(head, REPLY_RECEIVED, own.size + received->content.size);
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)own.text, own.size});
}

/* Answers are taken one by one while they are read: a reply may have gigabytes of content, and a
 * list of all of them would be of no use to anybody. */
enum ps_status ps_decode_recv_tensors_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                            const struct ps_received_taker *taker, uint64_t *epoch,
                                            struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        /* The epoch comes first, in replies of our servers; a client needs it only behind the
         * call. */
        if (field.number == REPLY_EPOCH)
            *epoch = ps_wire_uint(&reader, &field, UINT64_MAX, "epoch");
        if (field.number != REPLY_RECEIVED)
            continue;
        struct ps_wire_range range = ps_wire_bytes(&reader, &field, SIZE_MAX, "received");
        PS_TRY(reader.status);
        /* A taker that fails ends the reading: what follows is for the same caller, who has given
         * up. */
        PS_TRY(take_received(&range, memory, taker, error));
    }
    return reader.status;
}

/* A word that this program does not know is a newer server's: it failed, for whatever reason. */
static enum ps_status status_of_word(const struct ps_wire_range *word)
{
    char text[WORD_BYTES_MAX + 1] = "";
    if (word->size == 0)
        return PS_OK;
    /* The word is held to its bound where it was found, and the array ends with a NUL. */
    ps_wire_range_copy(word, text);
    for (int i = PS_OK + 1; i < PS_STATUS_COUNT; i++) {
        if (strcmp(text, ps_status_word((enum ps_status)i)) == 0)
            return (enum ps_status)i;
    }
    return PS_ERR_INTERNAL;
}

/* The pieces of the content are a list for as long as the answer is taken. */
static enum ps_status take_received(const struct ps_wire_range *range,
                                    const struct ps_allocator *memory,
                                    const struct ps_received_taker *taker, struct ps_error *error)
{
    struct ps_received_tensor received = {.id = 0};
    struct ps_wire_range word = {.size = 0};
    struct ps_found found = {0};
    struct ps_kept kept;
    struct ps_decoded decoded;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_nested(&reader, range, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == RECEIVED_ID)
            received.id = ps_wire_uint(&reader, &field, UINT64_MAX, "id");
        else if (field.number == RECEIVED_STATUS)
            word = ps_wire_bytes(&reader, &field, WORD_BYTES_MAX, "status");
        else if (field.number == CONTENT)
            found.content = ps_wire_bytes(&reader, &field, SIZE_MAX, "content");
        else
            (void)read_fact(&reader, &field, &received.facts);
    }
    PS_TRY(ps_decode_keep(&reader, &found, memory, &kept, &decoded));
    /* Words and not numbers: they are those of failed calls, which clients know. */
    received.status = status_of_word(&word);
    received.content = kept.content;
    /* Whatever the taker wants to keep it copies. */
    enum ps_status status = taker->take(taker->self, &received, error);
    ps_decoded_release(&decoded);
    return status;
}
