/* SPDX-License-Identifier: Apache-2.0 */
/* The open rounds of a snapshot, as records of a checkpoint's section: of each parameter first who
 * is evicted, then each contribution.
 *
 * Threads:  take with the cut held alone; the rest belongs to whoever has the snapshot.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   contributions are held by reference until the release.
 */
#ifndef PS_SERVER_CORE_SNAPSHOT_ROUNDS_H
#define PS_SERVER_CORE_SNAPSHOT_ROUNDS_H

#include "checkpoint/checkpoint.h"
#include "server/core/requests/service.h"

struct ps_snapshot_rounds;

/* Returns them in `*rounds`, NULL when no round is open and nobody is evicted; end it with
 * ps_snapshot_rounds_release. */
PS_MUST_USE enum ps_status ps_snapshot_rounds_take(struct ps_service *service,
                                                   struct ps_snapshot_rounds **rounds,
                                                   struct ps_error *error);

/* As the writer wants them, in the order of names: equal states make equal files. `rounds` may be
 * NULL, and else stays until the file is written. */
struct ps_checkpoint_records ps_snapshot_rounds_records(struct ps_snapshot_rounds *rounds);

/* NULL is allowed. */
void ps_snapshot_rounds_release(struct ps_snapshot_rounds *rounds);

#endif
