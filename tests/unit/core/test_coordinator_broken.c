/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/coordinator.c: a server that has lost what was in its memory gives the shard back
 * at once, whatever it was doing. */
#include "coordinator_script.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct script script;

static void set_up(void)
{
    struct ps_coordinator_options options = script_options();
    script = (struct script){.now_ms = 0};
    script_init(&script, &options);
}

static struct ps_event broken(void)
{
    return script_event(PS_EVENT_BROKEN, PS_ERR_UNAVAILABLE);
}

static void expect_ended(void)
{
    ck_assert_int_eq(script.coordinator.state, PS_COORDINATOR_ENDED);
    ck_assert_int_eq(script.coordinator.outcome, PS_ERR_UNAVAILABLE);
}

START_TEST(a_broken_server_saves_nothing_drains_nothing_and_gives_its_lease_back)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    script_step(&script, script_event(PS_EVENT_SAVED, PS_OK));

    script_expect(&script, broken(), "prove=0 revoke");
    script_expect(&script, script_event(PS_EVENT_REVOKED, PS_OK), "end");
    expect_ended();
}
END_TEST

START_TEST(a_save_or_a_load_at_work_is_not_waited_for)
{
    const enum ps_coordinator_state states[] = {PS_COORDINATOR_SERVING, PS_COORDINATOR_LOADING};
    script_reach(&script, states[_i]);
    ck_assert_int_ne(script.coordinator.task, PS_ACTION_NONE);

    script_expect(&script, broken(), "prove=0 revoke");
    script_expect(&script,
                  script_event(_i == 0 ? PS_EVENT_SAVED : PS_EVENT_LOADED, PS_ERR_UNAVAILABLE), "");
    script_expect(&script, script_event(PS_EVENT_REVOKED, PS_OK), "end");
    expect_ended();
}
END_TEST

START_TEST(a_question_that_is_out_is_answered_first)
{
    script_reach(&script, PS_COORDINATOR_PUBLISHING);

    script_expect(&script, broken(), "");
    script_expect(&script, script_event(PS_EVENT_PUBLISHED, PS_OK), "prove=0 revoke");
    script_expect(&script, script_event(PS_EVENT_REVOKED, PS_OK), "end");
    expect_ended();
}
END_TEST

START_TEST(a_claim_that_comes_through_then_is_given_back)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);

    script_expect(&script, broken(), "");
    script_expect(&script, script_claimed(&script, 1, 40), "own prove=8000 prove=0 revoke");
    script_expect(&script, script_event(PS_EVENT_REVOKED, PS_OK), "end");
    expect_ended();
}
END_TEST

START_TEST(one_without_a_lease_ends_at_once)
{
    script_step(&script, script_event(PS_EVENT_TICK, PS_OK));

    script_expect(&script, broken(), "");
    script_expect(&script, script_event(PS_EVENT_LEARNED, PS_OK), "end");
    expect_ended();
}
END_TEST

START_TEST(a_clean_stop_that_is_under_way_becomes_a_broken_end)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    script_step(&script, script_event(PS_EVENT_SAVED, PS_OK));
    script_expect(&script, script_event(PS_EVENT_STOP, PS_OK), "drain");

    script_expect(&script, broken(), "prove=0 revoke");
    script_expect(&script, script_event(PS_EVENT_DRAINED, PS_OK), "");
    script_expect(&script, script_event(PS_EVENT_REVOKED, PS_OK), "end");
    expect_ended();
}
END_TEST

START_TEST(a_store_that_does_not_answer_is_asked_three_times)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    script_expect(&script, broken(), "prove=0 revoke");

    for (int i = 0; i < 2; i++) {
        script_expect(&script, script_event(PS_EVENT_REVOKED, PS_ERR_TIMEOUT), "");
        script_sleep(&script);
        ck_assert_str_eq(script.line, "revoke");
    }
    script_expect(&script, script_event(PS_EVENT_REVOKED, PS_ERR_TIMEOUT), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "end");
    expect_ended();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_broken");
    TCase *tests = tcase_create("broken");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, a_broken_server_saves_nothing_drains_nothing_and_gives_its_lease_back);
    tcase_add_loop_test(tests, a_save_or_a_load_at_work_is_not_waited_for, 0, 2);
    tcase_add_test(tests, a_question_that_is_out_is_answered_first);
    tcase_add_test(tests, a_claim_that_comes_through_then_is_given_back);
    tcase_add_test(tests, one_without_a_lease_ends_at_once);
    tcase_add_test(tests, a_clean_stop_that_is_under_way_becomes_a_broken_end);
    tcase_add_test(tests, a_store_that_does_not_answer_is_asked_three_times);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
