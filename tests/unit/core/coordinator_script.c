/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a coordinator by hand and shows what it wants as one line of words. */
#include "coordinator_script.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ps_coordinator_options script_options(void)
{
    return (struct ps_coordinator_options){.ttl_ms = SCRIPT_TTL_MS,
                                           .index_wish = PS_INDEX_ANY,
                                           .saves = true,
                                           .save_interval_ms = SCRIPT_SAVE_MS,
                                           .drain_ms = SCRIPT_DRAIN_MS,
                                           .seed = 1};
}

void script_init(struct script *script, const struct ps_coordinator_options *options)
{
    memset(script, 0, sizeof *script);
    ps_coordinator_init(&script->coordinator, options);
}

static void add_word(struct script *script, const struct ps_action *action)
{
    size_t used = strlen(script->line);
    char *end = script->line + used;
    size_t left = sizeof script->line - used;
    const char *blank = used > 0 ? " " : "";

    if (action->type == PS_ACTION_PROVE)
        snprintf(end, left, "%sprove=%" PRIu64, blank, action->until_ms);
    else if (action->type == PS_ACTION_SAVE)
        snprintf(end, left, "%s%s", blank, action->publish ? "save" : "save-local");
    else
        snprintf(end, left, "%s%s", blank, ps_action_word(action->type));
}

void script_step(struct script *script, struct ps_event event)
{
    event.now_ms = script->now_ms;
    ps_coordinator_step(&script->coordinator, &event, &script->actions);
    script->line[0] = '\0';
    for (size_t i = 0; i < script->actions.count; i++)
        add_word(script, &script->actions.list[i]);
}

void script_expect(struct script *script, struct ps_event event, const char *line)
{
    script_step(script, event);
    ck_assert_str_eq(script->line, line);
}

static void sleep_until_woken(struct script *script, bool nothing_new)
{
    struct ps_event tick = script_event(PS_EVENT_TICK, PS_OK);
    tick.nothing_new = nothing_new;
    ck_assert_uint_ne(script->actions.wake_ms, PS_DEADLINE_NEVER);
    ck_assert_uint_ge(script->actions.wake_ms, script->now_ms);
    script->now_ms = script->actions.wake_ms;
    script_step(script, tick);
}

void script_sleep(struct script *script)
{
    sleep_until_woken(script, false);
}

void script_sleep_idle(struct script *script)
{
    sleep_until_woken(script, true);
}

struct ps_event script_event(enum ps_event_type type, enum ps_status status)
{
    return (struct ps_event){.type = type, .status = status, .shard_count = 2};
}

struct ps_event script_granted(const struct script *script, int64_t lease)
{
    return (struct ps_event){
        .type = PS_EVENT_GRANTED, .started_ms = script->now_ms, .lease = {lease}};
}

struct ps_event script_claimed(const struct script *script, uint32_t index, uint64_t epoch)
{
    return (struct ps_event){
        .type = PS_EVENT_CLAIMED,
        .claim = {.index = index, .epoch = epoch, .lease = script->coordinator.lease}};
}

struct ps_event script_kept(const struct script *script)
{
    return (struct ps_event){.type = PS_EVENT_KEPT, .started_ms = script->now_ms};
}

void script_reach(struct script *script, enum ps_coordinator_state state)
{
    const enum ps_coordinator_state order[] = {PS_COORDINATOR_GRANTING,   PS_COORDINATOR_CLAIMING,
                                               PS_COORDINATOR_LOADING,    PS_COORDINATOR_LISTENING,
                                               PS_COORDINATOR_PUBLISHING, PS_COORDINATOR_SERVING};
    script_step(script, script_event(PS_EVENT_TICK, PS_OK));
    for (size_t i = 0; script->coordinator.state != state; i++) {
        ck_assert_uint_lt(i, sizeof order / sizeof order[0]);
        switch (order[i]) {
        case PS_COORDINATOR_GRANTING:
            script_step(script, script_event(PS_EVENT_LEARNED, PS_OK));
            break;
        case PS_COORDINATOR_CLAIMING:
            script_step(script, script_granted(script, 7));
            break;
        case PS_COORDINATOR_LOADING:
            script_step(script, script_claimed(script, 1, 40));
            break;
        case PS_COORDINATOR_LISTENING:
            script_step(script, script_event(PS_EVENT_LOADED, PS_OK));
            break;
        case PS_COORDINATOR_PUBLISHING:
            script_step(script, script_event(PS_EVENT_LISTENING, PS_OK));
            break;
        default:
            script_step(script, script_event(PS_EVENT_PUBLISHED, PS_OK));
            break;
        }
        ck_assert_int_eq(script->coordinator.state, order[i]);
    }
}
