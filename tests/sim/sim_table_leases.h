/* SPDX-License-Identifier: Apache-2.0 */
/* For how long each shard has had an owner with a lease. Nobody can push to rows while it has none,
 * so that they may not age then: what a server counts of that is compared with what is counted
 * here, from outside, over all servers that the shard ever had. Of the time between a checkpoint
 * and the start from it a server may count a sixteenth of a table's span: so starts are counted.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place. Zeroed: no shard has had any.
 */
#ifndef PS_TESTS_SIM_SIM_TABLE_LEASES_H
#define PS_TESTS_SIM_SIM_TABLE_LEASES_H

#include "tests/sim/sim.h"

struct sim_leases {
    uint64_t served_ms[SIM_SHARDS_MAX]; /* until the last look ... */
    uint64_t until_ms[SIM_SHARDS_MAX];  /* ... at which a lease was proved until then; 0: none */
    uint64_t looked_ms;
    uint64_t epochs[SIM_SHARDS_MAX]; /* of the last owner */
    uint64_t starts[SIM_SHARDS_MAX];
};

/* After every event: between two of them nothing is proved. */
void sim_leases_look(struct sim_leases *leases, const struct sim_world *world);

/* Of all time up to now. */
uint64_t sim_leases_served_ms(const struct sim_leases *leases, uint32_t index, uint64_t now_ms);

/* How many owners the shard has had. */
uint64_t sim_leases_starts(const struct sim_leases *leases, uint32_t index);

#endif
