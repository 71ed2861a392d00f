/* SPDX-License-Identifier: Apache-2.0 */
/* Adam: m <- beta_1 m + (1 - beta_1) g; v <- beta_2 v + (1 - beta_2) g g;
 * p <- p - eta_t (m / root + lambda p), eta_t = eta sqrt(1 - beta_2^t) / (1 - beta_1^t).
 *
 * root = sqrt(v + eps) is the reference's; root = sqrt(v) + eps sqrt(1 - beta_2^t) is the same step
 * as PyTorch's eta / (1 - beta_1^t) m / (sqrt(v) / sqrt(1 - beta_2^t) + eps).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ADAM_RULE_H
#define PS_OPTIMIZER_ADAM_RULE_H

#include "optimizer/rule.h"

#define ADAM_ONE(suffix, T, f)                                                                     \
    /* Moves both moments and returns the direction of the step. */                                \
    PS_RULE T ps_adam_direction_##suffix(const struct ps_step_##suffix *step, T *first, T *second, \
                                         T gradient)                                               \
    {                                                                                              \
        T mean = step->beta_1 * *first + step->beta_1_rest * gradient;                             \
        T square = step->beta_2 * *second + step->beta_2_rest * (gradient * gradient);             \
        *first = mean;                                                                             \
        *second = square;                                                                          \
        return mean / (ps_root_##suffix(square + step->epsilon_inside) + step->epsilon_outside);   \
    }                                                                                              \
    PS_RULE void ps_adam_##suffix(const struct ps_step_##suffix *step, T *value, T *first,         \
                                  T *second, T pushed)                                             \
    {                                                                                              \
        T old = *value;                                                                            \
        T gradient = ps_gradient_##suffix(step, old, pushed);                                      \
        T direction = ps_adam_direction_##suffix(step, first, second, gradient);                   \
        *value = old - step->step * (direction + ps_share_##suffix(step->decay, old));             \
    }
PS_FLOAT_TABLE(ADAM_ONE)
#undef ADAM_ONE

#endif
