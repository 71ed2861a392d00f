/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/staging_room.c: who is let in, who waits, and who gives way to whom. */
#include "server/core/requests/staging_room.h"

#include "core_staging.h"

#include <stdio.h>

START_TEST(what_would_not_fit_is_refused_at_its_first_part)
{
    staged_begin(3 * sizeof values);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    /* Half for one client, all for everybody. */
    ck_assert_int_eq(staged_add_as("a", 2, "w", TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    ck_assert_int_eq(staged_add_as("b", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("c", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("d", 1, "w", TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    /* Who was let in gets to the end. */
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, PART, PART, 0).status, PS_OK);
    struct added last = staged_add_as("a", 1, "w", TOTAL, 2 * PART, REST, 0);
    staged_expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    ck_assert_int_eq(staged_add_as("d", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    staged_end();
}
END_TEST

START_TEST(the_only_one_always_fits)
{
    staged_begin(1000);
    (void)staged_add(0, PART);
    (void)staged_add(PART, PART);
    struct added last = staged_add(2 * PART, REST);
    staged_expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    staged_end();
}
END_TEST

/* As many elements as nobody could stage: what says so need not be true. */
#define HUGE_TOTAL ((uint64_t)1 << 50)

START_TEST(what_claims_more_than_everything_leaves_half_to_others)
{
    staged_begin(4 * sizeof values);
    ck_assert_int_eq(staged_add_as("liar", 1, "w", HUGE_TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("b", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("c", 1, "w", TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    /* There is one of the kind at a time. */
    ck_assert_int_eq(staged_add_as("liar", 2, "v", HUGE_TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    ck_assert_int_eq(staged_add_as("d", 1, "v", HUGE_TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    staged_end();
}
END_TEST

START_TEST(what_gets_no_part_for_a_while_gives_way_to_anybody)
{
    staged_begin(2 * sizeof values);
    ck_assert_int_eq(staged_add_as("dead", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("b", 1, "w", TOTAL, 0, PART, 1).status, PS_OK);

    ck_assert_int_eq(staged_add_as("c", 1, "w", TOTAL, 0, PART, PS_STAGING_STALLED_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_int_eq(staged_add_as("c", 1, "w", TOTAL, 0, PART, PS_STAGING_STALLED_MS).status,
                     PS_OK);

    ck_assert_uint_eq(staging.count, 2); /* of b and c: no more went than was needed */
    ck_assert_uint_eq(staging.expired_count, 1);
    ck_assert_int_eq(staged_add_as("b", 1, "w", TOTAL, PART, PART, PS_STAGING_STALLED_MS).status,
                     PS_OK);
    staged_end();
}
END_TEST

START_TEST(a_second_of_the_largest_kind_waits_until_the_first_is_stalled)
{
    staged_begin(2 * sizeof values);
    ck_assert_int_eq(staged_add_as("a", 1, "w", HUGE_TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("b", 1, "w", HUGE_TOTAL, 0, PART, 0).status, PS_ERR_BUSY);

    ck_assert_int_eq(staged_add_as("b", 1, "w", HUGE_TOTAL, 0, PART, PS_STAGING_STALLED_MS).status,
                     PS_OK);

    ck_assert_uint_eq(staging.count, 1);
    staged_end();
}
END_TEST

/* The room that is missing is the client's own: others have nothing to do with it. */
START_TEST(nobody_stalled_gives_way_to_who_has_too_much_himself)
{
    staged_begin(4 * sizeof values);
    ck_assert_int_eq(staged_add_as("stalled", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    uint64_t now_ms = PS_STAGING_STALLED_MS;
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, now_ms).status, PS_OK);
    ck_assert_int_eq(staged_add_as("a", 2, "w", TOTAL, 0, PART, now_ms).status, PS_OK);

    ck_assert_int_eq(staged_add_as("a", 3, "w", TOTAL, 0, PART, now_ms).status, PS_ERR_BUSY);

    ck_assert_uint_eq(staging.count, 3);
    staged_end();
}
END_TEST

START_TEST(what_gets_no_part_for_long_is_dropped)
{
    staged_begin(1 << 20);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 1000).status, PS_OK);
    ck_assert_int_eq(
        staged_add_as("b", 1, "w", TOTAL, 0, PART, 1000 + PS_STAGING_IDLE_MS - 1).status, PS_OK);
    ck_assert_uint_eq(staging.count, 2);
    ck_assert_int_eq(staged_add_as("b", 2, "w", TOTAL, 0, PART, 1000 + PS_STAGING_IDLE_MS).status,
                     PS_OK);
    ck_assert_uint_eq(staging.count, 2);
    ck_assert_uint_eq(staging.expired_count, 1);
    staged_end();
}
END_TEST

/* Room for one request of a client. */
static void begin_narrow(void)
{
    staged_begin(3 * sizeof values);
}

START_TEST(what_a_client_has_given_up_gives_way_to_what_it_begins)
{
    begin_narrow();
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(staged_add_as("a", 2, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_int_eq(staged_add_as("a", 2, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS).status, PS_OK);
    ck_assert_uint_eq(staging.count, 1);
    ck_assert_uint_eq(staging.expired_count, 1);
    staged_end();
}
END_TEST

START_TEST(a_newer_session_is_newer_whatever_its_numbers)
{
    begin_narrow();
    ck_assert_int_eq(staged_add_of(1, 9, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(staged_add_of(2, 1, 0, PART, PS_STAGING_YIELD_MS).status, PS_OK);
    ck_assert_int_eq(staged_add_of(1, 10, 0, PART, 3 * PS_STAGING_YIELD_MS).status, PS_ERR_BUSY);
    ck_assert_uint_eq(staging.expired_count, 1);
    staged_end();
}
END_TEST

START_TEST(the_older_never_drives_out_the_newer)
{
    begin_narrow();
    ck_assert_int_eq(staged_add_as("a", 2, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(staged_add_as("a", 1, "v", TOTAL, 0, PART, PS_STAGING_IDLE_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_uint_eq(staging.expired_count, 0);
    staged_end();
}
END_TEST

START_TEST(what_still_gets_parts_is_not_given_up)
{
    begin_narrow();
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, PART, PART, PS_STAGING_YIELD_MS).status,
                     PS_OK);

    ck_assert_int_eq(staged_add_as("a", 2, "v", TOTAL, 0, PART, 2 * PS_STAGING_YIELD_MS - 1).status,
                     PS_ERR_BUSY);
    struct added last = staged_add_as("a", 1, "w", TOTAL, 2 * PART, REST, 2 * PS_STAGING_YIELD_MS);
    staged_expect_whole(&last);
    /* Nor is what is being applied. */
    ck_assert_int_eq(staged_add_as("a", 2, "v", TOTAL, 0, PART, 9 * PS_STAGING_YIELD_MS).status,
                     PS_ERR_BUSY);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    ck_assert_uint_eq(staging.expired_count, 0);
    staged_end();
}
END_TEST

START_TEST(nobody_gives_way_to_another_client_at_once)
{
    begin_narrow();
    const char *const clients[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(staged_add_as(clients[i], 1, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(staged_add_as("d", 2, "w", TOTAL, 0, PART, PS_STAGING_STALLED_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_uint_eq(staging.count, 3);
    staged_end();
}
END_TEST

START_TEST(only_as_much_gives_way_as_is_needed_and_the_oldest_first)
{
    staged_begin(6 * sizeof values);
    for (uint64_t sequence = 1; sequence <= 3; sequence++)
        ck_assert_int_eq(staged_add_as("a", 4 - sequence, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(staged_add_as("a", 7, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS).status, PS_OK);
    ck_assert_uint_eq(staging.count, 3);
    /* The first has gone; the second and third go on. */
    struct added added = staged_add_as("a", 2, "w", TOTAL, PART, PART, PS_STAGING_YIELD_MS);
    ck_assert_int_eq(added.status, PS_OK);
    added = staged_add_as("a", 2, "w", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS);
    staged_expect_whole(&added);
    ps_staging_end(&staging, added.got.staged, PS_OK);
    staged_end();
}
END_TEST

/* Its parts are answered as those of any request that is not whole yet. */
START_TEST(what_gave_way_may_come_again)
{
    begin_narrow();
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, PART, PART, 0).status, PS_OK);
    struct added other = staged_add_as("a", 2, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS).status,
                     PS_ERR_BUSY);
    (void)staged_add_as("a", 2, "v", TOTAL, PART, PART, PS_STAGING_YIELD_MS);
    other = staged_add_as("a", 2, "v", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS);
    staged_expect_whole(&other);
    ps_staging_end(&staging, other.got.staged, PS_OK);

    struct added added = staged_add_as("a", 1, "w", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS);
    ck_assert_int_eq(added.status, PS_OK);
    ck_assert_ptr_null(added.got.staged);
    (void)staged_add_as("a", 1, "w", TOTAL, 0, PART, PS_STAGING_YIELD_MS);
    added = staged_add_as("a", 1, "w", TOTAL, PART, PART, PS_STAGING_YIELD_MS);
    staged_expect_whole(&added);
    ps_staging_end(&staging, added.got.staged, PS_OK);
    staged_end();
}
END_TEST

START_TEST(a_caller_that_names_many_clients_has_one_share)
{
    char client[16];
    int taken = 0;
    struct added added;
    staged_begin(64 * sizeof values);
    do {
        (void)snprintf(client, sizeof client, "c%d", taken);
        added = staged_add_from("host", client, 1, TOTAL, 0);
        taken++;
    } while (added.status == PS_OK);

    ck_assert_int_eq(taken - 1, 32);
    ck_assert_int_eq(added.error.refusal, PS_REFUSED_STAGING_SHARE);
    ck_assert_uint_gt(added.error.retry_ms, 0);
    ck_assert_int_eq(staged_add_from("other", "c0x", 1, TOTAL, 0).status, PS_OK);
    staged_end();
}
END_TEST

START_TEST(a_caller_beyond_its_quarter_gives_way_to_one_below)
{
    staged_begin(8 * sizeof values);
    for (uint64_t i = 1; i <= 4; i++) {
        ck_assert_int_eq(staged_add_from("greedy", "a", i, TOTAL, 0).status, PS_OK);
        ck_assert_int_eq(staged_add_from("greedier", "b", i, TOTAL, 0).status, PS_OK);
    }
    ck_assert_int_eq(staged_add_from("modest", "c", 1, TOTAL, 500).status, PS_ERR_BUSY);

    ck_assert_int_eq(staged_add_from("modest", "c", 1, TOTAL, 1500).status, PS_OK);
    ck_assert_int_eq(staged_add_from("modest", "c", 2, TOTAL, 1500).status, PS_OK);
    /* More than a quarter drives nobody out. */
    ck_assert_int_eq(staged_add_from("modest", "c", 3, TOTAL, 1500).status, PS_ERR_BUSY);
    staged_end();
}
END_TEST

START_TEST(a_caller_has_a_quarter_of_the_requests)
{
    uint64_t taken = 0;
    struct added added;
    staged_begin((uint64_t)1 << 40);
    do
        added = staged_add_from("host", "c", ++taken, TOTAL, 0);
    while (added.status == PS_OK && taken < PS_STAGING_REQUESTS_MAX);

    ck_assert_uint_eq(taken - 1, PS_STAGING_REQUESTS_MAX / 4);
    ck_assert_int_eq(added.error.refusal, PS_REFUSED_STAGING_SHARE);
    staged_end();
}
END_TEST

START_TEST(the_same_range_again_is_no_sign_of_life)
{
    staged_begin(2 * sizeof values);
    for (uint64_t now_ms = 0; now_ms <= PS_STAGING_STALLED_MS; now_ms += 500) {
        ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, now_ms).status, PS_OK);
        ck_assert_int_eq(staged_add_as("b", 1, "w", TOTAL, 0, PART, now_ms).status, PS_OK);
    }

    ck_assert_int_eq(staged_add_as("c", 1, "w", TOTAL, 0, PART, PS_STAGING_STALLED_MS).status,
                     PS_OK);
    staged_end();
}
END_TEST

START_TEST(what_comes_too_slowly_gives_way)
{
    const uint64_t total = 64 * (uint64_t)TOTAL;
    uint64_t now_ms = 0;
    staged_begin(total * sizeof(float));
    /* 64 KiB in four seconds: never silent for long, and never whole. */
    for (uint64_t i = 0; i < 5; i++, now_ms += 4000)
        ck_assert_int_eq(staged_add_as("a", 1, "w", total, i * TOTAL, PART, now_ms).status, PS_OK);

    ck_assert_int_eq(staged_add_as("b", 1, "v", total, 0, PART, now_ms - 3999).status, PS_OK);
    staged_end();
}
END_TEST

START_TEST(a_sweep_drops_what_nobody_goes_on_with)
{
    staged_begin(2 * sizeof values);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ps_staging_sweep(&staging, PS_STAGING_IDLE_MS - 1);
    ck_assert_uint_eq(staging.count, 1);
    ps_staging_sweep(&staging, PS_STAGING_IDLE_MS);

    ck_assert_uint_eq(staging.count, 0);
    ck_assert_uint_eq(staging.bytes, 0);
    staged_end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("staging_room");
    tcase_add_test(t, what_would_not_fit_is_refused_at_its_first_part);
    tcase_add_test(t, the_only_one_always_fits);
    tcase_add_test(t, what_claims_more_than_everything_leaves_half_to_others);
    tcase_add_test(t, what_gets_no_part_for_a_while_gives_way_to_anybody);
    tcase_add_test(t, a_second_of_the_largest_kind_waits_until_the_first_is_stalled);
    tcase_add_test(t, nobody_stalled_gives_way_to_who_has_too_much_himself);
    tcase_add_test(t, what_gets_no_part_for_long_is_dropped);
    tcase_add_test(t, what_a_client_has_given_up_gives_way_to_what_it_begins);
    tcase_add_test(t, a_newer_session_is_newer_whatever_its_numbers);
    tcase_add_test(t, the_older_never_drives_out_the_newer);
    tcase_add_test(t, what_still_gets_parts_is_not_given_up);
    tcase_add_test(t, nobody_gives_way_to_another_client_at_once);
    tcase_add_test(t, only_as_much_gives_way_as_is_needed_and_the_oldest_first);
    tcase_add_test(t, what_gave_way_may_come_again);
    tcase_add_test(t, a_caller_that_names_many_clients_has_one_share);
    tcase_add_test(t, a_caller_beyond_its_quarter_gives_way_to_one_below);
    tcase_add_test(t, a_caller_has_a_quarter_of_the_requests);
    tcase_add_test(t, the_same_range_again_is_no_sign_of_life);
    tcase_add_test(t, what_comes_too_slowly_gives_way);
    tcase_add_test(t, a_sweep_drops_what_nobody_goes_on_with);
    return run_tests("staging_room", t);
}
