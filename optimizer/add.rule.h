/* SPDX-License-Identifier: Apache-2.0 */
/* Add: p <- p + g. On floats one IEEE addition; whole numbers saturate or wrap.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ADD_RULE_H
#define PS_OPTIMIZER_ADD_RULE_H

#include "optimizer/rule.h"

/* Wrapping goes through the unsigned type, where it is defined. */
#define WRAP_ONE(TAG, suffix, T, SUM, label)                  \
    PS_RULE T ps_wrapped_##suffix(T value, T pushed)          \
    {                                                         \
        return (T)((SUM)value + (SUM)pushed);                 \
    }                                                         \
    PS_RULE void ps_add_wrapping_##suffix(T *value, T pushed) \
    {                                                         \
        *value = ps_wrapped_##suffix(*value, pushed);         \
    }
PS_DTYPE_TABLE(WRAP_ONE)
#undef WRAP_ONE

/* Two numbers of one sign whose wrapped sum has the other. */
#define SIGNED_OVERFLOW(suffix, T, U, least, greatest)       \
    PS_RULE int ps_add_overflows_##suffix(T value, T pushed) \
    {                                                        \
        T sum = ps_wrapped_##suffix(value, pushed);          \
        return ((value ^ sum) & (pushed ^ sum)) < 0;         \
    }                                                        \
    PS_RULE T ps_limit_##suffix(T value)                     \
    {                                                        \
        return value < 0 ? least : greatest;                 \
    }
PS_SIGNED_TABLE(SIGNED_OVERFLOW)
#undef SIGNED_OVERFLOW

#define UNSIGNED_OVERFLOW(suffix, T, twin, TWIN, greatest)   \
    PS_RULE int ps_add_overflows_##suffix(T value, T pushed) \
    {                                                        \
        return ps_wrapped_##suffix(value, pushed) < value;   \
    }                                                        \
    PS_RULE T ps_limit_##suffix(T value)                     \
    {                                                        \
        (void)value;                                         \
        return greatest;                                     \
    }
PS_UNSIGNED_TABLE(UNSIGNED_OVERFLOW)
#undef UNSIGNED_OVERFLOW

#define FLOAT_OVERFLOW(suffix, T, f)                         \
    PS_RULE int ps_add_overflows_##suffix(T value, T pushed) \
    {                                                        \
        (void)value;                                         \
        (void)pushed;                                        \
        return 0;                                            \
    }                                                        \
    PS_RULE T ps_limit_##suffix(T value)                     \
    {                                                        \
        return value;                                        \
    }
PS_FLOAT_TABLE(FLOAT_OVERFLOW)
#undef FLOAT_OVERFLOW

#define ADD_ONE(TAG, suffix, T, SUM, label)                                                   \
    PS_RULE void ps_add_saturating_##suffix(T *value, T pushed)                               \
    {                                                                                         \
        T sum = ps_wrapped_##suffix(*value, pushed);                                          \
        *value = ps_add_overflows_##suffix(*value, pushed) ? ps_limit_##suffix(*value) : sum; \
    }
PS_DTYPE_TABLE(ADD_ONE)
#undef ADD_ONE

#endif
