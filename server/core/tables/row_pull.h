/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by their keys.
 *
 * Threads:  any, beside a push: each row is read whole.
 * Blocking: for the locks of stripes, each a few microseconds.
 * Errors:   PS_ERR_BAD_INPUT, PS_ERR_OUT_OF_RANGE, PS_ERR_NO_MEMORY; `to` is then undefined.
 * Memory:   some 20 bytes for each key during the call.
 */
#ifndef PS_SERVER_CORE_ROW_PULL_H
#define PS_SERVER_CORE_ROW_PULL_H

#include "base/bytes.h"
#include "server/core/tables/row_table.h"

/* Writes the values of the rows of `keys` (8 bytes each, in any order, also more than once) to
 * `to`, one behind the other in the order asked. A key that has no row gets its first values, and
 * no row is made. */
PS_MUST_USE enum ps_status ps_row_table_get(struct ps_row_table *table, struct ps_view keys,
                                            void *to, struct ps_error *error);

#endif
