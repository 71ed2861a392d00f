/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs have an embedding as a matrix, and which row is whose in a list of its own. The
 * two are brought together by their names, so that no option has to say what is a table: what was
 * exported can be imported, and a file of another program needs one tensor more. */
#include "tools/psckpt/imported_tables.h"

#include "checkpoint/array_layout.h"
#include "proto/wire.h"
#include "tools/psckpt/table_rows.h"

#include <inttypes.h>
#include <string.h>

#define PREFIX_SIZE (sizeof PS_ARRAY_KEYS_PREFIX - 1)

/* Field numbers of optimizer_config.proto. */
enum { FIELD_TABLE = 212, FIELD_WIDTH = 1 };

static enum ps_status make_table(struct shard_state *state,
                                 const struct ps_checkpoint_parameter *keys,
                                 struct ps_error *error);
static enum ps_status check(const struct ps_checkpoint_parameter *keys,
                            const struct ps_checkpoint_parameter *matrix, struct ps_error *error);

/* The prefix by itself names nothing: such a tensor is refused with the names that no client may
 * use. */
static bool is_keys(const struct ps_checkpoint_parameter *row)
{
    return row->name.size > PREFIX_SIZE &&
           memcmp(row->name.data, PS_ARRAY_KEYS_PREFIX, PREFIX_SIZE) == 0;
}

/* The list stays sorted: it only loses rows. All tables are made before the first of them goes,
 * while names are where they were. */
enum ps_status imported_tables_join(struct shard_state *state, struct ps_error *error)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->count; i++)
        if (is_keys(&state->parameters[i]))
            PS_TRY(make_table(state, &state->parameters[i], error));
    for (size_t i = 0; i < state->count; i++) {
        const struct ps_checkpoint_parameter *row = &state->parameters[i];
        if (is_keys(row))
            continue;
        /* A table may have no rows: all that came to it has expired, or nobody has pushed yet.
         * Any other parameter has at least one element. */
        if (row->count == 0 && !row->is_table)
            return ps_fail(error, PS_ERR_UNSUPPORTED, "tensor %.100s has no element",
                           (const char *)row->name.data);
        state->parameters[kept++] = *row;
    }
    state->count = kept;
    return PS_OK;
}

/* A file has few tables, so that looking through the list for each of them costs nothing. */
static struct ps_checkpoint_parameter *find(struct shard_state *state, struct ps_bytes name)
{
    for (size_t i = 0; i < state->count; i++)
        if (ps_bytes_equal(state->parameters[i].name, name))
            return &state->parameters[i];
    return NULL;
}

/* The arrays lie in rooms of the state, one piece each, where they may be sorted. */
static uint8_t *array_of(const struct ps_checkpoint_parameter *table, uint32_t array)
{
    return (uint8_t *)(uintptr_t)ps_array_view(table, array).pieces[0].data;
}

/* The clock of a row is the version of its last push: 0, as the version of the table is. */
static enum ps_status make_table(struct shard_state *state,
                                 const struct ps_checkpoint_parameter *keys, struct ps_error *error)
{
    uint8_t *arrays[PS_CHECKPOINT_ARRAYS_MAX] = {0};
    /* Behind the prefix; it ends with the NUL of the whole name. */
    const struct ps_bytes name = {keys->name.data + PREFIX_SIZE, keys->name.size - PREFIX_SIZE};
    struct ps_checkpoint_parameter *table = find(state, name);
    if (table == NULL)
        return ps_fail(error, PS_ERR_CORRUPT, "tensor %.80s: there is no tensor %.80s",
                       (const char *)keys->name.data, (const char *)name.data);
    /* Nothing of the table is changed before all of it is known to fit. */
    PS_TRY(check(keys, table, error));
    size_t clock_bytes = (size_t)keys->count * sizeof(uint32_t);
    uint8_t *clock = shard_state_room(state, clock_bytes, 1, error);
    struct ps_bytes *piece = shard_state_room(state, 1, sizeof *piece, error);
    if (clock == NULL || piece == NULL)
        return PS_ERR_NO_MEMORY;
    *piece = (struct ps_bytes){clock, clock_bytes};
    /* The elements are counted as before: of a table they are rows times width. */
    table->is_table = true;
    table->rows = keys->count;
    table->width = (uint32_t)table->shape.lengths[1];
    table->shape = (struct ps_shape){0};
    table->keys = keys->values;
    table->clock = ps_view_of(piece);
    for (uint32_t i = 0; i < ps_array_count(table); i++)
        arrays[i] = array_of(table, i);
    return table_rows_sort(table, arrays, state->memory, error);
}

/* A list of one dimension has no shape of its own in a state. The type of the keys is a matter of
 * the program that wrote them: many know no unsigned numbers of 64 bits. */
static enum ps_status check(const struct ps_checkpoint_parameter *keys,
                            const struct ps_checkpoint_parameter *matrix, struct ps_error *error)
{
    const char *name = (const char *)matrix->name.data;
    if ((keys->dtype != PS_U64 && keys->dtype != PS_I64) || keys->shape.is_given)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "tensor %.100s: keys are one list of U64 or I64",
                       (const char *)keys->name.data);
    if (!matrix->shape.is_given || matrix->shape.rank != 2 || matrix->shape.lengths[1] == 0 ||
        matrix->shape.lengths[1] > PS_TABLE_WIDTH_MAX)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "tensor %.100s has keys: it is to be a matrix of 1 to %d columns", name,
                       PS_TABLE_WIDTH_MAX);
    /* The commonest mistake of who writes such a file: the keys of another epoch. */
    if (matrix->shape.lengths[0] != keys->count)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "tensor %.100s has %" PRIu64 " rows and %" PRIu64 " keys", name,
                       matrix->shape.lengths[0], keys->count);
    return PS_OK;
}

/* Behind the rule's configuration it is one message with that: protobuf joins what is written one
 * behind the other. */
enum ps_status imported_tables_config(struct shard_state *state,
                                      const struct ps_checkpoint_parameter *table,
                                      struct ps_bytes plain, struct ps_bytes *config,
                                      struct ps_error *error)
{
    /* A tag and a number of at most 4,096: three bytes, of which one is the tag, and two the
     * number. */
    char room[16];
    struct ps_buffer message, whole;
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_wire_put_uint(&message, FIELD_WIDTH, table->width);
    ps_buffer_init(&whole, state->memory, PS_CONFIG_BYTES_MAX);
    ps_buffer_append(&whole, plain);
    ps_wire_put_bytes(&whole, FIELD_TABLE,
                      (struct ps_bytes){(const uint8_t *)message.text, message.size});
    enum ps_status status = ps_buffer_status(&whole, error);
    /* The buffer is for writing alone; what lives as long as the state lies in its rooms. */
    if (status == PS_OK) {
        *config = shard_state_copy(
            state, (struct ps_bytes){(const uint8_t *)whole.text, whole.size}, error);
        status = config->data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
    }
    ps_buffer_fini(&whole);
    return status;
}
