/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad: A <- A + g g; p <- p - (eta g / root + eta lambda p), root = sqrt(A + eps) or
 * sqrt(A) + eps. The old system's sign is eta and eta lambda negated by the caller.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ADAGRAD_RULE_H
#define PS_OPTIMIZER_ADAGRAD_RULE_H

#include "optimizer/rule.h"

#define ADAGRAD_ONE(suffix, T, f)                                                               \
    PS_RULE void ps_adagrad_##suffix(const struct ps_step_##suffix *step, T *value, T *squares, \
                                     T pushed)                                                  \
    {                                                                                           \
        T old = *value;                                                                         \
        T gradient = ps_gradient_##suffix(step, old, pushed);                                   \
        T sum = *squares + gradient * gradient;                                                 \
        T root = ps_root_##suffix(sum + step->epsilon_inside) + step->epsilon_outside;          \
        *squares = sum;                                                                         \
        *value = old - (step->rate * (gradient / root) + ps_share_##suffix(step->shrink, old)); \
    }
PS_FLOAT_TABLE(ADAGRAD_ONE)
#undef ADAGRAD_ONE

#endif
