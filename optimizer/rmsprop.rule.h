/* SPDX-License-Identifier: Apache-2.0 */
/* RMSProp: A <- rho A + (1 - rho) g g; p <- p - eta g / (sqrt(A) + eps).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_RMSPROP_RULE_H
#define PS_OPTIMIZER_RMSPROP_RULE_H

#include "optimizer/rule.h"

#define RMSPROP_ONE(suffix, T, f)                                                                  \
    PS_RULE void ps_rmsprop_##suffix(const struct ps_step_##suffix *step, T *value, T *squares,    \
                                     T pushed)                                                     \
    {                                                                                              \
        T old = *value;                                                                            \
        T gradient = ps_gradient_##suffix(step, old, pushed);                                      \
        T mean = step->rho * *squares + step->rho_rest * (gradient * gradient);                    \
        *squares = mean;                                                                           \
        *value = old - step->rate * (gradient / (ps_root_##suffix(mean) + step->epsilon_outside)); \
    }
PS_FLOAT_TABLE(RMSPROP_ONE)
#undef RMSPROP_ONE

#endif
