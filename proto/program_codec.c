/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of programs. Everything that two of a message's fields say about each other is
 * looked at here, so that nobody behind has to: tensors and content, parts and tensors. */
#include "proto/program_codec.h"

#include "base/assert.h"
#include "proto/decode_parts.h"
#include "proto/program_read.h"
#include "proto/shared_range.h"

/* The numbers of a call, beside what the program gets. */
static const struct ps_program_number ask_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_ask_request, asked.app, PS_ASK_APP),
    PS_PROGRAM_NUMBER(struct ps_ask_request, token, PS_PROGRAM_TOKEN),
    PS_PROGRAM_NUMBER(struct ps_ask_request, sender, PS_ASK_SENDER),
    PS_PROGRAM_NUMBER(struct ps_ask_request, order, PS_ASK_ORDER),
    PS_PROGRAM_NUMBER(struct ps_ask_request, order_from, PS_ASK_ORDER_FROM),
    PS_PROGRAM_NUMBER(struct ps_ask_request, shard, PS_PROGRAM_SHARD),
    PS_PROGRAM_NUMBER(struct ps_ask_request, epoch, PS_PROGRAM_EPOCH),
    PS_PROGRAM_NUMBER(struct ps_ask_request, wait_ms, PS_PROGRAM_WAIT_MS),
};

static const struct ps_program_number take_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_take_request, app, PS_ASK_APP),
    PS_PROGRAM_NUMBER(struct ps_take_request, taker, PS_TAKE_TAKER),
    PS_PROGRAM_NUMBER(struct ps_take_request, turn, PS_TAKE_TURN),
    PS_PROGRAM_NUMBER(struct ps_take_request, max, PS_TAKE_MAX),
    PS_PROGRAM_NUMBER(struct ps_take_request, partial, PS_TAKE_PARTIAL),
    PS_PROGRAM_NUMBER(struct ps_take_request, wait_ms, PS_TAKE_WAIT_MS),
    PS_PROGRAM_NUMBER(struct ps_take_request, again, PS_TAKE_AGAIN),
    PS_PROGRAM_NUMBER(struct ps_take_request, lease_ms, PS_TAKE_LEASE_MS),
    PS_PROGRAM_NUMBER(struct ps_take_request, touch, PS_TAKE_TOUCH),
    PS_PROGRAM_NUMBER(struct ps_take_request, leave, PS_TAKE_LEAVE),
    PS_PROGRAM_NUMBER(struct ps_take_request, shard, PS_PROGRAM_SHARD),
};

static const struct ps_program_number answer_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_answer_request, app, PS_ASK_APP),
    PS_PROGRAM_NUMBER(struct ps_answer_request, taker, PS_TAKE_TAKER),
    PS_PROGRAM_NUMBER(struct ps_answer_request, token, PS_PROGRAM_TOKEN),
    PS_PROGRAM_NUMBER(struct ps_answer_request, shard, PS_PROGRAM_SHARD),
};

static const struct ps_program_number part_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_answer_part, tensor, PS_PART_TENSOR),
    PS_PROGRAM_NUMBER(struct ps_answer_part, row_begin, PS_PART_ROW_BEGIN),
    PS_PROGRAM_NUMBER(struct ps_answer_part, rows, PS_PART_ROWS),
    PS_PROGRAM_NUMBER(struct ps_answer_part, key, PS_PART_KEY),
};

static enum ps_status read_ask(struct ps_wire_reader *reader, struct ps_arena *arena,
                               struct ps_ask_request *read);
static enum ps_status read_take(struct ps_wire_reader *reader, struct ps_arena *arena,
                                struct ps_take_request *read);
static void read_workers(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         uint32_t *workers, size_t *count);
static enum ps_status read_answer(struct ps_wire_reader *reader, struct ps_arena *arena,
                                  struct ps_answer_request *read);
static enum ps_status read_answered(const struct ps_wire_range *range, struct ps_arena *arena,
                                    struct ps_program_answered *answered, struct ps_error *error);
static void read_part(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      struct ps_answer_part *part);
static enum ps_status check_parts(const struct ps_answer_request *request, struct ps_error *error);
static enum ps_status check_content(uint64_t content_size, uint64_t said,
                                    const struct ps_shared_range *shared, struct ps_error *error);

/* ---- Ask ---- */

/* Where the ranges of a call go, NULL: it has none of the kind. */
struct ranges {
    struct ps_shared_range *shared, *room;
};

/* What steers the call; a field that nobody knows is passed over. */
static void read_call(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      const struct ps_program_number *numbers, size_t count, void *object,
                      const struct ranges *ranges)
{
    if (field->number == PS_PROGRAM_SHARED && ranges->shared != NULL)
        ps_shared_range_read(reader, field, ranges->shared);
    else if (field->number == PS_PROGRAM_ROOM && ranges->room != NULL)
        ps_shared_range_read(reader, field, ranges->room);
    else
        (void)ps_program_read_number(reader, field, numbers, count, object);
}

/* Read aside, so that a request which is refused at its last field has changed nothing. */
enum ps_status ps_decode_ask(struct ps_view bytes, const struct ps_allocator *memory,
                             struct ps_ask_request *request, struct ps_decoded *decoded,
                             struct ps_error *error)
{
    struct ps_ask_request read = {.token = 0};
    struct ps_wire_reader reader;
    struct ps_arena arena;
    ps_program_open(bytes, memory, &arena, &reader, error);
    enum ps_status status = read_ask(&reader, &arena, &read);
    if (status == PS_OK)
        *request = read;
    return ps_program_finish(status, &arena, decoded);
}

/* Payload first: most fields are its own. */
static enum ps_status read_ask(struct ps_wire_reader *reader, struct ps_arena *arena,
                               struct ps_ask_request *read)
{
    const struct ranges ranges = {&read->shared, &read->room};
    struct ps_program_found found;
    struct ps_wire_field field;
    PS_TRY(ps_payload_begin(reader, arena, &found));
    while (ps_wire_next(reader, &field)) {
        if (!ps_program_read_payload(reader, &field, &found) &&
            !ps_program_read_asked(reader, &field, &read->asked))
            read_call(reader, &field, ask_numbers, PS_ARRAY_COUNT(ask_numbers), read, &ranges);
    }
    PS_TRY(ps_program_keep(reader, &found, arena, &read->payload));
    PS_TRY(check_content(found.content.size, found.content_size, &read->shared, reader->error));
    return ps_program_view(&found.content, arena, &read->payload.content, reader->error);
}

/* Where the content is in shared memory, its range is as long as the tensors say. */
static enum ps_status check_content(uint64_t content_size, uint64_t said,
                                    const struct ps_shared_range *shared, struct ps_error *error)
{
    bool is_shared = shared->segment != 0 || shared->size != 0 || shared->offset != 0;
    if (is_shared && content_size > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "content in the message and in shared memory");
    uint64_t size = is_shared ? shared->size : content_size;
    if (size == said)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "tensors of %llu bytes have %llu bytes of content",
                   (unsigned long long)said, (unsigned long long)size);
}

/* ---- Take ---- */

enum ps_status ps_decode_take(struct ps_view bytes, const struct ps_allocator *memory,
                              struct ps_take_request *request, struct ps_decoded *decoded,
                              struct ps_error *error)
{
    struct ps_take_request read = {.app = 0};
    struct ps_wire_reader reader;
    struct ps_arena arena;
    ps_program_open(bytes, memory, &arena, &reader, error);
    enum ps_status status = read_take(&reader, &arena, &read);
    if (status == PS_OK)
        *request = read;
    return ps_program_finish(status, &arena, decoded);
}

/* Workers are counted in a first walk, and filled in a second. */
static enum ps_status read_take(struct ps_wire_reader *reader, struct ps_arena *arena,
                                struct ps_take_request *read)
{
    const struct ranges ranges = {NULL, &read->room};
    struct ps_wire_reader counting = *reader;
    struct ps_wire_field field;
    uint32_t *workers;
    size_t count = 0;
    while (ps_wire_next(&counting, &field)) {
        if (field.number == PS_TAKE_WORKERS)
            read_workers(&counting, &field, NULL, &count);
    }
    PS_TRY(counting.status);
    PS_TRY(ps_program_list(arena, count, sizeof *workers, &workers, reader->error));
    count = 0;
    struct ps_wire_range name = {.size = 0};
    while (ps_wire_next(reader, &field)) {
        if (field.number == PS_TAKE_WORKERS)
            read_workers(reader, &field, workers, &count);
        else if (field.number == PS_TAKE_NAME)
            name = ps_wire_bytes(reader, &field, PS_PROGRAM_NAME_BYTES_MAX, "name");
        else
            read_call(reader, &field, take_numbers, PS_ARRAY_COUNT(take_numbers), read, &ranges);
    }
    PS_TRY(reader->status);
    read->workers = workers;
    read->worker_count = count;
    PS_TRY(ps_program_bytes(&name, arena, &read->name, reader->error));
    if (!ps_wire_is_text(read->name))
        return ps_fail(reader->error, PS_ERR_BAD_INPUT, "name: not UTF-8 without NUL");
    /* A reply has one place for each. */
    if (read->max > PS_PROGRAM_TAKEN_MAX)
        return ps_fail(reader->error, PS_ERR_BAD_INPUT, "max: more than %d", PS_PROGRAM_TAKEN_MAX);
    return PS_OK;
}

/* Packed, or a field for each; without a list they are counted. */
static void read_workers(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         uint32_t *workers, size_t *count)
{
    struct ps_wire_reader nested;
    uint64_t worker = field->value;
    bool is_packed = field->type == PS_WIRE_BYTES;
    if (is_packed)
        ps_wire_reader_nested(&nested, &field->bytes, reader->error);
    while (reader->status == PS_OK && (!is_packed || ps_wire_next_packed(&nested, &worker))) {
        if (*count == PS_PROGRAM_WORKERS_MAX || worker > UINT32_MAX) {
            ps_wire_refuse(reader, "workers: more than %d, or no rank", PS_PROGRAM_WORKERS_MAX);
            return;
        }
        if (workers != NULL)
            workers[*count] = (uint32_t)worker;
        (*count)++;
        if (!is_packed)
            return;
    }
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* ---- Answer ---- */

enum ps_status ps_decode_answer(struct ps_view bytes, const struct ps_allocator *memory,
                                struct ps_answer_request *request, struct ps_decoded *decoded,
                                struct ps_error *error)
{
    struct ps_answer_request read = {.app = 0};
    struct ps_wire_reader reader;
    struct ps_arena arena;
    ps_program_open(bytes, memory, &arena, &reader, error);
    enum ps_status status = read_answer(&reader, &arena, &read);
    if (status == PS_OK)
        *request = read;
    return ps_program_finish(status, &arena, decoded);
}

/* Each answer is read where it is found, into the next place of the list. */
static enum ps_status read_answer_field(struct ps_wire_reader *reader,
                                        const struct ps_wire_field *field, struct ps_arena *arena,
                                        struct ps_answer_request *read,
                                        struct ps_program_answered *answers)
{
    const struct ranges ranges = {&read->shared, NULL};
    if (field->number != PS_PROGRAM_ANSWERS) {
        read_call(reader, field, answer_numbers, PS_ARRAY_COUNT(answer_numbers), read, &ranges);
        return reader->status;
    }
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "answer");
    PS_TRY(reader->status);
    return read_answered(&range, arena, &answers[read->answer_count++], reader->error);
}

/* The tensors may stand behind the answers that name them: so those are checked at the end. */
static enum ps_status read_answer(struct ps_wire_reader *reader, struct ps_arena *arena,
                                  struct ps_answer_request *read)
{
    struct ps_program_found found;
    struct ps_program_answered *answers;
    struct ps_wire_field field;
    enum ps_status status;
    size_t count =
        ps_program_count(*reader, PS_PROGRAM_ANSWERS, PS_PROGRAM_TAKEN_MAX, "answers", &status);
    PS_TRY(status);
    PS_TRY(ps_program_list(arena, count, sizeof *answers, &answers, reader->error));
    PS_TRY(ps_payload_begin(reader, arena, &found));
    while (ps_wire_next(reader, &field)) {
        if (!ps_program_read_payload(reader, &field, &found))
            PS_TRY(read_answer_field(reader, &field, arena, read, answers));
    }
    PS_TRY(reader->status);
    PS_TRY(check_content(found.content.size, found.content_size, &read->shared, reader->error));
    PS_TRY(ps_program_view(&found.content, arena, &read->content, reader->error));
    read->tensors = found.tensors;
    read->tensor_count = found.tensor_count;
    read->answers = answers;
    return check_parts(read, reader->error);
}

/* The parts of one answer have a list of their own: another answer may have none. Body and lengths
 * are those of any payload; tensors are the message's, which each part names by their places. */
static enum ps_status read_answered(const struct ps_wire_range *range, struct ps_arena *arena,
                                    struct ps_program_answered *answered, struct ps_error *error)
{
    struct ps_wire_range word = {.size = 0}, text = {.size = 0};
    struct ps_program_found found = {.tensors = NULL};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    struct ps_answer_part *parts;
    enum ps_status status;
    ps_wire_reader_nested(&reader, range, error);
    size_t count =
        ps_program_count(reader, PS_ANSWERED_PARTS, PS_PROGRAM_TENSORS_MAX, "parts", &status);
    PS_TRY(status);
    PS_TRY(ps_program_list(arena, count, sizeof *parts, &parts, error));
    while (ps_wire_next(&reader, &field)) {
        if (field.number == PS_ANSWERED_HANDLE)
            answered->handle = ps_wire_uint(&reader, &field, UINT64_MAX, "handle");
        else if (field.number == PS_ANSWERED_STATUS)
            word = ps_wire_bytes(&reader, &field, PS_PROGRAM_WORD_BYTES_MAX, "status");
        else if (field.number == PS_ANSWERED_TEXT)
            text = ps_wire_bytes(&reader, &field, PS_PROGRAM_TEXT_BYTES_MAX, "text");
        else if (field.number == PS_ANSWERED_PARTS)
            read_part(&reader, &field, &parts[answered->part_count++]);
        else if (field.number == PS_PROGRAM_BODY || field.number == PS_PROGRAM_LENS)
            (void)ps_program_read_payload(&reader, &field, &found);
    }
    PS_TRY(reader.status);
    answered->status = ps_program_status_of(&word);
    answered->parts = parts;
    PS_TRY(ps_program_bytes(&text, arena, &answered->text, error));
    PS_TRY(ps_program_bytes(&found.lens, arena, &answered->lens, error));
    PS_TRY(ps_program_bytes(&found.body, arena, &answered->body, error));
    if (!ps_wire_is_text(answered->text))
        return ps_fail(error, PS_ERR_BAD_INPUT, "text: not UTF-8 without NUL");
    return PS_OK;
}

static void read_part(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      struct ps_answer_part *part)
{
    struct ps_wire_reader nested;
    struct ps_wire_field inner;
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "part");
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (reader->status == PS_OK && ps_wire_next(&nested, &inner))
        (void)ps_program_read_number(&nested, &inner, part_numbers, PS_ARRAY_COUNT(part_numbers),
                                     part);
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* Rows are of the first dimension, and all of one length: a tensor that is cut has a shape, by
 * which its bytes can be cut. */
static bool is_part_of(const struct ps_answer_part *part, const struct ps_program_tensor *tensor)
{
    const struct ps_value_facts *facts = &tensor->facts;
    if (part->rows == 0)
        return part->row_begin == 0;
    if (facts->rank == 0 || facts->element_size == 0 || facts->extents[0] == 0)
        return false;
    return part->row_begin <= facts->extents[0] &&
           part->rows <= facts->extents[0] - part->row_begin;
}

/* One part that is wrong refuses all answers of the message: half of them carried out would leave
 * the taker to find out which half. */
static enum ps_status check_parts(const struct ps_answer_request *request, struct ps_error *error)
{
    for (size_t i = 0; i < request->answer_count; i++) {
        const struct ps_program_answered *answered = &request->answers[i];
        for (size_t j = 0; j < answered->part_count; j++) {
            const struct ps_answer_part *part = &answered->parts[j];
            if (part->tensor >= request->tensor_count)
                return ps_fail(error, PS_ERR_BAD_INPUT, "answer %zu: there is no tensor %u", i,
                               part->tensor);
            if (!is_part_of(part, &request->tensors[part->tensor]))
                return ps_fail(error, PS_ERR_BAD_INPUT,
                               "answer %zu: tensor %u does not have these rows", i, part->tensor);
        }
    }
    return PS_OK;
}
