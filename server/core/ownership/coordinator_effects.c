/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out single actions of the coordinator: questions to the store, calls of the service and
 * of the hooks, and the lines that people read about them. Each log line is written once for a
 * state of affairs and not once for an attempt: a store that is down for an hour gives two lines.
 * */
#include "server/core/ownership/coordinator_effects.h"

#include "base/assert.h"

#define COMPONENT "coordinator"

static void ask(struct ps_coordinator_driver *driver, const struct ps_action *action);
static enum ps_status question(struct ps_coordinator_driver *driver, const struct ps_action *action,
                               struct ps_event *answer, struct ps_error *error);
static enum ps_status ask_claim(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                struct ps_claim *claim, struct ps_error *error);
static void doubt_after_jump(struct ps_coordinator_driver *driver, int64_t offset_ms,
                             struct ps_error *error);
static void look_at_placement(struct ps_coordinator_driver *driver, uint64_t until_ms);
static enum ps_status ask_shard_count(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                      uint32_t *shard_count, struct ps_error *error);
static enum ps_status ask_forget(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                 struct ps_error *error);
static enum ps_status ask_watch(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                struct ps_error *error);

/* Hooks start something and return; a question waits for its answer, and is the only thing here
 * that does. */
void ps_coordinator_effects_run(struct ps_coordinator_driver *driver,
                                const struct ps_action *action)
{
    PS_ASSERT(action->type != PS_ACTION_NONE && action->type < PS_ACTION_COUNT);
    const struct ps_coordinator *coordinator = &driver->coordinator;
    switch (action->type) {
    case PS_ACTION_LOAD:
        driver->hooks.load(driver->hooks.self, &driver->claim, coordinator->shard_count);
        return;
    case PS_ACTION_SAVE:
        driver->hooks.save(driver->hooks.self, &driver->claim, action->publish);
        return;
    case PS_ACTION_DRAIN:
        /* New calls are refused from here on; those in flight may still end well. */
        ps_service_drain(driver->service);
        driver->hooks.drain(driver->hooks.self, action->until_ms);
        return;
    case PS_ACTION_OWN:
        /* A copy: the coordinator forgets its claim when it is lost, and hooks that began before go
         * on under it. */
        driver->claim = coordinator->claim;
        ps_service_own(driver->service, driver->claim.index, coordinator->shard_count,
                       driver->claim.epoch, driver->address);
        ps_service_expect_placement(driver->service, driver->placement);
        return;
    case PS_ACTION_BEGIN_EMPTY:
        ps_service_begin_empty(driver->service);
        return;
    case PS_ACTION_PROVE:
        ps_service_prove(driver->service, action->until_ms);
        return;
    case PS_ACTION_RESET:
        ps_service_reset(driver->service);
        return;
    case PS_ACTION_END:
        return; /* the state says it all */
    default:
        ask(driver, action);
        return;
    }
}

/* Puts one question; the answer is fed at the next turn. Its times are from before the question:
 * the store may have counted from any moment since, and the earliest is the safe one. */
static void ask(struct ps_coordinator_driver *driver, const struct ps_action *action)
{
    static const enum ps_event_type answers[PS_ACTION_COUNT] = {
        [PS_ACTION_LEARN] = PS_EVENT_LEARNED,    [PS_ACTION_GRANT] = PS_EVENT_GRANTED,
        [PS_ACTION_CLAIM] = PS_EVENT_CLAIMED,    [PS_ACTION_WATCH] = PS_EVENT_WATCHED,
        [PS_ACTION_KEEP] = PS_EVENT_KEPT,        [PS_ACTION_FORGET] = PS_EVENT_FORGOTTEN,
        [PS_ACTION_LISTEN] = PS_EVENT_LISTENING, [PS_ACTION_PUBLISH] = PS_EVENT_PUBLISHED,
        [PS_ACTION_REVOKE] = PS_EVENT_REVOKED,
    };
    struct ps_error error = {0};
    struct ps_event *answer = &driver->answer;

    PS_ASSERT(!driver->answered);
    PS_ASSERT(answers[action->type] != PS_EVENT_TICK);
    *answer =
        (struct ps_event){.type = answers[action->type], .started_ms = ps_now_ms(driver->clock)};
    /* Before the question, as the time is. */
    int64_t offset_ms = ps_clock_offset_ms(driver->clock);
    answer->status = question(driver, action, answer, &error);
    /* Only a keepalive proves something. */
    if (action->type == PS_ACTION_KEEP)
        doubt_after_jump(driver, offset_ms, &error);
    error.status = answer->status;
    ps_coordinator_effects_note(driver, action->type, &error);
    driver->answered = true;
}

/* The call itself. What it brings besides its status goes into the answer. */
static enum ps_status question(struct ps_coordinator_driver *driver, const struct ps_action *action,
                               struct ps_event *answer, struct ps_error *error)
{
    PS_ASSERT(action->until_ms > 0);
    const struct ps_coordinator *coordinator = &driver->coordinator;
    struct ps_registry *registry = driver->registry;
    uint64_t until_ms = action->until_ms;
    switch (action->type) {
    case PS_ACTION_LEARN:
        return ask_shard_count(driver, until_ms, &answer->shard_count, error);
    case PS_ACTION_GRANT:
        return ps_kv_lease_grant(registry->kv, coordinator->options.ttl_ms, until_ms,
                                 &answer->lease, error);
    case PS_ACTION_CLAIM:
        return ask_claim(driver, until_ms, &answer->claim, error);
    case PS_ACTION_WATCH:
        return ask_watch(driver, until_ms, error);
    case PS_ACTION_KEEP:
        /* With a claim its key is compared as well: a lease may live on while somebody has deleted
         * the key by hand, and then another server may have claimed the shard. */
        if (coordinator->claim.epoch != 0)
            return ps_registry_keep(registry, &coordinator->claim, until_ms, error);
        return ps_kv_lease_keep(registry->kv, coordinator->lease, until_ms, error);
    case PS_ACTION_FORGET:
        return ask_forget(driver, until_ms, error);
    /* The port is bound here for the first time: a server that cannot answer must not be published.
     * */
    case PS_ACTION_LISTEN:
        return driver->hooks.listen(driver->hooks.self, error);
    case PS_ACTION_PUBLISH:
        return ps_registry_publish_address(registry, &driver->claim, driver->address, until_ms,
                                           error);
    default:
        PS_ASSERT(action->type == PS_ACTION_REVOKE);
        return ps_kv_lease_revoke(registry->kv, coordinator->lease, until_ms, error);
    }
}

/* Why no index was free is kept: a spare says it in the log when it begins to wait. */
static enum ps_status ask_claim(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                struct ps_claim *claim, struct ps_error *error)
{
    const struct ps_coordinator *coordinator = &driver->coordinator;
    PS_ASSERT(coordinator->lease.id != 0);
    enum ps_status status = ps_registry_claim(driver->registry, coordinator->shard_count,
                                              coordinator->options.index_wish, coordinator->lease,
                                              until_ms, claim, error);
    if (status == PS_ERR_BUSY)
        driver->spare_reason = *error;
    if (status == PS_OK)
        look_at_placement(driver, until_ms);
    return status;
}

/* For the check of what is loaded. The number is decided before anything is saved, so that a key
 * that is not there now has nothing to say about a checkpoint that is. Neither has a key that
 * cannot be read in time: the claim stands, and is not asked for again because of a check. */
static void look_at_placement(struct ps_coordinator_driver *driver, uint64_t until_ms)
{
    driver->placement = 0;
    if (ps_registry_read_placement(driver->registry, until_ms, &driver->placement, NULL) != PS_OK)
        driver->placement = 0;
}

/* While the question was out the machine may have been paused for longer than the lease lasts, and
 * its own clock would not have counted that: then the answer proves nothing, and it is asked again.
 * / The wall clock goes on while a machine is suspended, and the other one may not; so a jump of
 * the one against the other is the sign. It is never used as a time. */
static void doubt_after_jump(struct ps_coordinator_driver *driver, int64_t offset_ms,
                             struct ps_error *error)
{
    PS_ASSERT(driver->answer.type == PS_EVENT_KEPT);
    struct ps_event *answer = &driver->answer;
    int64_t jump_ms = ps_clock_offset_ms(driver->clock) - offset_ms;
    if (answer->status == PS_OK && jump_ms > PS_CLOCK_JUMP_MS)
        answer->status =
            ps_fail(error, PS_ERR_TIMEOUT, "the wall clock jumped by %lld ms", (long long)jump_ms);
    error->status = answer->status;
    ps_service_note_unkept(driver->service, answer->status != PS_OK ? error : NULL);
}

static void note_shard_count(struct ps_coordinator_driver *driver, uint32_t shard_count);

/* A server that was told how many shards there are writes that down if nobody has; one that was not
 * told waits until somebody has. */
static enum ps_status ask_shard_count(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                      uint32_t *shard_count, struct ps_error *error)
{
    PS_ASSERT(shard_count != NULL);
    /* An index that does not exist is a mistake in how the server was started, and no waiting cures
     * that. */
    uint32_t index_wish = driver->coordinator.options.index_wish;
    if (driver->shard_count_wish == 0)
        PS_TRY(ps_registry_read_desired(driver->registry, until_ms, shard_count, error));
    else
        PS_TRY(ps_registry_desired(driver->registry, driver->shard_count_wish, until_ms,
                                   shard_count, error));
    note_shard_count(driver, *shard_count);
    if (index_wish != PS_INDEX_ANY && index_wish >= *shard_count)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "index %u was asked for, but the job has %u shards: 0 to %u", index_wish,
                       *shard_count, *shard_count - 1);
    return PS_OK;
}

/* The job's number stands: parameters are placed by it. Whoever asked for another one believes to
 * have changed it. One is the wish of those who asked for none. Logged, because a cluster that was
 * started with another number goes on looking healthy. */
static void note_shard_count(struct ps_coordinator_driver *driver, uint32_t shard_count)
{
    PS_ASSERT(shard_count > 0);
    uint32_t wish = driver->shard_count_wish;
    /* Once in the run of a process. */
    if (driver->count_noted || wish == 0 || wish == shard_count)
        return;
    driver->count_noted = true;
    /* Both numbers, since one of them is a mistake and only a person knows which. */
    const struct ps_field asked = PS_FIELD_UINT("num_pservers", wish);
    const struct ps_field has = PS_FIELD_UINT("job_has", shard_count);
    if (wish == 1)
        PS_LOG(driver->log, PS_LOG_INFO, COMPONENT,
               "the job's own number of shards counts (/ps_desired)", has);
    else
        PS_LOG(driver->log, PS_LOG_WARN, COMPONENT,
               "--num-pservers is not the job's number of shards (/ps_desired), which counts: "
               "psckpt reshard makes a job of another number",
               asked, has);
}

/* A server that saves nothing has looked for no checkpoint either. Without a data directory a
 * checkpoint that the store names cannot be loaded, and beginning empty would throw it away: the
 * store refuses, and this says what to do. */
static enum ps_status ask_forget(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                 struct ps_error *error)
{
    PS_ASSERT(driver->claim.epoch != 0);
    enum ps_status status =
        ps_registry_forget_done(driver->registry, &driver->claim, until_ms, error);
    if (status == PS_ERR_CONFLICT && !driver->coordinator.options.saves)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "shard %u has a checkpoint, which cannot be loaded without --data-dir: "
                       "name the folder that it is in",
                       driver->claim.index);
    return status;
}

/* Reads first and watches from there on, so that no change falls between the two. A free index that
 * is seen while the watch is opened counts as a change. */
static enum ps_status ask_watch(struct ps_coordinator_driver *driver, uint64_t until_ms,
                                struct ps_error *error)
{
    PS_ASSERT(driver->registry != NULL);
    struct ps_members members = {0};
    /* Only an index that this server may have counts as free. */
    uint32_t wish = driver->coordinator.options.index_wish;
    enum ps_status status =
        ps_registry_read_members(driver->registry, driver->memory, until_ms, &members, error);
    if (status == PS_OK)
        /* From the revision behind the one that was read: nothing between the two is missed. */
        status = ps_registry_watch_members(driver->registry, members.revision + 1, until_ms, error);
    for (uint32_t i = 0; status == PS_OK && i < members.shard_count; i++)
        if (members.rows[i].epoch == 0 && (wish == PS_INDEX_ANY || wish == i))
            driver->members_changed = true;
    /* Also after a failure: what was read until then. */
    ps_members_release(&members);
    return status;
}

/* ---- What people read ---- */

static const char *const doing_what[PS_ACTION_COUNT] = {
    [PS_ACTION_LEARN] = "learn how many shards there are",
    [PS_ACTION_GRANT] = "get a lease",
    [PS_ACTION_CLAIM] = "claim a shard",
    [PS_ACTION_WATCH] = "watch for free shards",
    [PS_ACTION_KEEP] = "keep the shard",
    [PS_ACTION_FORGET] = "have the job initialised",
    [PS_ACTION_LISTEN] = "listen",
    [PS_ACTION_PUBLISH] = "publish the address",
    [PS_ACTION_REVOKE] = "give the lease back",
    [PS_ACTION_LOAD] = "load the shard",
    [PS_ACTION_SAVE] = "save a checkpoint",
};

/* A spare that finds no free index, a shard without a checkpoint, a save of nothing. These three
 * are answers, and not failures. */
static bool is_no_trouble(enum ps_action_type type, enum ps_status status)
{
    PS_ASSERT(type < PS_ACTION_COUNT);
    return status == PS_OK || (type == PS_ACTION_CLAIM && status == PS_ERR_BUSY) ||
           (type == PS_ACTION_LOAD && status == PS_ERR_NOT_FOUND) ||
           (type == PS_ACTION_SAVE && status == PS_ERR_NOT_READY);
}

/* By action and status: when a store that was unreachable begins to refuse the credentials, that is
 * another line. */
void ps_coordinator_effects_note(struct ps_coordinator_driver *driver, enum ps_action_type type,
                                 const struct ps_error *error)
{
    PS_ASSERT(type < PS_ACTION_COUNT && doing_what[type] != NULL);
    enum ps_status before = driver->trouble[type];
    /* The status is compared and not the words, which may name times and numbers. */
    enum ps_status now = is_no_trouble(type, error->status) ? PS_OK : error->status;

    /* Also when nothing is logged. */
    driver->trouble[type] = now;
    if (now == before)
        return;
    if (now == PS_OK) {
        PS_LOG(driver->log, PS_LOG_INFO, COMPONENT, "goes on",
               PS_FIELD_TEXT("doing", doing_what[type]));
        return;
    }
    /* Should this be what the run ends with, these are the words. */
    driver->last_error = *error;
    PS_LOG(driver->log, PS_LOG_WARN, COMPONENT, "cannot go on",
           PS_FIELD_TEXT("doing", doing_what[type]), PS_FIELD_ERROR(error));
}

/* Only what means something to people: the states between are in the status call. */
void ps_coordinator_effects_note_state(struct ps_coordinator_driver *driver,
                                       enum ps_coordinator_state before)
{
    const struct ps_coordinator *coordinator = &driver->coordinator;
    const struct ps_log *log = driver->log;
    /* A claim that was lost keeps its index until the next one: the line about the loss names it.
     * */
    struct ps_field index = PS_FIELD_UINT("index", coordinator->claim.index);
    struct ps_field epoch = PS_FIELD_UINT("epoch", coordinator->claim.epoch);

    /* Most events change no state. */
    if (coordinator->state == before)
        return;
    switch (coordinator->state) {
    case PS_COORDINATOR_SPARE:
        if (!driver->spare_noted)
            PS_LOG(log, PS_LOG_INFO, COMPONENT, "waiting as a spare",
                   PS_FIELD_TEXT("reason", driver->spare_reason.text));
        driver->spare_noted = true;
        return;
    case PS_COORDINATOR_LOADING:
        /* The next time that it waits it says so again. */
        driver->spare_noted = false;
        PS_LOG(log, PS_LOG_INFO, COMPONENT, "index claimed", index, epoch);
        return;
    case PS_COORDINATOR_SERVING:
        PS_LOG(log, PS_LOG_INFO, COMPONENT, "serving", index, epoch,
               PS_FIELD_TEXT("address", driver->address));
        return;
    case PS_COORDINATOR_LOSING:
        PS_LOG(log, PS_LOG_WARN, COMPONENT, "ownership is lost: starting over", index);
        return;
    case PS_COORDINATOR_DRAINING:
        PS_LOG(log, PS_LOG_INFO, COMPONENT, "stopping", index);
        return;
    case PS_COORDINATOR_ENDED:
        PS_LOG(log, PS_LOG_INFO, COMPONENT, "ended",
               PS_FIELD_TEXT("status", ps_status_word(coordinator->outcome)));
        return;
    default:
        return;
    }
}

/* Fencing is a fact of the clock and no change of state, so that it is looked for after each turn.
 * */
void ps_coordinator_effects_note_proof(struct ps_coordinator_driver *driver)
{
    const struct ps_coordinator *coordinator = &driver->coordinator;
    /* While draining or losing the shard nothing is promised any more, and fencing means nothing.
     * */
    bool serving = coordinator->state == PS_COORDINATOR_SERVING;
    bool fenced = serving && !ps_coordinator_is_proved(coordinator, coordinator->now_ms);
    if (fenced && !driver->fence_noted)
        PS_LOG(driver->log, PS_LOG_WARN, COMPONENT, "fenced: the lease cannot be proved",
               PS_FIELD_UINT("index", coordinator->claim.index),
               PS_FIELD_TEXT(
                   "why", driver->trouble[PS_ACTION_KEEP] != PS_OK ? driver->last_error.text : ""));
    if (serving && !fenced && driver->fence_noted)
        PS_LOG(driver->log, PS_LOG_INFO, COMPONENT, "serving again: the lease is proved",
               PS_FIELD_UINT("index", coordinator->claim.index));
    /* Remembered also where nothing was logged, so that the first turn of the next fence is known.
     * */
    driver->fence_noted = fenced;
}
