/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of one parameter in a checkpoint file: how many there are, of which type, how large,
 * and under which names. Arrays are counted as checkpoint.h says: values, states, and of a table
 * keys and clock.
 *
 * In the file all arrays of 8-byte elements stand before all of 4-byte elements, so that each is
 * aligned to its element without gaps; among equals they stand in the order of the parameters
 * (ps_header_order), and those of one parameter in their own.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_ARRAY_LAYOUT_H
#define PS_CHECKPOINT_ARRAY_LAYOUT_H

#include "checkpoint/checkpoint.h"

/* What tensor names begin with: of optimizer state this, the number of the state, a slash; of what
 * belongs to a table these alone. The last has a file that adds to another, of tables whose rows
 * went since. */
#define PS_ARRAY_STATE_PREFIX "ps.state/"
#define PS_ARRAY_KEYS_PREFIX "ps.keys/"
#define PS_ARRAY_CLOCK_PREFIX "ps.clock/"
#define PS_ARRAY_REMOVED_PREFIX "ps.removed/"

/* Room for the tensor name of any array, NUL included. */
#define PS_ARRAY_NAME_BYTES (PS_NAME_BYTES_MAX + 32)

uint32_t ps_array_count(const struct ps_checkpoint_parameter *parameter);

/* Arrays that a file has of the parameter: the same, but none where the file's base has them, and
 * one more, behind all others, where rows of the base went (`removed` is not empty). The functions
 * below know that one too. */
#define PS_ARRAYS_CARRIED_MAX (PS_CHECKPOINT_ARRAYS_MAX + 1)
uint32_t ps_array_carried(const struct ps_checkpoint_parameter *parameter);

/* The number of a table's keys; its clock is behind them. */
uint32_t ps_array_of_keys(const struct ps_checkpoint_parameter *parameter);

enum ps_dtype ps_array_dtype(const struct ps_checkpoint_parameter *parameter, uint32_t array);
uint64_t ps_array_elements(const struct ps_checkpoint_parameter *parameter, uint32_t array);
uint64_t ps_array_bytes(const struct ps_checkpoint_parameter *parameter, uint32_t array);

/* Bytes that a row has in an array of a table, also while there is none. */
uint64_t ps_array_row_bytes(const struct ps_checkpoint_parameter *parameter, uint32_t array);

/* Has it 8-byte elements? */
bool ps_array_is_wide(const struct ps_checkpoint_parameter *parameter, uint32_t array);

/* Where the parameter says the array's bytes to be, unless it is given by a source. */
struct ps_view ps_array_view(const struct ps_checkpoint_parameter *parameter, uint32_t array);
void ps_array_set_view(struct ps_checkpoint_parameter *parameter, uint32_t array,
                       struct ps_view view);

/* The shape of the array's tensor; not given where one length says it. */
struct ps_shape ps_array_shape(const struct ps_checkpoint_parameter *parameter, uint32_t array);

/* The name of the array's tensor, NUL-terminated, in `name`. */
struct ps_bytes ps_array_name(const struct ps_checkpoint_parameter *parameter, uint32_t array,
                              char name[PS_ARRAY_NAME_BYTES]);

#endif
