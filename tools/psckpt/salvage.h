/* SPDX-License-Identifier: Apache-2.0 */
/* Every tensor of a shard that is whole, by its own checksum, whatever else of its files is not.
 *
 * Each parameter is taken from the newest checkpoint in which it is whole, values and optimizer
 * state; then the records of the journal that are behind that are applied to it. An update touches
 * one parameter alone, so where the journal goes far enough back the result is the very state that
 * was lost. A parameter of which only the values are whole anywhere begins with a fresh optimizer
 * state. What is left out is listed.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   the state's.
 */
#ifndef PS_TOOLS_SALVAGE_H
#define PS_TOOLS_SALVAGE_H

#include "tools/psckpt/shard_state.h"

#include <stdio.h>

/* Checkpoints that are looked at, from the newest on. */
#define SALVAGE_FILES_MAX 16

struct salvage_wish {
    const struct toolbox *box;
    FILE *report; /* a line for each thing that is not whole */
};

/* A parameter of a newer checkpoint than the oldest that is used. */
struct salvage_birth {
    struct ps_bytes name;
    uint64_t birth; /* its own */
    uint64_t given; /* that it has in the state: the position up to which it has every record */
};

struct salvage {
    struct shard_state state;
    size_t parameter_count; /* that there were */
    size_t taken_count;     /* that are in the state */
    size_t fresh_count;     /* of these, with a fresh optimizer state */
    bool is_mixed;          /* not all are of one checkpoint */
    uint64_t newest;        /* the highest position of a checkpoint that something was taken from */
    struct salvage_birth *births; /* in a room of the state */
    size_t birth_count;
};

/* Takes what is whole of the checkpoints of `path`, a shard's folder or one file. The facts are
 * those of the oldest that something was taken from, so that the journal behind it has the rest.
 * Parameters of newer ones count as born at their position: a replay passes over every record that
 * they have in them, also over those that make no version. salvage_end gives them their own again.
 *
 * PS_OK               `salvage` has a sealed state; release it with shard_state_fini
 * PS_ERR_NOT_FOUND    there is no checkpoint
 * PS_ERR_CORRUPT      not one header, or not one parameter is whole
 * PS_ERR_UNSUPPORTED, PS_ERR_IO, PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status salvage_load(struct salvage *salvage, const struct salvage_wish *wish,
                                        const char *path, struct ps_error *error);

/* After the replay, or without one: `state` is the salvaged one, or what came of it. */
void salvage_end(const struct salvage *salvage, struct shard_state *state);

#endif
