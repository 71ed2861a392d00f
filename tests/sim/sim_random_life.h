/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a random world: what it is made of, and what goes wrong in it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none; a world that has failed says so itself.
 * Memory:   the world is the caller's.
 */
#ifndef PS_TESTS_SIM_RANDOM_LIFE_H
#define PS_TESTS_SIM_RANDOM_LIFE_H

#include "tests/sim/sim_parameters.h"

struct sim_life {
    struct sim_world *world;
    struct sim_parameter parameters[SIM_PARAMETERS_MAX];
    size_t parameter_count;
    char configs[SIM_PARAMETERS_MAX][SIM_CONFIG_BYTES_MAX];
    uint64_t faults;
};

/* Starts a trainer as chance has it: its pace, its clock, its encoding, its parts. */
void sim_life_start_client(struct sim_life *life, struct sim_client *client);

/* An event of the world (sim_post): server `subject` comes up, unless it is. */
void sim_life_start_server(struct sim_world *world, void *subject, uint64_t a, uint64_t b);

/* Faults at random times, for a minute. */
void sim_life_go_wrong(struct sim_life *life);

#endif
