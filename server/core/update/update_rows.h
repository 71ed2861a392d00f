/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an update that are others for a table: its gradient names rows. Private to update.c,
 * whose order of steps they follow.
 *
 * Threads:  look by the thread of the update, without a lock; the others with the parameter's.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   the update owns what look makes, until ps_update_rows_end.
 */
#ifndef PS_SERVER_CORE_UPDATE_ROWS_H
#define PS_SERVER_CORE_UPDATE_ROWS_H

#include "server/core/update/update.h"

/* Reads keys and gradients, and looks for what is not finite and for the norm.
 *
 * PS_ERR_OUT_OF_RANGE  a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_update_rows_look(struct ps_update *update, struct ps_error *error);

/* Gets the memory that the push needs. `is_replay`: it was taken once, and the limit of memory is
 * not asked again, as it is not for what a round has joined.
 *
 * PS_ERR_TABLE_FULL    the table's rows_max, or the limit of memory
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_update_rows_prepare(struct ps_update *update, bool is_replay,
                                                  struct ps_error *error);

/* Takes `rows`, all that a round has joined (row_join.h), in the place of what look reads. */
void ps_update_rows_take(struct ps_update *update, struct ps_row_push *rows);

/* Makes the rows those of `version`: new ones come, each that is named is stepped once, and those
 * that have to go for them go. Nothing of it fails but a dead device (PS_ERR_UNAVAILABLE), of which
 * nobody is told anything any more. */
PS_MUST_USE enum ps_status ps_update_rows_apply(struct ps_update *update, uint64_t version,
                                                struct ps_error *error);

/* With the lock if it was prepared. The rows count as they are then. Of another update it does
 * nothing. */
void ps_update_rows_end(struct ps_update *update);

#endif
