/* SPDX-License-Identifier: Apache-2.0 */
/* Page faults, copies and checksums of a shard's arrays are most of the time of a recovery, and
 * need nothing of each other. Arrays are read in parts, so that one array that is the whole shard
 * is read by all threads too; the checksums of the parts are joined in the end. */
#include "server/core/recovery/recovery_arrays.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"
#include "server/core/values/crew_pieces.h"

/* Of one part: 8 MiB. */
#define PART_BLOCKS 32

struct part {
    uint64_t offset; /* within its array; 0 begins another array */
    uint64_t bytes;
    uint32_t parameter;
    int32_t state; /* -1: the values */
    uint32_t crc32c;
};

struct arrays {
    struct ps_checkpoint_reader *reader;
    struct ps_parameter *const *parameters;
    struct part *parts; /* in the order of the file */
    size_t part_count;
    const struct ps_allocator *memory;
};

static size_t part_count_of(const struct ps_parameter *parameter);
static void list_parts(struct arrays *arrays, size_t parameter_count);
static enum ps_status read_part(void *self, size_t index, void *room, struct ps_error *error);
static enum ps_status read_to_device(const struct arrays *arrays, struct part *part,
                                     struct ps_parameter *parameter, struct ps_error *error);
static enum ps_status load_to_device(struct ps_parameter *parameter, const struct part *part,
                                     const void *content, struct ps_error *error);
static enum ps_status check_arrays(const struct arrays *arrays, struct ps_error *error);

/* State arrays are numbered from 0, and the values are -1, as in the file. */
static struct ps_blocks *array_of(const struct ps_parameter *parameter, int32_t state)
{
    PS_ASSERT(state < (int32_t)ps_parameter_state_count(parameter));
    return state < 0 ? parameter->values : parameter->states[state];
}

/* The list of all parts is made first, so that threads take parts as they come to them and none of
 * them is left with one array that is most of the shard. After a failure nothing that was read will
 * be used. */
enum ps_status ps_recovery_fill_arrays(struct ps_checkpoint_reader *reader,
                                       struct ps_parameter *const *parameters,
                                       const struct ps_crew *crew,
                                       const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(reader != NULL && memory != NULL);
    struct arrays arrays = {.reader = reader, .parameters = parameters, .memory = memory};
    size_t parameter_count = ps_checkpoint_parameter_count(reader);
    for (size_t i = 0; i < parameter_count; i++)
        arrays.part_count += part_count_of(parameters[i]);
    arrays.parts = ps_zeroed_array(memory, arrays.part_count, sizeof arrays.parts[0]);
    if (arrays.parts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read %zu parts", arrays.part_count);
    list_parts(&arrays, parameter_count);

    const struct ps_crew_pieces pieces = {
        .work = read_part, .self = &arrays, .count = arrays.part_count};
    enum ps_status status = ps_crew_pieces_run(&pieces, crew, error);
    if (status == PS_OK)
        status = check_arrays(&arrays, error);
    ps_release(memory, arrays.parts);
    return status;
}

static size_t part_count_of(const struct ps_parameter *parameter)
{
    PS_ASSERT(parameter != NULL);
    /* Rows are not read to where they stay, which their keys decide: recovery_rows.h. They have no
     * part in this list, and are read when all of it is. */
    if (parameter->rows != NULL)
        return 0;
    const size_t part_bytes = (size_t)PART_BLOCKS * PS_BLOCK_BYTES;
    size_t of_one_array = (ps_parameter_spec_bytes(parameter->spec) + part_bytes - 1) / part_bytes;
    return of_one_array * (1 + ps_parameter_state_count(parameter));
}

/* In the order of the file, so that whoever reads alone reads forward, and check_arrays can join
 * the checksums of one array by walking the list. */
static void list_parts(struct arrays *arrays, size_t parameter_count)
{
    const uint64_t part_bytes = (uint64_t)PART_BLOCKS * PS_BLOCK_BYTES;
    struct part *part = arrays->parts;
    for (size_t i = 0; i < parameter_count; i++) {
        const struct ps_parameter *parameter = arrays->parameters[i];
        if (parameter->rows != NULL)
            continue;
        uint64_t size = ps_parameter_spec_bytes(parameter->spec);
        /* Values first, then the states, as checkpoint-format.md has them. */
        for (int32_t state = -1; state < (int32_t)ps_parameter_state_count(parameter); state++) {
            for (uint64_t offset = 0; offset < size; offset += part_bytes) {
                uint64_t rest = size - offset;
                *part++ = (struct part){.offset = offset,
                                        .bytes = rest < part_bytes ? rest : part_bytes,
                                        .parameter = (uint32_t)i,
                                        .state = state};
            }
        }
    }
    PS_ASSERT(part == arrays->parts + arrays->part_count);
}

/* The bytes go straight to the blocks where they stay. Nobody else has the parameter yet, so no
 * lock is taken and every block is written in place. */
static enum ps_status read_part(void *self, size_t index, void *room, struct ps_error *error)
{
    const struct arrays *arrays = self;
    PS_ASSERT(index < arrays->part_count);
    struct part *part = &arrays->parts[index];
    struct ps_parameter *parameter = arrays->parameters[part->parameter];
    /* The device has its own memory and its own way in. */
    if (ps_parameter_on_device(parameter))
        return read_to_device(arrays, part, parameter, error);
    struct ps_blocks *blocks = array_of(parameter, part->state);
    struct ps_checkpoint_piece pieces[PART_BLOCKS];
    size_t first = (size_t)(part->offset / PS_BLOCK_BYTES);
    size_t count = 0;
    (void)room; /* the blocks are where the bytes go */
    for (; count < PART_BLOCKS && first + count < blocks->block_count; count++)
        pieces[count] = (struct ps_checkpoint_piece){
            .data = ps_blocks_write(blocks, first + count, parameter->version),
            .size = blocks->pieces[first + count].size};
    PS_ASSERT(part->offset % PS_BLOCK_BYTES == 0 && count > 0);
    /* Blocks are opened for writing at the parameter's version: that is when a delta takes them to
     * have been written. */
    PS_TRY(ps_checkpoint_read_part(arrays->reader, part->parameter, part->state, part->offset,
                                   pieces, count, &part->crc32c, error));
    /* What the system kept of the file becomes the memory of the next part: that was touched
     * before, and a recovery needs the shard's size once, not twice. */
    ps_checkpoint_forget_part(arrays->reader, part->parameter, part->state, part->offset,
                              part->bytes);
    return PS_OK;
}

/* By way of memory of the host that is as large as the part. A thread needs one part's worth of the
 * host's memory at a time, whatever the array's size. */
static enum ps_status read_to_device(const struct arrays *arrays, struct part *part,
                                     struct ps_parameter *parameter, struct ps_error *error)
{
    const struct ps_checkpoint_piece piece = {.data = ps_plain(arrays->memory, (size_t)part->bytes),
                                              .size = (size_t)part->bytes};
    PS_ASSERT(part->bytes > 0 && part->bytes <= (uint64_t)PART_BLOCKS * PS_BLOCK_BYTES);
    if (piece.data == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read a part of %zu bytes",
                       piece.size);
    enum ps_status status = ps_checkpoint_read_part(arrays->reader, part->parameter, part->state,
                                                    part->offset, &piece, 1, &part->crc32c, error);
    if (status == PS_OK)
        status = load_to_device(parameter, part, piece.data, error);
    ps_release(arrays->memory, piece.data);
    return status;
}

/* Parts of one parameter go one after another. The parameter's lock is what a device's calls for
 * one parameter are ordered by. */
static enum ps_status load_to_device(struct ps_parameter *parameter, const struct part *part,
                                     const void *content, struct ps_error *error)
{
    PS_ASSERT(ps_parameter_on_device(parameter));
    const struct ps_bytes bytes = {content, (size_t)part->bytes};
    uint32_t array = (uint32_t)(part->state + 1);
    ps_mutex_lock(&parameter->lock);
    enum ps_status status =
        ps_resident_set(&parameter->resident, array, part->offset, ps_view_of(&bytes), error);
    ps_mutex_unlock(&parameter->lock);
    return status;
}

/* CRC-32C of a whole is computed from those of its parts and their lengths, so that the bytes are
 * read once and by many threads, and what is compared is still the one checksum that the file has
 * for an array. */
static enum ps_status check_arrays(const struct arrays *arrays, struct ps_error *error)
{
    uint32_t crc32c = 0;
    for (size_t i = 0; i < arrays->part_count; i++) {
        const struct part *part = &arrays->parts[i];
        if (part->offset == 0)
            crc32c = 0;
        crc32c = ps_checksum_crc32c_join(crc32c, part->crc32c, part->bytes);
        /* A part at offset 0 begins the next array. */
        bool is_last = i + 1 == arrays->part_count || arrays->parts[i + 1].offset == 0;
        if (is_last)
            PS_TRY(ps_checkpoint_check_array(arrays->reader, part->parameter, part->state, crc32c,
                                             error));
    }
    return PS_OK;
}
