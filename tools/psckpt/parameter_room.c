/* SPDX-License-Identifier: Apache-2.0 */
/* All arrays of a parameter in one room, each at a multiple of eight: a table has some of four
 * bytes before some of eight.
 *
 * A row of a state comes from a file, from a service that has replayed a journal, or from other
 * states. Each of them fills a room and settles it, so that the promise about a state's tables is
 * kept in one place. */
#include "tools/psckpt/parameter_room.h"

#include "base/assert.h"
#include "tools/psckpt/table_rows.h"

#include <string.h>

#define ALIGNMENT ((uint64_t)8)

/* Asked of a source at a time. */
#define PIECE_BYTES ((uint64_t)1 << 20)

static void fill_clock(const struct parameter_room *room,
                       const struct ps_checkpoint_parameter *about);

/* Counts come from files, where each array was compared with the size of the file; so their sum
 * does not wrap. */
enum ps_status parameter_room_make(struct parameter_room *room, struct shard_state *state,
                                   const struct ps_checkpoint_parameter *about,
                                   struct ps_error *error)
{
    uint64_t offsets[PS_CHECKPOINT_ARRAYS_MAX];
    uint64_t room_bytes = 0;
    *room = (struct parameter_room){.count = ps_array_count(about)};
    for (uint32_t array = 0; array < room->count; array++) {
        uint64_t bytes = ps_array_bytes(about, array);
        PS_ASSERT(bytes <= UINT64_MAX / 8 / PS_CHECKPOINT_ARRAYS_MAX);
        offsets[array] = room_bytes;
        room->size += bytes;
        room_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    uint8_t *bytes = shard_state_room(state, (size_t)room_bytes, 1, error);
    room->pieces = shard_state_room(state, room->count, sizeof *room->pieces, error);
    if (bytes == NULL || room->pieces == NULL)
        return PS_ERR_NO_MEMORY;
    /* A table without rows has pieces of no bytes, so that its views are as those of any other. */
    for (uint32_t array = 0; array < room->count; array++) {
        room->arrays[array] = bytes + offsets[array];
        room->pieces[array] =
            (struct ps_bytes){room->arrays[array], (size_t)ps_array_bytes(about, array)};
    }
    return PS_OK;
}

/* The reader compares each array with its checksum; an array that does not fit is PS_ERR_CORRUPT,
 * and the room's content is of no use then. */
enum ps_status parameter_room_read(const struct parameter_room *room,
                                   struct ps_checkpoint_reader *reader, size_t i, bool states,
                                   struct ps_error *error)
{
    const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
    uint32_t state_count = about->state_count;
    for (uint32_t array = 0; array < room->count; array++) {
        struct ps_checkpoint_piece piece = {room->arrays[array], room->pieces[array].size};
        bool is_clock = about->is_table && array + 1 == room->count;
        /* Of a table without its state the keys are wanted all the same: values are of no use
         * when nobody knows whose they are. */
        if (!states && array > 0 && array <= state_count)
            continue;
        enum ps_status status =
            ps_checkpoint_read_array(reader, i, (int32_t)array - 1, &piece, 1, error);
        if (status == PS_ERR_CORRUPT && is_clock && !states)
            fill_clock(room, about);
        else if (status != PS_OK)
            return status;
    }
    return PS_OK;
}

/* It stands at the end of the file, where one that was cut off has lost it first. Rows seem younger
 * than they are by it, which costs memory and no row. */
static void fill_clock(const struct parameter_room *room,
                       const struct ps_checkpoint_parameter *about)
{
    uint32_t version = (uint32_t)about->version;
    PS_ASSERT(room->pieces[room->count - 1].size == about->rows * sizeof version);
    for (uint64_t row = 0; row < about->rows; row++)
        memcpy(room->arrays[room->count - 1] + row * sizeof version, &version, sizeof version);
}

/* As the writer of a checkpoint asks it, in pieces and from beginning to end: sources rely on
 * that. */
enum ps_status parameter_room_copy(const struct parameter_room *room,
                                   const struct ps_checkpoint_parameter *about,
                                   struct ps_error *error)
{
    const struct ps_checkpoint_source *source = &about->source;
    PS_ASSERT(source->read != NULL);
    for (uint32_t array = 0; array < room->count; array++)
        for (uint64_t done = 0; done < room->pieces[array].size; done += PIECE_BYTES) {
            uint64_t left = room->pieces[array].size - done;
            size_t part = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
            PS_TRY(
                source->read(source->self, array, done, room->arrays[array] + done, part, error));
        }
    return PS_OK;
}

/* Sorting needs every array at hand, and so comes when all were read. The views are made behind it:
 * what fails leaves a row as it was, with its source. */
enum ps_status parameter_room_settle(const struct parameter_room *room,
                                     const struct ps_checkpoint_parameter *about,
                                     const struct ps_allocator *memory,
                                     struct ps_checkpoint_parameter *row, struct ps_error *error)
{
    if (about->is_table)
        PS_TRY(table_rows_sort(about, room->arrays, memory, error));
    for (uint32_t array = 0; array < room->count; array++)
        ps_array_set_view(row, array, ps_view_of(&room->pieces[array]));
    row->source = (struct ps_checkpoint_source){0};
    return PS_OK;
}

enum ps_status parameter_room_add(const struct parameter_room *room, struct shard_state *state,
                                  const struct ps_checkpoint_parameter *row, struct ps_error *error)
{
    struct ps_checkpoint_parameter added = *row;
    PS_TRY(parameter_room_settle(room, row, state->memory, &added, error));
    return shard_state_add(state, &added, error);
}

/* For whoever looks at rows of two states side by side, or in another order than that of a file.
 * Tables that are in arrays already stay as they are. */
enum ps_status parameter_room_take_tables(struct shard_state *state, struct ps_error *error)
{
    for (size_t i = 0; i < state->count; i++) {
        struct ps_checkpoint_parameter *row = &state->parameters[i];
        struct parameter_room room;
        if (!row->is_table || row->source.read == NULL)
            continue;
        PS_TRY(parameter_room_make(&room, state, row, error));
        PS_TRY(parameter_room_copy(&room, row, error));
        PS_TRY(parameter_room_settle(&room, row, state->memory, row, error));
    }
    return PS_OK;
}
