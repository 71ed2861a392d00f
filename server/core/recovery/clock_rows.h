/* SPDX-License-Identifier: Apache-2.0 */
/* All clocks of a shard as records, for a checkpoint: of each group its settings, then every worker
 * that is not where those put it. Applied in this order (recovery_clock.h) they make the same
 * clocks.
 *
 * Threads:  taken with the cut held alone; then they belong to whoever has them.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   a copy: about 40 bytes for each worker, 11 MiB where a shard has as many as it may.
 */
#ifndef PS_SERVER_CORE_CLOCK_ROWS_H
#define PS_SERVER_CORE_CLOCK_ROWS_H

#include "checkpoint/checkpoint.h"
#include "server/core/requests/service.h"

struct ps_clock_rows;

/* `*rows` is NULL where there are no clocks. */
PS_MUST_USE enum ps_status ps_clock_rows_take(struct ps_service *service,
                                              struct ps_clock_rows **rows, struct ps_error *error);

/* Borrows `rows`; NULL gives none. */
struct ps_checkpoint_records ps_clock_rows_records(struct ps_clock_rows *rows);

/* NULL is allowed. */
void ps_clock_rows_release(struct ps_clock_rows *rows);

#endif
