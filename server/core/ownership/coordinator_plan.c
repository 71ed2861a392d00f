/* SPDX-License-Identifier: Apache-2.0 */
/* What is next: looks at the state and the time, and asks, starts or waits. A function of what is
 * known and of nothing else, so that it may be called after every event: what was asked for already
 * is not asked for twice. */
#include "base/assert.h"
#include "server/core/ownership/coordinator_transitions.h"

#define DRAIN_PATIENCE_MS 1000 /* beyond the drain's own deadline */
#define LAST_REVOKES_MAX 3

static void turn_to_the_end(struct ps_coordinator *c, struct ps_actions *actions);
static void pursue_state(struct ps_coordinator *c, struct ps_actions *actions);
static void pursue_spare(struct ps_coordinator *c, struct ps_actions *actions);
static void pursue_saves(struct ps_coordinator *c, struct ps_actions *actions);
static void pursue_last_save(struct ps_coordinator *c, struct ps_actions *actions);
static void pursue_losing(struct ps_coordinator *c, struct ps_actions *actions);
static void pursue_releasing(struct ps_coordinator *c, struct ps_actions *actions);
static void start_save(struct ps_coordinator *c, bool publish, struct ps_actions *actions);

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* While the shard is being given up the lease is left to run out or is revoked: keeping it would
 * only keep others out. */
static bool keeps_lease(const struct ps_coordinator *c)
{
    PS_ASSERT(c->state < PS_COORDINATOR_STATE_COUNT);
    return c->lease.id != 0 && c->state != PS_COORDINATOR_LOSING &&
           c->state != PS_COORDINATOR_RELEASING;
}

/* One question at a time; the lease comes first. Loops because a state may lead to the next without
 * a question: a loaded server that is told to stop drains at once. Keeping the lease comes before
 * everything, since all the rest is worth nothing without it. */
void ps_coordinator_pursue(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(actions->count <= PS_ACTIONS_MAX);
    enum ps_coordinator_state before;
    do {
        /* A state that stays has nothing more to do in this step. */
        before = c->state;
        if (c->asking != PS_ACTION_NONE || c->state == PS_COORDINATOR_ENDED)
            return;
        if (c->stopping)
            turn_to_the_end(c, actions);
        /* One question for each pass: the answer may change everything that the next would be
         * about. */
        if (keeps_lease(c) && c->now_ms >= c->keep_ms)
            ps_coordinator_ask(c, PS_ACTION_KEEP, actions);
        else if (c->now_ms >= c->retry_ms)
            pursue_state(c, actions);
    } while (c->state != before);
}

/* From each state the shortest way that loses nothing: a server that has no state gives its lease
 * back; one that has drains, saves and then gives it back. A load at work is waited for, since its
 * threads write into the service. */
static void turn_to_the_end(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->stopping);
    if (c->broken && c->state != PS_COORDINATOR_RELEASING) {
        ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
        return;
    }
    switch (c->state) {
    case PS_COORDINATOR_LEARNING:
    case PS_COORDINATOR_GRANTING:
    case PS_COORDINATOR_CLAIMING:
    case PS_COORDINATOR_SPARE:
        ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
        return;
    case PS_COORDINATOR_LOADING:
        if (c->task == PS_ACTION_NONE)
            ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
        return;
    case PS_COORDINATOR_FORGETTING:
    case PS_COORDINATOR_LISTENING:
    case PS_COORDINATOR_PUBLISHING:
    case PS_COORDINATOR_SERVING:
        c->drain_until_ms = ps_coordinator_later(c->now_ms, c->options.drain_ms);
        ps_actions_add(actions, PS_ACTION_DRAIN, c->drain_until_ms);
        ps_coordinator_enter(c, PS_COORDINATOR_DRAINING);
        return;
    default:
        return; /* on the way already */
    }
}

/* One row for each state; the states stand in the order of the header's picture. */
static void pursue_state(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->asking == PS_ACTION_NONE);
    switch (c->state) {
    case PS_COORDINATOR_LEARNING:
        ps_coordinator_ask(c, PS_ACTION_LEARN, actions);
        return;
    case PS_COORDINATOR_GRANTING:
        ps_coordinator_ask(c, PS_ACTION_GRANT, actions);
        return;
    case PS_COORDINATOR_CLAIMING:
        ps_coordinator_ask(c, PS_ACTION_CLAIM, actions);
        return;
    case PS_COORDINATOR_SPARE:
        pursue_spare(c, actions);
        return;
    case PS_COORDINATOR_LOADING:
        if (c->task == PS_ACTION_NONE) {
            c->task = PS_ACTION_LOAD;
            ps_actions_add(actions, PS_ACTION_LOAD, 0);
        }
        return;
    case PS_COORDINATOR_FORGETTING:
        ps_coordinator_ask(c, PS_ACTION_FORGET, actions);
        return;
    case PS_COORDINATOR_LISTENING:
        ps_coordinator_ask(c, PS_ACTION_LISTEN, actions);
        return;
    case PS_COORDINATOR_PUBLISHING:
        ps_coordinator_ask(c, PS_ACTION_PUBLISH, actions);
        return;
    case PS_COORDINATOR_SERVING:
        pursue_saves(c, actions);
        return;
    case PS_COORDINATOR_DRAINING:
        /* Calls that do not end are not waited for for ever: the drain has a deadline of its own,
         * and this one is for a drain that does not keep it. */
        if (c->drained || c->now_ms >= ps_coordinator_later(c->drain_until_ms, DRAIN_PATIENCE_MS)) {
            c->save_failures = 0;
            c->save_retry_ms = c->now_ms;
            ps_coordinator_enter(c, PS_COORDINATOR_SAVING_LAST);
        }
        return;
    case PS_COORDINATOR_SAVING_LAST:
        pursue_last_save(c, actions);
        return;
    case PS_COORDINATOR_LOSING:
        pursue_losing(c, actions);
        return;
    case PS_COORDINATOR_RELEASING:
        pursue_releasing(c, actions);
        return;
    default:
        PS_ASSERT(false && "no such state");
    }
}

/* A spare claims when the watch has told of a change or a while has passed, and opens a watch when
 * it has none. The first claim comes before the first watch: an index may be free now. */
static void pursue_spare(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->claim.epoch == 0 && c->lease.id != 0);
    if (c->now_ms >= c->recheck_ms)
        ps_coordinator_enter(c, PS_COORDINATOR_CLAIMING);
    else if (!c->watching)
        ps_coordinator_ask(c, PS_ACTION_WATCH, actions);
}

/* While the lease cannot be proved one checkpoint is written without its pointer: nothing is
 * acknowledged meanwhile, so that it has all that ever was, and the next owner finds the file in
 * the folder, even one whose journal is damaged. When ownership is proved a checkpoint is due by
 * the interval or because somebody waits for it. */
static void pursue_saves(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->state == PS_COORDINATOR_SERVING);
    if (!c->options.saves || c->task != PS_ACTION_NONE || c->now_ms < c->save_retry_ms)
        return;
    if (!ps_coordinator_is_proved(c, c->now_ms)) {
        if (!c->fence_saved)
            start_save(c, false, actions); /* should the lease be lost, the disk has it all */
        return;
    }
    if (c->wanted || (c->now_ms >= c->save_due_ms && !c->nothing_new))
        start_save(c, true, actions);
    else if (c->now_ms >=
             c->save_due_ms) /* what changes from here on waits no longer than it may */
        c->save_due_ms = ps_coordinator_later(c->now_ms, c->options.save_interval_ms);
}

/* A server that was never begun has nothing to save; one whose lease is unproved still writes the
 * file. */
static void pursue_last_save(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->stopping);
    if (c->task != PS_ACTION_NONE)
        return;
    if (!c->options.saves || !c->begun || c->last_saved) {
        ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
        return;
    }
    if (c->now_ms >= c->save_retry_ms)
        start_save(c, ps_coordinator_is_proved(c, c->now_ms), actions);
}

/* One try to keep what was acknowledged, then everything is dropped. A file written now can harm
 * nobody: its name carries the old epoch. */
static void pursue_losing(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->proof_ms == 0);
    if (c->task != PS_ACTION_NONE)
        return;
    if (c->options.saves && c->begun && !c->fence_saved && !c->fence_saving) {
        start_save(c, false, actions);
        return;
    }
    /* Parameters are dropped before the lease goes back: a server that claims the same shard again
     * begins with what recovery gives, never with what it had. */
    ps_actions_add(actions, PS_ACTION_RESET, 0);
    c->begun = false;
    c->wanted = false;
    c->save_due_ms = PS_DEADLINE_NEVER;
    c->fence_saving = c->fence_saved = false;
    ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
}

/* The service is told first that nothing is proved any more, and only then is the store asked to
 * drop the lease: the other way round somebody else could own the shard while we still acknowledge.
 * A revoke that does not get through is outwaited instead, but for a server that ends, which has no
 * time to wait. */
static void pursue_releasing(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->state == PS_COORDINATOR_RELEASING);
    if (c->claim.epoch != 0) {
        c->claim.epoch = 0;
        c->proof_ms = 0;
        ps_actions_add(actions, PS_ACTION_PROVE, 0);
    }
    /* A server that ends tries a few times: its lease runs out by itself soon after. */
    bool patient = c->stopping ? c->failures < LAST_REVOKES_MAX : c->now_ms < c->lease_gone_ms;
    if (c->lease.id != 0 && patient)
        ps_coordinator_ask(c, PS_ACTION_REVOKE, actions);
    else
        ps_coordinator_released(c, actions);
}

/* Whether it publishes is decided now, by the proof: a save that takes longer than the lease lasts
 * is caught by the transaction of its pointer. */
static void start_save(struct ps_coordinator *c, bool publish, struct ps_actions *actions)
{
    PS_ASSERT(c->options.saves && c->begun && c->task == PS_ACTION_NONE);
    c->task = PS_ACTION_SAVE;
    c->save_publishes = publish;
    c->last_saving = c->state == PS_COORDINATOR_SAVING_LAST;
    c->fence_saving = !ps_coordinator_is_proved(c, c->now_ms);
    if (publish) {
        /* Whoever asks from now on asks for another one. */
        c->wanted = false;
        if (c->options.save_interval_ms != 0)
            c->save_due_ms = ps_coordinator_later(c->now_ms, c->options.save_interval_ms);
    }
    ps_actions_add(actions, PS_ACTION_SAVE, 0);
    actions->list[actions->count - 1].publish = publish;
}

/* When time alone would change what is next. The mirror of pursue: for each state the time at which
 * pursue would do something else. A time too early costs a turn; one too late would let a lease run
 * out, so every time that pursue compares has a line here. */
uint64_t ps_coordinator_wake_ms(const struct ps_coordinator *c)
{
    PS_ASSERT(c->state < PS_COORDINATOR_STATE_COUNT);
    uint64_t wake = PS_DEADLINE_NEVER;
    if (c->asking != PS_ACTION_NONE || c->state == PS_COORDINATOR_ENDED)
        return wake;
    if (keeps_lease(c))
        /* Whatever else is waited for. */
        wake = c->keep_ms;
    if (c->now_ms < c->retry_ms)
        return least(wake, c->retry_ms);

    switch (c->state) {
    case PS_COORDINATOR_SPARE:
        return least(wake, c->recheck_ms);
    case PS_COORDINATOR_DRAINING:
        return least(wake, ps_coordinator_later(c->drain_until_ms, DRAIN_PATIENCE_MS));
    case PS_COORDINATOR_SAVING_LAST:
        return c->task == PS_ACTION_NONE ? least(wake, c->save_retry_ms) : wake;
    case PS_COORDINATOR_SERVING:
        break;
    default:
        return wake;
    }
    /* The end of the proof is a time to look at: then the checkpoint of a fenced server is due. */
    bool proved = ps_coordinator_is_proved(c, c->now_ms);
    if (proved)
        wake = least(wake, c->proof_ms);
    if (!c->options.saves || c->task != PS_ACTION_NONE)
        return wake;
    /* A save that has failed is not tried before its pause is over, whatever else would want one.
     * */
    if (c->now_ms < c->save_retry_ms)
        return least(wake, c->save_retry_ms);
    return proved ? least(wake, c->save_due_ms) : wake;
}
