/* SPDX-License-Identifier: Apache-2.0 */
/* A whole push through the public calls, as the server makes it: scan, prepare, apply.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   as ps_optimizer_prepare.
 * Memory:   none.
 */
#ifndef PS_TESTS_OPTIMIZER_PUSH_H
#define PS_TESTS_OPTIMIZER_PUSH_H

#include "optimizer/optimizer.h"

struct pushed_parameter {
    const struct ps_optimizer_settings *settings;
    enum ps_dtype dtype;
    size_t count;
    void *values;
    void *states[PS_STATES_MAX];
    uint64_t step; /* of the last push */
};

/* Pushes in one run. */
static inline enum ps_status push(struct pushed_parameter *parameter, const void *gradient)
{
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    ps_optimizer_scan(parameter->settings, parameter->dtype, gradient, parameter->count, &scan);
    enum ps_status status = ps_optimizer_prepare(parameter->settings, parameter->dtype,
                                                 parameter->step + 1, 7, &scan, &step, NULL);
    if (status != PS_OK || step.skip)
        return status;
    parameter->step++;
    ps_optimizer_apply(&step, 0, parameter->count, parameter->values, parameter->states, gradient);
    return PS_OK;
}

/* Fills the states with what they start with. */
static inline void push_start(struct pushed_parameter *parameter)
{
    for (uint32_t i = 0; i < ps_rule_states(parameter->settings->rule); i++)
        ps_optimizer_fill(parameter->dtype, ps_optimizer_state_start(parameter->settings, i),
                          parameter->states[i], parameter->count);
}

#endif
