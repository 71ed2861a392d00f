/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a contribution (contribute.h) that are others for a table. A round of a table is one
 * push of all rows that its workers brought, worker by worker in the order of ranks
 * (server/core/tables/row_join.h).
 *
 * Nothing of a round may be refused once its contributions were acknowledged: so the row limit and
 * the memory of what it will make are asked when they come, and what is counted is counted until
 * the round has ended.
 *
 * Threads:  as contribute.h. admit and push with the lock of the contributions.
 * Blocking: for the parameter's lock, and for an update.
 * Errors:   said at each function.
 * Memory:   held_rows.h.
 */
#ifndef PS_SERVER_CORE_CONTRIBUTE_ROWS_H
#define PS_SERVER_CORE_CONTRIBUTE_ROWS_H

#include "base/bytes.h"
#include "server/core/rounds/held_rows.h"
#include "server/core/update/parameter.h"

/* Returns the rows of a push, gradients of one key joined to one; end it with ps_held_rows_release.
 *
 * PS_ERR_BAD_INPUT     no whole number of rows, or an element that the rule refuses
 * PS_ERR_OUT_OF_RANGE  a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_contribute_rows_read(const struct ps_parameter *parameter,
                                                   struct ps_view content,
                                                   struct ps_held_rows **rows,
                                                   struct ps_error *error);

/* May the open round have these rows beside those that are held? What they will take is counted.
 *
 * PS_ERR_TABLE_FULL  the round would make more rows than rows_max
 * PS_ERR_NO_MEMORY   or the limit of memory, of which rounds that end give something back
 */
PS_MUST_USE enum ps_status ps_contribute_rows_admit(struct ps_parameter *parameter,
                                                    struct ps_held_rows *rows,
                                                    struct ps_error *error);

/* Makes the next version of what is held. `place` as in update.h. PS_ERR_NO_MEMORY, and what
 * ps_journal_queue_put gives; everything is held then as before. */
PS_MUST_USE enum ps_status ps_contribute_rows_push(struct ps_parameter *parameter,
                                                   struct ps_journal_place *place,
                                                   uint64_t *version, struct ps_error *error);

#endif
