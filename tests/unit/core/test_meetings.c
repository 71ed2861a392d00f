/* SPDX-License-Identifier: Apache-2.0 */
/* Members arrive, leave, and are let go together. */
#include "server/core/requests/meetings.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct ps_meetings meetings;
static struct ps_error error;
static bool all_are_there;

static void begin(void)
{
    ps_meetings_init(&meetings, ps_allocator_heap());
}

static void end(void)
{
    ps_meetings_check(&meetings);
    ps_meetings_fini(&meetings);
}

static enum ps_status arrive_with(const char *name, uint64_t round, uint32_t member, uint32_t of,
                                  uint64_t token, struct ps_meeting_place *place)
{
    const struct ps_arrival arrival = {ps_bytes_of_text(name), round, member, of, token};
    memset(place, 0, sizeof *place);
    enum ps_status status = ps_meetings_arrive(&meetings, &arrival, place, &all_are_there, &error);
    ps_meetings_check(&meetings);
    return status;
}

static enum ps_status arrive(uint64_t round, uint32_t member, uint32_t of,
                             struct ps_meeting_place *place)
{
    return arrive_with("b", round, member, of, 0, place);
}

static void leave(struct ps_meeting_place *place)
{
    ps_meetings_leave(&meetings, place);
    ps_meetings_check(&meetings);
}

START_TEST(the_last_member_lets_all_go)
{
    struct ps_meeting_place a;
    struct ps_meeting_place b;
    struct ps_meeting_place c;
    ck_assert_int_eq(arrive(1, 0, 3, &a), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive(1, 2, 3, &b), PS_ERR_NOT_READY);
    ck_assert_int_eq(ps_meetings_look(&meetings, &a, &error), PS_ERR_NOT_READY);
    ck_assert(!all_are_there);

    ck_assert_int_eq(arrive(1, 1, 3, &c), PS_OK);

    ck_assert(all_are_there);
    ck_assert_int_eq(ps_meetings_look(&meetings, &a, NULL), PS_OK);
    ck_assert_int_eq(ps_meetings_look(&meetings, &b, NULL), PS_OK);
    leave(&a);
    leave(&b);
    leave(&c);
}
END_TEST

START_TEST(a_member_alone_waits_for_nobody)
{
    struct ps_meeting_place place;

    ck_assert_int_eq(arrive(7, 0, 1, &place), PS_OK);
    ck_assert(all_are_there);
}
END_TEST

START_TEST(the_same_member_twice_counts_once)
{
    struct ps_meeting_place first;
    struct ps_meeting_place again;
    struct ps_meeting_place other;
    ck_assert_int_eq(arrive(1, 0, 2, &first), PS_ERR_NOT_READY);

    ck_assert_int_eq(arrive(1, 0, 2, &again), PS_ERR_NOT_READY);
    leave(&first); /* the connection of the first call broke */
    ck_assert_int_eq(arrive(1, 1, 2, &other), PS_OK);

    ck_assert_int_eq(ps_meetings_look(&meetings, &again, NULL), PS_OK);
    leave(&again);
}
END_TEST

START_TEST(a_member_that_gave_up_was_not_there)
{
    struct ps_meeting_place a;
    struct ps_meeting_place b;
    ck_assert_int_eq(arrive(1, 0, 2, &a), PS_ERR_NOT_READY);
    leave(&a);

    ck_assert_int_eq(arrive(1, 1, 2, &b), PS_ERR_NOT_READY);

    ck_assert_int_eq(arrive(1, 0, 2, &a), PS_OK);
    ck_assert_int_eq(ps_meetings_look(&meetings, &b, NULL), PS_OK);
    leave(&b);
}
END_TEST

START_TEST(a_repeat_whose_reply_was_lost_is_let_go)
{
    struct ps_meeting_place a;
    struct ps_meeting_place b;
    ck_assert_int_eq(arrive_with("b", 1, 0, 2, 50, &a), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive_with("b", 1, 1, 2, 51, &b), PS_OK);
    leave(&a);

    ck_assert_int_eq(arrive_with("b", 1, 0, 2, 50, &a), PS_OK);

    ck_assert(!all_are_there);
    ck_assert_int_eq(arrive_with("b", 1, 1, 2, 51, &b), PS_OK);
}
END_TEST

START_TEST(a_member_of_another_run_waits_in_the_same_round)
{
    struct ps_meeting_place a;
    struct ps_meeting_place b;
    ck_assert_int_eq(arrive_with("b", 1, 0, 2, 50, &a), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive_with("b", 1, 1, 2, 51, &b), PS_OK);
    leave(&a);

    ck_assert_int_eq(arrive_with("b", 1, 0, 2, 60, &a), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive_with("b", 1, 1, 2, 61, &b), PS_OK);

    ck_assert_int_eq(ps_meetings_look(&meetings, &a, NULL), PS_OK);
    leave(&a);
}
END_TEST

START_TEST(the_next_round_begins_while_calls_of_the_last_have_yet_to_look)
{
    struct ps_meeting_place old;
    struct ps_meeting_place next;
    struct ps_meeting_place last;
    ck_assert_int_eq(arrive(1, 0, 2, &old), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive(1, 1, 2, &last), PS_OK);

    ck_assert_int_eq(arrive(2, 1, 2, &next), PS_ERR_NOT_READY);

    ck_assert_int_eq(ps_meetings_look(&meetings, &old, NULL), PS_OK);
    leave(&old);
    ck_assert_int_eq(ps_meetings_look(&meetings, &next, NULL), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive(2, 0, 2, &last), PS_OK);
    leave(&next);
}
END_TEST

START_TEST(another_number_of_members_or_another_round_is_refused)
{
    struct ps_meeting_place a;
    struct ps_meeting_place b;
    ck_assert_int_eq(arrive(1, 0, 2, &a), PS_ERR_NOT_READY);

    ck_assert_int_eq(arrive(1, 1, 3, &b), PS_ERR_MISMATCH);
    ck_assert_int_eq(arrive(2, 1, 2, &b), PS_ERR_MISMATCH);

    ck_assert_str_eq(error.text, "barrier: others wait in round 1, this one in 2");
    ck_assert_int_eq(arrive(1, 1, 2, &b), PS_OK);
    leave(&a);
    ck_assert_int_eq(arrive(2, 0, 5, &a), PS_ERR_NOT_READY); /* nobody waits: a new number */
    leave(&a);
}
END_TEST

START_TEST(malformed_arrivals_are_refused)
{
    char name[PS_MEETING_NAME_BYTES_MAX + 2];
    struct ps_meeting_place place;
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';

    ck_assert_int_eq(arrive_with("", 1, 0, 2, 0, &place), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(arrive_with(name, 1, 0, 2, 0, &place), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(arrive(1, 0, 0, &place), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(arrive(1, 2, 2, &place), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(arrive(1, 0, PS_MEETING_MEMBERS_MAX + 1, &place), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(meetings.count, 0);
}
END_TEST

START_TEST(the_text_names_the_first_who_are_missing)
{
    struct ps_meeting_place place;
    ck_assert_int_eq(arrive(3, 1, 4, &place), PS_ERR_NOT_READY);

    ck_assert_int_eq(ps_meetings_look(&meetings, &place, &error), PS_ERR_NOT_READY);

    ck_assert_str_eq(error.text, "barrier b, round 3: 1 of 4 members are there; missing: 0 2 3");
    leave(&place);
    ck_assert_int_eq(arrive(3, 1, 100, &place), PS_ERR_NOT_READY);
    ck_assert_int_eq(ps_meetings_look(&meetings, &place, &error), PS_ERR_NOT_READY);
    ck_assert_str_eq(
        error.text, "barrier b, round 3: 1 of 100 members are there; missing: 0 2 3 4 5 6 7 8 ...");
    leave(&place);
}
END_TEST

START_TEST(names_are_bounded_and_idle_ones_are_forgotten_first)
{
    static struct ps_meeting_place places[PS_MEETINGS_MAX];
    struct ps_meeting_place place;
    char name[16];
    for (int i = 0; i < PS_MEETINGS_MAX; i++) {
        (void)snprintf(name, sizeof name, "b%d", i);
        ck_assert_int_eq(arrive_with(name, 1, 0, 2, 0, &places[i]), PS_ERR_NOT_READY);
    }

    ck_assert_int_eq(arrive_with("more", 1, 0, 2, 0, &place), PS_ERR_BUSY);
    leave(&places[5]);
    ck_assert_int_eq(arrive_with("more", 1, 0, 2, 0, &place), PS_ERR_NOT_READY);

    ck_assert_uint_eq(meetings.count, PS_MEETINGS_MAX);
    leave(&place);
    for (int i = 0; i < PS_MEETINGS_MAX; i++)
        ps_meetings_leave(&meetings, &places[i]);
}
END_TEST

START_TEST(members_are_bounded_in_all)
{
    enum { MEETINGS = PS_MEETING_MEMBERS_TOTAL / PS_MEETING_MEMBERS_MAX };
    struct ps_meeting_place places[MEETINGS];
    struct ps_meeting_place place;
    char name[16];
    for (int i = 0; i < MEETINGS; i++) {
        (void)snprintf(name, sizeof name, "b%d", i);
        ck_assert_int_eq(arrive_with(name, 1, 0, PS_MEETING_MEMBERS_MAX, 0, &places[i]),
                         PS_ERR_NOT_READY);
    }

    ck_assert_int_eq(arrive_with("more", 1, 0, 1, 0, &place), PS_ERR_BUSY);
    leave(&places[0]);
    ck_assert_int_eq(arrive_with("more", 1, 0, 2, 0, &place), PS_ERR_NOT_READY);

    leave(&place);
    for (int i = 1; i < MEETINGS; i++)
        leave(&places[i]);
}
END_TEST

START_TEST(arriving_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_meeting_place place = {0};
    const struct ps_arrival arrival = {ps_bytes_of_text("b"), 1, 0, 2, 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    ps_meetings_fini(&meetings);
    ps_meetings_init(&meetings, &memory);

    enum ps_status status = ps_meetings_arrive(&meetings, &arrival, &place, &all_are_there, &error);

    ck_assert_int_eq(status, _i < 2 ? PS_ERR_NO_MEMORY : PS_ERR_NOT_READY);
    ps_meetings_check(&meetings);
    ps_meetings_leave(&meetings, &place);
    ps_meetings_fini(&meetings);
    ck_assert_int_eq(heap.live, 0);
    ps_meetings_init(&meetings, ps_allocator_heap());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("meetings");
    TCase *tests = tcase_create("meetings");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, the_last_member_lets_all_go);
    tcase_add_test(tests, a_member_alone_waits_for_nobody);
    tcase_add_test(tests, the_same_member_twice_counts_once);
    tcase_add_test(tests, a_member_that_gave_up_was_not_there);
    tcase_add_test(tests, a_repeat_whose_reply_was_lost_is_let_go);
    tcase_add_test(tests, a_member_of_another_run_waits_in_the_same_round);
    tcase_add_test(tests, the_next_round_begins_while_calls_of_the_last_have_yet_to_look);
    tcase_add_test(tests, another_number_of_members_or_another_round_is_refused);
    tcase_add_test(tests, malformed_arrivals_are_refused);
    tcase_add_test(tests, the_text_names_the_first_who_are_missing);
    tcase_add_test(tests, names_are_bounded_and_idle_ones_are_forgotten_first);
    tcase_add_test(tests, members_are_bounded_in_all);
    tcase_add_loop_test(tests, arriving_survives_any_refused_allocation, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
