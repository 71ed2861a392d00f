/* SPDX-License-Identifier: Apache-2.0 */
/* A state as other programs read it: tensors with names and shapes. A parameter is one, a table
 * two: its rows as a matrix under its name, and "ps.keys/NAME", whose element i is the key of row
 * i.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   the tensors view the state's arrays and live as long as the state.
 * / */
#ifndef PS_TOOLS_PLAIN_TENSORS_H
#define PS_TOOLS_PLAIN_TENSORS_H

#include "tools/psckpt/shard_state.h"

struct plain_tensors {
    struct ps_checkpoint_parameter *rows; /* no row is a table; keys stand behind their table */
    size_t count;
};

/* Fills `tensors` with everything that a sealed state holds, in the order of its names. The state
 * must not get further parameters as long as they are used. */
PS_MUST_USE enum ps_status plain_tensors_make(struct plain_tensors *tensors,
                                              struct shard_state *state, struct ps_error *error);

/* How many tensors from `i` on belong to one parameter: 2 where a table begins, otherwise 1. */
size_t plain_tensors_of_one(const struct plain_tensors *tensors, size_t i);

#endif
