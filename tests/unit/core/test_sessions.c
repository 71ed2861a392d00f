/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/sessions.c: what is a repeat, what is too old, who is forgotten. */
#include "server/core/sessions/session_table.h"

#include "tests/unit/core/core_sessions.h"

#include <stdio.h>
#include <string.h>

START_TEST(p2_a_repeat_gets_the_first_answer)
{
    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);

    ck_assert(is_repeat("a", 1, 1));
    ck_assert(is_repeat("a", 1, 1));
    ck_assert(!is_repeat("a", 1, 2));
    ck_assert(!is_repeat("b", 1, 1));
}
END_TEST

START_TEST(requests_may_arrive_in_any_order_within_the_window)
{
    for (uint64_t sequence = PS_SESSION_SLOTS; sequence >= 1; sequence--)
        ck_assert_int_eq(apply("a", 1, sequence, 0), PS_OK);

    for (uint64_t sequence = 1; sequence <= PS_SESSION_SLOTS; sequence++)
        ck_assert(is_repeat("a", 1, sequence));
}
END_TEST

START_TEST(a_sequence_that_another_has_overtaken_is_too_old)
{
    for (uint64_t sequence = 1; sequence <= PS_SESSION_SLOTS + 1; sequence++)
        ck_assert_int_eq(apply("a", 1, sequence, 0), PS_OK);

    ck_assert_int_eq(apply("a", 1, 1, 0), PS_ERR_STALE_SESSION);

    ck_assert_ptr_nonnull(strstr(error.text, "too old"));
    ck_assert(is_repeat("a", 1, 2));
}
END_TEST

START_TEST(a_missing_sequence_within_the_window_is_still_new)
{
    for (uint64_t sequence = 1; sequence <= PS_SESSION_SLOTS; sequence++)
        if (sequence != 7)
            ck_assert_int_eq(apply("a", 1, sequence, 0), PS_OK);

    ck_assert_int_eq(apply("a", 1, 7, 0), PS_OK);
    ck_assert(is_repeat("a", 1, 7));
}
END_TEST

START_TEST(while_nobody_was_forgotten_an_unknown_client_is_new)
{
    ck_assert_int_eq(apply("a", 3, 100000, 0), PS_OK);

    ck_assert(is_repeat("a", 3, 100000));
}
END_TEST

START_TEST(p2_a_forgotten_clients_repeat_is_refused_whatever_its_sequence)
{
    const char *const names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(apply(names[i], 3, 7, i), PS_OK);

    ck_assert_int_eq(apply("a", 3, 7, 9), PS_ERR_STALE_SESSION);

    ck_assert_ptr_nonnull(strstr(error.text, "not remembered"));
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
    ck_assert_int_eq(apply("a", 2, 1, 9), PS_ERR_STALE_SESSION);
    ck_assert_int_eq(apply("a", 4, 1000, 9), PS_OK);
}
END_TEST

START_TEST(the_session_that_is_suggested_is_accepted)
{
    const uint64_t ahead = PS_SESSION_AHEAD_US + 9000;
    const char *const names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(apply(names[i], ahead, 7, 9), PS_OK);

    ck_assert_int_eq(apply("f", 10000, 1, 10), PS_ERR_STALE_SESSION);
    ck_assert_uint_eq(error.session, ahead + 1);
    ck_assert_int_eq(apply("f", error.session, 1, 0), PS_OK);
    ck_assert_int_eq(apply("f", ahead, 1, 0), PS_ERR_STALE_SESSION);
    ck_assert_int_eq(apply("f", error.session, 1, 0), PS_OK);
}
END_TEST

START_TEST(a_session_far_ahead_of_the_clock_is_refused_and_raises_nothing)
{
    ck_assert_int_eq(apply("a", UINT64_MAX, 1, 5), PS_ERR_STALE_SESSION);
    ck_assert_ptr_nonnull(strstr(error.text, "later than now"));
    ck_assert_uint_eq(error.session, 5000);
    ck_assert_int_eq(apply("a", 5001 + PS_SESSION_AHEAD_US, 1, 5), PS_ERR_STALE_SESSION);
    ck_assert_int_eq(apply("a", 5000 + PS_SESSION_AHEAD_US, 1, 5), PS_OK);

    ck_assert_int_eq(apply("a", UINT64_MAX, 1, 5), PS_ERR_STALE_SESSION);
    ck_assert_uint_eq(sessions.floor, 0);
}
END_TEST

START_TEST(an_id_that_comes_back_for_another_request_is_told_so)
{
    struct ps_request_id id = id_of("worker-0", 1, 1);
    struct ps_session_call call;
    bool repeat = false;
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 0x00070009, 0, &call, &error), PS_OK);
    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = 1});

    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 0x00070008, 0, &call, &error),
                     PS_ERR_ID_REUSED);
    ck_assert_ptr_nonnull(strstr(error.text, "begin a higher session"));
    ck_assert_int_eq(ps_sessions_look(&sessions, &id, 0x00080000, 0, &repeat, NULL, &error),
                     PS_ERR_ID_REUSED);

    ck_assert_int_eq(ps_sessions_look(&sessions, &id, 0x00070000, 0, &repeat, NULL, &error), PS_OK);
    ck_assert(repeat);
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 0x00070009, 0, &call, &error), PS_OK);
    ck_assert(call.is_repeat);
}
END_TEST

START_TEST(a_higher_session_begins_anew_and_ends_the_former)
{
    ck_assert_int_eq(apply("a", 1, 5, 0), PS_OK);

    ck_assert_int_eq(apply("a", 2, 5, 0), PS_OK);

    ck_assert_int_eq(apply("a", 1, 6, 0), PS_ERR_STALE_SESSION);
    ck_assert_ptr_nonnull(strstr(error.text, "session 1 is over"));
    ck_assert_int_eq(apply("a", 1, 5, 0), PS_ERR_STALE_SESSION);
    ck_assert(is_repeat("a", 2, 5));
}
END_TEST

START_TEST(a_request_under_way_is_busy_until_it_ends)
{
    struct ps_session_call first;
    struct ps_session_call second;
    ck_assert_int_eq(begin("a", 1, 1, 0, &first), PS_OK);

    ck_assert_int_eq(begin("a", 1, 1, 0, &second), PS_ERR_BUSY);
    ck_assert_int_eq(begin("a", 1, 1 + PS_SESSION_SLOTS, 0, &second), PS_ERR_BUSY);
    ck_assert_int_eq(begin("a", 2, 1, 0, &second), PS_ERR_BUSY);

    ps_sessions_commit(&sessions, &first, (struct ps_session_answer){.version = 10});
    ck_assert(is_repeat("a", 1, 1));
}
END_TEST

START_TEST(a_refused_request_may_come_again)
{
    struct ps_session_call call;
    ck_assert_int_eq(begin("a", 1, 1, 0, &call), PS_OK);
    ps_sessions_abort(&sessions, &call);

    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);
}
END_TEST

START_TEST(a_refused_request_does_not_make_its_slot_forget)
{
    struct ps_session_call call;
    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);
    ck_assert_int_eq(begin("a", 1, 1 + PS_SESSION_SLOTS, 0, &call), PS_OK);

    ps_sessions_abort(&sessions, &call);

    ck_assert(is_repeat("a", 1, 1));
}
END_TEST

START_TEST(calls_end_in_any_order)
{
    struct ps_session_call calls[3];
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(begin("a", 1, i + 1, 0, &calls[i]), PS_OK);

    ps_sessions_commit(&sessions, &calls[1], (struct ps_session_answer){.version = 20});
    ps_sessions_check(&sessions);
    ps_sessions_abort(&sessions, &calls[0]);
    ps_sessions_commit(&sessions, &calls[2], (struct ps_session_answer){.version = 30});

    ck_assert(!is_repeat("a", 1, 1));
    ck_assert(is_repeat("a", 1, 2));
    ck_assert(is_repeat("a", 1, 3));
}
END_TEST

START_TEST(malformed_ids_are_refused)
{
    char endless[PS_CLIENT_ID_BYTES_MAX + 2];
    memset(endless, 'x', sizeof endless);
    endless[PS_CLIENT_ID_BYTES_MAX + 1] = '\0';

    ck_assert_int_eq(apply("", 1, 1, 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(apply(endless, 1, 1, 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(apply("a", 1, 0, 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(apply(endless + 1, 1, 1, 0), PS_OK);
}
END_TEST

static void fill(uint64_t now_ms)
{
    static const char *const names[CLIENTS_MAX] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        ck_assert_int_eq(apply(names[i], 1, 1, now_ms + i), PS_OK);
}

START_TEST(a2_a_client_that_comes_is_let_in_however_many_came_before)
{
    char name[24];
    fill(0);
    for (uint64_t i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "flood %d", (int)i);
        ck_assert_int_eq(apply(name, 10 + i, 1, 5), PS_OK);
    }

    ck_assert_int_eq(apply("trainer", 1010, 1, 6), PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
}
END_TEST

START_TEST(a_refused_request_makes_no_client_and_forgets_none)
{
    struct ps_session_call call;
    fill(0);
    ck_assert_int_eq(begin("e", 1, 1, 5, &call), PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
    ps_sessions_abort(&sessions, &call);

    ck_assert(is_repeat("a", 1, 1));
    ck_assert_uint_eq(sessions.floor, 0);
    ck_assert_uint_eq(HASH_COUNT(sessions.entries), CLIENTS_MAX);
}
END_TEST

START_TEST(the_longest_silent_client_makes_room)
{
    fill(0);
    ck_assert(is_repeat("a", 1, 1)); /* "b" is the longest silent now */

    ck_assert_int_eq(apply("e", 2, 1, 5), PS_OK);

    ck_assert(is_repeat("a", 1, 1));
    ck_assert(is_repeat("c", 1, 1));
    ck_assert_int_eq(apply("b", 1, 1, 5), PS_ERR_STALE_SESSION);
}
END_TEST

START_TEST(who_is_forgotten_early_is_counted)
{
    struct ps_sessions_tally tally;
    fill(0);
    ck_assert_int_eq(apply("e", 2, 1, IDLE_MS - 1), PS_OK);
    ck_assert_int_eq(apply("f", 2, 1, IDLE_MS + 1), PS_OK);

    ps_sessions_tally(&sessions, &tally);

    ck_assert_uint_eq(tally.remembered, CLIENTS_MAX);
    ck_assert_uint_eq(tally.newly_forgotten, 2);
    ck_assert_uint_eq(tally.newly_forgotten_early, 1);
    ps_sessions_tally(&sessions, &tally);
    ck_assert_uint_eq(tally.newly_forgotten, 0);
}
END_TEST

START_TEST(a_client_whose_request_is_under_way_is_not_forgotten)
{
    struct ps_session_call call;
    fill(0);
    ck_assert_int_eq(begin("a", 1, 2, 0, &call), PS_OK);
    ps_sessions_check(&sessions);

    ck_assert_int_eq(apply("e", 2, 1, 100 * IDLE_MS), PS_OK);
    ck_assert_int_eq(apply("f", 2, 1, 100 * IDLE_MS), PS_OK);
    ck_assert_int_eq(apply("g", 2, 1, 100 * IDLE_MS), PS_OK);
    ck_assert_int_eq(apply("h", 2, 1, 100 * IDLE_MS), PS_OK);

    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = 20});
    ck_assert(is_repeat("a", 1, 2));
}
END_TEST

START_TEST(where_all_have_requests_under_way_the_table_is_too_large_for_as_long)
{
    struct ps_session_call calls[CLIENTS_MAX + 1];
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    fill(0);
    for (size_t i = 0; i <= CLIENTS_MAX; i++)
        ck_assert_int_eq(begin(names[i], 1, 2, 5, &calls[i]), PS_OK);

    ps_sessions_commit(&sessions, &calls[CLIENTS_MAX], (struct ps_session_answer){.version = 20});
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX + 1);
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        ps_sessions_commit(&sessions, &calls[i], (struct ps_session_answer){.version = 20});

    ck_assert_int_eq(apply("f", 3, 1, 6), PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
}
END_TEST

START_TEST(looking_remembers_nobody)
{
    struct ps_request_id id = id_of("a", 1, 1);
    bool repeat = true;

    ck_assert_int_eq(ps_sessions_look(&sessions, &id, 0, 0, &repeat, NULL, &error), PS_OK);
    ck_assert(!repeat);
    ck_assert_uint_eq(ps_sessions_count(&sessions), 0);
    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);
    ck_assert_int_eq(ps_sessions_look(&sessions, &id, 0, 0, &repeat, NULL, &error), PS_OK);
    ck_assert(repeat);
    id.session = 0;
    ck_assert_int_eq(ps_sessions_look(&sessions, &id, 0, 0, &repeat, NULL, &error),
                     PS_ERR_STALE_SESSION);
}
END_TEST

START_TEST(any_refused_allocation_leaves_the_table_as_it_was)
{
    ck_assert_int_eq(_i % 2 == 0 ? PS_OK : apply("a", 1, 1, 0), PS_OK);
    uint32_t count = ps_sessions_count(&sessions);
    heap.refuse_at = heap.seen + _i / 2;

    enum ps_status status = apply("b", 1, 1, 0);
    ps_sessions_check(&sessions);

    bool refused = heap.seen > heap.refuse_at;
    heap.refuse_at = -1;
    ck_assert_int_eq(status, refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), count + (refused ? 0 : 1));
    ck_assert_int_eq(apply("b", 1, 2, 0), PS_OK);
}
END_TEST

static int may_begin_left;

static bool may_begin(void *self, uint32_t *wait_ms)
{
    (void)self;
    *wait_ms = 250;
    return may_begin_left-- > 0;
}

static enum ps_status apply_from(const struct ps_origin *origin, const char *client,
                                 uint64_t sequence)
{
    struct ps_session_call call;
    struct ps_request_id id = id_of(client, 1, sequence);
    id.origin = origin;
    enum ps_status status = ps_sessions_begin(&sessions, &id, 0, 0, &call, &error);
    if (status == PS_OK)
        ps_sessions_commit(&sessions, &call, (struct ps_session_answer){0});
    return status;
}

START_TEST(a_caller_begins_with_new_clients_at_its_pace)
{
    const struct ps_origin origin = {.may_begin = may_begin};
    may_begin_left = 2;
    ck_assert_int_eq(apply_from(&origin, "a", 1), PS_OK);
    ck_assert_int_eq(apply_from(&origin, "b", 1), PS_OK);

    ck_assert_int_eq(apply_from(&origin, "c", 1), PS_ERR_BUSY);

    ck_assert_int_eq(error.refusal, PS_REFUSED_SESSIONS);
    ck_assert_uint_eq(error.retry_ms, 250);
    ck_assert_uint_eq(ps_sessions_count(&sessions), 2);
    /* Clients that are remembered are asked nothing. */
    for (uint64_t sequence = 2; sequence < 9; sequence++)
        ck_assert_int_eq(apply_from(&origin, "a", sequence), PS_OK);
    may_begin_left = 1;
    ck_assert_int_eq(apply_from(&origin, "c", 1), PS_OK);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, p2_a_repeat_gets_the_first_answer);
    tcase_add_test(tests, requests_may_arrive_in_any_order_within_the_window);
    tcase_add_test(tests, a_sequence_that_another_has_overtaken_is_too_old);
    tcase_add_test(tests, a_missing_sequence_within_the_window_is_still_new);
    tcase_add_test(tests, while_nobody_was_forgotten_an_unknown_client_is_new);
    tcase_add_test(tests, p2_a_forgotten_clients_repeat_is_refused_whatever_its_sequence);
    tcase_add_test(tests, the_session_that_is_suggested_is_accepted);
    tcase_add_test(tests, a_session_far_ahead_of_the_clock_is_refused_and_raises_nothing);
    tcase_add_test(tests, an_id_that_comes_back_for_another_request_is_told_so);
    tcase_add_test(tests, a_higher_session_begins_anew_and_ends_the_former);
    tcase_add_test(tests, a_request_under_way_is_busy_until_it_ends);
    tcase_add_test(tests, a_refused_request_may_come_again);
    tcase_add_test(tests, a_refused_request_does_not_make_its_slot_forget);
    tcase_add_test(tests, calls_end_in_any_order);
    tcase_add_test(tests, malformed_ids_are_refused);
    tcase_add_test(tests, a2_a_client_that_comes_is_let_in_however_many_came_before);
    tcase_add_test(tests, a_refused_request_makes_no_client_and_forgets_none);
    tcase_add_test(tests, the_longest_silent_client_makes_room);
    tcase_add_test(tests, who_is_forgotten_early_is_counted);
    tcase_add_test(tests, where_all_have_requests_under_way_the_table_is_too_large_for_as_long);
    tcase_add_test(tests, a_client_whose_request_is_under_way_is_not_forgotten);
    tcase_add_test(tests, looking_remembers_nobody);
    tcase_add_loop_test(tests, any_refused_allocation_leaves_the_table_as_it_was, 0, 8);
    tcase_add_test(tests, a_caller_begins_with_new_clients_at_its_pace);
    return run_tests("sessions", tests);
}
