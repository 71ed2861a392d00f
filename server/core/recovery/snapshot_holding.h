/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot holds on to while its file is written: versions of parameters, and the rows by
 * which the writer of a checkpoint sees them.
 *
 * Threads:  one, but that pushes go on beside it.
 * Blocking: never; reading from a device waits for it.
 * Errors:   NULL without memory; reads return those of devices.
 * Memory:   the holding is one allocation of the service's memory, and owns what it names.
 */
#ifndef PS_SERVER_CORE_SNAPSHOT_HOLDING_H
#define PS_SERVER_CORE_SNAPSHOT_HOLDING_H

#include "checkpoint/checkpoint.h"
#include "server/core/recovery/clock_rows.h"
#include "server/core/recovery/snapshot_ages.h"
#include "server/core/recovery/snapshot_candidates.h"
#include "server/core/recovery/snapshot_rounds.h"
#include "server/core/requests/service_state.h"

struct ps_snapshot_holding {
    const struct ps_allocator *memory;
    uint64_t generation;    /* of the shard, in which the memory was reserved */
    uint64_t table_changes; /* of the service, up to then */
    uint64_t bytes;         /* of the host's memory that will be held */
    size_t capacity;
    size_t count; /* parameters that are held; of the others there may be a reservation */
    struct ps_checkpoint_parameter *parameters;
    struct ps_bytes *removed; /* of each parameter, owned; NULL: the instant is not marked */
    uint8_t *session_bytes;
    size_t session_size;
    struct ps_clock_rows *clocks; /* NULL: there are none */
    struct ps_snapshot_rounds *rounds;
    struct ps_snapshot_candidates *candidates;
    struct ps_snapshot_ages *ages;
    struct ps_parameter_version versions[];
};

/* Empty, with room for `capacity` parameters. NULL without memory. */
struct ps_snapshot_holding *ps_snapshot_holding_create(const struct ps_allocator *memory,
                                                       size_t capacity, bool is_marked);

/* Lets go of what is still held, and of every reservation. */
void ps_snapshot_holding_release(struct ps_snapshot_holding *holding);

/* When all is held: sorts the versions by name and makes their rows. */
void ps_snapshot_holding_describe(struct ps_snapshot_holding *holding);

/* For a watcher (ps_checkpoint_watcher), whose `self` is the holding: so much of an array is in the
 * file. */
void ps_snapshot_holding_let_go(void *self, size_t parameter, uint32_t array, uint64_t bytes);

#endif
