/* SPDX-License-Identifier: Apache-2.0 */
/* Rows out of a checkpoint, into a table that nobody else has yet.
 *
 * Threads:  ps_row_table_load from several at once, each with rows of its own; everything else from
 *           one, before or behind all of those.
 * Blocking: for other threads that load rows of the same stripes, or make a stripe larger.
 * Errors:   as said below; the table is then good for ps_row_table_destroy alone.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_SERVER_CORE_ROW_LOAD_H
#define PS_SERVER_CORE_ROW_LOAD_H

#include "server/core/tables/row_table.h"

#include <stddef.h>

/* Before the first rows: the table, which is empty, was saved at `version`, from which the ages of
 * rows and of candidates count. So many rows will be loaded: their index is made in one go, which
 * is no promise of theirs. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_row_table_expect(struct ps_row_table *table, uint64_t rows,
                                               uint64_t version, struct ps_error *error);

/* Adds `rows` rows, in any order; fastest where those of one stripe stand together, as a checkpoint
 * has them. values has width elements for each, states[i] as many as the
 * layout says of that state; none of the arrays need be aligned. The row limit is not asked: what
 * was saved is loaded.
 * Where the rows lie depends on who was first; what they are does not.
 *
 * PS_ERR_CORRUPT        a key is there already
 * PS_ERR_OUT_OF_RANGE   a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_table_load(struct ps_row_table *table, const uint64_t *keys,
                                             const uint32_t *touched, const void *values,
                                             const void *const states[], size_t rows,
                                             struct ps_error *error);

/* Adds keys that are counted and have no row, to a table that has its rows (and whose settings have
 * an admission above 1): how often each was pushed to, and the low 32 bits of the version of the
 * last push. None of the arrays need be aligned. Their limit is not asked.
 *
 * PS_ERR_CORRUPT        a key is there already, or has a row; or a count that would have made one
 * PS_ERR_OUT_OF_RANGE   a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_table_load_candidates(struct ps_row_table *table,
                                                        const uint64_t *keys,
                                                        const uint32_t *counts,
                                                        const uint32_t *touched, size_t count,
                                                        struct ps_error *error);

#endif
