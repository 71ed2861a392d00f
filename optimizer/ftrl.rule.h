/* SPDX-License-Identifier: Apache-2.0 */
/* FTRL-proximal: n' = n + g g; z <- z + g - (sqrt(n') - sqrt(n)) / eta p; n <- n';
 * p <- 0 where |z| <= l1, else (sign(z) l1 - z) / ((beta + sqrt(n)) / eta + ftrl_l2).
 *
 * sqrt(n') - sqrt(n) is computed as g g / (sqrt(n') + sqrt(n)), which does not cancel. Where
 * nothing holds a weight, beta, ftrl_l2 and n being 0 (also the square of a tiny gradient is), p is
 * 0 as well: the formula has no number there.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_FTRL_RULE_H
#define PS_OPTIMIZER_FTRL_RULE_H

#include "optimizer/rule.h"

#define FTRL_ONE(suffix, T, f)                                                               \
    PS_RULE void ps_ftrl_##suffix(const struct ps_step_##suffix *step, T *value, T *squares, \
                                  T *linear, T pushed)                                       \
    {                                                                                        \
        T gradient = ps_gradient_##suffix(step, *value, pushed);                             \
        T square = gradient * gradient;                                                      \
        T sum = *squares + square;                                                           \
        T root = ps_root_##suffix(sum);                                                      \
        T growth = square > (T)0 ? square / (root + ps_root_##suffix(*squares)) : square;    \
        T sigma = growth * step->rate_inverse;                                               \
        T pull = *linear + (gradient - sigma * *value);                                      \
        T hold = (step->ftrl_beta + root) * step->rate_inverse + step->ftrl_l2;              \
        T weight = ((pull > (T)0 ? step->l1 : -step->l1) - pull) / hold;                     \
        weight = hold == (T)0 ? (T)0 : weight;                                               \
        *squares = sum;                                                                      \
        *linear = pull;                                                                      \
        *value = ps_absolute_##suffix(pull) <= step->l1 ? (T)0 : weight;                     \
    }
PS_FLOAT_TABLE(FTRL_ONE)
#undef FTRL_ONE

#endif
