/* SPDX-License-Identifier: Apache-2.0 */
/* What may stand in the settings of a table. Part of ps_optimizer_settings_check.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT; the text names the number, and what it may be.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_TABLE_CHECK_H
#define PS_OPTIMIZER_TABLE_CHECK_H

#include "optimizer/settings.h"

/* PS_OK for settings that are no table's, unless they ask for what only tables have. */
PS_MUST_USE enum ps_status ps_table_check(const struct ps_optimizer_settings *settings,
                                          enum ps_dtype dtype, struct ps_error *error);

#endif
