/* SPDX-License-Identifier: Apache-2.0 */
/* Tables among the tensors of a plain file: a matrix whose rows have keys, which are a tensor
 * beside it, as export writes both.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for keys without their matrix, or of another number of rows, or a key
 *           twice; PS_ERR_UNSUPPORTED for keys or a matrix that are none; PS_ERR_NO_MEMORY.
 * Memory:   in the rooms of the state.
 */
#ifndef PS_TOOLS_IMPORTED_TABLES_H
#define PS_TOOLS_IMPORTED_TABLES_H

#include "tools/psckpt/shard_state.h"

/* Makes of each parameter NAME of a sealed state that has a "ps.keys/NAME" beside it one table, and
 * takes the keys out of the list. Rows are sorted by key, and nobody has pushed to them yet. */
PS_MUST_USE enum ps_status imported_tables_join(struct shard_state *state, struct ps_error *error);

/* Makes `*config` the configuration of such a table: that of a parameter, and the table's width.
 * Keys are hashed, and a key without a row begins with zeros. */
PS_MUST_USE enum ps_status imported_tables_config(struct shard_state *state,
                                                  const struct ps_checkpoint_parameter *table,
                                                  struct ps_bytes plain, struct ps_bytes *config,
                                                  struct ps_error *error);

#endif
