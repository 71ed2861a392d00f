/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of state that the coordinator is made of, its fixed times, its invariants. Every time
 * that is compared anywhere is computed here, from the length of the lease alone, so that a shorter
 * lease makes all of it shorter. */
#include "server/core/ownership/coordinator_transitions.h"

#include "base/assert.h"

#define BACKOFF_MS_MIN 100
#define CALL_MS_MIN 300
#define CALL_MS_MAX 5000
#define MARGIN_MS_MIN 500

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Saturates one below "never": a sum that wrapped would be due at once, and one that became "never"
 * would never be looked at again. */
uint64_t ps_coordinator_later(uint64_t now_ms, uint64_t span_ms)
{
    PS_ASSERT(now_ms < PS_DEADLINE_NEVER);
    return span_ms < PS_DEADLINE_NEVER - now_ms ? now_ms + span_ms : PS_DEADLINE_NEVER - 1;
}

/* The margin is for clocks that run at different speeds and for the time between our looking at the
 * clock and a reply being on the wire: a fifth of the lease, and half a second at least (Gray and
 * Cheriton, Leases, 1989, call it epsilon). */
uint64_t ps_coordinator_proof_span_ms(uint64_t ttl_ms)
{
    uint64_t margin_ms = ttl_ms / 5;
    PS_ASSERT(ttl_ms >= PS_LEASE_TTL_MS_MIN);
    return ttl_ms - (margin_ms > MARGIN_MS_MIN ? margin_ms : MARGIN_MS_MIN);
}

/* One call may not take longer than the time between two keepalives. A third of the lease, so that
 * a keepalive which is never answered leaves time for two more. */
static uint64_t call_ms(const struct ps_coordinator *c)
{
    PS_ASSERT(c->options.ttl_ms >= PS_LEASE_TTL_MS_MIN);
    uint64_t third_ms = c->options.ttl_ms / 3;
    return third_ms < CALL_MS_MIN ? CALL_MS_MIN : least(third_ms, CALL_MS_MAX);
}

/* A call without an answer may still arrive. Another second, since etcd counts in seconds. */
uint64_t ps_coordinator_lease_gone_ms(const struct ps_coordinator *c)
{
    PS_ASSERT(c->lease.id != 0);
    return ps_coordinator_later(c->now_ms, c->options.ttl_ms + call_ms(c) + 1000);
}

/* Strictly before the end, as the service asks it. */
bool ps_coordinator_is_proved(const struct ps_coordinator *c, uint64_t now_ms)
{
    return c->claim.epoch != 0 && now_ms < c->proof_ms;
}

/* Every change of state goes through here, so that failures and pauses never outlast their state.
 * */
void ps_coordinator_enter(struct ps_coordinator *c, enum ps_coordinator_state state)
{
    PS_ASSERT(state < PS_COORDINATOR_STATE_COUNT);
    c->state = state;
    /* A state that is entered anew has not failed yet. */
    c->failures = 0;
    c->retry_ms = c->now_ms;
}

void ps_coordinator_pause(struct ps_coordinator *c)
{
    c->retry_ms = ps_coordinator_later(
        c->now_ms, ps_coordinator_backoff_ms(c, c->failures++, PS_BACKOFF_MS_MAX));
}

/* The proof goes first and in this very step: what the service acknowledges after it would be given
 * up. A server that had no shard yet has nothing to save and gives its lease back. */
void ps_coordinator_lose(struct ps_coordinator *c, bool lease_is_gone, struct ps_actions *actions)
{
    if (lease_is_gone)
        c->lease.id = 0;
    if (c->claim.epoch != 0)
        ps_actions_add(actions, PS_ACTION_PROVE, 0);
    c->claim.epoch = 0;
    c->proof_ms = 0;
    if (c->state == PS_COORDINATOR_CLAIMING || c->state == PS_COORDINATOR_SPARE)
        ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
    else if (c->state >= PS_COORDINATOR_LOADING && c->state <= PS_COORDINATOR_SERVING)
        ps_coordinator_enter(c, PS_COORDINATOR_LOSING);
}

/* For what no waiting cures. The run ends with this status, and the process by it. */
void ps_coordinator_fail(struct ps_coordinator *c, enum ps_status status)
{
    PS_ASSERT(c->task == PS_ACTION_NONE);
    PS_ASSERT(status != PS_OK);
    c->outcome = status;
    c->stopping = true;
    ps_coordinator_enter(c, PS_COORDINATOR_RELEASING);
}

/* Without pauses between them, terms that fail at once would fill etcd with leases. */
void ps_coordinator_released(struct ps_coordinator *c, struct ps_actions *actions)
{
    PS_ASSERT(c->state != PS_COORDINATOR_ENDED);
    c->lease.id = 0;
    if (!c->stopping) {
        ps_coordinator_enter(c, PS_COORDINATOR_LEARNING);
        /* The first one follows at once: a lease that was lost once is most often a network that
         * was away. */
        if (c->short_terms > 0) /* not the first in a row: whatever it is, do not spin */
            c->retry_ms = ps_coordinator_later(
                c->now_ms, ps_coordinator_backoff_ms(c, c->short_terms, PS_BACKOFF_MS_MAX));
        c->short_terms++;
        return;
    }
    ps_coordinator_enter(c, PS_COORDINATOR_ENDED);
    ps_actions_add(actions, PS_ACTION_END, 0);
}

/* After an attempt of the state: goes on, tries again later, or gives up. Wrong credentials may be
 * mended while we wait, and a missing number of shards may still be set. */
void ps_coordinator_attempted(struct ps_coordinator *c, enum ps_status status)
{
    PS_ASSERT(status < PS_STATUS_COUNT);
    /* By the status table, which says for each status what its caller does. */
    enum ps_remedy remedy = ps_status_remedy(status);
    if (status == PS_OK)
        ps_coordinator_enter(c, c->state);
    else if (status == PS_ERR_CORRUPT ||
             (remedy == PS_REMEDY_REJECT && status != PS_ERR_DENIED && status != PS_ERR_NOT_FOUND))
        ps_coordinator_fail(c, status);
    else
        ps_coordinator_pause(c);
}

/* Actions are done in the order in which they are added. */
void ps_actions_add(struct ps_actions *actions, enum ps_action_type type, uint64_t until_ms)
{
    PS_ASSERT(actions->count < PS_ACTIONS_MAX);
    actions->list[actions->count++] = (struct ps_action){.type = type, .until_ms = until_ms};
}

/* Every question has a deadline, so that a store which does not answer costs one call's time and no
 * more. */
void ps_coordinator_ask(struct ps_coordinator *c, enum ps_action_type type,
                        struct ps_actions *actions)
{
    PS_ASSERT(type != PS_ACTION_NONE && c->state != PS_COORDINATOR_ENDED);
    PS_ASSERT(c->asking == PS_ACTION_NONE);
    c->asking = type;
    ps_actions_add(actions, type, ps_coordinator_later(c->now_ms, call_ms(c)));
}

/* The upper half is random, so that servers which lost the store at the same moment do not come
 * back to it at the same moment. The seed makes a simulated world repeat. */
uint64_t ps_coordinator_backoff_ms(struct ps_coordinator *c, uint32_t failures, uint64_t most_ms)
{
    PS_ASSERT(most_ms > 0);
    uint64_t span_ms = least((uint64_t)BACKOFF_MS_MIN << (failures < 10 ? failures : 10), most_ms);
    return span_ms - ps_random_below(&c->random, span_ms / 2 + 1);
}

const char *ps_coordinator_state_word(enum ps_coordinator_state state)
{
#define WORD(TAG, word) [TAG] = word,
    static const char *const words[] = {PS_COORDINATOR_STATE_TABLE(WORD)};
    PS_ASSERT(state < PS_COORDINATOR_STATE_COUNT);
    return words[state];
}

const char *ps_action_word(enum ps_action_type type)
{
    static const char *const words[] = {PS_ACTION_TABLE(WORD)};
#undef WORD
    PS_ASSERT(type < PS_ACTION_COUNT);
    return words[type];
}

void ps_coordinator_check(const struct ps_coordinator *c)
{
    /* Read downwards: which states have a claim and a lease, which have none, and what a task may
     * be. */
    PS_ASSERT(c->state < PS_COORDINATOR_STATE_COUNT);
    PS_ASSERT(c->task == PS_ACTION_NONE || c->task == PS_ACTION_LOAD || c->task == PS_ACTION_SAVE);
    bool claims = c->state >= PS_COORDINATOR_LOADING && c->state <= PS_COORDINATOR_SERVING;
    PS_ASSERT(!claims || (c->claim.epoch != 0 && c->lease.id != 0));
    PS_ASSERT(c->state > PS_COORDINATOR_GRANTING || c->lease.id == 0);
    PS_ASSERT(c->state > PS_COORDINATOR_SPARE || (c->claim.epoch == 0 && !c->begun));
    PS_ASSERT(c->claim.epoch == 0 || c->claim.index < c->shard_count);
    PS_ASSERT(c->task != PS_ACTION_SAVE || (c->begun && c->options.saves));
    PS_ASSERT(c->proof_ms <=
              ps_coordinator_later(c->now_ms, ps_coordinator_proof_span_ms(c->options.ttl_ms)));
    PS_ASSERT(c->state != PS_COORDINATOR_DRAINING || c->stopping);
    PS_ASSERT(c->outcome == PS_OK || c->stopping);
}
