/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW: p <- p - (eta_t m / root + eta lambda p), moments and eta_t as in Adam,
 * root = sqrt(v) + eps sqrt(1 - beta_2^t).
 *
 * PyTorch multiplies p by (1 - eta lambda), which in float32 is a number next to 1 with few bits of
 * eta lambda left; the difference taken here keeps them.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ADAMW_RULE_H
#define PS_OPTIMIZER_ADAMW_RULE_H

#include "optimizer/adam.rule.h"
#include "optimizer/rule.h"

#define ADAMW_ONE(suffix, T, f)                                                             \
    PS_RULE void ps_adamw_##suffix(const struct ps_step_##suffix *step, T *value, T *first, \
                                   T *second, T pushed)                                     \
    {                                                                                       \
        T old = *value;                                                                     \
        T gradient = ps_gradient_##suffix(step, old, pushed);                               \
        T direction = ps_adam_direction_##suffix(step, first, second, gradient);            \
        *value = old - (step->step * direction + ps_share_##suffix(step->shrink, old));     \
    }
PS_FLOAT_TABLE(ADAMW_ONE)
#undef ADAMW_ONE

#endif
