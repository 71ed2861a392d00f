/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the coordinator's driver: what its two halves share. Nobody else includes this.
 *
 * Threads:  the owner's, but for `mail`, which the mutex guards.
 * Blocking: as long as one question to the store.
 * Errors:   none: they become answers.
 * Memory:   in place.
 */
#ifndef PS_SERVER_CORE_COORDINATOR_EFFECTS_H
#define PS_SERVER_CORE_COORDINATOR_EFFECTS_H

#include "base/thread.h"
#include "server/core/ownership/coordinator_driver.h"

/* What other threads told and no turn has looked at yet. */
struct ps_coordinator_mail {
    bool stop;
    bool broken;
    bool checkpoint_wanted;
    bool drained;
    bool loaded;
    bool saved;
    struct ps_error load_error;
    struct ps_error save_error;
    struct ps_error broken_error;
};

struct ps_coordinator_driver {
    struct ps_coordinator coordinator;
    struct ps_coordinator_hooks hooks;
    uint32_t shard_count_wish;
    char address[PS_ADDRESS_BYTES_MAX];
    struct ps_registry *registry;      /* borrowed; outlives this */
    struct ps_service *service;        /* borrowed; outlives this */
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_clock *clock;      /* borrowed; outlives this */
    const struct ps_log *log;          /* borrowed; may be NULL */

    bool answered; /* `answer` waits for the next turn */
    struct ps_event answer;
    uint64_t wake_ms;
    bool members_changed;
    bool watch_broken;

    struct ps_claim claim; /* what the service was told to own last */
    bool spare_noted;
    bool count_noted;
    uint64_t placement;           /* of the job, when the shard was claimed; 0: not known */
    struct ps_error spare_reason; /* why the last claim got no index */
    bool fence_noted;
    enum ps_status trouble[PS_ACTION_COUNT]; /* as logged last, so that it is logged once */
    struct ps_error last_error;

    struct ps_mutex mutex; /* guards `mail` */
    struct ps_condition told;
    struct ps_coordinator_mail mail;
};

/* Does one action. What asks leaves its answer in the driver. */
void ps_coordinator_effects_run(struct ps_coordinator_driver *driver,
                                const struct ps_action *action);

/* Logs a reason to wait once, and once that it is over. */
void ps_coordinator_effects_note(struct ps_coordinator_driver *driver, enum ps_action_type type,
                                 const struct ps_error *error);

/* Logs what a change of state means for people. */
void ps_coordinator_effects_note_state(struct ps_coordinator_driver *driver,
                                       enum ps_coordinator_state before);

/* Logs when calls begin to be refused for want of a proof, and when they are answered again. */
void ps_coordinator_effects_note_proof(struct ps_coordinator_driver *driver);

#endif
