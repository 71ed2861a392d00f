/* SPDX-License-Identifier: Apache-2.0 */
/* The whole state of one shard in memory, read from a file, replayed or made.
 *
 * Threads:  one.
 * Blocking: reading and writing wait for the disk.
 * Errors:   PS_ERR_NO_MEMORY; those of checkpoint/checkpoint.h.
 * Memory:   everything that a state points to lives until shard_state_fini: in its rooms, in the
 *           service that replayed it, or, as said where it is so, in another state.
 */
#ifndef PS_TOOLS_SHARD_STATE_H
#define PS_TOOLS_SHARD_STATE_H

#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service.h"
#include "tools/psckpt/toolbox.h"

struct shard_room;

struct shard_state {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_checkpoint_facts facts;
    struct ps_checkpoint_parameter *parameters; /* sorted by name once sealed */
    size_t count;
    struct ps_checkpoint_place place; /* where it was written last; path "": nowhere */
    struct shard_room *rooms;         /* private: memory that goes with the state */
    struct ps_service *service;       /* private: what replayed it; owned; may be NULL */
    struct ps_snapshot snapshot;      /* private */
};

/* Empty, with job "". */
void shard_state_init(struct shard_state *state, const struct ps_allocator *memory);

/* Accepts a zeroed state. */
void shard_state_fini(struct shard_state *state);

/* `count * size` zeroed bytes that live as long as the state; NULL with `error` filled. */
void *shard_state_room(struct shard_state *state, size_t count, size_t size,
                       struct ps_error *error);

/* A copy of `bytes` with a NUL behind them that lives as long as the state; data is NULL, with
 * `error` filled, when memory is refused. */
struct ps_bytes shard_state_copy(struct shard_state *state, struct ps_bytes bytes,
                                 struct ps_error *error);

/* Puts `row` behind the state's other parameters, for which `parameters` has space; name,
 * configurations and ages are copied. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status shard_state_add(struct shard_state *state,
                                           const struct ps_checkpoint_parameter *row,
                                           struct ps_error *error);

/* Reads a checkpoint file, with every checksum, into an empty state, and seals it. */
PS_MUST_USE enum ps_status shard_state_read(struct shard_state *state, const struct toolbox *box,
                                            const char *path, struct ps_error *error);

/* Sorts the parameters. PS_ERR_CORRUPT when two have one name. */
PS_MUST_USE enum ps_status shard_state_seal(struct shard_state *state, struct ps_error *error);

/* PS_ERR_EXISTS when `folder` is there and holds anything. */
PS_MUST_USE enum ps_status shard_state_check_unused(const struct ps_files *files,
                                                    const char *folder,
                                                    const struct ps_allocator *memory,
                                                    struct ps_error *error);

/* Writes the state as a checkpoint into `folder`, which must be unused (PS_ERR_EXISTS). The
 * uuid is made from the state, so that equal states give equal files. */
PS_MUST_USE enum ps_status shard_state_write(struct shard_state *state,
                                             const struct ps_files *files, const char *folder,
                                             struct ps_checkpoint_place *place,
                                             struct ps_error *error);

#endif
