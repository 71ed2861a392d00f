/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/coordinator.c: random lives. A tiny model of the store answers, late, wrongly or
 * not at all, and what must always hold is checked after every step. */
#include "coordinator_script.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

#define LIVES 300
#define STEPS 400

/* The truth about one server's leases, as the store has it. */
struct model {
    struct script script;
    struct ps_random random;
    uint64_t seed;
    uint64_t leases;       /* granted so far */
    uint64_t lease_end_ms; /* of the newest; 0: gone */
    uint64_t epochs;       /* given so far */
    bool key;              /* the newest lease holds an index */
    bool owns, drained, ended;
    uint64_t proved_ms; /* what the service was told */
    bool listening, published, loading, saving, begun;
};

static struct model model;

static bool chance(uint32_t percent)
{
    return ps_random_below(&model.random, 100) < percent;
}

static bool lease_lives(void)
{
    return model.script.now_ms < model.lease_end_ms;
}

static void check_actions(void)
{
    const struct ps_coordinator *c = &model.script.coordinator;
    for (size_t i = 0; i < model.script.actions.count; i++) {
        const struct ps_action *action = &model.script.actions.list[i];
        ck_assert(!model.ended);
        switch (action->type) {
        case PS_ACTION_GRANT:
            /* B12: no second lease while the first may hold an index. */
            ck_assert(!(model.key && lease_lives()));
            break;
        case PS_ACTION_PROVE:
            model.proved_ms = action->until_ms;
            ck_assert(action->until_ms == 0 || action->until_ms < model.lease_end_ms);
            break;
        case PS_ACTION_OWN:
            model.begun = model.published = false;
            break;
        case PS_ACTION_LOAD:
            ck_assert(!model.loading && !model.saving);
            model.loading = true;
            break;
        case PS_ACTION_SAVE:
            ck_assert(!model.loading && !model.saving && model.begun);
            ck_assert(!action->publish || model.script.now_ms < model.proved_ms);
            model.saving = true;
            break;
        case PS_ACTION_PUBLISH:
            ck_assert(model.begun && model.listening); /* B26 */
            break;
        case PS_ACTION_BEGIN_EMPTY:
            model.begun = true;
            break;
        case PS_ACTION_RESET:
            ck_assert(!model.loading && !model.saving);
            ck_assert_uint_eq(model.proved_ms, 0);
            model.begun = false;
            break;
        case PS_ACTION_REVOKE:
            ck_assert_uint_eq(model.proved_ms, 0);
            break;
        case PS_ACTION_END:
            ck_assert_uint_eq(model.proved_ms, 0);
            ck_assert_int_eq(c->lease.id, 0);
            model.ended = true;
            break;
        default:
            break;
        }
    }
    /* P4: what is proved is covered by the lease that the store knows of. */
    ck_assert(model.proved_ms <= model.script.now_ms || model.proved_ms < model.lease_end_ms);
    ck_assert(model.ended || c->asking != PS_ACTION_NONE || c->task != PS_ACTION_NONE ||
              model.script.actions.wake_ms != PS_DEADLINE_NEVER);
}

static void step(struct ps_event event)
{
    script_step(&model.script, event);
    check_actions();
}

/* What the network makes of a call: done and told, done and not told, or never arrived. */
static enum ps_status fate(bool *happens)
{
    if (chance(75)) {
        *happens = true;
        return PS_OK;
    }
    *happens = chance(50);
    return *happens || chance(50) ? PS_ERR_TIMEOUT : PS_ERR_UNAVAILABLE;
}

static void answer_lease(struct ps_event *event, bool happens)
{
    switch (model.script.coordinator.asking) {
    case PS_ACTION_GRANT:
        if (!happens)
            return;
        event->lease.id = (int64_t)++model.leases;
        model.lease_end_ms = event->status == PS_OK ? event->started_ms + SCRIPT_TTL_MS : 0;
        model.key = false;
        return;
    case PS_ACTION_KEEP:
        if (happens && !lease_lives())
            event->status = event->status == PS_OK ? PS_ERR_LEASE_LOST : event->status;
        else if (happens)
            model.lease_end_ms = event->started_ms + SCRIPT_TTL_MS;
        return;
    default:
        if (happens)
            model.lease_end_ms = 0;
        return;
    }
}

static void answer_claim(struct ps_event *event, bool happens)
{
    if (event->status == PS_OK && !lease_lives())
        event->status = PS_ERR_LEASE_LOST;
    else if (event->status == PS_OK && chance(30))
        event->status = PS_ERR_BUSY;
    else if (happens && lease_lives())
        model.key = true;
    if (event->status == PS_OK)
        event->claim = (struct ps_claim){
            .index = 0, .epoch = ++model.epochs, .lease = model.script.coordinator.lease};
}

static void answer(void)
{
    static const enum ps_event_type events[PS_ACTION_COUNT] = {
        [PS_ACTION_LEARN] = PS_EVENT_LEARNED,    [PS_ACTION_GRANT] = PS_EVENT_GRANTED,
        [PS_ACTION_CLAIM] = PS_EVENT_CLAIMED,    [PS_ACTION_WATCH] = PS_EVENT_WATCHED,
        [PS_ACTION_KEEP] = PS_EVENT_KEPT,        [PS_ACTION_FORGET] = PS_EVENT_FORGOTTEN,
        [PS_ACTION_LISTEN] = PS_EVENT_LISTENING, [PS_ACTION_PUBLISH] = PS_EVENT_PUBLISHED,
        [PS_ACTION_REVOKE] = PS_EVENT_REVOKED,
    };
    enum ps_action_type asking = model.script.coordinator.asking;
    bool happens;
    struct ps_event event = script_event(events[asking], PS_OK);
    event.started_ms = model.script.now_ms;
    event.status = fate(&happens);
    model.script.now_ms += ps_random_below(&model.random, SCRIPT_CALL_MS);

    if (asking == PS_ACTION_GRANT || asking == PS_ACTION_KEEP || asking == PS_ACTION_REVOKE)
        answer_lease(&event, happens);
    else if (asking == PS_ACTION_CLAIM)
        answer_claim(&event, happens);
    else if (asking == PS_ACTION_LISTEN)
        event.status = PS_OK;
    else if ((asking == PS_ACTION_PUBLISH || asking == PS_ACTION_FORGET) && event.status == PS_OK &&
             !lease_lives())
        event.status = PS_ERR_STALE_EPOCH;
    model.listening = model.listening || asking == PS_ACTION_LISTEN;
    step(event);
}

static void finish_job(void)
{
    static const enum ps_status loads[] = {PS_OK, PS_OK, PS_ERR_NOT_FOUND, PS_ERR_TIMEOUT};
    static const enum ps_status saves[] = {PS_OK, PS_OK, PS_ERR_NOT_READY, PS_ERR_IO,
                                           PS_ERR_STALE_EPOCH};
    if (model.loading) {
        enum ps_status status = loads[ps_random_below(&model.random, 4)];
        model.loading = false;
        model.begun = status == PS_OK;
        step(script_event(PS_EVENT_LOADED, status));
    } else {
        model.saving = false;
        step(script_event(PS_EVENT_SAVED, saves[ps_random_below(&model.random, 5)]));
    }
}

static void random_step(void)
{
    struct script *script = &model.script;
    if (script->coordinator.asking != PS_ACTION_NONE) {
        answer();
        return;
    }
    if ((model.loading || model.saving) && chance(40)) {
        finish_job();
        return;
    }
    if (chance(5))
        step(script_event(PS_EVENT_CHECKPOINT_WANTED, PS_OK));
    else if (chance(5))
        step(script_event(PS_EVENT_MEMBERS_CHANGED, PS_OK));
    else if (chance(2))
        step(script_event(PS_EVENT_WATCH_BROKEN, PS_OK));
    else if (chance(2)) /* stopped, and continued much later */
        script->now_ms += ps_random_below(&model.random, 3 * SCRIPT_TTL_MS);
    else if (script->actions.wake_ms != PS_DEADLINE_NEVER &&
             script->actions.wake_ms > script->now_ms)
        script->now_ms = script->actions.wake_ms;
    if (script->coordinator.asking == PS_ACTION_NONE)
        step(script_event(PS_EVENT_TICK, PS_OK));
}

static void begin_life(uint64_t seed)
{
    struct ps_coordinator_options options = script_options();
    model = (struct model){.seed = seed};
    ps_random_init(&model.random, seed);
    options.seed = seed;
    options.saves = chance(80);
    script_init(&model.script, &options);
    step(script_event(PS_EVENT_TICK, PS_OK));
}

START_TEST(random_lives_never_prove_more_than_the_store_would_grant)
{
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        begin_life(seed);
        for (int i = 0; i < STEPS; i++)
            random_step();
    }
}
END_TEST

START_TEST(a_stop_at_any_moment_of_a_random_life_ends_it_owning_nothing)
{
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        begin_life(seed);
        uint64_t moment = ps_random_below(&model.random, STEPS);
        for (uint64_t i = 0; i < moment; i++)
            random_step();
        step(script_event(PS_EVENT_STOP, PS_OK));
        for (int i = 0; i < 400 && !model.ended; i++) {
            random_step();
            if (model.script.coordinator.state == PS_COORDINATOR_DRAINING && !model.ended &&
                model.script.coordinator.asking == PS_ACTION_NONE)
                step(script_event(PS_EVENT_DRAINED, PS_OK));
        }
        ck_assert_msg(model.ended, "seed %" PRIu64 " never ends", seed);
    }
}
END_TEST

START_TEST(equal_events_give_equal_actions)
{
    begin_life(5);
    struct ps_coordinator twin = model.script.coordinator;
    struct ps_actions actions;
    struct ps_event event = script_event(PS_EVENT_LEARNED, PS_ERR_UNAVAILABLE);

    ps_coordinator_step(&twin, &event, &actions);
    script_step(&model.script, event);

    ck_assert_uint_eq(actions.wake_ms, model.script.actions.wake_ms);
    ck_assert_mem_eq(&twin, &model.script.coordinator, sizeof twin);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_random");
    TCase *tests = tcase_create("random");
    tcase_add_test(tests, random_lives_never_prove_more_than_the_store_would_grant);
    tcase_add_test(tests, a_stop_at_any_moment_of_a_random_life_ends_it_owning_nothing);
    tcase_add_test(tests, equal_events_give_equal_actions);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
