/* The work that the coordinator starts and does not wait for: loading, saving and draining, each
 * answered by a tell_* call when it is done.
 *
 * Threads:  one for loading and saving (they never overlap), one for draining. For the length of a
 *           load or a save, further ones help the first. start_* may be
 *           called from any thread; the rest belongs to the thread that creates.
 * Blocking: start_* never; destroy waits for the job at work.
 * Errors:   a job's outcome goes to the driver; create: PS_ERR_NO_MEMORY, and those of opening the
 *           store.
 * Memory:   everything in the options is borrowed and outlives the jobs.
 */
#ifndef PS_SERVER_JOBS_H
#define PS_SERVER_JOBS_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "etcd/registry.h"
#include "server/core/ownership/coordinator_driver.h"
#include "server/core/requests/service.h"
#include "server/core/values/block_pool.h"
#include "server/journal_thread.h"
#include "server/note_thread.h"
#include "server/rpc/rpc_server.h"

struct ps_jobs;

struct ps_jobs_options {
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log;
    struct ps_service *service;
    struct ps_rpc_server *rpc;
    struct ps_registry *registry;      /* with a store of its own, used by the job thread alone */
    struct ps_journal_thread *journal; /* NULL: none is kept */
    struct ps_note_thread *notes;      /* of how far it is durable; NULL: none */
    bool journal_keep;                 /* segments stay when checkpoints cover them */
    const char *data_dir;              /* NULL: nothing is loaded or saved */
    const char *job;
    struct ps_block_pool *pool; /* made ready for what will be loaded; NULL: there is none */
    uint64_t memory_bytes;      /* most that is made ready; 0: no limit */
};

PS_MUST_USE enum ps_status ps_jobs_create(const struct ps_jobs_options *options,
                                          struct ps_jobs **jobs, struct ps_error *error);
void ps_jobs_destroy(struct ps_jobs *jobs);

/* Whom to tell. Before the first start_*. */
void ps_jobs_report_to(struct ps_jobs *jobs, struct ps_coordinator_driver *driver);

/* What a save waits for may have happened: the journal was written. Any thread; never blocks. */
void ps_jobs_wake(struct ps_jobs *jobs);

/* The hooks of the same names in server/core/ownership/coordinator_driver.h. */
void ps_jobs_start_load(struct ps_jobs *jobs, const struct ps_claim *claim, uint32_t shard_count);
void ps_jobs_start_save(struct ps_jobs *jobs, const struct ps_claim *claim, bool publish);
void ps_jobs_start_drain(struct ps_jobs *jobs, uint64_t deadline_ms);

#endif
