/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/coordinator.c: proofs, their end, losing a claim, and stopping. */
#include "coordinator_script.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct script script;

static void set_up(void)
{
    struct ps_coordinator_options options = script_options();
    script_init(&script, &options);
}

static struct ps_event event(enum ps_event_type type, enum ps_status status)
{
    return script_event(type, status);
}

/* Serving, the save after the recovery done. */
static void serve(void)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    if (script.coordinator.task == PS_ACTION_SAVE)
        script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    ck_assert_int_eq(script.coordinator.state, PS_COORDINATOR_SERVING);
}

static void lose_proof(void)
{
    serve();
    while (ps_coordinator_is_proved(&script.coordinator, script.now_ms)) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, event(PS_EVENT_KEPT, PS_ERR_UNAVAILABLE));
    }
}

/* ---- Proofs ---- */

START_TEST(a_proof_counts_from_the_start_of_the_call_that_gave_it)
{
    serve();
    script_sleep(&script);
    ck_assert_str_eq(script.line, "keep");
    struct ps_event kept = script_kept(&script);
    script.now_ms += 2000; /* the answer was slow */

    script_step(&script, kept);

    ck_assert_str_eq(script.line, "prove=11333");
    ck_assert_uint_eq(script.actions.wake_ms, 2 * SCRIPT_KEEP_MS);
}
END_TEST

START_TEST(the_margin_is_a_fifth_of_the_lease_and_never_below_half_a_second)
{
    ck_assert_uint_eq(ps_coordinator_proof_span_ms(10000), 8000);
    ck_assert_uint_eq(ps_coordinator_proof_span_ms(2500), 2000);
    ck_assert_uint_eq(ps_coordinator_proof_span_ms(1000), 500);
}
END_TEST

START_TEST(an_unclear_keepalive_renews_nothing_and_is_repeated_soon)
{
    serve();
    script_sleep(&script);

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_TIMEOUT), "");

    ck_assert_uint_eq(script.coordinator.proof_ms, SCRIPT_SPAN_MS);
    ck_assert_uint_le(script.actions.wake_ms - script.now_ms, 100);
}
END_TEST

START_TEST(a_proof_that_runs_out_has_the_state_saved_beside_the_pointer_once)
{
    lose_proof();

    ck_assert_uint_eq(script.now_ms, SCRIPT_SPAN_MS);
    ck_assert_str_eq(script.line, "save-local");
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    for (int i = 0; i < 20; i++) {
        script_sleep(&script);
        ck_assert_str_eq(script.line, "keep");
        script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_UNAVAILABLE), "");
    }
}
END_TEST

START_TEST(a_keepalive_that_succeeds_after_the_fence_goes_on_with_the_same_epoch)
{
    lose_proof();
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    script_sleep(&script);
    ck_assert_str_eq(script.line, "keep");

    script_step(&script, script_kept(&script));

    ck_assert_int_eq(script.actions.list[0].type, PS_ACTION_PROVE);
    ck_assert_uint_eq(script.actions.list[0].until_ms, script.now_ms + SCRIPT_SPAN_MS);
    ck_assert_int_eq(script.coordinator.state, PS_COORDINATOR_SERVING);
    ck_assert_uint_eq(script.coordinator.claim.epoch, 40);
}
END_TEST

START_TEST(a_proof_that_comes_back_has_what_was_saved_published)
{
    lose_proof();
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    script_sleep(&script);

    script_step(&script, script_kept(&script));

    ck_assert_int_eq(script.actions.list[1].type, PS_ACTION_SAVE);
    ck_assert(script.actions.list[1].publish);
}
END_TEST

START_TEST(a_second_fence_has_the_state_saved_again)
{
    lose_proof();
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    script_sleep(&script);
    script_step(&script, script_kept(&script));
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));

    while (ps_coordinator_is_proved(&script.coordinator, script.now_ms)) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, event(PS_EVENT_KEPT, PS_ERR_UNAVAILABLE));
    }

    ck_assert_str_eq(script.line, "save-local");
}
END_TEST

START_TEST(a_local_save_that_ends_after_the_proof_came_back_counts_for_nothing)
{
    lose_proof();
    ck_assert_str_eq(script.line, "save-local");
    script_sleep(&script);
    script_step(&script, script_kept(&script));

    script_step(&script, event(PS_EVENT_SAVED, PS_OK));

    ck_assert(!script.coordinator.fence_saved);
}
END_TEST

/* ---- Losing ---- */

START_TEST(b8_a_lost_lease_stops_serving_at_once_and_starts_over)
{
    serve();
    script_sleep(&script);

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_LEASE_LOST), "prove=0 save-local");
    ck_assert(!ps_coordinator_is_proved(&script.coordinator, script.now_ms));
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "reset learn");
    script_expect(&script, event(PS_EVENT_LEARNED, PS_OK), "grant");
    script_expect(&script, script_granted(&script, 8), "claim");
    script_expect(&script, script_claimed(&script, 0, 55), "own prove=11333 load");
}
END_TEST

START_TEST(a_lease_without_its_key_loses_the_shard_and_is_given_back)
{
    serve();
    script_sleep(&script);

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_STALE_EPOCH), "prove=0 save-local");
    ck_assert(!ps_coordinator_is_proved(&script.coordinator, script.now_ms));
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "reset revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_OK), "learn");
}
END_TEST

START_TEST(a_lost_lease_after_a_local_save_needs_no_second_one)
{
    lose_proof();
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    script_sleep(&script);

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_LEASE_LOST), "prove=0 reset learn");
}
END_TEST

START_TEST(a_save_at_work_is_waited_for_before_the_state_is_dropped)
{
    serve();
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "save");
    script_sleep(&script);

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_LEASE_LOST), "prove=0");
    script_expect(&script, event(PS_EVENT_SAVED, PS_ERR_STALE_EPOCH), "save-local");
    script_expect(&script, event(PS_EVENT_SAVED, PS_ERR_IO), "reset learn");
}
END_TEST

START_TEST(a_pointer_that_the_store_refuses_means_that_the_claim_is_gone)
{
    serve();
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "save");

    script_expect(&script, event(PS_EVENT_SAVED, PS_ERR_STALE_EPOCH), "prove=0 save-local");
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "reset revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_OK), "learn");
}
END_TEST

START_TEST(an_address_that_the_store_refuses_means_that_the_claim_is_gone)
{
    script_reach(&script, PS_COORDINATOR_PUBLISHING);

    script_expect(&script, event(PS_EVENT_PUBLISHED, PS_ERR_STALE_EPOCH), "prove=0 save-local");
}
END_TEST

START_TEST(a_lease_lost_while_loading_waits_for_its_end)
{
    script_reach(&script, PS_COORDINATOR_LOADING);
    script_sleep(&script);

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_LEASE_LOST), "prove=0");
    ck_assert_uint_eq(script.actions.wake_ms, PS_DEADLINE_NEVER);
    script_expect(&script, event(PS_EVENT_LOADED, PS_OK), "reset learn");
}
END_TEST

/* ---- Saves ---- */

START_TEST(a_save_that_fails_is_tried_again_with_pauses)
{
    serve();
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "save");

    script_expect(&script, event(PS_EVENT_SAVED, PS_ERR_IO), "");
    ck_assert_uint_gt(script.actions.wake_ms, script.now_ms);
    script_sleep(&script);
    ck_assert_str_eq(script.line, "save");
}
END_TEST

START_TEST(one_save_is_at_work_at_a_time_and_a_wish_is_not_forgotten)
{
    serve();
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "save");
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "");

    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "save");
}
END_TEST

START_TEST(b16_a_wished_index_saves_by_the_interval_and_at_the_end)
{
    struct ps_coordinator_options options = script_options();
    options.index_wish = 1;
    script_init(&script, &options);
    serve();

    while (script.now_ms < SCRIPT_SAVE_MS) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, script_kept(&script));
    }

    ck_assert_int_eq(script.coordinator.task, PS_ACTION_SAVE);
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "");
    script_expect(&script, event(PS_EVENT_STOP, PS_OK), "drain");
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "save");
}
END_TEST

START_TEST(a_server_that_saves_nothing_never_starts_a_save)
{
    struct ps_coordinator_options options = script_options();
    options.saves = false;
    script_init(&script, &options);
    lose_proof();
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "");

    script_expect(&script, event(PS_EVENT_STOP, PS_OK), "drain");
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "prove=0 revoke");
}
END_TEST

/* ---- Stopping ---- */

START_TEST(b27_a_stop_drains_saves_gives_the_lease_back_and_ends)
{
    serve();

    script_expect(&script, event(PS_EVENT_STOP, PS_OK), "drain");
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "save");
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "prove=0 revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_OK), "end");
    ck_assert_int_eq(script.coordinator.outcome, PS_OK);
    ck_assert_int_eq(script.coordinator.state, PS_COORDINATOR_ENDED);
}
END_TEST

START_TEST(b27_the_lease_is_kept_while_calls_drain_and_the_last_save_runs)
{
    serve();
    script_step(&script, event(PS_EVENT_STOP, PS_OK));
    script_sleep(&script);
    ck_assert_str_eq(script.line, "keep");
    script_step(&script, script_kept(&script));
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "save");
    script_sleep(&script);

    ck_assert_str_eq(script.line, "keep");
}
END_TEST

START_TEST(a_drain_that_never_ends_is_cut_short)
{
    serve();
    script_step(&script, event(PS_EVENT_STOP, PS_OK));

    while (script.coordinator.task == PS_ACTION_NONE) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, script_kept(&script));
    }

    ck_assert_uint_eq(script.now_ms, SCRIPT_DRAIN_MS + 1000);
}
END_TEST

START_TEST(a_last_save_that_keeps_failing_ends_with_its_reason)
{
    serve();
    script_step(&script, event(PS_EVENT_STOP, PS_OK));
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "save");
    for (int i = 0; i < 2; i++) {
        script_expect(&script, event(PS_EVENT_SAVED, PS_ERR_IO), "");
        script_sleep(&script);
        ck_assert_str_eq(script.line, "save");
    }

    script_expect(&script, event(PS_EVENT_SAVED, PS_ERR_IO), "prove=0 revoke");
    ck_assert_int_eq(script.coordinator.outcome, PS_ERR_IO);
}
END_TEST

START_TEST(a_save_at_work_at_the_stop_is_not_taken_for_the_last_one)
{
    serve();
    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "save");
    script_step(&script, event(PS_EVENT_STOP, PS_OK));
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "");

    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "save");
}
END_TEST

START_TEST(a_stop_without_the_store_ends_all_the_same)
{
    lose_proof();
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));
    script_step(&script, event(PS_EVENT_STOP, PS_OK));
    script_expect(&script, event(PS_EVENT_DRAINED, PS_OK), "save-local");
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "prove=0 revoke");

    while (script.coordinator.asking == PS_ACTION_REVOKE) {
        script_step(&script, event(PS_EVENT_REVOKED, PS_ERR_UNAVAILABLE));
        if (script.coordinator.state != PS_COORDINATOR_ENDED)
            script_sleep(&script);
    }

    ck_assert_int_eq(script.coordinator.state, PS_COORDINATOR_ENDED);
    ck_assert_int_eq(script.coordinator.outcome, PS_OK);
}
END_TEST

/* A stop at any moment of the way up ends the life, owning nothing. */
START_TEST(a_stop_on_the_way_up_ends)
{
    static const enum ps_coordinator_state states[] = {
        PS_COORDINATOR_LEARNING, PS_COORDINATOR_GRANTING,  PS_COORDINATOR_CLAIMING,
        PS_COORDINATOR_LOADING,  PS_COORDINATOR_LISTENING, PS_COORDINATOR_PUBLISHING};
    script_reach(&script, states[_i]);
    script_expect(&script, event(PS_EVENT_STOP, PS_OK), "");

    for (int i = 0; script.coordinator.state != PS_COORDINATOR_ENDED; i++) {
        ck_assert_int_lt(i, 8);
        if (script.coordinator.asking == PS_ACTION_LEARN)
            script_step(&script, event(PS_EVENT_LEARNED, PS_OK));
        else if (script.coordinator.asking == PS_ACTION_GRANT)
            script_step(&script, script_granted(&script, 7));
        else if (script.coordinator.asking == PS_ACTION_CLAIM)
            script_step(&script, script_claimed(&script, 1, 40));
        else if (script.coordinator.asking == PS_ACTION_LISTEN)
            script_step(&script, event(PS_EVENT_LISTENING, PS_OK));
        else if (script.coordinator.asking == PS_ACTION_PUBLISH)
            script_step(&script, event(PS_EVENT_PUBLISHED, PS_OK));
        else if (script.coordinator.asking == PS_ACTION_REVOKE)
            script_step(&script, event(PS_EVENT_REVOKED, PS_OK));
        else if (script.coordinator.task == PS_ACTION_LOAD)
            script_step(&script, event(PS_EVENT_LOADED, PS_OK));
        else if (script.coordinator.task == PS_ACTION_SAVE)
            script_step(&script, event(PS_EVENT_SAVED, PS_OK));
        else
            script_step(&script, event(PS_EVENT_DRAINED, PS_OK));
    }

    ck_assert_int_eq(script.coordinator.lease.id, 0);
    ck_assert_int_eq(script.coordinator.outcome, PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_lease");
    TCase *proofs = tcase_create("proofs");
    tcase_add_checked_fixture(proofs, set_up, NULL);
    tcase_add_test(proofs, a_proof_counts_from_the_start_of_the_call_that_gave_it);
    tcase_add_test(proofs, the_margin_is_a_fifth_of_the_lease_and_never_below_half_a_second);
    tcase_add_test(proofs, an_unclear_keepalive_renews_nothing_and_is_repeated_soon);
    tcase_add_test(proofs, a_proof_that_runs_out_has_the_state_saved_beside_the_pointer_once);
    tcase_add_test(proofs, a_keepalive_that_succeeds_after_the_fence_goes_on_with_the_same_epoch);
    tcase_add_test(proofs, a_proof_that_comes_back_has_what_was_saved_published);
    tcase_add_test(proofs, a_second_fence_has_the_state_saved_again);
    tcase_add_test(proofs, a_local_save_that_ends_after_the_proof_came_back_counts_for_nothing);
    suite_add_tcase(suite, proofs);
    TCase *losing = tcase_create("losing");
    tcase_add_checked_fixture(losing, set_up, NULL);
    tcase_add_test(losing, b8_a_lost_lease_stops_serving_at_once_and_starts_over);
    tcase_add_test(losing, a_lease_without_its_key_loses_the_shard_and_is_given_back);
    tcase_add_test(losing, a_lost_lease_after_a_local_save_needs_no_second_one);
    tcase_add_test(losing, a_save_at_work_is_waited_for_before_the_state_is_dropped);
    tcase_add_test(losing, a_pointer_that_the_store_refuses_means_that_the_claim_is_gone);
    tcase_add_test(losing, an_address_that_the_store_refuses_means_that_the_claim_is_gone);
    tcase_add_test(losing, a_lease_lost_while_loading_waits_for_its_end);
    suite_add_tcase(suite, losing);
    TCase *saves = tcase_create("saves");
    tcase_add_checked_fixture(saves, set_up, NULL);
    tcase_add_test(saves, a_save_that_fails_is_tried_again_with_pauses);
    tcase_add_test(saves, one_save_is_at_work_at_a_time_and_a_wish_is_not_forgotten);
    tcase_add_test(saves, b16_a_wished_index_saves_by_the_interval_and_at_the_end);
    tcase_add_test(saves, a_server_that_saves_nothing_never_starts_a_save);
    suite_add_tcase(suite, saves);
    TCase *stopping = tcase_create("stopping");
    tcase_add_checked_fixture(stopping, set_up, NULL);
    tcase_add_test(stopping, b27_a_stop_drains_saves_gives_the_lease_back_and_ends);
    tcase_add_test(stopping, b27_the_lease_is_kept_while_calls_drain_and_the_last_save_runs);
    tcase_add_test(stopping, a_drain_that_never_ends_is_cut_short);
    tcase_add_test(stopping, a_last_save_that_keeps_failing_ends_with_its_reason);
    tcase_add_test(stopping, a_save_at_work_at_the_stop_is_not_taken_for_the_last_one);
    tcase_add_test(stopping, a_stop_without_the_store_ends_all_the_same);
    tcase_add_loop_test(stopping, a_stop_on_the_way_up_ends, 0, 6);
    suite_add_tcase(suite, stopping);
    return run_suite(suite);
}
