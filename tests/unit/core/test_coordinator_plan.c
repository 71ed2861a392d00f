/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/ownership/coordinator_plan.c: what is due, and when to look again. */
#include "server/core/ownership/coordinator_transitions.h"

#include "coordinator_script.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct script script;

static struct ps_coordinator *reach(enum ps_coordinator_state state)
{
    struct ps_coordinator_options options = script_options();
    script_init(&script, &options);
    script_reach(&script, state == PS_COORDINATOR_SPARE ? PS_COORDINATOR_CLAIMING : state);
    if (state == PS_COORDINATOR_SPARE)
        script_step(&script, script_event(PS_EVENT_CLAIMED, PS_ERR_BUSY));
    ck_assert_int_eq(script.coordinator.state, state);
    return &script.coordinator;
}

static uint64_t wake(void)
{
    return ps_coordinator_wake_ms(&script.coordinator);
}

START_TEST(an_answer_is_waited_for_without_looking_at_the_clock)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_LEARNING);
    c->asking = PS_ACTION_LEARN;
    c->now_ms += 1000000;
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_uint_eq(script.actions.count, 0);
    ck_assert_uint_eq(wake(), PS_DEADLINE_NEVER);
}
END_TEST

START_TEST(after_the_end_nothing_is_due)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_LEARNING);
    c->asking = PS_ACTION_NONE;
    c->stopping = true;
    script.actions.count = 0;
    ps_coordinator_pursue(c, &script.actions);
    ck_assert_int_eq(c->state, PS_COORDINATOR_ENDED);
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_uint_eq(script.actions.count, 0);
    ck_assert_uint_eq(wake(), PS_DEADLINE_NEVER);
}
END_TEST

START_TEST(a_server_wakes_for_the_lease_before_its_proof_ends)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    script_expect(&script, script_event(PS_EVENT_SAVED, PS_OK), "");

    ck_assert_uint_eq(wake(), c->keep_ms);
    ck_assert_uint_lt(wake(), c->proof_ms);
}
END_TEST

START_TEST(the_lease_comes_before_everything_else_that_is_due)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    script_expect(&script, script_event(PS_EVENT_SAVED, PS_OK), "");
    c->wanted = true;
    c->now_ms = c->keep_ms;
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_uint_eq(script.actions.count, 1);
    ck_assert_int_eq(script.actions.list[0].type, PS_ACTION_KEEP);
}
END_TEST

START_TEST(the_end_of_a_proof_is_a_reason_to_wake)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    script_expect(&script, script_event(PS_EVENT_SAVED, PS_OK), "");
    c->keep_ms = c->proof_ms + 500;

    ck_assert_uint_eq(wake(), c->proof_ms);
}
END_TEST

START_TEST(a_save_is_due_by_the_interval_and_not_while_one_is_at_work)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    ck_assert_int_eq(c->task, PS_ACTION_SAVE);
    c->keep_ms = c->proof_ms = PS_DEADLINE_NEVER - 1;
    ck_assert_uint_eq(wake(), PS_DEADLINE_NEVER - 1);

    c->task = PS_ACTION_NONE;

    ck_assert_uint_eq(wake(), c->save_due_ms);
    ck_assert_uint_eq(c->save_due_ms, c->now_ms + SCRIPT_SAVE_MS);
}
END_TEST

START_TEST(a_save_that_failed_is_due_after_its_pause_whatever_the_interval)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    c->task = PS_ACTION_NONE;
    c->save_retry_ms = c->now_ms + 70;

    ck_assert_uint_eq(wake(), c->now_ms + 70);
}
END_TEST

START_TEST(nothing_new_puts_the_next_save_off_by_an_interval)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    c->task = PS_ACTION_NONE;
    c->nothing_new = true;
    c->keep_ms = c->proof_ms = PS_DEADLINE_NEVER - 1;
    c->now_ms = c->save_due_ms;
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_uint_eq(script.actions.count, 0);
    ck_assert_uint_eq(c->save_due_ms, c->now_ms + SCRIPT_SAVE_MS);
}
END_TEST

START_TEST(a_spare_looks_again_by_the_clock)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);
    c->asking = PS_ACTION_NONE;
    c->watching = true;
    c->keep_ms = PS_DEADLINE_NEVER - 1;
    ck_assert_uint_eq(wake(), c->recheck_ms);
    c->now_ms = c->recheck_ms;
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_int_eq(c->state, PS_COORDINATOR_CLAIMING);
    ck_assert_int_eq(c->asking, PS_ACTION_CLAIM);
}
END_TEST

START_TEST(a_stop_is_turned_to_from_every_state)
{
    static const enum ps_coordinator_state states[] = {
        PS_COORDINATOR_LEARNING,   PS_COORDINATOR_GRANTING, PS_COORDINATOR_CLAIMING,
        PS_COORDINATOR_SPARE,      PS_COORDINATOR_LOADING,  PS_COORDINATOR_LISTENING,
        PS_COORDINATOR_PUBLISHING, PS_COORDINATOR_SERVING,
    };
    struct ps_coordinator *c = reach(states[_i]);
    bool drains = states[_i] > PS_COORDINATOR_LOADING;
    c->asking = PS_ACTION_NONE;
    c->task = PS_ACTION_NONE;
    c->stopping = true;
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_int_eq(script.actions.list[0].type == PS_ACTION_DRAIN, drains);
    if (drains)
        ck_assert_int_eq(c->state, PS_COORDINATOR_DRAINING);
    else
        ck_assert(c->state == PS_COORDINATOR_RELEASING || c->state == PS_COORDINATOR_ENDED);
}
END_TEST

START_TEST(a_load_at_work_is_waited_for_before_the_lease_goes_back)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_LOADING);
    ck_assert_int_eq(c->task, PS_ACTION_LOAD);
    c->stopping = true;
    script.actions.count = 0;

    ps_coordinator_pursue(c, &script.actions);

    ck_assert_int_eq(c->state, PS_COORDINATOR_LOADING);
    ck_assert_uint_eq(script.actions.count, 0);
}
END_TEST

/* Waking is never too late: one millisecond before it nothing is due yet. */
START_TEST(a_tick_before_the_wake_does_nothing)
{
    static const enum ps_coordinator_state states[] = {PS_COORDINATOR_SPARE, PS_COORDINATOR_LOADING,
                                                       PS_COORDINATOR_SERVING};
    (void)reach(states[_i]);
    if (states[_i] == PS_COORDINATOR_SPARE)
        script_expect(&script, script_event(PS_EVENT_WATCHED, PS_OK), "");
    if (states[_i] == PS_COORDINATOR_SERVING)
        script_expect(&script, script_event(PS_EVENT_SAVED, PS_OK), "");
    for (int i = 0; i < 20; i++) {
        ck_assert_uint_gt(script.actions.wake_ms, script.now_ms);
        if (script.actions.wake_ms == PS_DEADLINE_NEVER)
            break;
        uint64_t due = script.actions.wake_ms;
        script.now_ms = due - 1;
        script_expect(&script, script_event(PS_EVENT_TICK, PS_OK), "");
        ck_assert_uint_eq(script.actions.wake_ms, due);
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, script_kept(&script));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_plan");
    TCase *tests = tcase_create("coordinator_plan");
    tcase_add_test(tests, an_answer_is_waited_for_without_looking_at_the_clock);
    tcase_add_test(tests, after_the_end_nothing_is_due);
    tcase_add_test(tests, a_server_wakes_for_the_lease_before_its_proof_ends);
    tcase_add_test(tests, the_lease_comes_before_everything_else_that_is_due);
    tcase_add_test(tests, the_end_of_a_proof_is_a_reason_to_wake);
    tcase_add_test(tests, a_save_is_due_by_the_interval_and_not_while_one_is_at_work);
    tcase_add_test(tests, a_save_that_failed_is_due_after_its_pause_whatever_the_interval);
    tcase_add_test(tests, nothing_new_puts_the_next_save_off_by_an_interval);
    tcase_add_test(tests, a_spare_looks_again_by_the_clock);
    tcase_add_loop_test(tests, a_stop_is_turned_to_from_every_state, 0, 8);
    tcase_add_test(tests, a_load_at_work_is_waited_for_before_the_lease_goes_back);
    tcase_add_loop_test(tests, a_tick_before_the_wake_does_nothing, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
