/* What is next: looks at the state and the time, and asks, starts or waits. */
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

static bool keeps_lease(const struct ps_coordinator *c)
{
    return c->lease.id != 0 && c->state != PS_COORDINATOR_LOSING &&
           c->state != PS_COORDINATOR_RELEASING;
}

/* One question at a time; the lease comes first. */
void ps_coordinator_pursue(struct ps_coordinator *c, struct ps_actions *actions)
{
    enum ps_coordinator_state before;
    do {
        before = c->state;
        if (c->asking != PS_ACTION_NONE || c->state == PS_COORDINATOR_ENDED)
            return;
        if (c->stopping)
            turn_to_the_end(c, actions);
        if (keeps_lease(c) && c->now_ms >= c->keep_ms)
            ps_coordinator_ask(c, PS_ACTION_KEEP, actions);
        else if (c->now_ms >= c->retry_ms)
            pursue_state(c, actions);
    } while (c->state != before);
}

static void turn_to_the_end(struct ps_coordinator *c, struct ps_actions *actions)
{
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

static void pursue_state(struct ps_coordinator *c, struct ps_actions *actions)
{
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

static void pursue_spare(struct ps_coordinator *c, struct ps_actions *actions)
{
    if (c->now_ms >= c->recheck_ms)
        ps_coordinator_enter(c, PS_COORDINATOR_CLAIMING);
    else if (!c->watching)
        ps_coordinator_ask(c, PS_ACTION_WATCH, actions);
}

static void pursue_saves(struct ps_coordinator *c, struct ps_actions *actions)
{
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

static void pursue_last_save(struct ps_coordinator *c, struct ps_actions *actions)
{
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
    if (c->task != PS_ACTION_NONE)
        return;
    if (c->options.saves && c->begun && !c->fence_saved && !c->fence_saving) {
        start_save(c, false, actions);
        return;
    }
    ps_actions_add(actions, PS_ACTION_RESET, 0);
    c->begun = false;
    c->wanted = false;
    c->save_due_ms = PS_DEADLINE_NEVER;
    c->fence_saving = c->fence_saved = false;
    ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
}

static void pursue_releasing(struct ps_coordinator *c, struct ps_actions *actions)
{
    if (c->claim.epoch != 0) {
        c->claim.epoch = 0;
        c->proof_ms = 0;
        ps_actions_add(actions, PS_ACTION_PROVE, 0);
    }
    bool patient = c->stopping ? c->failures < LAST_REVOKES_MAX : c->now_ms < c->lease_gone_ms;
    if (c->lease.id != 0 && patient)
        ps_coordinator_ask(c, PS_ACTION_REVOKE, actions);
    else
        ps_coordinator_released(c, actions);
}

static void start_save(struct ps_coordinator *c, bool publish, struct ps_actions *actions)
{
    PS_ASSERT(c->options.saves && c->begun && c->task == PS_ACTION_NONE);
    c->task = PS_ACTION_SAVE;
    c->save_publishes = publish;
    c->last_saving = c->state == PS_COORDINATOR_SAVING_LAST;
    c->fence_saving = !ps_coordinator_is_proved(c, c->now_ms);
    if (publish) {
        c->wanted = false;
        if (c->options.save_interval_ms != 0)
            c->save_due_ms = ps_coordinator_later(c->now_ms, c->options.save_interval_ms);
    }
    ps_actions_add(actions, PS_ACTION_SAVE, 0);
    actions->list[actions->count - 1].publish = publish;
}

/* When time alone would change what is next. */
uint64_t ps_coordinator_wake_ms(const struct ps_coordinator *c)
{
    uint64_t wake = PS_DEADLINE_NEVER;
    if (c->asking != PS_ACTION_NONE || c->state == PS_COORDINATOR_ENDED)
        return wake;
    if (keeps_lease(c))
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
    bool proved = ps_coordinator_is_proved(c, c->now_ms);
    if (proved)
        wake = least(wake, c->proof_ms);
    if (!c->options.saves || c->task != PS_ACTION_NONE)
        return wake;
    if (c->now_ms < c->save_retry_ms)
        return least(wake, c->save_retry_ms);
    return proved ? least(wake, c->save_due_ms) : wake;
}
