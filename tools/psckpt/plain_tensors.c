/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of parameters are copied, their arrays are not. Optimizer state and clocks stay behind: they
 * are of use to servers only. */
#include "tools/psckpt/plain_tensors.h"

#include "checkpoint/array_layout.h"

#include <string.h>

static struct ps_checkpoint_parameter matrix_of(const struct ps_checkpoint_parameter *table);
static enum ps_status keys_of(struct shard_state *state,
                              const struct ps_checkpoint_parameter *table,
                              struct ps_checkpoint_parameter *keys, struct ps_error *error);

/* At most two tensors for a parameter. Their order is that of the state: a merged file sorts them
 * as its format wants them. */
enum ps_status plain_tensors_make(struct plain_tensors *tensors, struct shard_state *state,
                                  struct ps_error *error)
{
    *tensors = (struct plain_tensors){0};
    tensors->rows = shard_state_room(state, 2 * state->count, sizeof *tensors->rows, error);
    if (tensors->rows == NULL)
        return PS_ERR_NO_MEMORY;
    for (size_t i = 0; i < state->count; i++) {
        const struct ps_checkpoint_parameter *row = &state->parameters[i];
        if (!row->is_table) {
            tensors->rows[tensors->count++] = *row;
            continue;
        }
        tensors->rows[tensors->count++] = matrix_of(row);
        PS_TRY(keys_of(state, row, &tensors->rows[tensors->count++], error));
    }
    return PS_OK;
}

/* Two dimensions, also where rows have one element or there is no row: whoever loads embeddings
 * reads the width from the second. */
static struct ps_checkpoint_parameter matrix_of(const struct ps_checkpoint_parameter *table)
{
    struct ps_checkpoint_parameter matrix = *table;
    matrix.is_table = false;
    matrix.shape = ps_array_shape(table, 0);
    return matrix;
}

/* The name is the one that the checkpoint has: no parameter can have it. */
static enum ps_status keys_of(struct shard_state *state,
                              const struct ps_checkpoint_parameter *table,
                              struct ps_checkpoint_parameter *keys, struct ps_error *error)
{
    char name[PS_ARRAY_NAME_BYTES];
    uint32_t array = ps_array_of_keys(table);
    *keys = (struct ps_checkpoint_parameter){
        .dtype = PS_U64, .count = table->rows, .values = ps_array_view(table, array)};
    keys->name = shard_state_copy(state, ps_array_name(table, array, name), error);
    return keys->name.data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
}

/* Parameters cannot have the prefix, so a tensor that has one belongs to the table before it. */
size_t plain_tensors_of_one(const struct plain_tensors *tensors, size_t i)
{
    static const char prefix[] = PS_ARRAY_KEYS_PREFIX;
    if (i + 1 == tensors->count)
        return 1;
    struct ps_bytes next = tensors->rows[i + 1].name;
    bool is_of_keys =
        next.size >= sizeof prefix - 1 && memcmp(next.data, prefix, sizeof prefix - 1) == 0;
    return is_of_keys ? 2 : 1;
}
