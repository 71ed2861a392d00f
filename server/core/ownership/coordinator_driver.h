/* SPDX-License-Identifier: Apache-2.0 */
/* Does what the coordinator decides: asks the store, tells the service, starts loading and saving
 * through hooks, and feeds what came of it back.
 *
 *     while (!ps_coordinator_driver_ended(driver, &why)) {
 *         uint64_t next_ms = ps_coordinator_driver_turn(driver);
 *         ps_coordinator_driver_wait(driver, next_ms);
 *     }
 *
 * Threads:  create, turn, wait, ended and destroy belong to one thread, which also owns the store
 *           of the registry. The tell_* functions may be called from any, also from inside a hook.
 * Blocking: a turn asks the store at most one question, for a third of the lease at most; wait
 *           returns at its deadline or when something was told.
 * Errors:   a turn cannot fail: every wait has a reason, which is logged once. `ended` says why a
 *           run ended that could not go on.
 * Memory:   fixed size after create.
 */
#ifndef PS_SERVER_CORE_COORDINATOR_DRIVER_H
#define PS_SERVER_CORE_COORDINATOR_DRIVER_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/core/ownership/coordinator.h"
#include "server/core/requests/service.h"

/* What the driver cannot do itself. `load`, `save` and `drain` start something and return at once;
 * each is answered by exactly one tell_loaded, tell_saved or tell_drained, before or after the hook
 * returns. At most one of load and save is at work at any time. `claim` is borrowed for the call.
 */
struct ps_coordinator_hooks {
    /* Fill the service from the newest whole checkpoint of this shard (ps_recovery_fill). */
    void (*load)(void *self, const struct ps_claim *claim, uint32_t shard_count);
    /* Write a checkpoint; `publish`: then put its pointer and sweep. Without, the lease cannot be
     * proved: only the file, for the next owner that finds it. */
    void (*save)(void *self, const struct ps_claim *claim, bool publish);
    /* No more calls; those in flight may end until `deadline_ms`. */
    void (*drain)(void *self, uint64_t deadline_ms);
    /* Answer calls at the address of the options. Called once per claim; again is fine. */
    enum ps_status (*listen)(void *self, struct ps_error *error);
    void *self;
};

struct ps_coordinator_driver_options {
    struct ps_coordinator_options coordinator;
    uint32_t shard_count_wish;         /* 0: wait until somebody has set /ps_desired */
    const char *address;               /* to publish, "host:port"; copied */
    struct ps_registry *registry;      /* borrowed; outlives the driver */
    struct ps_service *service;        /* borrowed; outlives the driver */
    const struct ps_allocator *memory; /* borrowed; outlives the driver */
    const struct ps_clock *clock;      /* borrowed; outlives the driver */
    const struct ps_log *log;          /* borrowed; may be NULL */
    struct ps_coordinator_hooks hooks; /* copied */
};

struct ps_coordinator_driver; /* opaque */

PS_MUST_USE enum ps_status
ps_coordinator_driver_create(const struct ps_coordinator_driver_options *options,
                             struct ps_coordinator_driver **driver, struct ps_error *error);
void ps_coordinator_driver_destroy(struct ps_coordinator_driver *driver);

/* Does what is due now; never sleeps. Returns when it wants the next turn: the present when it has
 * more to do, PS_DEADLINE_NEVER when only something told goes on. */
uint64_t ps_coordinator_driver_turn(struct ps_coordinator_driver *driver);

/* Waits until `until_ms`, until something is told, or, for a spare, until servers come or go.
 * Returns at once when the run is over. */
void ps_coordinator_driver_wait(struct ps_coordinator_driver *driver, uint64_t until_ms);

/* True when the run is over: nothing is owned, and no hook will be called again. `why` has PS_OK
 * after a clean stop, and the first failure otherwise. `why` may be NULL. */
bool ps_coordinator_driver_ended(const struct ps_coordinator_driver *driver, struct ps_error *why);

/* What it has decided so far; for checkers. Owner thread. */
const struct ps_coordinator *
ps_coordinator_driver_coordinator(const struct ps_coordinator_driver *driver);

/* ---- From any thread ---- */

/* End cleanly: drain, save, give the lease back (B27). */
void ps_coordinator_driver_tell_stop(struct ps_coordinator_driver *driver);

/* End at once: what is in memory is lost or cannot be trusted, nothing is saved, and the lease is
 * given back so that another server may have the shard. `why` becomes the outcome of the run; its
 * status is not PS_OK. */
void ps_coordinator_driver_tell_broken(struct ps_coordinator_driver *driver,
                                       const struct ps_error *why);

/* PS_OK               the service is READY
 * PS_ERR_NOT_FOUND    there is no checkpoint of this shard: it begins empty
 * otherwise           `why` says it; tried again where the status table says so, else the run ends
 */
void ps_coordinator_driver_tell_loaded(struct ps_coordinator_driver *driver, enum ps_status status,
                                       const struct ps_error *why);

/* PS_OK               it is durable (and published, when that was asked for)
 * PS_ERR_NOT_READY    there is nothing to save
 * PS_ERR_STALE_EPOCH  the claim is no longer ours
 * otherwise           tried again
 */
void ps_coordinator_driver_tell_saved(struct ps_coordinator_driver *driver, enum ps_status status,
                                      const struct ps_error *why);

void ps_coordinator_driver_tell_drained(struct ps_coordinator_driver *driver);

/* Somebody waits for a checkpoint (the service's listener calls this). */
void ps_coordinator_driver_tell_checkpoint_wanted(struct ps_coordinator_driver *driver);

#endif
