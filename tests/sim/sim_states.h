/* SPDX-License-Identifier: Apache-2.0 */
/* What a shard's whole state was at each position of each epoch, as hashes: what is loaded, what is
 * replayed and what a checkpoint has just been written of is compared with them. The functions that
 * note and compare are the checker's (sim_checker.h: state, loaded, wrote).
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "P3: ...", "P5: ...".
 * Memory:   its own, from the C library.
 */
#ifndef PS_TESTS_SIM_SIM_STATES_H
#define PS_TESTS_SIM_SIM_STATES_H

struct sim_states;

struct sim_states *sim_states_create(void);
void sim_states_destroy(struct sim_states *states);

#endif
