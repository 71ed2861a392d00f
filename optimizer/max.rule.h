/* SPDX-License-Identifier: Apache-2.0 */
/* The greater of value and gradient, for all types. A NaN in either leaves the value as it is.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_MAX_RULE_H
#define PS_OPTIMIZER_MAX_RULE_H

#include "optimizer/rule.h"

#define MAX_ONE(TAG, suffix, T, SUM, label)          \
    PS_RULE void ps_max_##suffix(T *value, T pushed) \
    {                                                \
        *value = pushed > *value ? pushed : *value;  \
    }
PS_DTYPE_TABLE(MAX_ONE)
#undef MAX_ONE

#endif
