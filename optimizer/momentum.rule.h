/* SPDX-License-Identifier: Apache-2.0 */
/* Momentum: m <- mu m - (eta g + eta lambda p); p <- p + m.
 *
 * The state is the velocity, learning rate included. With a constant rate this is PyTorch's form
 * (b <- mu b + g; p <- p - eta b, where b = -m / eta); when the rate changes, PyTorch rescales what
 * has gathered and this, like the reference, does not.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_MOMENTUM_RULE_H
#define PS_OPTIMIZER_MOMENTUM_RULE_H

#include "optimizer/rule.h"

#define MOMENTUM_ONE(suffix, T, f)                                                                \
    PS_RULE T ps_velocity_##suffix(const struct ps_step_##suffix *step, T value, T velocity,      \
                                   T gradient)                                                    \
    {                                                                                             \
        return step->momentum * velocity -                                                        \
               (step->rate * gradient + ps_share_##suffix(step->shrink, value));                  \
    }                                                                                             \
    PS_RULE void ps_momentum_##suffix(const struct ps_step_##suffix *step, T *value, T *velocity, \
                                      T pushed)                                                   \
    {                                                                                             \
        T gradient = ps_gradient_##suffix(step, *value, pushed);                                  \
        T faster = ps_velocity_##suffix(step, *value, *velocity, gradient);                       \
        *velocity = faster;                                                                       \
        *value = *value + faster;                                                                 \
    }
PS_FLOAT_TABLE(MOMENTUM_ONE)
#undef MOMENTUM_ONE

#endif
