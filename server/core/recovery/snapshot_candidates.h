/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a snapshot's tables that are counted until they get a row, as records of a
 * checkpoint's section.
 *
 * Threads:  take with the cut held alone; the rest belongs to whoever has the snapshot.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   the pages of the instant are held until the release, and a mebibyte for a record.
 */
#ifndef PS_SERVER_CORE_SNAPSHOT_CANDIDATES_H
#define PS_SERVER_CORE_SNAPSHOT_CANDIDATES_H

#include "checkpoint/checkpoint.h"
#include "server/core/requests/service.h"

struct ps_snapshot_candidates;

/* Returns them in `*candidates`, NULL where no table has any; end it with
 * ps_snapshot_candidates_release. */
PS_MUST_USE enum ps_status ps_snapshot_candidates_take(struct ps_service *service,
                                                       struct ps_snapshot_candidates **candidates,
                                                       struct ps_error *error);

/* As the writer wants them, in the order of the tables' names. `candidates` may be NULL, and else
 * stays until the file is written. */
struct ps_checkpoint_records
ps_snapshot_candidates_records(struct ps_snapshot_candidates *candidates);

/* NULL is allowed. */
void ps_snapshot_candidates_release(struct ps_snapshot_candidates *candidates);

#endif
