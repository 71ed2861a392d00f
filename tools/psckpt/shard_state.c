/* Where a state's memory is, how it comes from a file and goes into one. */
#include "tools/psckpt/shard_state.h"

#include "tools/psckpt/name_list.h"
#include "tools/psckpt/state_digest.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shard_room {
    struct shard_room *next;
    max_align_t bytes[];
};

static enum ps_status copy_facts(struct shard_state *state, const struct ps_checkpoint_facts *facts,
                                 struct ps_error *error);
static enum ps_status read_all(struct shard_state *state, struct ps_checkpoint_reader *reader,
                               struct progress *progress, struct ps_error *error);
static enum ps_status read_parameter(struct shard_state *state, struct ps_checkpoint_reader *reader,
                                     size_t i, struct progress *progress, struct ps_error *error);
static int compare_parameters(const void *a, const void *b);
static enum ps_status make_uuid(struct shard_state *state, struct ps_error *error);

void shard_state_init(struct shard_state *state, const struct ps_allocator *memory)
{
    *state = (struct shard_state){.memory = memory, .facts = {.job = ""}};
}

void shard_state_fini(struct shard_state *state)
{
    if (state->memory == NULL)
        return;
    ps_snapshot_release(&state->snapshot);
    if (state->service != NULL)
        ps_service_destroy(state->service);
    while (state->rooms != NULL) {
        struct shard_room *room = state->rooms;
        state->rooms = room->next;
        ps_release(state->memory, room);
    }
    *state = (struct shard_state){0};
}

void *shard_state_room(struct shard_state *state, size_t count, size_t size, struct ps_error *error)
{
    struct shard_room *room = NULL;
    if (size == 0 || count <= (SIZE_MAX / 2 - sizeof *room) / size)
        room = ps_zeroed(state->memory, sizeof *room + count * size);
    if (room == NULL) {
        (void)ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu times %zu bytes of a state",
                      count, size);
        return NULL;
    }
    room->next = state->rooms;
    state->rooms = room;
    return room->bytes;
}

struct ps_bytes shard_state_copy(struct shard_state *state, struct ps_bytes bytes,
                                 struct ps_error *error)
{
    uint8_t *copy = shard_state_room(state, bytes.size + 1, 1, error);
    if (copy == NULL)
        return (struct ps_bytes){NULL, 0};
    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return (struct ps_bytes){copy, bytes.size};
}

enum ps_status shard_state_read(struct shard_state *state, const struct ps_files *files,
                                const char *path, struct progress *progress, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(files, path, state->memory, &reader, error));
    progress_begin(progress, path, 0);
    enum ps_status status = copy_facts(state, ps_checkpoint_reader_facts(reader), error);
    if (status == PS_OK)
        status = read_all(state, reader, progress, error);
    progress_end(progress);
    ps_checkpoint_close(reader);
    return status == PS_OK ? shard_state_seal(state, error) : status;
}

static enum ps_status copy_facts(struct shard_state *state, const struct ps_checkpoint_facts *facts,
                                 struct ps_error *error)
{
    struct ps_bytes job = shard_state_copy(state, ps_bytes_of_text(facts->job), error);
    struct ps_bytes sessions = shard_state_copy(state, facts->sessions, error);
    if (job.data == NULL || sessions.data == NULL)
        return PS_ERR_NO_MEMORY;
    state->facts = *facts;
    state->facts.job = (const char *)job.data;
    state->facts.sessions = sessions;
    return PS_OK;
}

static enum ps_status read_all(struct shard_state *state, struct ps_checkpoint_reader *reader,
                               struct progress *progress, struct ps_error *error)
{
    size_t count = ps_checkpoint_parameter_count(reader);
    state->parameters = shard_state_room(state, count, sizeof *state->parameters, error);
    if (state->parameters == NULL)
        return PS_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
        progress->total += about->count * ps_dtype_size(about->dtype) * (1 + about->state_count);
    }
    for (size_t i = 0; i < count; i++)
        PS_TRY(read_parameter(state, reader, i, progress, error));
    return PS_OK;
}

static enum ps_status read_parameter(struct shard_state *state, struct ps_checkpoint_reader *reader,
                                     size_t i, struct progress *progress, struct ps_error *error)
{
    struct ps_checkpoint_parameter row = *ps_checkpoint_parameter(reader, i);
    size_t size = (size_t)row.count * ps_dtype_size(row.dtype);
    uint32_t arrays = 1 + row.state_count;
    uint8_t *bytes = shard_state_room(state, arrays, size, error);
    struct ps_bytes *pieces = shard_state_room(state, arrays, sizeof *pieces, error);
    row.name = shard_state_copy(state, row.name, error);
    row.config = shard_state_copy(state, row.config, error);
    if (bytes == NULL || pieces == NULL || row.name.data == NULL || row.config.data == NULL)
        return PS_ERR_NO_MEMORY;
    for (uint32_t array = 0; array < arrays; array++) {
        struct ps_checkpoint_piece piece = {bytes + array * size, size};
        PS_TRY(ps_checkpoint_read_array(reader, i, (int32_t)array - 1, &piece, 1, error));
        progress_add(progress, size);
        pieces[array] = (struct ps_bytes){bytes + array * size, size};
        *(array == 0 ? &row.values : &row.states[array - 1]) = ps_view_of(&pieces[array]);
    }
    state->parameters[state->count++] = row;
    return PS_OK;
}

enum ps_status shard_state_seal(struct shard_state *state, struct ps_error *error)
{
    if (state->count > 0)
        qsort(state->parameters, state->count, sizeof *state->parameters, compare_parameters);
    for (size_t i = 1; i < state->count; i++) {
        struct ps_bytes name = state->parameters[i].name;
        if (ps_bytes_equal(state->parameters[i - 1].name, name))
            return ps_fail(error, PS_ERR_CORRUPT, "two parameters are called %.*s",
                           (int)(name.size < 100 ? name.size : 100), (const char *)name.data);
    }
    return PS_OK;
}

static int compare_parameters(const void *a, const void *b)
{
    const struct ps_checkpoint_parameter *left = a;
    const struct ps_checkpoint_parameter *right = b;
    return ps_bytes_compare(left->name, right->name);
}

enum ps_status shard_state_write(struct shard_state *state, const struct ps_files *files,
                                 const char *folder, struct ps_checkpoint_place *place,
                                 struct ps_error *error)
{
    PS_TRY(shard_state_check_unused(files, folder, state->memory, error));
    PS_TRY(make_uuid(state, error));
    PS_TRY(ps_checkpoint_write(files, folder, &state->facts, state->parameters, state->count,
                               state->memory, place, error));
    state->place = *place;
    return PS_OK;
}

/* Beside other files a new one could be taken for the newest, or be passed over for them. */
enum ps_status shard_state_check_unused(const struct ps_files *files, const char *folder,
                                        const struct ps_allocator *memory, struct ps_error *error)
{
    struct name_list names;
    enum ps_status status = name_list_init(&names, files, folder, memory, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return status;
    if (names.count > 0)
        status = ps_fail(error, PS_ERR_EXISTS, "%s is not empty: give a new folder", folder);
    name_list_fini(&names);
    return status;
}

/* A uuid of version 8: whose bits mean what their maker says. */
static enum ps_status make_uuid(struct shard_state *state, struct ps_error *error)
{
    const struct ps_checkpoint_facts *facts = &state->facts;
    uint8_t digest[SHA256_BYTES];
    PS_TRY(state_digest(state, 1, true, digest, error));
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, (struct ps_bytes){digest, sizeof digest});
    sha256_add_number(&hash, facts->index, 4);
    sha256_add_number(&hash, facts->shard_count, 4);
    sha256_add_number(&hash, facts->epoch, 8);
    sha256_add_number(&hash, facts->position, 8);
    PS_TRY(sha256_end(&hash, digest, error));
    digest[6] = (uint8_t)((digest[6] & 0x0f) | 0x80);
    digest[8] = (uint8_t)((digest[8] & 0x3f) | 0x80);
    char text[SHA256_TEXT_BYTES];
    sha256_text(digest, text);
    (void)snprintf(state->facts.uuid, sizeof state->facts.uuid, "%.8s-%.4s-%.4s-%.4s-%.12s", text,
                   text + 8, text + 12, text + 16, text + 20);
    return PS_OK;
}
