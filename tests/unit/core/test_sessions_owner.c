/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h: a client id belongs to whoever used it first. */
#include "tests/unit/core/core_sessions.h"

static enum ps_status begin_as(uint64_t owner, uint64_t sequence, struct ps_session_call *call)
{
    struct ps_request_id id = id_of("a", 1, sequence);
    id.owner = owner;
    return ps_sessions_begin(&sessions, &id, 7, 0, call, &error);
}

static enum ps_status apply_as(uint64_t owner, uint64_t sequence)
{
    struct ps_session_call call;
    enum ps_status status = begin_as(owner, sequence, &call);
    if (status == PS_OK && !call.is_repeat)
        ps_sessions_commit(&sessions, &call, (struct ps_session_answer){0});
    return status;
}

START_TEST(an_id_belongs_to_the_owner_whose_request_was_applied_first)
{
    ck_assert_int_eq(apply_as(1, 1), PS_OK);

    ck_assert_int_eq(apply_as(2, 2), PS_ERR_DENIED);
    ck_assert_int_eq(error.refusal, PS_REFUSED_CLIENT_ID);
    ck_assert_int_eq(apply_as(1, 2), PS_OK);
}
END_TEST

START_TEST(another_owner_learns_nothing_of_what_was_applied)
{
    struct ps_session_call call;
    ck_assert_int_eq(apply_as(1, 1), PS_OK);

    ck_assert_int_eq(begin_as(2, 1, &call), PS_ERR_DENIED);

    bool is_known = false;
    struct ps_request_id id = id_of("a", 1, 1);
    id.owner = 2;
    ck_assert_int_eq(ps_sessions_look(&sessions, &id, 7, 0, &is_known, NULL, &error),
                     PS_ERR_DENIED);
}
END_TEST

START_TEST(a_request_that_was_refused_takes_no_id)
{
    struct ps_session_call call;
    ck_assert_int_eq(begin_as(1, 1, &call), PS_OK);
    ps_sessions_abort(&sessions, &call);

    ck_assert_int_eq(apply_as(2, 1), PS_OK);
    ck_assert_int_eq(apply_as(1, 2), PS_ERR_DENIED);
}
END_TEST

START_TEST(of_two_owners_under_way_the_first_applied_has_the_id)
{
    struct ps_session_call first;
    struct ps_session_call second;
    ck_assert_int_eq(begin_as(1, 1, &first), PS_OK);
    ck_assert_int_eq(begin_as(2, 2, &second), PS_OK);
    ps_sessions_commit(&sessions, &second, (struct ps_session_answer){0});
    ps_sessions_commit(&sessions, &first, (struct ps_session_answer){0});

    ck_assert_int_eq(apply_as(1, 3), PS_ERR_DENIED);
    ck_assert_int_eq(apply_as(2, 3), PS_OK);
}
END_TEST

START_TEST(without_owners_everybody_uses_every_id)
{
    ck_assert_int_eq(apply_as(0, 1), PS_OK);
    ck_assert_int_eq(apply_as(5, 2), PS_OK);
    ck_assert_int_eq(apply_as(0, 3), PS_OK);

    ck_assert_int_eq(apply_as(6, 4), PS_ERR_DENIED);
}
END_TEST

START_TEST(after_a_restart_the_id_belongs_to_who_repeats_or_goes_on)
{
    struct ps_request_id id = id_of("a", 1, 1);
    ck_assert_int_eq(ps_sessions_remember(&sessions, &id, 7, 0,
                                          (struct ps_session_answer){.version = 10}, &error),
                     PS_OK);

    ck_assert_int_eq(apply_as(1, 1), PS_OK);

    ck_assert_int_eq(apply_as(2, 2), PS_ERR_DENIED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions_owner");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, an_id_belongs_to_the_owner_whose_request_was_applied_first);
    tcase_add_test(tests, another_owner_learns_nothing_of_what_was_applied);
    tcase_add_test(tests, a_request_that_was_refused_takes_no_id);
    tcase_add_test(tests, of_two_owners_under_way_the_first_applied_has_the_id);
    tcase_add_test(tests, without_owners_everybody_uses_every_id);
    tcase_add_test(tests, after_a_restart_the_id_belongs_to_who_repeats_or_goes_on);
    return run_tests("sessions_owner", tests);
}
