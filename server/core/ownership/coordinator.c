/* One server from start to end as a step function: an event first changes what is known (here),
 * then the state and the time say what is to be done next (coordinator_plan.c). */
#include "server/core/ownership/coordinator.h"

#include "base/assert.h"
#include "server/core/ownership/coordinator_transitions.h"

#include <string.h>

#define LAST_SAVES_MAX 3

static void on_result(struct ps_coordinator *c, const struct ps_event *event,
                      struct ps_actions *actions);
static void on_learned(struct ps_coordinator *c, const struct ps_event *event);
static void on_granted(struct ps_coordinator *c, const struct ps_event *event);
static void on_claimed(struct ps_coordinator *c, const struct ps_event *event,
                       struct ps_actions *actions);
static void on_kept(struct ps_coordinator *c, const struct ps_event *event,
                    struct ps_actions *actions);
static void on_fenced_write(struct ps_coordinator *c, const struct ps_event *event,
                            enum ps_coordinator_state next, struct ps_actions *actions);
static void on_revoked(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions);
static void on_loaded(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions);
static void on_saved(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions);

void ps_coordinator_init(struct ps_coordinator *c, const struct ps_coordinator_options *options)
{
    PS_ASSERT(options->ttl_ms >= PS_LEASE_TTL_MS_MIN);
    memset(c, 0, sizeof *c);
    c->options = *options;
    ps_random_init(&c->random, options->seed);
    c->state = PS_COORDINATOR_LEARNING;
    c->save_due_ms = PS_DEADLINE_NEVER;
}

void ps_coordinator_step(struct ps_coordinator *c, const struct ps_event *event,
                         struct ps_actions *actions)
{
    PS_ASSERT(event->now_ms >= c->now_ms);
    PS_ASSERT(c->state != PS_COORDINATOR_ENDED || c->asking == PS_ACTION_NONE);
    memset(actions, 0, sizeof *actions);
    c->now_ms = event->now_ms;
    c->nothing_new = event->nothing_new;

    switch (event->type) {
    case PS_EVENT_TICK:
        break;
    case PS_EVENT_STOP:
        c->stopping = true;
        c->retry_ms = c->now_ms;
        break;
    case PS_EVENT_BROKEN:
        c->outcome = event->status;
        c->stopping = true;
        c->broken = true;
        break;
    case PS_EVENT_LOADED:
        on_loaded(c, event->status, actions);
        break;
    case PS_EVENT_SAVED:
        on_saved(c, event->status, actions);
        break;
    case PS_EVENT_DRAINED:
        c->drained = true;
        break;
    case PS_EVENT_CHECKPOINT_WANTED:
        c->wanted = true;
        break;
    case PS_EVENT_MEMBERS_CHANGED:
        c->recheck_ms = c->now_ms;
        break;
    case PS_EVENT_WATCH_BROKEN:
        c->watching = false;
        break;
    default:
        on_result(c, event, actions);
        break;
    }
    ps_coordinator_pursue(c, actions);
    actions->wake_ms = ps_coordinator_wake_ms(c);
    ps_coordinator_check(c);
}

/* The answer to the one question that is out. */
static void on_result(struct ps_coordinator *c, const struct ps_event *event,
                      struct ps_actions *actions)
{
    static const enum ps_action_type question[PS_EVENT_COUNT] = {
        [PS_EVENT_LEARNED] = PS_ACTION_LEARN,    [PS_EVENT_GRANTED] = PS_ACTION_GRANT,
        [PS_EVENT_CLAIMED] = PS_ACTION_CLAIM,    [PS_EVENT_WATCHED] = PS_ACTION_WATCH,
        [PS_EVENT_KEPT] = PS_ACTION_KEEP,        [PS_EVENT_FORGOTTEN] = PS_ACTION_FORGET,
        [PS_EVENT_LISTENING] = PS_ACTION_LISTEN, [PS_EVENT_PUBLISHED] = PS_ACTION_PUBLISH,
        [PS_EVENT_REVOKED] = PS_ACTION_REVOKE,
    };
    PS_ASSERT(question[event->type] != PS_ACTION_NONE);
    PS_ASSERT(question[event->type] == c->asking);
    c->asking = PS_ACTION_NONE;

    switch (event->type) {
    case PS_EVENT_LEARNED:
        on_learned(c, event);
        return;
    case PS_EVENT_GRANTED:
        on_granted(c, event);
        return;
    case PS_EVENT_CLAIMED:
        on_claimed(c, event, actions);
        return;
    case PS_EVENT_KEPT:
        on_kept(c, event, actions);
        return;
    case PS_EVENT_WATCHED:
        c->watching = event->status == PS_OK;
        ps_coordinator_attempted(c, event->status);
        return;
    case PS_EVENT_FORGOTTEN:
        on_fenced_write(c, event, PS_COORDINATOR_LISTENING, actions);
        return;
    case PS_EVENT_LISTENING:
        if (event->status == PS_OK)
            ps_coordinator_enter(c, PS_COORDINATOR_PUBLISHING);
        else
            ps_coordinator_fail(c, event->status); /* the address is taken: no waiting cures that */
        return;
    case PS_EVENT_PUBLISHED:
        on_fenced_write(c, event, PS_COORDINATOR_SERVING, actions);
        return;
    default:
        on_revoked(c, event->status, actions);
        return;
    }
}

static void on_learned(struct ps_coordinator *c, const struct ps_event *event)
{
    if (event->status != PS_OK) {
        ps_coordinator_attempted(c, event->status);
        return;
    }
    PS_ASSERT(event->shard_count > 0 && event->shard_count <= PS_SHARDS_MAX);
    PS_ASSERT(c->options.index_wish == PS_INDEX_ANY || c->options.index_wish < event->shard_count);
    c->shard_count = event->shard_count;
    ps_coordinator_enter(c, PS_COORDINATOR_GRANTING);
}

/* A grant of unknown fate leaves a lease that holds no key: it ends by itself. */
static void on_granted(struct ps_coordinator *c, const struct ps_event *event)
{
    PS_ASSERT(c->lease.id == 0);
    if (event->status != PS_OK) {
        ps_coordinator_attempted(c, event->status);
        return;
    }
    PS_ASSERT(event->lease.id != 0 && event->started_ms <= c->now_ms);
    c->lease = event->lease;
    c->lease_gone_ms = ps_coordinator_lease_gone_ms(c);
    c->keep_ms = ps_coordinator_later(event->started_ms, c->options.ttl_ms / 3);
    c->keep_failures = 0;
    c->proof_ms =
        ps_coordinator_later(event->started_ms, ps_coordinator_proof_span_ms(c->options.ttl_ms));
    ps_coordinator_enter(c, PS_COORDINATOR_CLAIMING);
}

static void on_claimed(struct ps_coordinator *c, const struct ps_event *event,
                       struct ps_actions *actions)
{
    PS_ASSERT(c->claim.epoch == 0);
    if (event->status == PS_OK) {
        PS_ASSERT(event->claim.epoch != 0 && event->claim.index < c->shard_count);
        PS_ASSERT(event->claim.lease.id == c->lease.id);
        c->claim = event->claim;
        c->watching = false;
        ps_actions_add(actions, PS_ACTION_OWN, 0);
        ps_actions_add(actions, PS_ACTION_PROVE, c->proof_ms);
        ps_coordinator_enter(c, PS_COORDINATOR_LOADING);
        return;
    }
    if (event->status == PS_ERR_BUSY) {
        c->recheck_ms = ps_coordinator_later(c->now_ms, c->options.ttl_ms);
        ps_coordinator_enter(c, PS_COORDINATOR_SPARE);
        return;
    }
    if (event->status == PS_ERR_LEASE_LOST)
        ps_coordinator_lose(c, true, actions);
    else if (ps_status_remedy(event->status) == PS_REMEDY_UNKNOWN)
        ps_coordinator_enter(c,
                             PS_COORDINATOR_RELEASING); /* an index may hang on this lease (B12) */
    else
        ps_coordinator_attempted(c, event->status);
}

/* Without a clear answer nothing is known to have changed: the proof runs out by itself. */
static void on_kept(struct ps_coordinator *c, const struct ps_event *event,
                    struct ps_actions *actions)
{
    PS_ASSERT(event->started_ms <= c->now_ms);
    bool lease_is_gone = event->status == PS_ERR_LEASE_LOST;
    if (lease_is_gone || ps_status_remedy(event->status) == PS_REMEDY_REROUTE) {
        ps_coordinator_lose(c, lease_is_gone, actions);
        return;
    }
    c->lease_gone_ms = ps_coordinator_lease_gone_ms(c);
    if (event->status != PS_OK) {
        c->keep_ms = ps_coordinator_later(
            c->now_ms, ps_coordinator_backoff_ms(c, c->keep_failures++, c->options.ttl_ms / 6));
        return;
    }
    c->keep_failures = 0;
    c->keep_ms = ps_coordinator_later(event->started_ms, c->options.ttl_ms / 3);
    c->proof_ms =
        ps_coordinator_later(event->started_ms, ps_coordinator_proof_span_ms(c->options.ttl_ms));
    if (c->claim.epoch != 0)
        ps_actions_add(actions, PS_ACTION_PROVE, c->proof_ms);
    if (!ps_coordinator_is_proved(c, c->now_ms))
        return;
    c->wanted = c->wanted || c->fence_saved;  /* publish, and sweep what fences have left */
    c->fence_saving = c->fence_saved = false; /* it may acknowledge again */
}

/* A write that the store made only if the claim is still ours. */
static void on_fenced_write(struct ps_coordinator *c, const struct ps_event *event,
                            enum ps_coordinator_state next, struct ps_actions *actions)
{
    if (event->status == PS_OK) {
        ps_coordinator_enter(c, next);
        if (next != PS_COORDINATOR_SERVING)
            return;
        c->short_terms = 0;
        if (c->options.save_interval_ms != 0)
            c->save_due_ms = ps_coordinator_later(c->now_ms, c->options.save_interval_ms);
        return;
    }
    if (event->status == PS_ERR_LEASE_LOST)
        ps_coordinator_lose(c, true, actions);
    else if (ps_status_remedy(event->status) == PS_REMEDY_REROUTE)
        ps_coordinator_lose(c, false, actions);
    else
        ps_coordinator_attempted(c, event->status);
}

static void on_revoked(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions)
{
    PS_ASSERT(c->state == PS_COORDINATOR_RELEASING);
    if (status == PS_OK || status == PS_ERR_LEASE_LOST)
        ps_coordinator_released(c, actions);
    else
        ps_coordinator_pause(c);
}

static void on_loaded(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions)
{
    PS_ASSERT(c->task == PS_ACTION_LOAD);
    c->task = PS_ACTION_NONE;
    if (c->state != PS_COORDINATOR_LOADING) {
        PS_ASSERT(c->state == PS_COORDINATOR_LOSING || c->broken);
        return;
    }
    enum ps_remedy remedy = ps_status_remedy(status);
    if (status == PS_OK) {
        c->begun = true;
        c->wanted = c->options.saves; /* B3: saved again at once, under its own epoch */
        ps_coordinator_enter(c, PS_COORDINATOR_LISTENING);
    } else if (status == PS_ERR_NOT_FOUND) {
        c->begun = true;
        ps_actions_add(actions, PS_ACTION_BEGIN_EMPTY, 0);
        ps_coordinator_enter(c,
                             PS_COORDINATOR_FORGETTING); /* B6: the job must be initialised again */
    } else if (remedy == PS_REMEDY_REROUTE || status == PS_ERR_LEASE_LOST) {
        ps_coordinator_lose(c, false, actions);
    } else if (remedy == PS_REMEDY_RETRY || remedy == PS_REMEDY_UNKNOWN) {
        ps_coordinator_pause(c);
    } else {
        ps_coordinator_fail(
            c, status); /* there is state, and none of it is whole: never begin empty */
    }
}

static void on_saved(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions)
{
    PS_ASSERT(c->task == PS_ACTION_SAVE);
    c->task = PS_ACTION_NONE;
    if (c->broken)
        return;
    if (status == PS_OK || status == PS_ERR_NOT_READY) {
        c->save_failures = 0;
        c->fence_saved = c->fence_saving;
        c->last_saved = c->last_saving;
        return;
    }
    c->save_retry_ms = ps_coordinator_later(
        c->now_ms, ps_coordinator_backoff_ms(c, c->save_failures++, PS_BACKOFF_MS_MAX));
    c->wanted = c->wanted || c->save_publishes;
    if (c->last_saving && c->save_failures >= LAST_SAVES_MAX) {
        c->last_saved = true; /* given up, and the outcome says so */
        c->outcome = status;
    }
    if (status == PS_ERR_LEASE_LOST || ps_status_remedy(status) == PS_REMEDY_REROUTE)
        ps_coordinator_lose(c, status == PS_ERR_LEASE_LOST, actions);
}
