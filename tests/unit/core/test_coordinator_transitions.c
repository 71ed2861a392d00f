/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/ownership/coordinator_transitions.c: times, changes of state and invariants. */
#include "server/core/ownership/coordinator_transitions.h"

#include "coordinator_script.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
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
    script.actions.count = 0;
    return &script.coordinator;
}

START_TEST(a_time_beyond_all_times_is_one_short_of_never)
{
    ck_assert_uint_eq(ps_coordinator_later(5, 7), 12);
    ck_assert_uint_eq(ps_coordinator_later(5, PS_DEADLINE_NEVER), PS_DEADLINE_NEVER - 1);
    ck_assert_uint_eq(ps_coordinator_later(PS_DEADLINE_NEVER - 1, 1), PS_DEADLINE_NEVER - 1);
}
END_TEST

START_TEST(a_lease_is_gone_only_after_a_call_that_may_still_arrive)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);

    ck_assert_uint_eq(ps_coordinator_lease_gone_ms(c),
                      c->now_ms + SCRIPT_TTL_MS + SCRIPT_CALL_MS + 1000);
}
END_TEST

START_TEST(a_back_off_doubles_to_its_most_and_its_upper_half_is_random)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_LEARNING);
    const uint64_t spans[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (uint32_t failures = 0; failures < PS_ARRAY_COUNT(spans); failures++) {
        uint64_t lowest = UINT64_MAX;
        uint64_t highest = 0;
        for (int i = 0; i < 300; i++) {
            uint64_t pause = ps_coordinator_backoff_ms(c, failures, PS_BACKOFF_MS_MAX);
            lowest = pause < lowest ? pause : lowest;
            highest = pause > highest ? pause : highest;
        }
        ck_assert_uint_le(highest, spans[failures]);
        ck_assert_uint_ge(lowest, spans[failures] / 2);
        ck_assert_uint_gt(highest - lowest, spans[failures] / 4);
    }
    ck_assert_uint_le(ps_coordinator_backoff_ms(c, UINT32_MAX, 700), 700);
}
END_TEST

START_TEST(entering_a_state_forgets_its_failures_and_is_due_at_once)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);
    ps_coordinator_pause(c);
    ps_coordinator_pause(c);
    ck_assert_uint_eq(c->failures, 2);
    ck_assert_uint_gt(c->retry_ms, c->now_ms);

    ps_coordinator_enter(c, PS_COORDINATOR_CLAIMING);

    ck_assert_int_eq(c->state, PS_COORDINATOR_CLAIMING);
    ck_assert_uint_eq(c->failures, 0);
    ck_assert_uint_eq(c->retry_ms, c->now_ms);
}
END_TEST

/* What an attempt's status means for the run: go on, try later, or end. */
START_TEST(an_attempt_goes_on_pauses_or_ends_the_run)
{
    static const struct {
        enum ps_status status;
        bool pauses;
        bool ends;
    } rows[] = {
        {PS_OK, false, false},
        {PS_ERR_UNAVAILABLE, true, false},
        {PS_ERR_TIMEOUT, true, false},
        {PS_ERR_NO_MEMORY, true, false},
        {PS_ERR_DENIED, true, false},    /* credentials may be mended */
        {PS_ERR_NOT_FOUND, true, false}, /* the number of shards may still be set */
        {PS_ERR_IO, true, false},
        {PS_ERR_CORRUPT, false, true},
        {PS_ERR_BAD_INPUT, false, true},
        {PS_ERR_OUT_OF_RANGE, false, true},
        {PS_ERR_UNSUPPORTED, false, true},
    };
    struct ps_coordinator *c = reach(PS_COORDINATOR_LEARNING);

    ps_coordinator_attempted(c, rows[_i].status);

    ck_assert_int_eq(c->retry_ms > c->now_ms, rows[_i].pauses);
    ck_assert_int_eq(c->stopping, rows[_i].ends);
    ck_assert_int_eq(c->state, rows[_i].ends ? PS_COORDINATOR_RELEASING : PS_COORDINATOR_LEARNING);
    ck_assert_int_eq(c->outcome, rows[_i].ends ? rows[_i].status : PS_OK);
}
END_TEST

START_TEST(a_lost_claim_is_told_once_and_proves_nothing_any_more)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    ck_assert(ps_coordinator_is_proved(c, c->now_ms));

    ps_coordinator_lose(c, true, &script.actions);
    ps_coordinator_lose(c, true, &script.actions);

    ck_assert_int_eq(c->state, PS_COORDINATOR_LOSING);
    ck_assert_uint_eq(script.actions.count, 1);
    ck_assert_int_eq(script.actions.list[0].type, PS_ACTION_PROVE);
    ck_assert_uint_eq(script.actions.list[0].until_ms, 0);
    ck_assert(!ps_coordinator_is_proved(c, c->now_ms));
    ck_assert_int_eq(c->lease.id, 0);
}
END_TEST

START_TEST(a_claim_that_is_gone_leaves_the_lease_to_be_given_back)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);

    ps_coordinator_lose(c, false, &script.actions);

    ck_assert_int_ne(c->lease.id, 0);
}
END_TEST

START_TEST(a_spare_that_loses_its_lease_has_nothing_to_save)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);

    ps_coordinator_lose(c, true, &script.actions);

    ck_assert_int_eq(c->state, PS_COORDINATOR_RELEASING);
    ck_assert_uint_eq(script.actions.count, 0);
}
END_TEST

START_TEST(who_is_on_the_way_to_its_end_stays_there_without_a_claim)
{
    static const enum ps_coordinator_state states[] = {
        PS_COORDINATOR_DRAINING, PS_COORDINATOR_SAVING_LAST, PS_COORDINATOR_RELEASING};
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    c->stopping = true;
    c->state = states[_i];

    ps_coordinator_lose(c, true, &script.actions);

    ck_assert_int_eq(c->state, states[_i]);
    ck_assert_uint_eq(c->claim.epoch, 0);
}
END_TEST

START_TEST(terms_that_end_without_serving_follow_ever_more_slowly)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);
    c->short_terms = 0;

    ps_coordinator_released(c, &script.actions);
    ck_assert_int_eq(c->state, PS_COORDINATOR_LEARNING);
    ck_assert_uint_eq(c->retry_ms, c->now_ms);
    ps_coordinator_released(c, &script.actions);
    ck_assert_uint_gt(c->retry_ms, c->now_ms);

    ck_assert_uint_eq(c->short_terms, 2);
    ck_assert_uint_eq(script.actions.count, 0);
}
END_TEST

START_TEST(a_release_while_stopping_is_the_last_thing)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);
    c->stopping = true;

    ps_coordinator_released(c, &script.actions);

    ck_assert_int_eq(c->state, PS_COORDINATOR_ENDED);
    ck_assert_uint_eq(script.actions.count, 1);
    ck_assert_int_eq(script.actions.list[0].type, PS_ACTION_END);
}
END_TEST

START_TEST(a_question_has_the_time_of_one_call)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);
    c->asking = PS_ACTION_NONE;

    ps_coordinator_ask(c, PS_ACTION_CLAIM, &script.actions);

    ck_assert_int_eq(c->asking, PS_ACTION_CLAIM);
    ck_assert_uint_eq(script.actions.list[0].until_ms, c->now_ms + SCRIPT_CALL_MS);
}
END_TEST

START_TEST(two_questions_at_a_time_abort)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SPARE);
    c->asking = PS_ACTION_KEEP;
    ps_coordinator_ask(c, PS_ACTION_CLAIM, &script.actions);
}
END_TEST

START_TEST(more_actions_than_a_step_may_have_abort)
{
    struct ps_actions actions = {.count = 0};
    for (int i = 0; i <= PS_ACTIONS_MAX; i++)
        ps_actions_add(&actions, PS_ACTION_PROVE, 0);
}
END_TEST

START_TEST(every_state_and_every_action_has_a_word_of_its_own)
{
    for (int i = 0; i < PS_COORDINATOR_STATE_COUNT; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(ps_coordinator_state_word((enum ps_coordinator_state)i),
                             ps_coordinator_state_word((enum ps_coordinator_state)k));
    for (int i = 0; i < PS_ACTION_COUNT; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(ps_action_word((enum ps_action_type)i),
                             ps_action_word((enum ps_action_type)k));
}
END_TEST

/* Each breaks one invariant of a server that serves. */
START_TEST(a_broken_invariant_aborts)
{
    struct ps_coordinator *c = reach(PS_COORDINATOR_SERVING);
    ps_coordinator_check(c);
    switch (_i) {
    case 0:
        c->claim.epoch = 0;
        break;
    case 1:
        c->lease.id = 0;
        break;
    case 2:
        c->claim.index = c->shard_count;
        break;
    case 3:
        c->proof_ms = c->now_ms + SCRIPT_SPAN_MS + 1;
        break;
    case 4:
        c->task = PS_ACTION_KEEP;
        break;
    case 5:
        c->outcome = PS_ERR_IO;
        break;
    default:
        c->state = PS_COORDINATOR_DRAINING;
        break;
    }
    ps_coordinator_check(c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_transitions");
    TCase *tests = tcase_create("coordinator_transitions");
    tcase_add_test(tests, a_time_beyond_all_times_is_one_short_of_never);
    tcase_add_test(tests, a_lease_is_gone_only_after_a_call_that_may_still_arrive);
    tcase_add_test(tests, a_back_off_doubles_to_its_most_and_its_upper_half_is_random);
    tcase_add_test(tests, entering_a_state_forgets_its_failures_and_is_due_at_once);
    tcase_add_loop_test(tests, an_attempt_goes_on_pauses_or_ends_the_run, 0, 11);
    tcase_add_test(tests, a_lost_claim_is_told_once_and_proves_nothing_any_more);
    tcase_add_test(tests, a_claim_that_is_gone_leaves_the_lease_to_be_given_back);
    tcase_add_test(tests, a_spare_that_loses_its_lease_has_nothing_to_save);
    tcase_add_loop_test(tests, who_is_on_the_way_to_its_end_stays_there_without_a_claim, 0, 3);
    tcase_add_test(tests, terms_that_end_without_serving_follow_ever_more_slowly);
    tcase_add_test(tests, a_release_while_stopping_is_the_last_thing);
    tcase_add_test(tests, a_question_has_the_time_of_one_call);
    tcase_add_test_raise_signal(tests, two_questions_at_a_time_abort, SIGABRT);
    tcase_add_test_raise_signal(tests, more_actions_than_a_step_may_have_abort, SIGABRT);
    tcase_add_test(tests, every_state_and_every_action_has_a_word_of_its_own);
    tcase_add_loop_test_raise_signal(tests, a_broken_invariant_aborts, SIGABRT, 0, 7);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
