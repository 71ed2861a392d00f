/* SPDX-License-Identifier: Apache-2.0 */
/* The replies of programs, read by a client. A server is believed no more than a client is. */
#include "proto/program_codec.h"

#include "base/assert.h"
#include "proto/program_read.h"

static const struct ps_program_number reply_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_ask_reply, handle, PS_REPLY_HANDLE),
    PS_PROGRAM_NUMBER(struct ps_ask_reply, kept, PS_REPLY_KEPT),
    PS_PROGRAM_NUMBER(struct ps_ask_reply, shared_size, PS_PROGRAM_SHARED_SIZE),
    PS_PROGRAM_NUMBER(struct ps_ask_reply, epoch, PS_PROGRAM_EPOCH),
    PS_PROGRAM_NUMBER(struct ps_ask_reply, stamps.host, PS_PROGRAM_HOST),
};

static const struct ps_program_number taken_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_program_taken, handle, PS_TAKEN_HANDLE),
    PS_PROGRAM_NUMBER(struct ps_program_taken, again, PS_TAKEN_AGAIN),
};

static const struct ps_program_number taker_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_app_taker, taker, PS_TAKER_ID),
    PS_PROGRAM_NUMBER(struct ps_app_taker, heard_ms, PS_TAKER_HEARD_MS),
    PS_PROGRAM_NUMBER(struct ps_app_taker, taken, PS_TAKER_TAKEN),
    PS_PROGRAM_NUMBER(struct ps_app_taker, again, PS_TAKER_AGAIN),
};

static const struct ps_program_number app_numbers[] = {
    PS_PROGRAM_NUMBER(struct ps_app_state, app, PS_APP_ID),
    PS_PROGRAM_NUMBER(struct ps_app_state, waiting, PS_APP_WAITING),
    PS_PROGRAM_NUMBER(struct ps_app_state, taken, PS_APP_TAKEN),
    PS_PROGRAM_NUMBER(struct ps_app_state, bytes, PS_APP_BYTES),
    PS_PROGRAM_NUMBER(struct ps_app_state, answered, PS_APP_ANSWERED),
    PS_PROGRAM_NUMBER(struct ps_app_state, failed, PS_APP_FAILED),
};

static enum ps_status read_ask_reply(struct ps_wire_reader *reader, struct ps_arena *arena,
                                     struct ps_ask_reply *read);
static enum ps_status read_take_reply(struct ps_wire_reader *reader, struct ps_arena *arena,
                                      struct ps_take_reply *read);
static enum ps_status read_taken(const struct ps_wire_range *range, struct ps_arena *arena,
                                 struct ps_program_taken *taken, uint64_t *content_size,
                                 struct ps_error *error);
static enum ps_status read_states(struct ps_wire_reader *reader, struct ps_arena *arena,
                                  struct ps_app_state **states, size_t *count, uint64_t *epoch);
static enum ps_status read_state(const struct ps_wire_range *range, struct ps_arena *arena,
                                 struct ps_app_state *state, struct ps_error *error);

enum ps_status ps_decode_ask_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                   struct ps_ask_reply *reply, struct ps_decoded *decoded,
                                   struct ps_error *error)
{
    struct ps_ask_reply read = {.handle = 0};
    struct ps_wire_reader reader;
    struct ps_arena arena;
    ps_program_open(bytes, memory, &arena, &reader, error);
    enum ps_status status = read_ask_reply(&reader, &arena, &read);
    if (status == PS_OK)
        *reply = read;
    return ps_program_finish(status, &arena, decoded);
}

/* A reply has no keys and wants nothing; where it says such all the same, that is passed over. */
static enum ps_status read_ask_reply(struct ps_wire_reader *reader, struct ps_arena *arena,
                                     struct ps_ask_reply *read)
{
    struct ps_program_found found;
    struct ps_wire_field field;
    PS_TRY(ps_payload_begin(reader, arena, &found));
    while (ps_wire_next(reader, &field)) {
        if (ps_program_read_payload(reader, &field, &found))
            continue;
        if (field.number == PS_PROGRAM_STAMPS)
            ps_program_read_stamps(reader, &field, &read->stamps);
        else
            (void)ps_program_read_number(reader, &field, reply_numbers,
                                         PS_ARRAY_COUNT(reply_numbers), read);
    }
    PS_TRY(ps_program_keep(reader, &found, arena, &read->payload));
    /* What went through shared memory has left nothing here. */
    uint64_t size = read->shared_size != 0 ? read->shared_size : found.content.size;
    if (size != found.content_size)
        return ps_fail(reader->error, PS_ERR_BAD_INPUT, "an answer's tensors are not its content");
    return ps_program_view(&found.content, arena, &read->payload.content, reader->error);
}

enum ps_status ps_decode_take_reply(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_take_reply *reply, struct ps_decoded *decoded,
                                    struct ps_error *error)
{
    struct ps_take_reply read = {.taken = NULL};
    struct ps_wire_reader reader;
    struct ps_arena arena;
    ps_program_open(bytes, memory, &arena, &reader, error);
    enum ps_status status = read_take_reply(&reader, &arena, &read);
    if (status == PS_OK)
        *reply = read;
    return ps_program_finish(status, &arena, decoded);
}

/* The content of all is one field: each gets its part of it, once all have said how long theirs
 * are. */
static enum ps_status cut_content(const struct ps_wire_range *content, struct ps_arena *arena,
                                  struct ps_program_taken *taken, const uint64_t *sizes,
                                  size_t count, struct ps_error *error)
{
    struct ps_wire_range rest = *content;
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] > rest.size)
            return ps_fail(error, PS_ERR_BAD_INPUT, "the content ends within a request");
        struct ps_wire_range own = {.begin = rest.begin, .size = (size_t)sizes[i]};
        PS_TRY(ps_program_view(&own, arena, &taken[i].payload.content, error));
        ps_view_skip(&rest.begin, own.size);
        rest.size -= own.size;
    }
    if (rest.size > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "content of no request");
    return PS_OK;
}

/* Sizes are noted aside while requests are read: the content comes behind the last of them. Where
 * it went through shared memory there is nothing to cut. */
static enum ps_status read_take_reply(struct ps_wire_reader *reader, struct ps_arena *arena,
                                      struct ps_take_reply *read)
{
    struct ps_wire_range content = {.size = 0};
    struct ps_program_taken *taken;
    struct ps_wire_field field;
    uint64_t *sizes;
    enum ps_status status;
    size_t count =
        ps_program_count(*reader, PS_TAKE_REPLY_TAKEN, PS_PROGRAM_TAKEN_MAX, "requests", &status);
    PS_TRY(status);
    PS_TRY(ps_program_list(arena, count, sizeof *taken, &taken, reader->error));
    PS_TRY(ps_program_list(arena, count, sizeof *sizes, &sizes, reader->error));
    while (ps_wire_next(reader, &field)) {
        if (field.number == PS_PROGRAM_SHARED_SIZE) {
            read->shared_size = ps_wire_uint(reader, &field, UINT64_MAX, "shared_size");
        } else if (field.number == PS_PROGRAM_CONTENT) {
            content = ps_wire_bytes(reader, &field, SIZE_MAX, "content");
        } else if (field.number == PS_TAKE_REPLY_TAKEN) {
            struct ps_wire_range range = ps_wire_bytes(reader, &field, SIZE_MAX, "taken");
            PS_TRY(reader->status);
            PS_TRY(read_taken(&range, arena, &taken[read->taken_count], &sizes[read->taken_count],
                              reader->error));
            read->taken_count++;
        }
    }
    PS_TRY(reader->status);
    read->taken = taken;
    if (read->shared_size != 0 && content.size == 0)
        return PS_OK;
    return cut_content(&content, arena, taken, sizes, read->taken_count, reader->error);
}

/* Small fields only; the app is the Take's. */
static enum ps_status read_taken(const struct ps_wire_range *range, struct ps_arena *arena,
                                 struct ps_program_taken *taken, uint64_t *content_size,
                                 struct ps_error *error)
{
    struct ps_program_found found;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_nested(&reader, range, error);
    PS_TRY(ps_payload_begin(&reader, arena, &found));
    while (ps_wire_next(&reader, &field)) {
        if (ps_program_read_payload(&reader, &field, &found) ||
            ps_program_read_asked(&reader, &field, &taken->asked))
            continue;
        (void)ps_program_read_number(&reader, &field, taken_numbers, PS_ARRAY_COUNT(taken_numbers),
                                     taken);
    }
    *content_size = found.content_size;
    return ps_program_keep(&reader, &found, arena, &taken->payload);
}

/* Statuses beyond the caller's room are counted only: then the reply is not to these answers. */
enum ps_status ps_decode_answer_reply(struct ps_view bytes, enum ps_status *statuses, size_t count,
                                      struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    size_t found = 0;
    ps_wire_reader_init(&reader, bytes, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number != PS_ANSWER_REPLY_STATUS)
            continue;
        struct ps_wire_range word =
            ps_wire_bytes(&reader, &field, PS_PROGRAM_WORD_BYTES_MAX, "status");
        PS_TRY(reader.status);
        if (found < count)
            statuses[found] = ps_program_status_of(&word);
        found++;
    }
    PS_TRY(reader.status);
    if (found != count)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%zu statuses for %zu answers", found, count);
    return PS_OK;
}

/* ---- Apps ---- */

enum ps_status ps_decode_app_states(struct ps_view bytes, const struct ps_allocator *memory,
                                    const struct ps_app_state **states, size_t *count,
                                    uint64_t *epoch, struct ps_decoded *decoded,
                                    struct ps_error *error)
{
    struct ps_app_state *read;
    struct ps_wire_reader reader;
    struct ps_arena arena;
    size_t read_count;
    ps_program_open(bytes, memory, &arena, &reader, error);
    enum ps_status status = read_states(&reader, &arena, &read, &read_count, epoch);
    if (status == PS_OK) {
        *states = read;
        *count = read_count;
    }
    return ps_program_finish(status, &arena, decoded);
}

/* Counted by the bytes that there are: a server may have any number of apps. */
static enum ps_status read_states(struct ps_wire_reader *reader, struct ps_arena *arena,
                                  struct ps_app_state **states, size_t *count, uint64_t *epoch)
{
    struct ps_wire_field field;
    enum ps_status status;
    size_t found = ps_program_count(*reader, PS_APPS_APP, SIZE_MAX, "apps", &status);
    PS_TRY(status);
    PS_TRY(ps_program_list(arena, found, sizeof **states, states, reader->error));
    *count = 0;
    *epoch = 0;
    while (ps_wire_next(reader, &field)) {
        if (field.number == PS_APPS_EPOCH)
            *epoch = ps_wire_uint(reader, &field, UINT64_MAX, "epoch");
        if (field.number != PS_APPS_APP)
            continue;
        struct ps_wire_range range = ps_wire_bytes(reader, &field, SIZE_MAX, "app");
        PS_TRY(reader->status);
        PS_TRY(read_state(&range, arena, &(*states)[(*count)++], reader->error));
    }
    return reader->status;
}

/* A name is kept within its bound, so that whoever prints it has room. */
static enum ps_status read_taker(const struct ps_wire_range *range, struct ps_arena *arena,
                                 struct ps_app_taker *taker, struct ps_error *error)
{
    struct ps_wire_range name = {.size = 0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_nested(&reader, range, error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == PS_TAKER_NAME)
            name = ps_wire_bytes(&reader, &field, PS_PROGRAM_NAME_BYTES_MAX, "name");
        else
            (void)ps_program_read_number(&reader, &field, taker_numbers,
                                         PS_ARRAY_COUNT(taker_numbers), taker);
    }
    PS_TRY(reader.status);
    return ps_program_bytes(&name, arena, &taker->name, error);
}

/* Takers first counted, as tensors are. */
static enum ps_status read_state(const struct ps_wire_range *range, struct ps_arena *arena,
                                 struct ps_app_state *state, struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    struct ps_app_taker *takers;
    enum ps_status status;
    ps_wire_reader_nested(&reader, range, error);
    size_t count = ps_program_count(reader, PS_APP_TAKERS, SIZE_MAX, "takers", &status);
    PS_TRY(status);
    PS_TRY(ps_program_list(arena, count, sizeof *takers, &takers, error));
    while (ps_wire_next(&reader, &field)) {
        if (field.number != PS_APP_TAKERS) {
            (void)ps_program_read_number(&reader, &field, app_numbers, PS_ARRAY_COUNT(app_numbers),
                                         state);
            continue;
        }
        struct ps_wire_range taker = ps_wire_bytes(&reader, &field, SIZE_MAX, "taker");
        PS_TRY(reader.status);
        PS_TRY(read_taker(&taker, arena, &takers[state->taker_count++], error));
    }
    state->takers = takers;
    return reader.status;
}
