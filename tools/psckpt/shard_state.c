/* SPDX-License-Identifier: Apache-2.0 */
/* Where a state's memory is, how it comes from a file and goes into one. A state is a list of
 * parameters whose arrays are views, and the memory behind them may be of several kinds: rooms of
 * the state itself, blocks of a service that replayed a journal, or pieces of another state. One
 * call releases all of it, so the commands pass states around by value and never ask where an array
 * lies. */
#include "tools/psckpt/shard_state.h"

#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/state_digest.h"
#include "tools/psckpt/state_sections.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list that only grows and is released at once: the simplest arena, and enough here. The flexible
 * member has the strictest alignment, so any array may stand in it. */
struct shard_room {
    struct shard_room *next;
    max_align_t bytes[];
};

static enum ps_status copy_facts(struct shard_state *state, const struct ps_checkpoint_facts *facts,
                                 struct ps_error *error);
static enum ps_status read_all(struct shard_state *state, struct ps_checkpoint_reader *reader,
                               struct progress *progress, struct ps_error *error);
static int compare_parameters(const void *a, const void *b);
static enum ps_status make_uuid(struct shard_state *state, struct ps_error *error);

/* The job's name is never NULL, so that everyone may print and compare it. */
void shard_state_init(struct shard_state *state, const struct ps_allocator *memory)
{
    *state = (struct shard_state){.memory = memory, .facts = {.job = ""}};
}

/* The snapshot goes before the service: it holds references on the service's blocks. A zeroed state
 * is left behind, so that a second call does nothing. */
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

/* The check on the product comes first: counts are read from files, and a product that wraps would
 * give a small room for a large array. Zeroed, because rooms become structures and arrays of
 * pointers as well. A size of 0 gives a room without bytes, whose address is of no use but is not
 * NULL. */
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

/* The NUL behind the bytes is not counted; it makes names from files safe for printf. */
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

/* The row is counted last, when nothing can fail any more: a row in the list is always complete. */
enum ps_status shard_state_add(struct shard_state *state, const struct ps_checkpoint_parameter *row,
                               struct ps_error *error)
{
    struct ps_checkpoint_parameter added = *row;
    added.name = shard_state_copy(state, row->name, error);
    added.config = shard_state_copy(state, row->config, error);
    /* Of the reader as well, which is closed while the state lives on. */
    if (row->defined.data != NULL)
        added.defined = shard_state_copy(state, row->defined, error);
    if (row->ages.size > 0)
        added.ages = shard_state_copy(state, row->ages, error);
    bool has_defined = row->defined.data == NULL || added.defined.data != NULL;
    bool has_ages = row->ages.size == 0 || added.ages.data != NULL;
    if (added.name.data == NULL || added.config.data == NULL || !has_defined || !has_ages)
        return PS_ERR_NO_MEMORY;
    /* Wherever its rows came from, they are all here: what is written of the state is whole. */
    added.carry = PS_CARRY_WHOLE;
    state->parameters[state->count++] = added;
    return PS_OK;
}

/* A failure leaves a state that fini releases; the caller does that, as it owns the state. Used for
 * a file that was named, without its journal. */
enum ps_status shard_state_read(struct shard_state *state, const struct toolbox *box,
                                const char *path, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(box->files, path, state->memory, &reader, error));
    progress_begin(box->progress, path, 0);
    enum ps_status status = copy_facts(state, ps_checkpoint_reader_facts(reader), error);
    if (status == PS_OK)
        status = read_all(state, reader, box->progress, error);
    if (status == PS_OK)
        status = state_sections_read(state, reader, error);
    progress_end(box->progress);
    ps_checkpoint_close(reader);
    return status == PS_OK ? shard_state_seal(state, error) : status;
}

/* The facts of a reader point into its own memory, which goes when it is closed. The uuid and the
 * numbers are values; texts and sessions are the only pointers. */
static enum ps_status copy_facts(struct shard_state *state, const struct ps_checkpoint_facts *facts,
                                 struct ps_error *error)
{
    struct ps_bytes job = shard_state_copy(state, ps_bytes_of_text(facts->job), error);
    struct ps_bytes sessions = shard_state_copy(state, facts->sessions, error);
    if (job.data == NULL || sessions.data == NULL)
        return PS_ERR_NO_MEMORY;
    state->facts = *facts;
    /* What is written of a state is another file than the set's: it may have more in it, and has
     * another uuid. */
    state->facts.set = "";
    state->facts.base = "";
    state->facts.job = (const char *)job.data;
    state->facts.sessions = sessions;
    return PS_OK;
}

/* The progress needs the total before the first array is read. A failure in the middle leaves the
 * parameters that were read, and the caller drops them. */
static enum ps_status read_all(struct shard_state *state, struct ps_checkpoint_reader *reader,
                               struct progress *progress, struct ps_error *error)
{
    size_t count = ps_checkpoint_parameter_count(reader);
    state->parameters = shard_state_room(state, count, sizeof *state->parameters, error);
    if (state->parameters == NULL)
        return PS_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
        /* Every array, as all of them are read: of a table keys and clock, too. */
        for (uint32_t array = 0; array < ps_array_count(about); array++)
            progress->total += ps_array_bytes(about, array);
    }
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
        struct parameter_room room;
        PS_TRY(parameter_room_make(&room, state, about, error));
        PS_TRY(parameter_room_read(&room, reader, i, true, error));
        PS_TRY(parameter_room_add(&room, state, about, error));
        progress_add(progress, room.size);
    }
    return PS_OK;
}

/* After this the order of the parameters does not depend on where they came from, which digest,
 * diff and the files that are written rely on. A name twice can only come from outside (an imported
 * file, shards of two jobs). */
enum ps_status shard_state_seal(struct shard_state *state, struct ps_error *error)
{
    if (state->count > 0)
        qsort(state->parameters, state->count, sizeof *state->parameters, compare_parameters);
    /* Equal names are neighbours now. */
    for (size_t i = 1; i < state->count; i++) {
        struct ps_bytes name = state->parameters[i].name;
        if (ps_bytes_equal(state->parameters[i - 1].name, name))
            return ps_fail(error, PS_ERR_CORRUPT, "two parameters are called %.*s",
                           (int)(name.size < 100 ? name.size : 100), (const char *)name.data);
    }
    return PS_OK;
}

/* By bytes, as servers and clients compare names. */
static int compare_parameters(const void *a, const void *b)
{
    const struct ps_checkpoint_parameter *left = a;
    const struct ps_checkpoint_parameter *right = b;
    return ps_bytes_compare(left->name, right->name);
}

/* The folder must be unused, the uuid is made of the content, and the place is remembered in the
 * state, in this order: a place means that the file is there. `place` comes from the writer and has
 * what a pointer needs: path, size and checksum of the bytes that were written. */
enum ps_status shard_state_write(struct shard_state *state, const struct ps_files *files,
                                 const char *folder, struct ps_checkpoint_place *place,
                                 struct ps_error *error)
{
    PS_TRY(shard_state_check_unused(files, folder, state->memory, error));
    PS_TRY(make_uuid(state, error));
    /* A shard that is made here begins a history of its own, one that was recovered goes on with
     * the one it has. The uuid is made of the state, so that two runs make the same file still. */
    if (!ps_history_known(&state->facts.history))
        (void)ps_history_read(state->facts.uuid, &state->facts.history);
    PS_TRY(ps_checkpoint_write(files, folder, &state->facts, state->parameters, state->count,
                               state->memory, place, error));
    state->place = *place;
    return PS_OK;
}

/* Beside other files a new checkpoint could be taken for the newest, or be passed over for them:
 * which of the two depends on epochs that the operator does not see. A folder that is not there is
 * the usual case. */
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

/* A uuid of version 8 (RFC 9562), whose bits mean what their maker says: here a hash of the state
 * and of its place in the job. Two runs of one command over one state make the same file, byte for
 * byte, so that a second copy can be recognised as such. The digits are cut in the groups of a
 * uuid; the two bits of the variant and the four of the version stand where RFC 9562 wants them. */
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
    /* Nothing where there are none, so that files of such states keep their names. */
    state_sections_add(facts, &hash);
    PS_TRY(sha256_end(&hash, digest, error));
    digest[6] = (uint8_t)((digest[6] & 0x0f) | 0x80);
    digest[8] = (uint8_t)((digest[8] & 0x3f) | 0x80);
    char text[SHA256_TEXT_BYTES];
    sha256_text(digest, text);
    (void)snprintf(state->facts.uuid, sizeof state->facts.uuid, "%.8s-%.4s-%.4s-%.4s-%.12s", text,
                   text + 8, text + 12, text + 16, text + 20);
    return PS_OK;
}
