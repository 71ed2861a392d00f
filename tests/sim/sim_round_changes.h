/* SPDX-License-Identifier: Apache-2.0 */
/* How the rounds of parameters were configured since they came, with the places of it: which rules
 * an owner of the shard goes by is what survives of that in its past (sim_history.h).
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   its own, from the C library; zeroed: nothing was changed.
 */
#ifndef PS_TESTS_SIM_SIM_ROUND_CHANGES_H
#define PS_TESTS_SIM_SIM_ROUND_CHANGES_H

#include "tests/sim/sim_history.h"
#include "tests/sim/sim_rounds.h"

struct sim_round_change;

/* Of one shard. */
struct sim_round_changes {
    struct sim_round_change *list; /* owned */
    size_t count, capacity;
};

/* The rules of a parameter, and since when. */
struct sim_rules_now {
    struct sim_round_rules rules;
    uint64_t workers_since; /* the version at which its workers became others; UINT64_MAX: never */
    uint64_t quorum_order;  /* of the change of its quorum; 0: it was never changed */
};

void sim_round_changes_fini(struct sim_round_changes *changes);

/* The parameter was configured at that place, when it was at `version`. `order` rises with all that
 * is noted of a world's rounds. */
void sim_round_changes_note(struct sim_round_changes *changes, struct ps_bytes name, uint64_t epoch,
                            uint64_t position, struct sim_new_setting setting, uint64_t version,
                            uint64_t order);

/* As the owner of that epoch has them, who began with `first` and what survives. */
struct sim_rules_now sim_round_changes_at(const struct sim_round_changes *changes,
                                          const struct sim_history *history, uint64_t epoch,
                                          struct ps_bytes name,
                                          const struct sim_round_rules *first);

#endif
