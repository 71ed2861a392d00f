/* SPDX-License-Identifier: Apache-2.0 */
/* What a version of a parameter in rounds makes of its contributions: the arithmetic of
 * sim_rounds.h, in the parameter's own type, so that bits can be compared.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TESTS_SIM_SIM_ROUND_SUMS_H
#define PS_TESTS_SIM_SIM_ROUND_SUMS_H

#include "tests/sim/sim_rounds.h"

struct sim_round_term {
    double gradient;
    float weight;
};

/* In the order of ranks; `is_alone`: one push without a round, which is applied as it is. */
struct sim_round_sum {
    struct sim_round_term terms[SIM_CLIENTS_MAX];
    size_t count;
    bool is_alone;
};

struct sim_round_value {
    double value, momentum;
};

/* Of values, and of a gradient as it came, whose elements are equal. */
double sim_round_first(struct ps_view view, enum ps_dtype dtype);
double sim_round_gradient(const struct ps_push_request *request);

/* The next version. */
void sim_round_step(const struct sim_round_rules *rules, enum ps_dtype dtype,
                    const struct sim_round_sum *sum, struct sim_round_value *value);

#endif
