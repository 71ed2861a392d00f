/* SPDX-License-Identifier: Apache-2.0 */
/* The names of checkpoints and the numbers of lives come from the system's random numbers; in a
 * world that is to repeat, these come from its seed, too.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TESTS_SIM_SIM_CHANCE_H
#define PS_TESTS_SIM_SIM_CHANCE_H

#include <stdint.h>

/* A world begins, and ends the one before. */
void sim_chance_begin(uint64_t seed);

#endif
