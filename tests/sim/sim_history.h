/* SPDX-License-Identifier: Apache-2.0 */
/* Every push that was applied to a shard, by whom, and which of them each owner began with.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   its own, from the C library.
 */
#ifndef PS_TESTS_SIM_SIM_HISTORY_H
#define PS_TESTS_SIM_SIM_HISTORY_H

struct sim_history;

struct sim_history *sim_history_create(void);
void sim_history_destroy(struct sim_history *history);

#endif
