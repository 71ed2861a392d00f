/* SPDX-License-Identifier: Apache-2.0 */
/* A message is walked twice: its lists are counted before they are read, so that each is one piece
 * of memory of the right size. What is counted is what is read, since both walks are over the same
 * bytes.
 *
 * Numbers of a message are read by a list of their places: the messages of programs have some sixty
 * of them between them, all of which are read in the same three ways. What has an order or a bound
 * of its own has a function of its own.
 *
 * Memory of one decoded message is one arena, whose cap is in proportion to the message: nobody can
 * make this program take much by sending little. */
#include "proto/program_read.h"

#include "base/assert.h"
#include "proto/value_facts_codec.h"

#include <string.h>

/* What a tensor is, as numbers of its own message. The shape is a list and stands apart; the
 * content is no part of the tensor, so that all small fields of a message come before any bulk. */
static const struct ps_program_number tensor_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_program_tensor, key, PS_TENSOR_KEY),
    PS_PROGRAM_NUMBER(struct ps_program_tensor, size, PS_TENSOR_SIZE),
    PS_PROGRAM_NUMBER(struct ps_program_tensor, facts.dtype, PS_TENSOR_DTYPE),
    PS_PROGRAM_NUMBER(struct ps_program_tensor, facts.element_size, PS_TENSOR_ELEMENT_SIZE),
};

/* Of a request, as the worker has said it and as the taker reads it. Kind, command and priority
 * have readers of their own, since they are an enumeration and numbers below zero. */
static const struct ps_program_number asked_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_program_asked, worker, PS_ASK_WORKER),
    PS_PROGRAM_NUMBER(struct ps_program_asked, customer, PS_ASK_CUSTOMER),
    PS_PROGRAM_NUMBER(struct ps_program_asked, timestamp, PS_PROGRAM_TIMESTAMP),
    PS_PROGRAM_NUMBER(struct ps_program_asked, stamps.host, PS_PROGRAM_HOST),
};

/* What the small fields of a message may make of memory for each of its bytes, and beside that:
 * an empty part of an answer is two bytes, and a tensor's facts are a hundred. */
enum { BYTES_FOR_EACH = 64, BYTES_BESIDE = 4096 };

static void read_tensor(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                        struct ps_program_tensor *tensor);
static bool fits_shape(const struct ps_program_tensor *tensor);
static struct ps_wire_range read_packed(struct ps_wire_reader *reader,
                                        const struct ps_wire_field *field, size_t size,
                                        const struct ps_wire_range *before, const char *what);

/* The cap holds the decoder to its arithmetic; a message within the bounds never meets it. */
void ps_program_open(struct ps_view bytes, const struct ps_allocator *memory,
                     struct ps_arena *arena, struct ps_wire_reader *reader, struct ps_error *error)
{
    /* A message that is so large that its cap would wrap has none: its own size is held to its
     * bound by whoever has taken it from the network. */
    size_t size_max = SIZE_MAX;
    if (bytes.size < (SIZE_MAX - BYTES_BESIDE) / BYTES_FOR_EACH)
        size_max = bytes.size * BYTES_FOR_EACH + BYTES_BESIDE;
    ps_arena_init(arena, memory, size_max);
    ps_wire_reader_init(reader, bytes, error);
}

/* What was decoded borrows from the arena's blocks; a failure leaves nothing to borrow from. */
enum ps_status ps_program_finish(enum ps_status status, struct ps_arena *arena,
                                 struct ps_decoded *decoded)
{
    *decoded = (struct ps_decoded){0};
    if (status != PS_OK) {
        ps_arena_release(arena);
        return status;
    }
    /* Blocks and allocator go together: whoever releases needs both. */
    decoded->memory = arena->memory;
    decoded->message = ps_arena_detach(arena);
    return PS_OK;
}

/* A number that is beyond its place is refused and not cut: a cut one would be another's. What
 * stands for true is any number but 0, as protobuf reads it. */
bool ps_program_read_number(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                            const struct ps_program_number *numbers, size_t count, void *object)
{
    for (size_t i = 0; i < count; i++) {
        /* The first that has this field; a list names each once. */
        const struct ps_program_number *number = &numbers[i];
        /* The lists are short, and most messages have few fields: a search is cheaper than a
         * table by number would be to look after. */
        if (number->field != field->number)
            continue;
        uint64_t value =
            ps_wire_uint(reader, field, number->size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX,
                         number->name);
        char *place = (char *)object + number->offset;
        uint32_t half = (uint32_t)value;
        bool is_true = value != 0;
        /* By memcpy, since the list knows the places by their sizes only. */
        if (number->size == sizeof value)
            memcpy(place, &value, sizeof value);
        else if (number->size == sizeof half)
            memcpy(place, &half, sizeof half);
        else
            memcpy(place, &is_true, sizeof is_true);
        return true;
    }
    return false;
}

/* The reader is a copy: the caller's stays where it was. */
size_t ps_program_count(struct ps_wire_reader reader, uint32_t number, size_t count_max,
                        const char *what, enum ps_status *status)
{
    struct ps_wire_field field;
    size_t count = 0;
    /* The copy of the reader goes over the same bytes that the real one goes over next. */
    while (ps_wire_next(&reader, &field)) {
        if (field.number != number)
            continue;
        if (count == count_max)
            /* Before any memory is asked for: a bound that came behind the allocation would be
             * none. */
            ps_wire_refuse(&reader, "more than %zu %s", count_max, what);
        else
            count++;
    }
    *status = reader.status;
    return count;
}

/* `list` is the address of a pointer of whatever type. */
enum ps_status ps_program_list(struct ps_arena *arena, size_t count, size_t size, void *list,
                               struct ps_error *error)
{
    void *made = NULL;
    PS_ASSERT(size > 0);
    /* A list of nothing takes nothing, and is no list: whoever walks it makes no step. */
    if (count > 0) {
        /* Counts come from the network, so that their product is not taken for granted. */
        made = count <= SIZE_MAX / size ? ps_arena_take(arena, count * size) : NULL;
        if (made == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu entries", count);
        memset(made, 0, count * size);
    }
    /* By its bytes: the callers have pointers of different types, and a cast between those
     * would not be allowed. */
    memcpy(list, &made, sizeof made);
    return PS_OK;
}

/* Also of a message without lists: then nothing is taken of the arena. */
enum ps_status ps_payload_begin(const struct ps_wire_reader *reader, struct ps_arena *arena,
                                struct ps_program_found *found)
{
    /* Counted in one walk: most messages have one tensor, and walks are most of their cost. */
    struct ps_wire_reader counting = *reader;
    struct ps_wire_field field;
    size_t tensors = 0, outputs = 0;
    while (ps_wire_next(&counting, &field)) {
        /* Whatever type the field has on the wire: one that is no message is refused when it is
         * read. */
        tensors += field.number == PS_PROGRAM_TENSORS;
        outputs += field.number == PS_PROGRAM_OUTPUTS;
        if (tensors > PS_PROGRAM_TENSORS_MAX || outputs > PS_PROGRAM_TENSORS_MAX)
            ps_wire_refuse(&counting, "more than %d tensors", PS_PROGRAM_TENSORS_MAX);
    }
    *found = (struct ps_program_found){.tensors = NULL};
    PS_TRY(counting.status);
    /* Both lists before any field is read, so that the second walk cannot fail for memory in
     * its middle. */
    PS_TRY(ps_program_list(arena, tensors, sizeof *found->tensors, &found->tensors, reader->error));
    return ps_program_list(arena, outputs, sizeof *found->outputs, &found->outputs, reader->error);
}

/* The lists have room for what was counted, in the same walk over the same bytes. */
bool ps_program_read_payload(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                             struct ps_program_found *found)
{
    switch (field->number) {
    case PS_PROGRAM_TENSORS: {
        /* The place was counted; a tensor that is refused has its place all the same, and
         * nobody looks at it. */
        struct ps_program_tensor *tensor = &found->tensors[found->tensor_count++];
        read_tensor(reader, field, tensor);
        /* Looked at here and not where the arrays are made: there are several such places, in
         * several languages. */
        if (reader->status == PS_OK && !fits_shape(tensor))
            ps_wire_refuse(reader, "a tensor of %llu bytes is not what its shape says",
                           (unsigned long long)tensor->size);
        /* A sum that wraps could be the content's size. */
        if (tensor->size > UINT64_MAX - found->content_size)
            ps_wire_refuse(reader, "the tensors are too large");
        /* What all tensors claim is compared with what there is when the message has been read.
         */
        found->content_size += tensor->size;
        return true;
    }
    case PS_PROGRAM_OUTPUTS:
        /* One that is wanted has no content: its size is the room for it, or 0, and is compared
         * with nothing. */
        read_tensor(reader, field, &found->outputs[found->output_count++]);
        return true;
    case PS_PROGRAM_BODY:
        found->body = ps_wire_bytes(reader, field, PS_PROGRAM_BODY_BYTES_MAX, "body");
        return true;
    case PS_PROGRAM_LENS:
        found->lens = read_packed(reader, field, 4, &found->lens, "lens");
        return true;
    case PS_PROGRAM_KEYS:
        found->keys = read_packed(reader, field, 8, &found->keys, "keys");
        return true;
    case PS_PROGRAM_CONTENT:
        found->content = ps_wire_bytes(reader, field, SIZE_MAX, "content");
        return true;
    default:
        return false;
    }
}

/* Numbers of one size are passed on as the bytes that they are; so they have to come in one field,
 * as every writer of proto3 puts them. */
static struct ps_wire_range read_packed(struct ps_wire_reader *reader,
                                        const struct ps_wire_field *field, size_t size,
                                        const struct ps_wire_range *before, const char *what)
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, what);
    /* Two lists one after the other would have to be put together; nobody sends them so. */
    if (reader->status == PS_OK && (range.size % size != 0 || before->size > 0))
        ps_wire_refuse(reader, "malformed message: %s are not one list of %zu bytes each", what,
                       size);
    return range;
}

/* A nested reader's failure is the message's. */
static void read_tensor(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                        struct ps_program_tensor *tensor)
{
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "tensor");
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (reader->status == PS_OK && ps_wire_next(&nested, &part)) {
        /* The numbers of an element's type are the clients' own: nothing is known of them here. */
        if (part.number == PS_TENSOR_SHAPE)
            ps_value_shape_read(&nested, &part, &tensor->facts);
        else
            (void)ps_program_read_number(&nested, &part, tensor_numbers,
                                         PS_ARRAY_COUNT(tensor_numbers), tensor);
    }
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* A program makes an array of these facts over these bytes: the two agree, or the sender is told.
 * Elements of no one size, and tensors without a shape, say nothing that could disagree. */
static bool fits_shape(const struct ps_program_tensor *tensor)
{
    const struct ps_value_facts *facts = &tensor->facts;
    PS_ASSERT(facts->rank <= PS_VALUE_RANK_MAX);
    /* A worker that sends plain numbers need not say a shape; but half an element is none. */
    if (facts->rank == 0 && facts->element_size != 0)
        return tensor->size % facts->element_size == 0;
    return ps_value_facts_check(facts, tensor->size, NULL) == PS_OK;
}

/* A number below zero is ten bytes on the wire, of which the lower four are it. */
static int32_t read_signed(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           const char *what)
{
    return (int32_t)(uint32_t)ps_wire_uint(reader, field, UINT64_MAX, what);
}

/* The same in a request as it was asked and as it is taken: whoever takes it sees what the worker
 * has said. */
bool ps_program_read_asked(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           struct ps_program_asked *asked)
{
    switch (field->number) {
    case PS_ASK_KIND:
        /* A kind of a later version is refused: what it is to do with its tensors nobody here
         * could say. */
        asked->kind = (enum ps_ask_kind)ps_wire_uint(reader, field, PS_ASK_KIND_COUNT - 1, "kind");
        return true;
    case PS_ASK_COMMAND:
        /* For the program only: no server looks at it, and none could say which numbers are
         * wrong. */
        asked->command = read_signed(reader, field, "command");
        return true;
    case PS_ASK_PRIORITY:
        /* All numbers are priorities; the mailbox compares them as they are. */
        asked->priority = read_signed(reader, field, "priority");
        return true;
    case PS_PROGRAM_STAMPS:
        ps_program_read_stamps(reader, field, &asked->stamps);
        return true;
    default:
        return ps_program_read_number(reader, field, asked_numbers, PS_ARRAY_COUNT(asked_numbers),
                                      asked);
    }
}

/* More stamps than are known are a later version's, and passed over. */
void ps_program_read_stamps(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                            struct ps_program_stamps *stamps)
{
    /* Stamps are fixed numbers in one packed field, as keys are, but few enough to be made
     * numbers at once. */
    uint8_t bytes[8];
    struct ps_wire_range range = ps_wire_bytes(reader, field, 64 * sizeof bytes, "stamps");
    struct ps_view_cursor cursor = range.begin;
    for (size_t i = 0; i < PS_PROGRAM_STAMPS_MAX && range.size >= sizeof bytes; i++) {
        ps_view_read(&cursor, bytes, sizeof bytes);
        range.size -= sizeof bytes;
        stamps->ns[i] = ps_program_key_at((struct ps_bytes){bytes, sizeof bytes}, 0);
    }
}

enum ps_status ps_program_bytes(const struct ps_wire_range *range, struct ps_arena *arena,
                                struct ps_bytes *bytes, struct ps_error *error)
{
    *bytes = (struct ps_bytes){0};
    /* Most small fields lie within one slice of the network's, and are used there. */
    /* Nothing at all is no copy, either, whatever the cursor points at. */
    if (range->size == 0 || ps_wire_range_in_one(range, bytes))
        return PS_OK;
    /* Its bound was the field's own, or the message's: the cap of the arena has room for
     * either. */
    uint8_t *copy = ps_arena_take(arena, range->size);
    if (copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "decode: %zu bytes", range->size);
    ps_wire_range_copy(range, copy);
    *bytes = (struct ps_bytes){copy, range->size};
    return PS_OK;
}

/* The content stays in the network's slices; only the list of its pieces is made. */
enum ps_status ps_program_view(const struct ps_wire_range *range, struct ps_arena *arena,
                               struct ps_view *view, struct ps_error *error)
{
    struct ps_bytes *pieces;
    *view = (struct ps_view){0};
    if (range->size == 0)
        return PS_OK;
    /* One entry for each slice of the network's that the content touches: a few for a megabyte.
     */
    size_t count = ps_wire_range_piece_count(range);
    PS_TRY(ps_program_list(arena, count, sizeof *pieces, &pieces, error));
    ps_wire_range_pieces(range, pieces);
    *view = (struct ps_view){pieces, count, range->size};
    return PS_OK;
}

/* Words and not numbers: they are those of failed calls, which clients know. */
enum ps_status ps_program_status_of(const struct ps_wire_range *word)
{
    char text[PS_PROGRAM_WORD_BYTES_MAX + 1] = "";
    PS_ASSERT(word->size < sizeof text);
    if (word->size == 0)
        return PS_OK;
    /* The array ends with a NUL whatever is copied. */
    /* The word is held to its bound where it was found. */
    ps_wire_range_copy(word, text);
    /* A failure is rare, and words are few. */
    for (int i = PS_OK + 1; i < PS_STATUS_COUNT; i++) {
        if (strcmp(text, ps_status_word((enum ps_status)i)) == 0)
            return (enum ps_status)i;
    }
    return PS_ERR_INTERNAL;
}

/* Little-endian by shifts, as they stand on the wire. */
uint64_t ps_program_key_at(struct ps_bytes keys, size_t index)
{
    uint64_t key = 0;
    PS_ASSERT((index + 1) * 8 <= keys.size);
    for (size_t i = 0; i < 8; i++)
        key |= (uint64_t)keys.data[index * 8 + i] << (8 * i);
    return key;
}

uint32_t ps_program_len_at(struct ps_bytes lens, size_t index)
{
    uint32_t len = 0;
    PS_ASSERT((index + 1) * 4 <= lens.size);
    for (size_t i = 0; i < 4; i++)
        len |= (uint32_t)lens.data[index * 4 + i] << (8 * i);
    return len;
}

/* Without the content, which not every message lets be used as it lies: a Take's is cut first. */
enum ps_status ps_program_keep(const struct ps_wire_reader *reader,
                               const struct ps_program_found *found, struct ps_arena *arena,
                               struct ps_program_payload *payload)
{
    PS_TRY(reader->status);
    *payload = (struct ps_program_payload){.tensors = found->tensors,
                                           .tensor_count = found->tensor_count,
                                           .outputs = found->outputs,
                                           .output_count = found->output_count};
    PS_TRY(ps_program_bytes(&found->body, arena, &payload->body, reader->error));
    PS_TRY(ps_program_bytes(&found->lens, arena, &payload->lens, reader->error));
    return ps_program_bytes(&found->keys, arena, &payload->keys, reader->error);
}
