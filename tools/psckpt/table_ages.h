/* SPDX-License-Identifier: Apache-2.0 */
/* How old the rows of a table are that is put together of several shards' parts.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   said at the function.
 * Memory:   as said there.
 */
#ifndef PS_TOOLS_TABLE_AGES_H
#define PS_TOOLS_TABLE_AGES_H

#include "tools/psckpt/table_shards.h"

/* Sets table->ages to what is known of the rows of every part, when each has moved up to the
 * table's version; the text lives in a room of `joined`, or is empty. Rows seem younger by it than
 * they are by a step of their span at most, where all parts were looked at, and never older.
 *
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status table_ages_join(struct shard_state *joined,
                                           const struct table_part *parts, size_t count,
                                           const struct ps_table_settings *settings,
                                           struct ps_checkpoint_parameter *table,
                                           struct ps_error *error);

#endif
