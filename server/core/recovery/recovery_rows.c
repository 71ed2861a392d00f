/* SPDX-License-Identifier: Apache-2.0 */
/* Rows cannot be read to where they will lie, as blocks are: that depends on their keys. So they
 * pass through a buffer, whose size does not depend on the table's.
 *
 * All arrays of a table are read side by side, so many rows of each at a time, since a row is made
 * of a piece of every one. The checksums of the pieces are joined to those of the arrays. */
#include "server/core/recovery/recovery_rows.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"
#include "server/core/tables/row_load.h"
#include "server/core/update/parameter_rows.h"

#include <inttypes.h>

/* Values, states, keys and versions of the last pushes: the version is what decides later which
 * rows are old. */
#define ARRAYS_MAX (PS_STATES_MAX + 3)

/* Of all arrays together, at a time: large enough that the disk reads ahead of each array, and
 * small beside the memory of a table that it takes to notice. */
#define PIECE_BYTES ((size_t)8 << 20)

/* One array of the table. */
struct array {
    size_t row_bytes; /* of one row */
    uint8_t *rows;    /* within the buffer */
    uint32_t crc32c;
};

struct filling {
    struct ps_checkpoint_reader *reader;
    size_t index; /* of the parameter in the file */
    struct ps_parameter *parameter;
    uint32_t state_count;
    uint32_t array_count;
    struct array arrays[ARRAYS_MAX];
};

static uint64_t lay_out(struct filling *filling);
static enum ps_status check_sizes(const struct filling *filling, struct ps_error *error);
static void place(struct filling *filling, uint8_t *buffer, size_t rows_at_once);
static enum ps_status fill(struct filling *filling, uint64_t row_count, size_t rows_at_once,
                           struct ps_error *error);
static enum ps_status fill_piece(struct filling *filling, uint64_t first, size_t rows,
                                 struct ps_error *error);
static enum ps_status check_arrays(const struct filling *filling, struct ps_error *error);

/* The limit is asked with what the file has, which is less than the rows will take: a table that
 * was within the limit when it was saved is so now, however it lay then. */
enum ps_status ps_recovery_fill_rows(struct ps_checkpoint_reader *reader, size_t i,
                                     struct ps_parameter *parameter, uint64_t bytes_left,
                                     const struct ps_allocator *memory, struct ps_error *error)
{
    struct filling filling = {.reader = reader, .index = i, .parameter = parameter};
    uint64_t rows = ps_checkpoint_parameter(reader, i)->rows;
    PS_ASSERT(parameter->rows != NULL);
    uint64_t each = lay_out(&filling);
    PS_TRY(check_sizes(&filling, error));
    if (rows > bytes_left / each)
        return ps_fail(error, PS_ERR_BUSY,
                       "memory limit: %" PRIu64 " rows of %" PRIu64 " bytes in the checkpoint, "
                       "%" PRIu64 " bytes are left (--memory-bytes)",
                       rows, each, bytes_left);
    size_t at_once = PIECE_BYTES / (size_t)each > 0 ? PIECE_BYTES / (size_t)each : 1;
    if (at_once > rows)
        at_once = rows > 0 ? (size_t)rows : 1;
    uint8_t *buffer = ps_plain(memory, at_once * (size_t)each);
    if (buffer == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read rows");
    place(&filling, buffer, at_once);
    enum ps_status status = ps_row_table_expect(parameter->rows, rows, error);
    if (status == PS_OK)
        status = fill(&filling, rows, at_once, error);
    ps_release(memory, buffer);
    ps_parameter_rows_count(parameter);
    return status;
}

/* Keys first and the 32 bits of the versions last: so each is aligned as its elements are. */
static void place(struct filling *filling, uint8_t *buffer, size_t rows_at_once)
{
    /* All of them in one buffer, which one release ends. */
    uint32_t keys = filling->state_count + 1;
    uint8_t *next = buffer + rows_at_once * filling->arrays[keys].row_bytes;
    PS_ASSERT(filling->array_count == keys + 2);
    filling->arrays[keys].rows = buffer;
    for (uint32_t i = 0; i < filling->array_count; i++) {
        if (i == keys)
            continue;
        filling->arrays[i].rows = next;
        next += rows_at_once * filling->arrays[i].row_bytes;
    }
}

/* Bytes of each row in each array, in the order in which the file has them (checkpoint.h); returns
 * their sum. A state that the whole row shares has one element. */
static uint64_t lay_out(struct filling *filling)
{
    const struct ps_parameter_spec *spec = filling->parameter->spec;
    const struct ps_row_layout layout = ps_parameter_rows_layout(spec);
    size_t element_bytes = ps_dtype_size(spec->dtype);
    struct array *arrays = filling->arrays;
    uint64_t sum = 0;
    filling->state_count = layout.state_count;
    filling->array_count = layout.state_count + 3;
    PS_ASSERT(filling->array_count <= ARRAYS_MAX);
    arrays[0].row_bytes = layout.width * element_bytes;
    for (uint32_t i = 0; i < layout.state_count; i++)
        arrays[1 + i].row_bytes = (layout.state_is_one[i] ? 1 : layout.width) * element_bytes;
    arrays[layout.state_count + 1].row_bytes = sizeof(uint64_t);
    arrays[layout.state_count + 2].row_bytes = sizeof(uint32_t);
    for (uint32_t i = 0; i < filling->array_count; i++)
        sum += arrays[i].row_bytes;
    return sum;
}

/* A file may say of itself what its configuration does not: a state of one element for a row, or of
 * several. Its arrays would then end too early, or be read as those of other rows. */
static enum ps_status check_sizes(const struct filling *filling, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *row =
        ps_checkpoint_parameter(filling->reader, filling->index);
    PS_ASSERT(ps_array_count(row) == filling->array_count);
    for (uint32_t i = 0; i < filling->array_count; i++)
        if (ps_array_bytes(row, i) != row->rows * filling->arrays[i].row_bytes)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "checkpoint: Name: %.*s, state %" PRIu32
                           " has another size than its configuration says",
                           (int)(row->name.size < 80 ? row->name.size : 80),
                           (const char *)row->name.data, i - 1);
    return PS_OK;
}

/* From the first row to the last, as they stand in the file: what was read of it is let go of at
 * once, so that a recovery needs the memory of the rows and not that of the file as well. */
static enum ps_status fill(struct filling *filling, uint64_t row_count, size_t rows_at_once,
                           struct ps_error *error)
{
    PS_ASSERT(rows_at_once > 0);
    for (uint64_t first = 0; first < row_count;) {
        uint64_t left = row_count - first;
        size_t rows = left < rows_at_once ? (size_t)left : rows_at_once;
        PS_TRY(fill_piece(filling, first, rows, error));
        first += rows;
    }
    return check_arrays(filling, error);
}

/* Taken into the table before the checksum of the whole is known: when that is wrong, the table is
 * nobody's and goes. Rows that a table cannot have are damage, and not a lack of room. */
static enum ps_status fill_piece(struct filling *filling, uint64_t first, size_t rows,
                                 struct ps_error *error)
{
    const void *states[PS_STATES_MAX] = {0};
    PS_ASSERT(rows > 0);
    /* As in the file: the values are array -1, states from 0 on, then keys and versions. */
    for (uint32_t i = 0; i < filling->array_count; i++) {
        struct array *array = &filling->arrays[i];
        const struct ps_checkpoint_piece piece = {array->rows, rows * array->row_bytes};
        uint32_t crc32c = 0;
        PS_TRY(ps_checkpoint_read_part(filling->reader, filling->index, (int32_t)i - 1,
                                       first * array->row_bytes, &piece, 1, &crc32c, error));
        array->crc32c = ps_checksum_crc32c_join(array->crc32c, crc32c, piece.size);
        ps_checkpoint_forget_part(filling->reader, filling->index, (int32_t)i - 1,
                                  first * array->row_bytes, piece.size);
        if (i > 0 && i <= filling->state_count)
            states[i - 1] = array->rows;
    }
    const struct array *keys = &filling->arrays[filling->state_count + 1];
    const struct array *touched = keys + 1;
    enum ps_status status =
        ps_row_table_load(filling->parameter->rows, (const uint64_t *)(const void *)keys->rows,
                          (const uint32_t *)(const void *)touched->rows, filling->arrays[0].rows,
                          states, rows, error);
    return status == PS_OK || status == PS_ERR_NO_MEMORY ? status : PS_ERR_CORRUPT;
}

/* Each array has a checksum of its own: damage is named with the array that has it. */
static enum ps_status check_arrays(const struct filling *filling, struct ps_error *error)
{
    PS_ASSERT(filling->array_count >= 3);
    for (uint32_t i = 0; i < filling->array_count; i++)
        PS_TRY(ps_checkpoint_check_array(filling->reader, filling->index, (int32_t)i - 1,
                                         filling->arrays[i].crc32c, error));
    return PS_OK;
}
