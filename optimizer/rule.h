/* SPDX-License-Identifier: Apache-2.0 */
/* What every *.rule.h file stands on: one spelling of "a function of one element" for C, C++ and
 * CUDA, and the preparation of a float gradient.
 *
 * A float rule is written with + - * / sqrt, absolute value and compare-and-select alone; it calls
 * no pow, exp or log and has no branches. Source order is the order of evaluation. That is what
 * makes every build and the GPU give the same bits (README.md, "The bit contract").
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_RULE_H
#define PS_OPTIMIZER_RULE_H

#include "optimizer/optimizer.h"

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PS_RULE static __host__ __device__ inline
#else
#define PS_RULE static inline
#endif

#define PS_ROOT(suffix, T, f)                                           \
    PS_RULE T ps_root_##suffix(T x)                                     \
    {                                                                   \
        return sqrt##f(x);                                              \
    }                                                                   \
    PS_RULE T ps_absolute_##suffix(T x)                                 \
    {                                                                   \
        return fabs##f(x);                                              \
    }                                                                   \
    /* factor * x, but 0 for a factor of 0 even where x is infinite. */ \
    PS_RULE T ps_share_##suffix(T factor, T x)                          \
    {                                                                   \
        return factor != (T)0 ? factor * x : (T)0;                      \
    }
PS_FLOAT_TABLE(PS_ROOT)
#undef PS_ROOT

/* The gradient as a rule sees it: held in [-clip, clip], scaled by clip_norm, L2 decay added. */
#define PS_HOLD(suffix, T, f)                                                              \
    PS_RULE T ps_hold_##suffix(T clip, T pushed)                                           \
    {                                                                                      \
        T below = pushed > clip ? clip : pushed;                                           \
        return below < -clip ? -clip : below;                                              \
    }                                                                                      \
    PS_RULE T ps_gradient_##suffix(const struct ps_step_##suffix *step, T value, T pushed) \
    {                                                                                      \
        return ps_hold_##suffix(step->clip, pushed) * step->scale +                        \
               ps_share_##suffix(step->l2, value);                                         \
    }
PS_FLOAT_TABLE(PS_HOLD)
#undef PS_HOLD

#endif
