/* SPDX-License-Identifier: Apache-2.0 */
/* One answer for writer, reader and tools to every question about an array. Of a table three sorts
 * of arrays differ from the values: keys and clock have a type of their own and one element for
 * each row, and so has a state that the rule keeps for whole rows. */
#include "checkpoint/array_layout.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A table has two arrays that no other parameter has, and has them also while it is without rows:
 * how many arrays there are never depends on what was pushed. */
uint32_t ps_array_count(const struct ps_checkpoint_parameter *parameter)
{
    PS_ASSERT(parameter->state_count <= PS_STATES_MAX);
    return 1 + parameter->state_count + (parameter->is_table ? 2 : 0);
}

/* Never of fewer rows than none: a table of which nothing but keys went has all its arrays, empty,
 * so that the reader of any file goes over the same arrays. */
uint32_t ps_array_carried(const struct ps_checkpoint_parameter *parameter)
{
    /* Also of a table: what the base has of it is there with its keys. */
    if (parameter->carry == PS_CARRY_AS_BASE)
        return 0;
    return ps_array_count(parameter) + (parameter->removed.size > 0 ? 1 : 0);
}

/* Keys that went are no array of the table itself. */
static bool is_of_removed(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    PS_ASSERT(array < ps_array_count(parameter) || parameter->removed.size > 0);
    PS_ASSERT(array <= ps_array_count(parameter));
    return array == ps_array_count(parameter);
}

/* Behind the states, so that values and states have the numbers that they have of every
 * parameter. */
uint32_t ps_array_of_keys(const struct ps_checkpoint_parameter *parameter)
{
    PS_ASSERT(parameter->is_table);
    return 1 + parameter->state_count;
}

/* The low 32 bits of a version are enough for a clock: rows are compared with each other, and with
 * the version of the whole table. */
enum ps_dtype ps_array_dtype(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    if (array <= parameter->state_count)
        return parameter->dtype;
    return array == ps_array_of_keys(parameter) || is_of_removed(parameter, array) ? PS_U64
                                                                                   : PS_U32;
}

/* Is it an array of a table with one element for each row, and one dimension? */
static bool is_of_rows(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    return array > parameter->state_count;
}

/* A state of row-wise rules, of two dimensions, the second of 1. */
static bool is_one_of_row(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    return parameter->is_table && array > 0 && array <= parameter->state_count &&
           parameter->state_is_one[array - 1];
}

/* Whatever `count` says, keys are counted by rows: the two are the same of a table of width 1. */
uint64_t ps_array_elements(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    if (is_of_removed(parameter, array))
        return parameter->removed.size / sizeof(uint64_t);
    if (is_of_rows(parameter, array) || is_one_of_row(parameter, array))
        return parameter->rows;
    return parameter->count;
}

/* No product wraps here: the writer asserts how many rows there are, and the reader compares them
 * with its file. */
uint64_t ps_array_bytes(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    return ps_array_elements(parameter, array) * ps_dtype_size(ps_array_dtype(parameter, array));
}

/* Also of a state that the rule keeps for whole rows, whatever the width is. */
uint64_t ps_array_row_bytes(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    PS_ASSERT(parameter->is_table && array < ps_array_count(parameter));
    bool is_one = is_of_rows(parameter, array) || is_one_of_row(parameter, array);
    return (is_one ? 1 : (uint64_t)parameter->width) *
           ps_dtype_size(ps_array_dtype(parameter, array));
}

/* There are elements of 4 and of 8 bytes and no others. */
bool ps_array_is_wide(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    return ps_dtype_size(ps_array_dtype(parameter, array)) == 8;
}

/* Views stand in the struct by name, as they did before there were tables; loops over all arrays
 * want them by number. */
struct ps_view ps_array_view(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    if (is_of_removed(parameter, array))
        return parameter->removed;
    if (is_of_rows(parameter, array))
        return array == ps_array_of_keys(parameter) ? parameter->keys : parameter->clock;
    return array == 0 ? parameter->values : parameter->states[array - 1];
}

/* For whoever has read an array: the size is compared with the count when the row is written. */
void ps_array_set_view(struct ps_checkpoint_parameter *parameter, uint32_t array,
                       struct ps_view view)
{
    PS_ASSERT(array < ps_array_count(parameter));
    if (is_of_rows(parameter, array))
        *(array == ps_array_of_keys(parameter) ? &parameter->keys : &parameter->clock) = view;
    else
        *(array == 0 ? &parameter->values : &parameter->states[array - 1]) = view;
}

/* A table without rows has two dimensions all the same, so that whoever reads the file learns the
 * width from any table. */
struct ps_shape ps_array_shape(const struct ps_checkpoint_parameter *parameter, uint32_t array)
{
    /* A range of a cut parameter has the shape of the whole, which no tensor of the file has. */
    if (!parameter->is_table)
        return ps_shape_of_tensor(&parameter->shape, parameter->count);
    if (is_of_rows(parameter, array) || is_of_removed(parameter, array))
        return (struct ps_shape){0};
    uint64_t width = is_one_of_row(parameter, array) ? 1 : parameter->width;
    return (struct ps_shape){.is_given = true, .rank = 2, .lengths = {parameter->rows, width}};
}

/* "NAME" for values, a reserved prefix for everything else: a parameter cannot have the name of
 * another one's state or keys. */
struct ps_bytes ps_array_name(const struct ps_checkpoint_parameter *parameter, uint32_t array,
                              char name[PS_ARRAY_NAME_BYTES])
{
    PS_ASSERT(parameter->name.size <= PS_NAME_BYTES_MAX);
    int prefix = 0;
    if (is_of_removed(parameter, array))
        prefix = snprintf(name, PS_ARRAY_NAME_BYTES, "%s", PS_ARRAY_REMOVED_PREFIX);
    else if (is_of_rows(parameter, array))
        prefix = snprintf(name, PS_ARRAY_NAME_BYTES, "%s",
                          array == ps_array_of_keys(parameter) ? PS_ARRAY_KEYS_PREFIX
                                                               : PS_ARRAY_CLOCK_PREFIX);
    else if (array > 0)
        prefix =
            snprintf(name, PS_ARRAY_NAME_BYTES, PS_ARRAY_STATE_PREFIX "%" PRIu32 "/", array - 1);
    PS_ASSERT(prefix >= 0);
    memcpy(name + prefix, parameter->name.data, parameter->name.size);
    name[(size_t)prefix + parameter->name.size] = '\0';
    return (struct ps_bytes){(const uint8_t *)name, (size_t)prefix + parameter->name.size};
}
