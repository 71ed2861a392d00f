/* SPDX-License-Identifier: Apache-2.0 */
/* The work that the coordinator starts and does not wait for: loading, saving and draining, each
 * answered by a tell_* call when it is done.
 *
 * Threads:  one for loading and saving (they never overlap), one for draining. For the length of a
 *           load or a save, further ones help the first. start_* may be
 *           called from any thread; the rest belongs to the thread that creates.
 * Blocking: start_* never; destroy waits for the task at work.
 * Errors:   a task's outcome goes to the driver; create: PS_ERR_NO_MEMORY, and those of opening the
 *           store.
 * Memory:   everything in the options is borrowed and outlives the tasks.
 */
#ifndef PS_SERVER_TASKS_H
#define PS_SERVER_TASKS_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "etcd/registry.h"
#include "server/core/ownership/coordinator_driver.h"
#include "server/core/recovery/set_wish.h"
#include "server/core/requests/service.h"
#include "server/core/values/block_pool.h"
#include "server/journal_thread.h"
#include "server/note_thread.h"
#include "server/rpc/rpc_server.h"

struct ps_tasks;

struct ps_tasks_options {
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log;
    struct ps_service *service;
    struct ps_rpc_server *rpc;
    struct ps_registry
        *registry; /* with a store of its own, used by the thread of the tasks alone */
    struct ps_journal_thread *journal; /* NULL: none is kept */
    struct ps_note_thread *notes;      /* of how far it is durable; NULL: none */
    struct ps_set_wish *wish;          /* of sets to be saved for */
    bool journal_keep;                 /* segments stay when checkpoints cover them */
    uint32_t increments;               /* most of them between two whole checkpoints; 0: none */
    const char *data_dir;              /* NULL: nothing is loaded or saved */
    const struct ps_files *files;      /* of data_dir */
    const char *job;
    struct ps_block_pool *pool; /* made ready for what will be loaded; NULL: there is none */
    uint64_t memory_bytes;      /* most that is made ready; 0: no limit */
};

PS_MUST_USE enum ps_status ps_tasks_create(const struct ps_tasks_options *options,
                                           struct ps_tasks **tasks, struct ps_error *error);
void ps_tasks_destroy(struct ps_tasks *tasks);

/* Whom to tell. Before the first start_*. */
void ps_tasks_report_to(struct ps_tasks *tasks, struct ps_coordinator_driver *driver);

/* What a save waits for may have happened: the journal was written. Any thread; never blocks. */
void ps_tasks_wake(struct ps_tasks *tasks);

/* The hooks of the same names in server/core/ownership/coordinator_driver.h. */
void ps_tasks_start_load(struct ps_tasks *tasks, const struct ps_claim *claim,
                         uint32_t shard_count);
void ps_tasks_start_save(struct ps_tasks *tasks, const struct ps_claim *claim, bool publish);
void ps_tasks_start_drain(struct ps_tasks *tasks, uint64_t deadline_ms);

#endif
