/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over all rows of a table: taking out those that nobody pushed to for long, and the
 * digest by which two tables are compared.
 *
 * Threads:  sweep: as a push. digest: while nobody pushes.
 * Blocking: sweep for the locks of stripes, each for the rows of one stripe: 0.3 ms for 40,000.
 * Errors:   none.
 * Memory:   none is needed: rows go from the index, not from their pages. The pages stay the
 *           table's, for rows to come.
 */
#ifndef PS_SERVER_CORE_ROW_SWEEP_H
#define PS_SERVER_CORE_ROW_SWEEP_H

#include "server/core/tables/row_table.h"

/* Takes out every row whose last push made a version below `before`, and says how many. `now` is
 * the parameter's version: rows know 32 bits of theirs, so that those of 2^32 versions ago and
 * more are taken for younger ones. Candidates go alike, and are not counted. */
uint64_t ps_row_table_sweep(struct ps_row_table *table, uint64_t before, uint64_t now);

/* The same for the same rows, whatever their order: keys, versions, values, states; and for the
 * same candidates. */
uint64_t ps_row_table_digest(struct ps_row_table *table);

#endif
