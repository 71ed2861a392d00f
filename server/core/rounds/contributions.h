/* SPDX-License-Identifier: Apache-2.0 */
/* What a parameter that is trained in rounds has besides its values: the open round, and the
 * contributions to it, decoded, until it ends. Those to a table are rows, each worker's own.
 *
 * Threads:  any, with the lock, which is taken before the parameter's.
 * Blocking: for the lock, which is held while a round ends.
 * Errors:   said at each function.
 * Memory:   as many contributions as workers at most, each as large as the values:
 *           ps_contributions_bytes_max, which counts with the parameter. Those of rows count
 *           themselves (held_rows.h).
 */
#ifndef PS_SERVER_CORE_CONTRIBUTIONS_H
#define PS_SERVER_CORE_CONTRIBUTIONS_H

#include "base/thread.h"
#include "server/core/rounds/held_rows.h"
#include "server/core/rounds/round.h"
#include "server/core/values/blocks.h"

/* One gradient that waits for the others, in the parameter's type. Both references are NULL where
 * the worker has not contributed. */
struct ps_contribution {
    struct ps_blocks *values;  /* a reference; of a table NULL */
    struct ps_held_rows *rows; /* a reference; of a table alone */
    float weight;
};

static inline bool ps_contribution_is_held(const struct ps_contribution *one)
{
    return one->values != NULL || one->rows != NULL;
}

/* Bytes that it takes while it is held; of none 0. */
uint64_t ps_contribution_bytes(const struct ps_contribution *one);

/* Gives back what it holds; accepts zeros. */
void ps_contribution_release(const struct ps_contribution *one);

struct ps_contributions {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_mutex lock;              /* PS_RANK_ROUND; guards all that follows */
    struct ps_round round;
    /* Of the record of the last round that ended here, or of the configuration with which these
     * workers came; 0: neither was here. A version is told when that is durable. */
    uint64_t position;
    struct ps_contribution held[]; /* by rank */
};

/* Returns those of a parameter with so many workers, none yet; NULL when memory is refused. */
struct ps_contributions *ps_contributions_create(const struct ps_allocator *memory,
                                                 uint32_t workers);

/* Takes it; NULL is allowed. */
void ps_contributions_destroy(struct ps_contributions *contributions);

/* What they take at most; of a table 0, which has no size before its rows come. */
uint64_t ps_contributions_bytes_max(const struct ps_parameter_spec *spec);

/* Takes the references of `one`: the contribution of a worker that has none. With the lock. */
void ps_contributions_hold(struct ps_contributions *contributions, uint32_t worker,
                           const struct ps_contribution *one, uint64_t now_ms);

/* Bytes of all that are held. With the lock, or while nobody contributes. */
uint64_t ps_contributions_held_bytes(const struct ps_contributions *contributions);

/* The open round has ended: what is held goes, and this set is evicted. With the lock. */
void ps_contributions_next(struct ps_contributions *contributions, const uint8_t *evicted);

/* Asserts every invariant; takes the lock. */
void ps_contributions_check(struct ps_contributions *contributions);

#endif
