/* SPDX-License-Identifier: Apache-2.0 */
/* Adadelta: A <- rho A + (1 - rho) g g; u = sqrt(D + eps) / sqrt(A + eps) g;
 * D <- rho D + (1 - rho) u u; p <- p - (eta u + eta lambda p).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ADADELTA_RULE_H
#define PS_OPTIMIZER_ADADELTA_RULE_H

#include "optimizer/rule.h"

#define ADADELTA_ONE(suffix, T, f)                                                               \
    PS_RULE void ps_adadelta_##suffix(const struct ps_step_##suffix *step, T *value, T *squares, \
                                      T *updates, T pushed)                                      \
    {                                                                                            \
        T old = *value;                                                                          \
        T gradient = ps_gradient_##suffix(step, old, pushed);                                    \
        T mean = step->rho * *squares + step->rho_rest * (gradient * gradient);                  \
        T update = ps_root_##suffix(*updates + step->epsilon_inside) /                           \
                   ps_root_##suffix(mean + step->epsilon_inside) * gradient;                     \
        *squares = mean;                                                                         \
        *updates = step->rho * *updates + step->rho_rest * (update * update);                    \
        *value = old - (step->rate * update + ps_share_##suffix(step->shrink, old));             \
    }
PS_FLOAT_TABLE(ADADELTA_ONE)
#undef ADADELTA_ONE

#endif
