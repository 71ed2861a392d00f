/* SPDX-License-Identifier: Apache-2.0 */
/* A world made from a seed: random sizes, random faults for a while, then everything is healed and
 * it must make progress.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the first promise that was broken, in words.
 * Memory:   all of it is given back.
 */
#ifndef PS_TESTS_SIM_SIM_RANDOM_WORLD_H
#define PS_TESTS_SIM_SIM_RANDOM_WORLD_H

#include "tests/sim/sim.h"

/* What one world came to, for the reader to see that something happened at all. */
struct sim_world_report {
    bool failed;
    char failure[512];
    uint64_t simulated_ms;
    uint64_t rounds; /* pulls that went well, of all clients */
    uint64_t faults;
    uint64_t claims;
};

/* Lives one world through. `trace` is NULL, or gets the trace; it is the caller's to free. */
void sim_random_world(uint64_t seed, enum sim_mutation mutation, struct sim_world_report *report,
                      char **trace);

#endif
