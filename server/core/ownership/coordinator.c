/* SPDX-License-Identifier: Apache-2.0 */
/* One server from start to end as a step function: an event first changes what is known (here),
 * then the state and the time say what is to be done next (coordinator_plan.c). Nothing here waits,
 * fails or looks at a clock: so every order of answers, losses and times can be tried in a table or
 * by a random walk, which is how the promises about ownership (P4) are tested. */
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

/* All zero but for what is said: no lease, no claim, nothing begun. */
void ps_coordinator_init(struct ps_coordinator *c, const struct ps_coordinator_options *options)
{
    PS_ASSERT(c != NULL && options != NULL);
    PS_ASSERT(options->ttl_ms >= PS_LEASE_TTL_MS_MIN);
    memset(c, 0, sizeof *c);
    c->options = *options;
    ps_random_init(&c->random, options->seed);
    c->state = PS_COORDINATOR_LEARNING;
    c->save_due_ms = PS_DEADLINE_NEVER;
}

/* Events of one kind may come at any time (told by other threads); answers only to the question
 * that is out. After either the same question is asked: what is next? */
void ps_coordinator_step(struct ps_coordinator *c, const struct ps_event *event,
                         struct ps_actions *actions)
{
    PS_ASSERT(event->type < PS_EVENT_COUNT);
    PS_ASSERT(event->now_ms >= c->now_ms);
    PS_ASSERT(c->state != PS_COORDINATOR_ENDED || c->asking == PS_ACTION_NONE);
    memset(actions, 0, sizeof *actions);
    /* The time of the event is the only time there is: two steps at one moment see the same. */
    c->now_ms = event->now_ms;
    c->nothing_new = event->nothing_new;

    switch (event->type) {
    case PS_EVENT_TICK:
        break;
    case PS_EVENT_STOP:
        /* An attempt that waits for its back-off does not wait any longer. */
        c->stopping = true;
        c->retry_ms = c->now_ms;
        break;
    case PS_EVENT_BROKEN:
        /* The state in memory is lost, so that there is nothing to drain or save: the lease goes
         * back at once, and another server may begin. */
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
        /* Calls in flight have ended; the last save sees all that was answered. */
        c->drained = true;
        break;
    case PS_EVENT_CHECKPOINT_WANTED:
        c->wanted = true;
        break;
    case PS_EVENT_MEMBERS_CHANGED:
        /* A spare claims at the next chance; all others pass over it. */
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

/* The answer to the one question that is out. One question is out at a time, so that no two writes
 * of this server can overtake each other in the store, and an answer needs no number to be told
 * from others. */
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
    /* From here on the next question may be put, in this very step. */
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
    /* A watch that could not be opened is tried again after a pause; until then a spare looks by
     * itself now and then. */
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

/* The number of shards stands for as long as the job does; but a spare that waits for years learns
 * it anew in each term. */
static void on_learned(struct ps_coordinator *c, const struct ps_event *event)
{
    if (event->status != PS_OK) {
        ps_coordinator_attempted(c, event->status);
        return;
    }
    PS_ASSERT(event->shard_count > 0 && event->shard_count <= PS_SHARDS_MAX);
    PS_ASSERT(c->options.index_wish == PS_INDEX_ANY || c->options.index_wish < event->shard_count);
    PS_ASSERT(c->state == PS_COORDINATOR_LEARNING);
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
    PS_ASSERT(c->state == PS_COORDINATOR_GRANTING);
    PS_ASSERT(event->lease.id != 0 && event->started_ms <= c->now_ms);
    c->lease = event->lease;
    /* From now and not from the start: this one is about the latest moment at which the lease may
     * still live, the proof below about the earliest at which it may be gone. */
    c->lease_gone_ms = ps_coordinator_lease_gone_ms(c);
    /* Three tries fit into a lease. */
    c->keep_ms = ps_coordinator_later(event->started_ms, c->options.ttl_ms / 3);
    c->keep_failures = 0;
    c->proof_ms =
        ps_coordinator_later(event->started_ms, ps_coordinator_proof_span_ms(c->options.ttl_ms));
    ps_coordinator_enter(c, PS_COORDINATOR_CLAIMING);
}

/* The shard is ours from this event on, and nobody is told yet: it is owned, then loaded, and only
 * then published. A claim whose fate is unknown may have taken an index, so its lease goes back as
 * a whole: that frees the index whatever became of it. */
static void on_claimed(struct ps_coordinator *c, const struct ps_event *event,
                       struct ps_actions *actions)
{
    PS_ASSERT(c->state == PS_COORDINATOR_CLAIMING);
    PS_ASSERT(c->claim.epoch == 0);
    if (event->status == PS_OK) {
        PS_ASSERT(event->claim.epoch != 0 && event->claim.index < c->shard_count);
        PS_ASSERT(event->claim.lease.id == c->lease.id);
        c->claim = event->claim;
        c->watching = false;
        /* The service must know its epoch before it is told that it is proved. */
        ps_actions_add(actions, PS_ACTION_OWN, 0);
        ps_actions_add(actions, PS_ACTION_PROVE, c->proof_ms);
        ps_coordinator_enter(c, PS_COORDINATOR_LOADING);
        return;
    }
    if (event->status == PS_ERR_BUSY) {
        /* Every index is taken. The watch tells of one that becomes free; should it be silent, a
         * lease's length later is early enough. */
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

/* Without a clear answer nothing is known to have changed: the proof runs out by itself. Only two
 * answers say that the shard is not ours any more: the lease is gone, or the claim's key has
 * another revision. Everything else may be a network that lost the answer, and giving up then would
 * lose a shard for a hiccup. */
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
    /* The next try comes soon: a sixth of the lease at most, so that several fit into what is left.
     * */
    if (event->status != PS_OK) {
        c->keep_ms = ps_coordinator_later(
            c->now_ms, ps_coordinator_backoff_ms(c, c->keep_failures++, c->options.ttl_ms / 6));
        return;
    }
    c->keep_failures = 0;
    c->keep_ms = ps_coordinator_later(event->started_ms, c->options.ttl_ms / 3);
    c->proof_ms =
        ps_coordinator_later(event->started_ms, ps_coordinator_proof_span_ms(c->options.ttl_ms));
    /* A spare keeps its lease without a claim: there is nothing to prove. */
    if (c->claim.epoch != 0)
        ps_actions_add(actions, PS_ACTION_PROVE, c->proof_ms);
    /* An answer that took longer than the proof lasts proves nothing. */
    if (!ps_coordinator_is_proved(c, c->now_ms))
        return;
    c->wanted = c->wanted || c->fence_saved;  /* publish, and sweep what fences have left */
    c->fence_saving = c->fence_saved = false; /* it may acknowledge again */
}

/* A write that the store made only if the claim is still ours. So a server that was stopped for
 * longer than its lease cannot publish an address for a shard that is another's. */
static void on_fenced_write(struct ps_coordinator *c, const struct ps_event *event,
                            enum ps_coordinator_state next, struct ps_actions *actions)
{
    PS_ASSERT(c->claim.epoch != 0 && c->lease.id != 0);
    if (event->status == PS_OK) {
        ps_coordinator_enter(c, next);
        if (next != PS_COORDINATOR_SERVING)
            return;
        /* It has served: whatever ends this term is not a server that fails at every start. */
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

/* A lease that the store does not know is as good as given back. */
static void on_revoked(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions)
{
    PS_ASSERT(c->state == PS_COORDINATOR_RELEASING);
    if (status == PS_OK || status == PS_ERR_LEASE_LOST)
        ps_coordinator_released(c, actions);
    else
        ps_coordinator_pause(c);
}

/* What came of loading decides between four ways on: listen, begin empty, start over, try again, or
 * end the run. Ending is for damage only: there is state, and no other server would read it better.
 * */
static void on_loaded(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions)
{
    PS_ASSERT(c->task == PS_ACTION_LOAD);
    c->task = PS_ACTION_NONE;
    PS_ASSERT(!c->begun);
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

/* A save that failed is tried again soon, and publishes if the one that failed was to publish. The
 * last one is tried a few times: a server that is told to end must end, and says by its outcome
 * that it could not save. */
static void on_saved(struct ps_coordinator *c, enum ps_status status, struct ps_actions *actions)
{
    PS_ASSERT(c->task == PS_ACTION_SAVE);
    c->task = PS_ACTION_NONE;
    if (c->broken)
        return;
    if (status == PS_OK || status == PS_ERR_NOT_READY) {
        c->save_failures = 0;
        /* Of a save that began while unproved: all that was acknowledged before is in the file. */
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
