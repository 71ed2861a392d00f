/* SPDX-License-Identifier: Apache-2.0 */
/* Assign: p <- g, bit for bit.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ASSIGN_RULE_H
#define PS_OPTIMIZER_ASSIGN_RULE_H

#include "optimizer/rule.h"

#define ASSIGN_ONE(TAG, suffix, T, SUM, label)          \
    PS_RULE void ps_assign_##suffix(T *value, T pushed) \
    {                                                   \
        *value = pushed;                                \
    }
PS_DTYPE_TABLE(ASSIGN_ONE)
#undef ASSIGN_ONE

#endif
