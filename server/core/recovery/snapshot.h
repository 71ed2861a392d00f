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

#endif
