/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a shard at one instant, held by references while it is written to a file.
 *
 * Threads:  taking one is safe from any thread; a snapshot belongs to whoever took it.
 * Blocking: all pushes wait while references are counted up, which is microseconds.
 * Errors:   said at the function.
 * Memory:   a snapshot holds blocks, and on a device copies, until it is released or its watcher is
 *           told that they were read.
 */
#ifndef PS_SERVER_CORE_SNAPSHOT_H
#define PS_SERVER_CORE_SNAPSHOT_H

#include "checkpoint/checkpoint.h"
#include "server/core/requests/service.h"

/* Everything of one instant (promise P3): references, not copies. */
struct ps_snapshot {
    struct ps_checkpoint_facts facts;
    struct ps_checkpoint_parameter *parameters;
    size_t parameter_count;
    struct ps_ticket ticket; /* saving this snapshot satisfies tickets up to here */
    /* To be told what has been read: that is let go, so that pushes need not copy it any more. */
    struct ps_checkpoint_watcher watcher;
    void *held; /* private */
};

/* PS_ERR_NOT_READY while there is nothing to save. Release with ps_snapshot_release. */
PS_MUST_USE enum ps_status ps_snapshot_take(struct ps_service *service,
                                            struct ps_snapshot *snapshot, struct ps_error *error);
void ps_snapshot_release(struct ps_snapshot *snapshot);

/* The same, and each table keeps the keys of rows that go from the instant on, for as long as
 * somebody has the marks of its holds (server/core/tables/row_changes.h). */
PS_MUST_USE enum ps_status ps_snapshot_take_marked(struct ps_service *service,
                                                   struct ps_snapshot *snapshot,
                                                   struct ps_error *error);

/* What is held of parameters[i]. */
struct ps_parameter_version *ps_snapshot_version(const struct ps_snapshot *snapshot, size_t i);

/* For a file that has a base: nothing of parameters[i] goes into it, and what is held of it is let
 * go. */
void ps_snapshot_leave_out(struct ps_snapshot *snapshot, size_t i);

/* For a file that has a base: of the table parameters[i], in which rows were looked for that have
 * changed, these go into it, with the keys of rows that went. Takes `removed`, of the service's
 * memory; NULL for none. The snapshot was taken marked. */
void ps_snapshot_narrow(struct ps_snapshot *snapshot, size_t i, uint64_t *removed, size_t count);

#endif
