/* SPDX-License-Identifier: Apache-2.0 */
/* Workers with clocks: after each push that followed a read at its clock a trainer has ended an
 * iteration, says so to every shard, and says it again until it is answered. Its pulls are those of
 * a worker at that clock. Settings and clocks go past the engine: they are numbered by themselves.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none; what servers make of it is looked at in sim_clocks_told.h.
 * Memory:   in the client.
 */
#ifndef PS_TESTS_SIM_SIM_CLOCKS_H
#define PS_TESTS_SIM_SIM_CLOCKS_H

#include "tests/sim/sim_client.h"

#define SIM_CLOCKS_NAME "k"

/* The trainer is a worker from now on, when the world has clocks. */
void sim_clocks_join(struct sim_client *client);

/* The items of a pull that is about to begin: some are read at the trainer's clock. */
void sim_clocks_read(struct sim_client *client);

/* A batch is over. */
void sim_clocks_note(struct sim_client *client);

#endif
