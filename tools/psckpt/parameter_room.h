/* SPDX-License-Identifier: Apache-2.0 */
/* Where the arrays of one parameter are put before it is a row of a state. A table's rows are
 * sorted by key there, so that nothing behind depends on where rows lay: of a table in a state
 * every array is one piece, in the order of rising keys.
 *
 * Threads:  one.
 * Blocking: reading waits for the disk.
 * Errors:   PS_ERR_NO_MEMORY; those of checkpoint/checkpoint.h; PS_ERR_CORRUPT for a table that has
 *           a key twice.
 * Memory:   a room lives as long as the state that it was made in.
 * / */
#ifndef PS_TOOLS_PARAMETER_ROOM_H
#define PS_TOOLS_PARAMETER_ROOM_H

#include "checkpoint/array_layout.h"
#include "tools/psckpt/shard_state.h"

struct parameter_room {
    uint8_t *arrays[PS_CHECKPOINT_ARRAYS_MAX]; /* in the order of array_layout.h */
    struct ps_bytes *pieces;                   /* one of each array */
    uint32_t count;
    uint64_t size; /* of all arrays */
};

/* Room for the arrays that `about` describes. */
PS_MUST_USE enum ps_status parameter_room_make(struct parameter_room *room,
                                               struct shard_state *state,
                                               const struct ps_checkpoint_parameter *about,
                                               struct ps_error *error);

/* Fills the arrays with those of parameter `i`, each against its checksum; without `states` those
 * of the optimizer's state are left as they are, and the clock of a table's rows, where that is not
 * whole, is the table's version: they are as if all had been pushed to last. */
PS_MUST_USE enum ps_status parameter_room_read(const struct parameter_room *room,
                                               struct ps_checkpoint_reader *reader, size_t i,
                                               bool states, struct ps_error *error);

/* Fills the arrays from the source of `about`. */
PS_MUST_USE enum ps_status parameter_room_copy(const struct parameter_room *room,
                                               const struct ps_checkpoint_parameter *about,
                                               struct ps_error *error);

/* Sorts what was read, if `about` is a table, and makes the arrays the views of `row`, which has no
 * source afterwards. `about` and `row` may be one. */
PS_MUST_USE enum ps_status parameter_room_settle(const struct parameter_room *room,
                                                 const struct ps_checkpoint_parameter *about,
                                                 const struct ps_allocator *memory,
                                                 struct ps_checkpoint_parameter *row,
                                                 struct ps_error *error);

/* Settles `row`, and puts it behind the state's other parameters, for which `parameters` has space;
 * name and configurations are copied. */
PS_MUST_USE enum ps_status parameter_room_add(const struct parameter_room *room,
                                              struct shard_state *state,
                                              const struct ps_checkpoint_parameter *row,
                                              struct ps_error *error);

/* Copies the rows of all tables that a source reads into rooms of the state, sorted. */
PS_MUST_USE enum ps_status parameter_room_take_tables(struct shard_state *state,
                                                      struct ps_error *error);

#endif
