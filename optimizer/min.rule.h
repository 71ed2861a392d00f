/* SPDX-License-Identifier: Apache-2.0 */
/* The smaller of value and gradient, for all types. A NaN in either leaves the value as it is.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_MIN_RULE_H
#define PS_OPTIMIZER_MIN_RULE_H

#include "optimizer/rule.h"

#define MIN_ONE(TAG, suffix, T, SUM, label)          \
    PS_RULE void ps_min_##suffix(T *value, T pushed) \
    {                                                \
        *value = pushed < *value ? pushed : *value;  \
    }
PS_DTYPE_TABLE(MIN_ONE)
#undef MIN_ONE

#endif
