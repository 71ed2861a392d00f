/* SPDX-License-Identifier: Apache-2.0 */
/* Rows cannot be read to where they will lie, as blocks are: that depends on their keys. So they
 * pass through buffers, whose size does not depend on the table's.
 *
 * All arrays of a table are read side by side, so many rows of each at a time, since a row is made
 * of a piece of every one. The threads of the crew take pieces (crew_pieces.h), whose checksums are
 * joined to those of the arrays when all were read. */
#include "server/core/recovery/recovery_rows.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"
#include "server/core/tables/row_load.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/values/crew_pieces.h"

#include <inttypes.h>

/* Values, states, keys and versions of the last pushes: the version is what decides later which
 * rows are old. */
#define ARRAYS_MAX (PS_STATES_MAX + 3)

/* Of all arrays together, at a time and in each thread: large enough that the disk reads ahead of
 * each array, and small beside the memory of a table that it takes to notice. */
#define PIECE_BYTES ((size_t)4 << 20)

struct filling {
    struct ps_checkpoint_reader *reader;
    size_t index; /* of the parameter in the file */
    struct ps_parameter *parameter;
    uint32_t state_count;
    uint32_t array_count;
    size_t row_bytes[ARRAYS_MAX]; /* of one row in each array */
    size_t each;                  /* their sum */
    uint64_t rows;
    size_t at_once; /* rows of a piece */
    size_t piece_count;
    uint32_t *sums; /* owned; array_count checksums for each piece */
};

static void lay_out(struct filling *filling);
static enum ps_status check_sizes(const struct filling *filling, struct ps_error *error);
static enum ps_status fill(struct filling *filling, const struct ps_crew *crew,
                           const struct ps_allocator *memory, struct ps_error *error);
static enum ps_status fill_piece(void *self, size_t piece, void *buffer, struct ps_error *error);
static enum ps_status read_piece(const struct filling *filling, size_t piece, uint8_t *buffer,
                                 struct ps_error *error);
static enum ps_status check_arrays(const struct filling *filling, struct ps_error *error);

/* The limit is asked with what the file has, which is less than the rows will take: a table that
 * was within the limit when it was saved is so now, however it lay then. */
enum ps_status ps_recovery_fill_rows(struct ps_checkpoint_reader *reader, size_t i,
                                     struct ps_parameter *parameter, uint64_t bytes_left,
                                     const struct ps_crew *crew, const struct ps_allocator *memory,
                                     struct ps_error *error)
{
    struct filling filling = {.reader = reader,
                              .index = i,
                              .parameter = parameter,
                              .rows = ps_checkpoint_parameter(reader, i)->rows};
    PS_ASSERT(parameter->rows != NULL);
    lay_out(&filling);
    PS_TRY(check_sizes(&filling, error));
    if (filling.rows > bytes_left / filling.each)
        return ps_fail(error, PS_ERR_BUSY,
                       "memory limit: %" PRIu64 " rows of %zu bytes in the checkpoint, "
                       "%" PRIu64 " bytes are left (--memory-bytes)",
                       filling.rows, filling.each, bytes_left);
    filling.at_once = PIECE_BYTES / filling.each > 0 ? PIECE_BYTES / filling.each : 1;
    /* Most tables are less than a piece, and need no buffer of a piece's size. */
    if (filling.at_once > filling.rows)
        filling.at_once = filling.rows > 0 ? (size_t)filling.rows : 1;
    filling.piece_count = (size_t)((filling.rows + filling.at_once - 1) / filling.at_once);
    /* One more, since a table may have no rows. */
    filling.sums = ps_zeroed_array(memory, (filling.piece_count + 1) * filling.array_count,
                                   sizeof *filling.sums);
    if (filling.sums == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read rows");
    enum ps_status status = ps_row_table_expect(parameter->rows, filling.rows,
                                                ps_checkpoint_parameter(reader, i)->version, error);
    if (status == PS_OK)
        status = fill(&filling, crew, memory, error);
    ps_release(memory, filling.sums);
    ps_parameter_rows_count(parameter);
    return status;
}

/* Bytes of each row in each array, in the order in which the file has them (checkpoint.h), and
 * their sum. A state that the whole row shares has one element. */
static void lay_out(struct filling *filling)
{
    const struct ps_parameter_spec *spec = filling->parameter->spec;
    const struct ps_row_layout layout = ps_parameter_rows_layout(spec);
    size_t element_bytes = ps_dtype_size(spec->dtype);
    filling->state_count = layout.state_count;
    filling->array_count = layout.state_count + 3;
    PS_ASSERT(filling->array_count <= ARRAYS_MAX);
    filling->row_bytes[0] = layout.width * element_bytes;
    for (uint32_t i = 0; i < layout.state_count; i++)
        filling->row_bytes[1 + i] = (layout.state_is_one[i] ? 1 : layout.width) * element_bytes;
    filling->row_bytes[layout.state_count + 1] = sizeof(uint64_t);
    filling->row_bytes[layout.state_count + 2] = sizeof(uint32_t);
    for (uint32_t i = 0; i < filling->array_count; i++)
        filling->each += filling->row_bytes[i];
}

/* A file may say of itself what its configuration does not: a state of one element for a row, or of
 * several. Its arrays would then end too early, or be read as those of other rows. */
static enum ps_status check_sizes(const struct filling *filling, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *row =
        ps_checkpoint_parameter(filling->reader, filling->index);
    PS_ASSERT(ps_array_count(row) == filling->array_count);
    for (uint32_t i = 0; i < filling->array_count; i++)
        if (ps_array_bytes(row, i) != row->rows * filling->row_bytes[i])
            return ps_fail(error, PS_ERR_CORRUPT,
                           "checkpoint: Name: %.*s, state %" PRIu32
                           " has another size than its configuration says",
                           (int)(row->name.size < 80 ? row->name.size : 80),
                           (const char *)row->name.data, i - 1);
    return PS_OK;
}

/* Taken into the table before the checksums of the arrays are known: when one is wrong, the table
 * is nobody's and goes. */
static enum ps_status fill(struct filling *filling, const struct ps_crew *crew,
                           const struct ps_allocator *memory, struct ps_error *error)
{
    const struct ps_crew_pieces pieces = {.work = fill_piece,
                                          .self = filling,
                                          .count = filling->piece_count,
                                          .room_bytes = filling->at_once * filling->each,
                                          .memory = memory};
    PS_ASSERT(filling->at_once > 0);
    PS_TRY(ps_crew_pieces_run(&pieces, crew, error));
    return check_arrays(filling, error);
}

/* Rows that a table cannot have are damage, and not a lack of room. */
static enum ps_status fill_piece(void *self, size_t piece, void *buffer, struct ps_error *error)
{
    PS_ASSERT(buffer != NULL && error != NULL);
    enum ps_status status = read_piece(self, piece, buffer, error);
    if (status != PS_ERR_OUT_OF_RANGE)
        return status;
    error->status = PS_ERR_CORRUPT;
    return PS_ERR_CORRUPT;
}

/* In the buffer keys stand first and the 32 bits of the versions last: so each is aligned as its
 * elements are. What was read of the file is let go of at once, so that a recovery needs the memory
 * of the rows and not that of the file as well. */
static enum ps_status read_piece(const struct filling *filling, size_t piece, uint8_t *buffer,
                                 struct ps_error *error)
{
    uint64_t first = (uint64_t)piece * filling->at_once;
    uint64_t left = filling->rows - first;
    size_t rows = left < filling->at_once ? (size_t)left : filling->at_once;
    uint32_t keys = filling->state_count + 1;
    uint8_t *next = buffer + rows * filling->row_bytes[keys];
    uint8_t *arrays[ARRAYS_MAX];
    PS_ASSERT(piece < filling->piece_count);
    PS_ASSERT(rows > 0);
    /* As in the file: the values are array -1, states from 0 on, then keys and versions. */
    for (uint32_t i = 0; i < filling->array_count; i++) {
        const uint64_t offset = first * filling->row_bytes[i];
        const struct ps_checkpoint_piece part = {i == keys ? buffer : next,
                                                 rows * filling->row_bytes[i]};
        PS_TRY(ps_checkpoint_read_part(filling->reader, filling->index, (int32_t)i - 1, offset,
                                       &part, 1, &filling->sums[piece * filling->array_count + i],
                                       error));
        ps_checkpoint_forget_part(filling->reader, filling->index, (int32_t)i - 1, offset,
                                  part.size);
        arrays[i] = part.data;
        if (i != keys)
            next += part.size;
    }
    return ps_row_table_load(filling->parameter->rows, (const uint64_t *)(const void *)arrays[keys],
                             (const uint32_t *)(const void *)arrays[keys + 1], arrays[0],
                             (const void *const *)(arrays + 1), rows, error);
}

/* Each array has a checksum of its own: damage is named with the array that has it. */
static enum ps_status check_arrays(const struct filling *filling, struct ps_error *error)
{
    PS_ASSERT(filling->array_count >= 3);
    for (uint32_t i = 0; i < filling->array_count; i++) {
        uint32_t crc32c = 0;
        for (size_t piece = 0; piece < filling->piece_count; piece++) {
            uint64_t left = filling->rows - (uint64_t)piece * filling->at_once;
            size_t rows = left < filling->at_once ? (size_t)left : filling->at_once;
            crc32c =
                ps_checksum_crc32c_join(crc32c, filling->sums[piece * filling->array_count + i],
                                        rows * filling->row_bytes[i]);
        }
        PS_TRY(ps_checkpoint_check_array(filling->reader, filling->index, (int32_t)i - 1, crc32c,
                                         error));
    }
    return PS_OK;
}
