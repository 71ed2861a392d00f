/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator itself: its checkers notice every deliberate fault, and its worlds repeat. */
#include "run_suite.h"
#include "tests/sim/sim_random_world.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 300

/* Some world notices that `promise` is broken. (One fault may break others too.) */
static void expect_caught(enum sim_mutation mutation, const char *promise)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct sim_world_report report;
        sim_random_world(seed, mutation, &report, NULL);
        if (report.failed && strncmp(report.failure, promise, strlen(promise)) == 0)
            return;
    }
    ck_abort_msg("no world of %d noticed", SEEDS);
}

START_TEST(sim_checkers_catch_claims_that_the_store_does_not_compare)
{
    expect_caught(SIM_MUTATION_CLAIM_UNCOMPARED, "P4");
}
END_TEST

START_TEST(sim_checkers_catch_pointers_that_the_store_does_not_compare)
{
    expect_caught(SIM_MUTATION_POINTER_UNCOMPARED, "P4");
}
END_TEST

START_TEST(sim_checkers_catch_a_lost_lease_that_is_kept_quiet)
{
    expect_caught(SIM_MUTATION_LEASE_IMMORTAL, "P4");
}
END_TEST

START_TEST(sim_checkers_catch_a_clock_that_is_later_than_the_margin)
{
    expect_caught(SIM_MUTATION_CLOCK_LATE, "P4");
}
END_TEST

START_TEST(sim_checkers_catch_a_disk_that_does_not_sync)
{
    expect_caught(SIM_MUTATION_SYNC_IGNORED, "P3");
}
END_TEST

START_TEST(sim_checkers_catch_a_checkpoint_of_two_instants)
{
    expect_caught(SIM_MUTATION_SNAPSHOT_TORN, "P3");
}
END_TEST

START_TEST(sim_replicas_catch_servers_that_forget_in_which_life_a_version_was)
{
    expect_caught(SIM_MUTATION_CHAIN_FORGOTTEN, "delta");
}
END_TEST

START_TEST(sim_checkers_catch_a_range_of_another_gradient)
{
    expect_caught(SIM_MUTATION_RANGE_BENT, "ranges");
}
END_TEST

START_TEST(sim_checkers_catch_ranges_that_are_read_of_different_versions)
{
    expect_caught(SIM_MUTATION_VERSION_IGNORED, "ranges");
}
END_TEST

START_TEST(sim_checkers_catch_trainers_that_believe_in_versions_that_never_came_true)
{
    expect_caught(SIM_MUTATION_MADE_BELIEVED, "ranges");
}
END_TEST

START_TEST(sim_checkers_catch_ranges_that_bring_back_what_was_there_before)
{
    expect_caught(SIM_MUTATION_MADE_BEFORE, "ranges");
}
END_TEST

START_TEST(sim_worlds_catch_a_finish_after_the_parameters_were_lost)
{
    expect_caught(SIM_MUTATION_FINISH_UNCHECKED, "liveness");
}
END_TEST

START_TEST(sim_checkers_catch_a_journal_that_does_not_sync)
{
    expect_caught(SIM_MUTATION_JOURNAL_UNSYNCED, "P1");
}
END_TEST

START_TEST(sim_checkers_catch_pushes_that_are_acknowledged_before_they_are_durable)
{
    expect_caught(SIM_MUTATION_REPLY_EARLY, "P1");
}
END_TEST

/* Nothing is missing, and a shard is not served for it. */
START_TEST(sim_worlds_catch_notes_of_what_is_not_durable)
{
    expect_caught(SIM_MUTATION_NOTE_AHEAD, "liveness");
}
END_TEST

START_TEST(sim_checkers_catch_pushes_whose_ids_are_forgotten)
{
    expect_caught(SIM_MUTATION_ID_FORGOTTEN, "P2");
}
END_TEST

START_TEST(sim_checkers_catch_fingerprints_that_a_recovery_loses)
{
    expect_caught(SIM_MUTATION_FINGERPRINT_LOST, "P2");
}
END_TEST

START_TEST(sim_checkers_catch_pushes_of_a_client_that_a_recovery_does_not_count)
{
    expect_caught(SIM_MUTATION_COUNT_LOST, "P2");
}
END_TEST

START_TEST(sim_checkers_catch_a_journal_that_is_replayed_wrongly)
{
    expect_caught(SIM_MUTATION_REPLAY_BENT, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_configurations_that_replay_leaves_out)
{
    expect_caught(SIM_MUTATION_CONFIGURE_LOST, "P5");
}
END_TEST

START_TEST(sim_trainers_catch_drops_whose_repeat_is_not_known)
{
    expect_caught(SIM_MUTATION_DROP_UNREMEMBERED, "P2");
}
END_TEST

START_TEST(sim_checkers_catch_definitions_that_are_answered_before_they_are_durable)
{
    expect_caught(SIM_MUTATION_DEFINE_EARLY, "P1");
}
END_TEST

START_TEST(sim_checkers_catch_pulls_that_do_not_wait)
{
    expect_caught(SIM_MUTATION_WAIT_IGNORED, "waits");
}
END_TEST

START_TEST(sim_checkers_catch_contributions_that_count_twice)
{
    expect_caught(SIM_MUTATION_HELD_TWICE, "rounds");
}
END_TEST

START_TEST(sim_checkers_catch_contributions_that_are_replayed_wrongly)
{
    expect_caught(SIM_MUTATION_HELD_BENT, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_evictions_that_replay_forgets)
{
    expect_caught(SIM_MUTATION_EVICTION_LOST, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_ranges_that_are_not_configured_with_the_first)
{
    expect_caught(SIM_MUTATION_RANGE_UNCHANGED, "rounds");
}
END_TEST

START_TEST(sim_checkers_catch_reads_that_are_answered_a_clock_early)
{
    expect_caught(SIM_MUTATION_CLOCK_EARLY, "clocks");
}
END_TEST

START_TEST(sim_checkers_catch_clocks_that_replay_sets_back)
{
    expect_caught(SIM_MUTATION_CLOCK_LOST, "clocks");
}
END_TEST

START_TEST(sim_checkers_catch_clocks_that_replay_does_not_remove)
{
    expect_caught(SIM_MUTATION_CLOCKS_KEPT, "clocks");
}
END_TEST

START_TEST(sim_checkers_catch_rows_that_are_added_twice)
{
    expect_caught(SIM_MUTATION_ROW_TWICE, "rows");
}
END_TEST

START_TEST(sim_checkers_catch_gradients_of_a_repeated_key_that_are_lost)
{
    expect_caught(SIM_MUTATION_ROW_SUM_LOST, "rows");
}
END_TEST

START_TEST(sim_checkers_catch_wrong_values_of_keys_without_a_row)
{
    expect_caught(SIM_MUTATION_ROW_UNKNOWN, "rows");
}
END_TEST

START_TEST(sim_checkers_catch_checkpoints_whose_rows_are_of_a_later_push)
{
    expect_caught(SIM_MUTATION_ROWS_LATE, "P3");
}
END_TEST

START_TEST(sim_checkers_catch_rows_that_a_replay_does_not_let_expire)
{
    expect_caught(SIM_MUTATION_SWEEP_LOST, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_one_row_that_a_replay_does_not_let_expire)
{
    expect_caught(SIM_MUTATION_EXPIRY_SHORT, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_keys_of_other_shards_that_are_taken)
{
    expect_caught(SIM_MUTATION_KEYS_UNCHECKED, "rows");
}
END_TEST

START_TEST(sim_checkers_catch_tables_that_a_replay_does_not_drop)
{
    expect_caught(SIM_MUTATION_TABLE_DROP_LOST, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_checkpoints_that_forget_what_was_counted)
{
    expect_caught(SIM_MUTATION_CANDIDATES_LOST, "P3");
}
END_TEST

START_TEST(sim_checkers_catch_rows_of_a_round_that_a_replay_loses)
{
    expect_caught(SIM_MUTATION_ROUND_ROWS_LOST, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_contributions_above_the_row_limit)
{
    expect_caught(SIM_MUTATION_ROUND_UNLIMITED, "rows");
}
END_TEST

START_TEST(sim_checkers_catch_evictions_from_rounds_of_rows_that_replay_forgets)
{
    expect_caught(SIM_MUTATION_ROUND_EVICTED_LOST, "P5");
}
END_TEST

START_TEST(sim_checkers_catch_rounds_of_rows_that_end_before_their_grace_time)
{
    expect_caught(SIM_MUTATION_ROUND_EARLY, "rows");
}
END_TEST

START_TEST(sim_followers_catch_rows_of_which_nobody_says_that_they_went)
{
    expect_caught(SIM_MUTATION_GONE_UNTOLD, "rows");
}
END_TEST

START_TEST(sim_followers_catch_deltas_that_leave_a_version_out)
{
    expect_caught(SIM_MUTATION_SINCE_LATE, "rows");
}
END_TEST

START_TEST(sim_followers_catch_versions_of_another_table_of_the_name)
{
    expect_caught(SIM_MUTATION_TABLE_CHAIN_FORGOTTEN, "rows");
}
END_TEST

START_TEST(sim_worlds_catch_servers_that_take_what_is_meant_for_another_shard)
{
    expect_caught(SIM_MUTATION_SHARD_UNCHECKED, "P4");
}
END_TEST

START_TEST(sim_checkers_catch_checkpoints_that_do_not_wait_for_the_journal)
{
    expect_caught(SIM_MUTATION_CHECKPOINT_AHEAD, "P3");
}
END_TEST

/* In the worlds of 49 and 52, one shard has two checkpoints of the same position: which of them
 * goes first is up to their names. */
START_TEST(equal_seeds_live_equal_lives)
{
    static const uint64_t seeds[] = {7, 49, 52};
    struct sim_world_report report;
    char *first;
    char *second;

    sim_random_world(seeds[_i], SIM_MUTATION_NONE, &report, &first);
    sim_random_world(seeds[_i], SIM_MUTATION_NONE, &report, &second);

    ck_assert_uint_gt(strlen(first), 1000);
    ck_assert(strcmp(first, second) == 0); /* too long to be printed */
    free(first);
    free(second);
}
END_TEST

START_TEST(other_seeds_live_other_lives)
{
    struct sim_world_report report;
    char *first;
    char *second;

    sim_random_world(7, SIM_MUTATION_NONE, &report, &first);
    sim_random_world(8, SIM_MUTATION_NONE, &report, &second);

    ck_assert(strcmp(first, second) != 0);
    free(first);
    free(second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim");
    TCase *tests = tcase_create("sim");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, sim_checkers_catch_claims_that_the_store_does_not_compare);
    tcase_add_test(tests, sim_checkers_catch_pointers_that_the_store_does_not_compare);
    tcase_add_test(tests, sim_checkers_catch_a_lost_lease_that_is_kept_quiet);
    tcase_add_test(tests, sim_checkers_catch_a_clock_that_is_later_than_the_margin);
    tcase_add_test(tests, sim_checkers_catch_a_disk_that_does_not_sync);
    tcase_add_test(tests, sim_checkers_catch_a_checkpoint_of_two_instants);
    tcase_add_test(tests, sim_replicas_catch_servers_that_forget_in_which_life_a_version_was);
    tcase_add_test(tests, sim_checkers_catch_a_range_of_another_gradient);
    tcase_add_test(tests, sim_checkers_catch_ranges_that_are_read_of_different_versions);
    tcase_add_test(tests,
                   sim_checkers_catch_trainers_that_believe_in_versions_that_never_came_true);
    tcase_add_test(tests, sim_checkers_catch_ranges_that_bring_back_what_was_there_before);
    tcase_add_test(tests, sim_worlds_catch_a_finish_after_the_parameters_were_lost);
    tcase_add_test(tests, sim_checkers_catch_a_journal_that_does_not_sync);
    tcase_add_test(tests, sim_checkers_catch_pushes_that_are_acknowledged_before_they_are_durable);
    tcase_add_test(tests, sim_worlds_catch_notes_of_what_is_not_durable);
    tcase_add_test(tests, sim_checkers_catch_pushes_whose_ids_are_forgotten);
    tcase_add_test(tests, sim_checkers_catch_fingerprints_that_a_recovery_loses);
    tcase_add_test(tests, sim_checkers_catch_pushes_of_a_client_that_a_recovery_does_not_count);
    tcase_add_test(tests, sim_checkers_catch_a_journal_that_is_replayed_wrongly);
    tcase_add_test(tests, sim_checkers_catch_configurations_that_replay_leaves_out);
    tcase_add_test(tests, sim_trainers_catch_drops_whose_repeat_is_not_known);
    tcase_add_test(tests, sim_checkers_catch_definitions_that_are_answered_before_they_are_durable);
    tcase_add_test(tests, sim_checkers_catch_pulls_that_do_not_wait);
    tcase_add_test(tests, sim_checkers_catch_contributions_that_count_twice);
    tcase_add_test(tests, sim_checkers_catch_contributions_that_are_replayed_wrongly);
    tcase_add_test(tests, sim_checkers_catch_evictions_that_replay_forgets);
    tcase_add_test(tests, sim_checkers_catch_ranges_that_are_not_configured_with_the_first);
    tcase_add_test(tests, sim_checkers_catch_reads_that_are_answered_a_clock_early);
    tcase_add_test(tests, sim_checkers_catch_clocks_that_replay_sets_back);
    tcase_add_test(tests, sim_checkers_catch_clocks_that_replay_does_not_remove);
    tcase_add_test(tests, sim_checkers_catch_rows_that_are_added_twice);
    tcase_add_test(tests, sim_checkers_catch_gradients_of_a_repeated_key_that_are_lost);
    tcase_add_test(tests, sim_checkers_catch_wrong_values_of_keys_without_a_row);
    tcase_add_test(tests, sim_checkers_catch_checkpoints_whose_rows_are_of_a_later_push);
    tcase_add_test(tests, sim_checkers_catch_rows_that_a_replay_does_not_let_expire);
    tcase_add_test(tests, sim_checkers_catch_one_row_that_a_replay_does_not_let_expire);
    tcase_add_test(tests, sim_checkers_catch_keys_of_other_shards_that_are_taken);
    tcase_add_test(tests, sim_checkers_catch_tables_that_a_replay_does_not_drop);
    tcase_add_test(tests, sim_checkers_catch_checkpoints_that_forget_what_was_counted);
    tcase_add_test(tests, sim_checkers_catch_rows_of_a_round_that_a_replay_loses);
    tcase_add_test(tests, sim_checkers_catch_contributions_above_the_row_limit);
    tcase_add_test(tests, sim_checkers_catch_evictions_from_rounds_of_rows_that_replay_forgets);
    tcase_add_test(tests, sim_checkers_catch_rounds_of_rows_that_end_before_their_grace_time);
    tcase_add_test(tests, sim_followers_catch_rows_of_which_nobody_says_that_they_went);
    tcase_add_test(tests, sim_followers_catch_deltas_that_leave_a_version_out);
    tcase_add_test(tests, sim_followers_catch_versions_of_another_table_of_the_name);
    tcase_add_test(tests, sim_worlds_catch_servers_that_take_what_is_meant_for_another_shard);
    tcase_add_test(tests, sim_checkers_catch_checkpoints_that_do_not_wait_for_the_journal);
    tcase_add_loop_test(tests, equal_seeds_live_equal_lives, 0, 3);
    tcase_add_test(tests, other_seeds_live_other_lives);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
