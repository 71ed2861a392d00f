/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/coordinator.c: from the first tick to serving, and the lease on the way. */
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

START_TEST(a_server_with_a_checkpoint_goes_straight_to_serving)
{
    script_expect(&script, event(PS_EVENT_TICK, PS_OK), "learn");
    script_expect(&script, event(PS_EVENT_LEARNED, PS_OK), "grant");
    script_expect(&script, script_granted(&script, 7), "claim");
    script_expect(&script, script_claimed(&script, 1, 40), "own prove=8000 load");
    script_expect(&script, event(PS_EVENT_LOADED, PS_OK), "listen");
    script_expect(&script, event(PS_EVENT_LISTENING, PS_OK), "publish");
    script_expect(&script, event(PS_EVENT_PUBLISHED, PS_OK), "save");
    script_expect(&script, event(PS_EVENT_SAVED, PS_OK), "");
    ck_assert_uint_eq(script.actions.wake_ms, SCRIPT_KEEP_MS);
}
END_TEST

START_TEST(b6_a_server_without_a_checkpoint_has_the_job_initialised_again)
{
    script_reach(&script, PS_COORDINATOR_LOADING);

    script_expect(&script, event(PS_EVENT_LOADED, PS_ERR_NOT_FOUND), "begin_empty forget");
    script_expect(&script, event(PS_EVENT_FORGOTTEN, PS_ERR_UNAVAILABLE), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "forget");
    script_expect(&script, event(PS_EVENT_FORGOTTEN, PS_OK), "listen");
}
END_TEST

/* A shard that was filled only half when its server died comes back empty, not half full. */
START_TEST(b7_a_half_initialised_shard_begins_empty_after_a_crash)
{
    script_reach(&script, PS_COORDINATOR_LOADING);

    script_step(&script, event(PS_EVENT_LOADED, PS_ERR_NOT_FOUND));

    ck_assert_str_eq(script.line, "begin_empty forget");
    ck_assert(!script.coordinator.wanted);
}
END_TEST

START_TEST(b3_a_recovered_server_saves_at_once_and_then_by_the_interval)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    ck_assert_str_eq(script.line, "save");
    script_step(&script, event(PS_EVENT_SAVED, PS_OK));

    uint32_t saves = 0;
    while (script.now_ms < 3 * SCRIPT_SAVE_MS) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, script_kept(&script));
        if (script.coordinator.task == PS_ACTION_SAVE) {
            ck_assert_uint_eq(script.now_ms % SCRIPT_SAVE_MS, 0);
            script_step(&script, event(PS_EVENT_SAVED, PS_OK));
            saves++;
        }
    }

    ck_assert_uint_eq(saves, 3);
}
END_TEST

START_TEST(an_empty_server_saves_nothing_until_asked)
{
    script_reach(&script, PS_COORDINATOR_LOADING);
    script_step(&script, event(PS_EVENT_LOADED, PS_ERR_NOT_FOUND));
    script_step(&script, event(PS_EVENT_FORGOTTEN, PS_OK));
    script_step(&script, event(PS_EVENT_LISTENING, PS_OK));
    script_expect(&script, event(PS_EVENT_PUBLISHED, PS_OK), "");

    script_expect(&script, event(PS_EVENT_CHECKPOINT_WANTED, PS_OK), "save");
}
END_TEST

START_TEST(b26_the_address_is_published_only_when_loaded_and_listening)
{
    script_reach(&script, PS_COORDINATOR_LOADING);
    ck_assert_str_eq(script.line, "own prove=8000 load");

    script_expect(&script, event(PS_EVENT_LOADED, PS_OK), "listen");
    script_expect(&script, event(PS_EVENT_LISTENING, PS_OK), "publish");
}
END_TEST

START_TEST(listening_that_fails_ends_the_life_with_its_reason)
{
    script_reach(&script, PS_COORDINATOR_LISTENING);

    script_expect(&script, event(PS_EVENT_LISTENING, PS_ERR_IO), "prove=0 revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_OK), "end");
    ck_assert_int_eq(script.coordinator.outcome, PS_ERR_IO);
}
END_TEST

START_TEST(state_of_which_nothing_is_whole_ends_the_life_and_never_begins_empty)
{
    script_reach(&script, PS_COORDINATOR_LOADING);

    script_expect(&script, event(PS_EVENT_LOADED, PS_ERR_CORRUPT), "prove=0 revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_OK), "end");
    ck_assert_int_eq(script.coordinator.outcome, PS_ERR_CORRUPT);
}
END_TEST

START_TEST(loading_is_tried_again_when_the_store_does_not_answer)
{
    script_reach(&script, PS_COORDINATOR_LOADING);

    script_expect(&script, event(PS_EVENT_LOADED, PS_ERR_UNAVAILABLE), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "load");
}
END_TEST

START_TEST(a_store_that_is_down_at_start_is_asked_again_ever_more_slowly)
{
    uint64_t pause_ms = 0;

    script_expect(&script, event(PS_EVENT_TICK, PS_OK), "learn");
    for (int i = 0; i < 20; i++) {
        script_expect(&script, event(PS_EVENT_LEARNED, PS_ERR_UNAVAILABLE), "");
        pause_ms = script.actions.wake_ms - script.now_ms;
        ck_assert_uint_ge(pause_ms, 50);
        ck_assert_uint_le(pause_ms, 5000);
        script_sleep(&script);
        ck_assert_str_eq(script.line, "learn");
    }

    ck_assert_uint_ge(pause_ms, 2500);
}
END_TEST

START_TEST(b13_the_number_of_shards_is_learned_again_in_every_life)
{
    script_reach(&script, PS_COORDINATOR_LOADING);
    script.now_ms = SCRIPT_KEEP_MS;
    script_expect(&script, event(PS_EVENT_TICK, PS_OK), "keep");
    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_LEASE_LOST), "prove=0");

    script_expect(&script, event(PS_EVENT_LOADED, PS_OK), "reset learn");
}
END_TEST

START_TEST(b29_a_missing_number_of_shards_is_waited_for_with_pauses)
{
    script_expect(&script, event(PS_EVENT_TICK, PS_OK), "learn");
    script_expect(&script, event(PS_EVENT_LEARNED, PS_ERR_NOT_FOUND), "");
    ck_assert_uint_gt(script.actions.wake_ms, script.now_ms);
}
END_TEST

START_TEST(an_index_beyond_the_number_of_shards_ends_the_life)
{
    script_expect(&script, event(PS_EVENT_TICK, PS_OK), "learn");
    script_expect(&script, event(PS_EVENT_LEARNED, PS_ERR_OUT_OF_RANGE), "end");
    ck_assert_int_eq(script.coordinator.outcome, PS_ERR_OUT_OF_RANGE);
}
END_TEST

/* ---- Claims ---- */

START_TEST(b12_a_claim_of_unknown_fate_gives_its_lease_back_before_the_next_grant)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);

    script_expect(&script, event(PS_EVENT_CLAIMED, PS_ERR_TIMEOUT), "revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_ERR_UNAVAILABLE), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "revoke");
    script_expect(&script, event(PS_EVENT_REVOKED, PS_OK), "learn");
}
END_TEST

START_TEST(b12_a_lease_that_cannot_be_given_back_is_outwaited)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);
    script_expect(&script, event(PS_EVENT_CLAIMED, PS_ERR_TIMEOUT), "revoke");

    while (script.coordinator.asking == PS_ACTION_REVOKE) {
        script_step(&script, event(PS_EVENT_REVOKED, PS_ERR_UNAVAILABLE));
        script_sleep(&script);
    }

    ck_assert_str_eq(script.line, "learn");
    ck_assert_uint_ge(script.now_ms, SCRIPT_TTL_MS + 1000);
    ck_assert_uint_le(script.now_ms, 2 * SCRIPT_TTL_MS + 5000);
}
END_TEST

START_TEST(a_claim_that_never_reached_the_store_is_made_again_under_the_same_lease)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);

    script_expect(&script, event(PS_EVENT_CLAIMED, PS_ERR_UNAVAILABLE), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "claim");
}
END_TEST

START_TEST(a_surplus_server_watches_and_claims_when_an_index_becomes_free)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);

    script_expect(&script, event(PS_EVENT_CLAIMED, PS_ERR_BUSY), "watch");
    script_expect(&script, event(PS_EVENT_WATCHED, PS_OK), "");
    script.now_ms = 500;
    script_expect(&script, event(PS_EVENT_MEMBERS_CHANGED, PS_OK), "claim");
    script_expect(&script, script_claimed(&script, 0, 41), "own prove=8000 load");
}
END_TEST

START_TEST(a_spare_keeps_its_lease_and_looks_again_even_when_the_watch_is_silent)
{
    uint32_t claims = 0;
    script_reach(&script, PS_COORDINATOR_CLAIMING);
    script_step(&script, event(PS_EVENT_CLAIMED, PS_ERR_BUSY));
    script_step(&script, event(PS_EVENT_WATCHED, PS_OK));

    while (script.now_ms < 10 * SCRIPT_TTL_MS) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, script_kept(&script));
        if (script.coordinator.asking == PS_ACTION_CLAIM) {
            script_step(&script, event(PS_EVENT_CLAIMED, PS_ERR_BUSY));
            claims++;
        }
    }

    ck_assert_uint_ge(claims, 9);
    ck_assert_uint_le(claims, 11);
}
END_TEST

START_TEST(a_spare_whose_watch_breaks_opens_another)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);
    script_step(&script, event(PS_EVENT_CLAIMED, PS_ERR_BUSY));
    script_expect(&script, event(PS_EVENT_WATCHED, PS_ERR_UNAVAILABLE), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "watch");
    script_expect(&script, event(PS_EVENT_WATCHED, PS_OK), "");

    script_expect(&script, event(PS_EVENT_WATCH_BROKEN, PS_OK), "watch");
}
END_TEST

START_TEST(a_spare_whose_lease_is_lost_starts_over_without_a_reset)
{
    script_reach(&script, PS_COORDINATOR_CLAIMING);
    script_step(&script, event(PS_EVENT_CLAIMED, PS_ERR_BUSY));
    script_step(&script, event(PS_EVENT_WATCHED, PS_OK));
    script_sleep(&script);
    ck_assert_str_eq(script.line, "keep");

    script_expect(&script, event(PS_EVENT_KEPT, PS_ERR_LEASE_LOST), "learn");
}
END_TEST

START_TEST(a_grant_of_unknown_fate_is_asked_for_again)
{
    script_reach(&script, PS_COORDINATOR_GRANTING);

    script_expect(&script, event(PS_EVENT_GRANTED, PS_ERR_TIMEOUT), "");
    script_sleep(&script);
    ck_assert_str_eq(script.line, "grant");
}
END_TEST

START_TEST(b5_a_server_idle_for_an_hour_saves_once_and_again_within_an_interval_of_a_change)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    ck_assert_str_eq(script.line, "save");
    struct ps_event saved = event(PS_EVENT_SAVED, PS_OK);
    saved.nothing_new = true;
    script_step(&script, saved);

    while (script.now_ms < 60 * SCRIPT_SAVE_MS) {
        script_sleep_idle(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP) {
            struct ps_event kept = script_kept(&script);
            kept.nothing_new = true;
            script_step(&script, kept);
        }
        ck_assert_int_eq(script.coordinator.task, PS_ACTION_NONE);
    }

    uint64_t changed_ms = script.now_ms;
    while (script.coordinator.task != PS_ACTION_SAVE) {
        script_sleep(&script);
        if (script.coordinator.asking == PS_ACTION_KEEP)
            script_step(&script, script_kept(&script));
    }
    ck_assert_uint_le(script.now_ms, changed_ms + SCRIPT_SAVE_MS);
}
END_TEST

START_TEST(b5_who_asks_is_answered_though_nothing_is_new)
{
    script_reach(&script, PS_COORDINATOR_SERVING);
    struct ps_event saved = event(PS_EVENT_SAVED, PS_OK);
    saved.nothing_new = true;
    script_step(&script, saved);

    struct ps_event wanted = event(PS_EVENT_CHECKPOINT_WANTED, PS_OK);
    wanted.nothing_new = true;

    script_expect(&script, wanted, "save");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator");
    TCase *life = tcase_create("life");
    tcase_add_checked_fixture(life, set_up, NULL);
    tcase_add_test(life, a_server_with_a_checkpoint_goes_straight_to_serving);
    tcase_add_test(life, b6_a_server_without_a_checkpoint_has_the_job_initialised_again);
    tcase_add_test(life, b7_a_half_initialised_shard_begins_empty_after_a_crash);
    tcase_add_test(life, b3_a_recovered_server_saves_at_once_and_then_by_the_interval);
    tcase_add_test(
        life, b5_a_server_idle_for_an_hour_saves_once_and_again_within_an_interval_of_a_change);
    tcase_add_test(life, b5_who_asks_is_answered_though_nothing_is_new);
    tcase_add_test(life, an_empty_server_saves_nothing_until_asked);
    tcase_add_test(life, b26_the_address_is_published_only_when_loaded_and_listening);
    tcase_add_test(life, listening_that_fails_ends_the_life_with_its_reason);
    tcase_add_test(life, state_of_which_nothing_is_whole_ends_the_life_and_never_begins_empty);
    tcase_add_test(life, loading_is_tried_again_when_the_store_does_not_answer);
    tcase_add_test(life, a_store_that_is_down_at_start_is_asked_again_ever_more_slowly);
    tcase_add_test(life, b13_the_number_of_shards_is_learned_again_in_every_life);
    tcase_add_test(life, b29_a_missing_number_of_shards_is_waited_for_with_pauses);
    tcase_add_test(life, an_index_beyond_the_number_of_shards_ends_the_life);
    suite_add_tcase(suite, life);
    TCase *claims = tcase_create("claims");
    tcase_add_checked_fixture(claims, set_up, NULL);
    tcase_add_test(claims, b12_a_claim_of_unknown_fate_gives_its_lease_back_before_the_next_grant);
    tcase_add_test(claims, b12_a_lease_that_cannot_be_given_back_is_outwaited);
    tcase_add_test(claims, a_claim_that_never_reached_the_store_is_made_again_under_the_same_lease);
    tcase_add_test(claims, a_surplus_server_watches_and_claims_when_an_index_becomes_free);
    tcase_add_test(claims, a_spare_keeps_its_lease_and_looks_again_even_when_the_watch_is_silent);
    tcase_add_test(claims, a_spare_whose_watch_breaks_opens_another);
    tcase_add_test(claims, a_spare_whose_lease_is_lost_starts_over_without_a_reset);
    tcase_add_test(claims, a_grant_of_unknown_fate_is_asked_for_again);
    suite_add_tcase(suite, claims);
    return run_suite(suite);
}
