/* SPDX-License-Identifier: Apache-2.0 */
/* Rows cannot be read to where they will lie, as blocks are: that depends on their keys. So they
 * pass through buffers, whose size does not depend on the table's.
 *
 * All arrays of a table are read side by side, so many rows of each at a time, since a row is made
 * of a piece of every one. Each thread takes the next piece that nobody has; the checksums of the
 * pieces are joined to those of the arrays when all were read. */
#include "server/core/recovery/recovery_rows.h"

#include "base/assert.h"
#include "base/thread.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"
#include "server/core/tables/row_load.h"
#include "server/core/update/parameter_rows.h"

#include <inttypes.h>
#include <stdatomic.h>

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
    const struct ps_allocator *memory;
    uint32_t state_count;
    uint32_t array_count;
    size_t row_bytes[ARRAYS_MAX]; /* of one row in each array */
    size_t each;                  /* their sum */
    uint64_t rows;
    size_t at_once; /* rows of a piece */
    size_t piece_count;
    uint32_t *sums;      /* owned; array_count checksums for each piece */
    _Atomic size_t next; /* piece that nobody has taken */
    _Atomic bool failed;
    struct ps_mutex lock;    /* guards what follows */
    struct ps_error failure; /* the first */
};

static void lay_out(struct filling *filling);
static enum ps_status check_sizes(const struct filling *filling, struct ps_error *error);
static enum ps_status fill(struct filling *filling, const struct ps_crew *crew,
                           struct ps_error *error);
static void work(void *argument);
static enum ps_status fill_piece(const struct filling *filling, size_t piece, uint8_t *buffer,
                                 struct ps_error *error);
static void note_failure(struct filling *filling, const struct ps_error *failure);
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
                              .memory = memory,
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
    enum ps_status status = ps_row_table_expect(parameter->rows, filling.rows, error);
    if (status == PS_OK)
        status = fill(&filling, crew, error);
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
                           struct ps_error *error)
{
    PS_ASSERT(filling->at_once > 0);
    ps_mutex_init(&filling->lock, PS_RANK_QUEUE);
    if (crew != NULL)
        crew->run(crew->self, work, filling);
    else
        work(filling);
    ps_mutex_fini(&filling->lock);
    /* Every thread has ended by now: no lock is needed to read what they left. */
    if (atomic_load(&filling->failed))
        return ps_fail(error, filling->failure.status, "%s", filling->failure.text);
    return check_arrays(filling, error);
}

/* Runs in each thread of the crew until no piece is left or one has failed. A thread that comes too
 * late for a piece takes no memory. */
static void work(void *argument)
{
    struct filling *filling = argument;
    uint8_t *buffer = NULL;
    PS_ASSERT(filling != NULL);
    while (!atomic_load(&filling->failed)) {
        struct ps_error reason = {0};
        size_t taken = atomic_fetch_add(&filling->next, 1);
        if (taken >= filling->piece_count)
            break;
        if (buffer == NULL)
            buffer = ps_plain(filling->memory, filling->at_once * filling->each);
        enum ps_status status = buffer != NULL
                                    ? fill_piece(filling, taken, buffer, &reason)
                                    : ps_fail(&reason, PS_ERR_NO_MEMORY, "no memory to read rows");
        if (status == PS_OK)
            continue;
        /* Rows that a table cannot have are damage, and not a lack of room. */
        if (reason.status == PS_ERR_OUT_OF_RANGE)
            reason.status = PS_ERR_CORRUPT;
        note_failure(filling, &reason);
    }
    ps_release(filling->memory, buffer);
}

/* In the buffer keys stand first and the 32 bits of the versions last: so each is aligned as its
 * elements are. What was read of the file is let go of at once, so that a recovery needs the memory
 * of the rows and not that of the file as well. */
static enum ps_status fill_piece(const struct filling *filling, size_t piece, uint8_t *buffer,
                                 struct ps_error *error)
{
    uint64_t first = (uint64_t)piece * filling->at_once;
    uint64_t left = filling->rows - first;
    size_t rows = left < filling->at_once ? (size_t)left : filling->at_once;
    uint32_t keys = filling->state_count + 1;
    uint8_t *next = buffer + rows * filling->row_bytes[keys];
    uint8_t *arrays[ARRAYS_MAX];
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

/* Of several failures the first is told. */
static void note_failure(struct filling *filling, const struct ps_error *failure)
{
    PS_ASSERT(failure->status != PS_OK);
    ps_mutex_lock(&filling->lock);
    if (!atomic_load(&filling->failed))
        filling->failure = *failure;
    atomic_store(&filling->failed, true);
    ps_mutex_unlock(&filling->lock);
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
