/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on floats: p <- p - (eta g + eta lambda p).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_SGD_RULE_H
#define PS_OPTIMIZER_SGD_RULE_H

#include "optimizer/rule.h"

#define SGD_ONE(suffix, T, f)                                                             \
    PS_RULE void ps_sgd_##suffix(const struct ps_step_##suffix *step, T *value, T pushed) \
    {                                                                                     \
        T old = *value;                                                                   \
        T gradient = ps_gradient_##suffix(step, old, pushed);                             \
        *value = old - (step->rate * gradient + ps_share_##suffix(step->shrink, old));    \
    }
PS_FLOAT_TABLE(SGD_ONE)
#undef SGD_ONE

#endif
