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

#include <stdbool.h>
#include <stdint.h>

struct sim_history;

struct sim_history *sim_history_create(void);
void sim_history_destroy(struct sim_history *history);

/* Whether what stood at (epoch, position) is part of what the owner `of` has. */
bool sim_history_survives(const struct sim_history *history, uint64_t of, uint64_t epoch,
                          uint64_t position);

/* Whether the owner has loaded what a later one wrote, which only one does that is an owner no
 * more: nobody hears of what it has. */
bool sim_history_is_overtaken(const struct sim_history *history, uint64_t epoch);

#endif
