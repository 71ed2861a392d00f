/* SPDX-License-Identifier: Apache-2.0 */
/* Nesterov's momentum: m <- mu m - (eta g + eta lambda p); p <- p + (mu m - eta g).
 *
 * As the reference has it: the decay acts through the velocity alone, so with mu = 0 it vanishes.
 * PyTorch's weight_decay, which acts in both places, is l2.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_NESTEROV_RULE_H
#define PS_OPTIMIZER_NESTEROV_RULE_H

#include "optimizer/momentum.rule.h"
#include "optimizer/rule.h"

#define NESTEROV_ONE(suffix, T, f)                                                                \
    PS_RULE void ps_nesterov_##suffix(const struct ps_step_##suffix *step, T *value, T *velocity, \
                                      T pushed)                                                   \
    {                                                                                             \
        T old = *value;                                                                           \
        T gradient = ps_gradient_##suffix(step, old, pushed);                                     \
        T faster = ps_velocity_##suffix(step, old, *velocity, gradient);                          \
        *velocity = faster;                                                                       \
        *value = old + (step->momentum * faster - step->rate * gradient);                         \
    }
PS_FLOAT_TABLE(NESTEROV_ONE)
#undef NESTEROV_ONE

#endif
