/* SPDX-License-Identifier: Apache-2.0 */
/* Several gradients of one key of a table become one, which the rule then sees. A server makes one
 * of those that a push brings; a client already, of a key whose gradients are too many for a
 * message. Both must make the same of them.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_REPEATS_H
#define PS_OPTIMIZER_REPEATS_H

#include "base/dtype.h"
#include "optimizer/settings.h"

#include <stddef.h>

enum ps_row_repeats {
    PS_ROW_SUM,      /* added up in the order of arrival; whole numbers wrap */
    PS_ROW_LAST,     /* the last one counts: for PS_RULE_ASSIGN */
    PS_ROW_GREATEST, /* for PS_RULE_MAX */
    PS_ROW_LEAST     /* for PS_RULE_MIN */
};

/* What would come of them one after another, where the rule is made so; else their sum. */
enum ps_row_repeats ps_row_repeats_of(enum ps_rule rule);

/* Joins `next`, which came behind all that are in `joined`: `width` elements each, of any
 * alignment. */
void ps_row_repeat(enum ps_row_repeats repeats, enum ps_dtype dtype, size_t width, void *joined,
                   const void *next);

#endif
