/* SPDX-License-Identifier: Apache-2.0 */
/* One node's connection to the store, through a network that fails.
 *
 * Calls take no time here; what they would have taken adds up in `spent_ms`, and the node that made
 * them does nothing more until that time has passed.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   those of etcd/kv.h, at random or as asked.
 * Memory:   ps_kv_destroy ends it.
 */
#ifndef PS_TESTS_SIM_SIM_KV_H
#define PS_TESTS_SIM_SIM_KV_H

#include "tests/sim/sim.h"

struct sim_kv {
    struct ps_kv base; /* first: struct ps_kv points here */
    struct sim_world *world;
    struct ps_kv *inner; /* owned */
    uint32_t node;
    uint64_t spent_ms;
    enum sim_fate next_commit; /* of the next transaction; GOOD: as the world has it */
    struct ps_kv_lease kept;   /* LEASE_IMMORTAL: the lease kept last, and the claim that it held */
    int64_t kept_revision;
};

/* Aborts when memory is refused. */
struct sim_kv *sim_kv_create(struct sim_world *world, uint32_t node);

/* What was spent since the last call of this. */
uint64_t sim_kv_take_spent(struct sim_kv *kv);

#endif
