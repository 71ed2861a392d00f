/* SPDX-License-Identifier: Apache-2.0 */
/* The outer step of training that is local for a while: v <- mu v + g; p <- p - eta (g + mu v).
 *
 * Workers train a copy each for some steps and push how far it went, the value that they began with
 * minus the one that they ended with; the average of these pseudo-gradients is g. With eta 0.7 and
 * mu 0.9 this is the outer optimizer of DiLoCo (Douillard et al. 2023, arXiv 2311.08105, algorithm
 * 1), with eta 1 and mu 0 the mean of the copies (local SGD, federated averaging).
 *
 * The formula is that of torch.optim.SGD(nesterov=True), with every rate: v is a sum of gradients,
 * and what has gathered takes the rate of the step that applies it. The rule nesterov keeps the
 * rate inside its velocity, and is equal only as long as the rate stays as it is.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_OUTER_RULE_H
#define PS_OPTIMIZER_OUTER_RULE_H

#include "optimizer/rule.h"

#define OUTER_ONE(suffix, T, f)                                                             \
    PS_RULE void ps_outer_##suffix(const struct ps_step_##suffix *step, T *value, T *moved, \
                                   T pushed)                                                \
    {                                                                                       \
        T old = *value;                                                                     \
        T gradient = ps_gradient_##suffix(step, old, pushed);                               \
        T gathered = step->momentum * *moved + gradient;                                    \
        *moved = gathered;                                                                  \
        *value = old - step->rate * (gradient + step->momentum * gathered);                 \
    }
PS_FLOAT_TABLE(OUTER_ONE)
#undef OUTER_ONE

#endif
