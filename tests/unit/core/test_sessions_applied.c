/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/sessions_applied.c: what of a client was applied, and the end of what it sent. */
#include "tests/unit/core/core_sessions.h"

static struct ps_session_applied applied;

static struct ps_request_id push_of(const char *client, uint64_t session, uint64_t sequence)
{
    struct ps_request_id id = id_of(client, session, sequence);
    id.pushed_to = text("w");
    return id;
}

static enum ps_status push(const char *client, uint64_t session, uint64_t sequence)
{
    struct ps_session_call call;
    struct ps_request_id id = push_of(client, session, sequence);
    PS_TRY(ps_sessions_begin(&sessions, &id, 7, 0, &call, &error));
    if (!call.is_repeat)
        ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = sequence});
    return PS_OK;
}

static enum ps_status ask(const char *client, bool begins)
{
    struct ps_request_id id = id_of(client, 0, 0);
    ps_session_applied_release(&applied, &memory);
    return ps_sessions_applied(&sessions, &id, begins, 5000, &memory, &applied, &error);
}

static uint64_t pushes(void)
{
    const struct ps_push_count *count =
        ps_push_counts_find(&applied.counts, ps_push_count_key(text("w")));
    return count != NULL ? count->pushes : 0;
}

static void begin_asking(void)
{
    begin_test();
    applied = (struct ps_session_applied){.is_known = false};
}

static void end_asking(void)
{
    ps_session_applied_release(&applied, &memory);
    end_test();
}

START_TEST(pushes_of_all_sessions_are_counted_once_each)
{
    ck_assert_int_eq(push("@a#0", 1, 1), PS_OK);
    ck_assert_int_eq(push("@a#0", 1, 2), PS_OK);
    ck_assert_int_eq(push("@a#0", 1, 2), PS_OK); /* a repeat */
    ck_assert_int_eq(push("@a#0", 2, 1), PS_OK);
    ck_assert_int_eq(apply("@a#0", 2, 2, 0), PS_OK); /* not a push */

    ck_assert_int_eq(ask("@a#0", false), PS_OK);

    ck_assert(applied.is_known && applied.is_whole);
    ck_assert_uint_eq(pushes(), 3);
    ck_assert_uint_eq(applied.session, 2);
    ck_assert_uint_eq(applied.sequence, 2);
    ck_assert_uint_eq(applied.begun, 0);
}
END_TEST

START_TEST(what_was_sent_before_the_question_is_refused_after_it)
{
    ck_assert_int_eq(push("@a#0", 1, 1), PS_OK);

    ck_assert_int_eq(ask("@a#0", true), PS_OK);

    ck_assert_uint_eq(pushes(), 1);
    ck_assert_int_eq(push("@a#0", 1, 2), PS_ERR_STALE_SESSION);
    ck_assert_int_eq(push("@a#0", applied.begun, 1), PS_OK);
    ck_assert_int_eq(ask("@a#0", false), PS_OK);
    ck_assert_uint_eq(pushes(), 2);
}
END_TEST

START_TEST(also_of_a_client_whose_first_push_is_on_its_way)
{
    ck_assert_int_eq(ask("@a#0", true), PS_OK);

    ck_assert(!applied.is_known && applied.is_whole);
    ck_assert_uint_ge(applied.begun, 5000);
    ck_assert_int_eq(push("@a#0", 1, 1), PS_ERR_STALE_SESSION);
    ck_assert_uint_eq(ps_sessions_count(&sessions), 1);
}
END_TEST

START_TEST(a_push_under_way_keeps_the_question_waiting)
{
    struct ps_session_call call;
    struct ps_request_id id = push_of("@a#0", 1, 1);
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 7, 0, &call, &error), PS_OK);

    ck_assert_int_eq(ask("@a#0", true), PS_ERR_BUSY);

    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = 1});
    ck_assert_int_eq(ask("@a#0", true), PS_OK);
    ck_assert_uint_eq(pushes(), 1);
}
END_TEST

START_TEST(looking_changes_nothing)
{
    ck_assert_int_eq(ask("@a#0", false), PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), 0);
    ck_assert_int_eq(push("@a#0", 1, 1), PS_OK);

    ck_assert_int_eq(ask("@a#0", false), PS_OK);

    ck_assert_int_eq(push("@a#0", 1, 2), PS_OK);
}
END_TEST

START_TEST(nobody_asks_about_the_client_of_another)
{
    struct ps_request_id id = push_of("@a#0", 1, 1);
    struct ps_session_call call;
    id.owner = 1;
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 7, 0, &call, &error), PS_OK);
    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = 1});
    id.owner = 2;

    ck_assert_int_eq(ps_sessions_applied(&sessions, &id, true, 0, &memory, &applied, &error),
                     PS_ERR_DENIED);

    ck_assert_int_eq(error.refusal, PS_REFUSED_CLIENT_ID);
    ck_assert_int_eq(push("@a#0", 1, 2), PS_OK);
}
END_TEST

START_TEST(who_was_forgotten_is_not_told_that_it_is_all)
{
    ck_assert_int_eq(push("@a#0", 1, 1), PS_OK);
    for (uint64_t i = 0; i < CLIENTS_MAX; i++)
        ck_assert_int_eq(push(&"b\0c\0d\0e"[2 * i], 1, 1), PS_OK);

    ck_assert_int_eq(ask("@a#0", true), PS_OK);

    ck_assert(!applied.is_known && !applied.is_whole);
    ck_assert_int_eq(push("@a#0", applied.begun, 1), PS_OK);
    ck_assert_int_eq(ask("@a#0", false), PS_OK);
    ck_assert(applied.is_known && !applied.is_whole);
}
END_TEST

START_TEST(a_random_id_is_not_counted)
{
    ck_assert_int_eq(push("a", 1, 1), PS_OK);

    ck_assert_int_eq(ask("a", false), PS_OK);

    ck_assert(applied.is_known && !applied.is_whole);
    ck_assert_uint_eq(pushes(), 0);
    ck_assert_uint_eq(sessions.count_room.places, 0);
}
END_TEST

START_TEST(a_replayed_push_counts_in_whatever_order_it_comes)
{
    for (uint64_t i = 3; i > 0; i--) {
        struct ps_request_id id = push_of("@a#0", i, 1);
        ck_assert_int_eq(ps_sessions_remember(&sessions, &id, 7, 0,
                                              (struct ps_session_answer){.version = i}, &error),
                         PS_OK);
    }

    ck_assert_int_eq(ask("@a#0", false), PS_OK);

    ck_assert_uint_eq(pushes(), 3);
    ck_assert_uint_eq(applied.session, 3);
}
END_TEST

/* Encodes the table, clears it, and reads it back. */
static uint32_t through_a_checkpoint(void)
{
    uint8_t *bytes = NULL;
    uint8_t *again = NULL;
    size_t size = 0;
    size_t again_size = 0;
    ck_assert_int_eq(ps_sessions_encode(&sessions, &memory, &bytes, &size, &error), PS_OK);
    ps_sessions_clear(&sessions);
    ck_assert_uint_eq(sessions.count_room.places, 0);
    ck_assert_int_eq(ps_sessions_decode(&sessions, (struct ps_bytes){bytes, size}, 100, 0, &error),
                     PS_OK);
    ck_assert_int_eq(ps_sessions_encode(&sessions, &memory, &again, &again_size, &error), PS_OK);
    ck_assert_uint_eq(size, again_size);
    ck_assert_mem_eq(bytes, again, size);
    uint32_t format = bytes[4];
    /* Cut anywhere it is refused. */
    for (size_t cut = 0; cut < size && format == 3; cut++) {
        ps_sessions_clear(&sessions);
        enum ps_status status =
            ps_sessions_decode(&sessions, (struct ps_bytes){bytes, cut}, 100, 0, &error);
        ck_assert(cut == 0 || status == PS_ERR_CORRUPT);
    }
    ps_sessions_clear(&sessions);
    ck_assert_int_eq(ps_sessions_decode(&sessions, (struct ps_bytes){bytes, size}, 100, 0, &error),
                     PS_OK);
    ps_release(&memory, bytes);
    ps_release(&memory, again);
    return format;
}

START_TEST(counts_are_in_checkpoints)
{
    ck_assert_int_eq(push("b", 1, 1), PS_OK);
    ck_assert_int_eq(push("@a#0", 1, 1), PS_OK);
    ck_assert_int_eq(push("@a#0", 1, 2), PS_OK);

    ck_assert_uint_eq(through_a_checkpoint(), 3);

    ck_assert_int_eq(ask("@a#0", true), PS_OK);
    ck_assert(applied.is_known && applied.is_whole);
    ck_assert_uint_eq(pushes(), 2);
}
END_TEST

START_TEST(without_named_clients_checkpoints_are_those_of_before)
{
    ck_assert_int_eq(push("b", 1, 1), PS_OK);

    ck_assert_uint_eq(through_a_checkpoint(), 2);
}
END_TEST

START_TEST(any_refused_allocation_leaves_nothing)
{
    ck_assert_int_eq(push("@a#0", 1, 1), PS_OK);
    heap.refuse_at = heap.seen + _i;

    enum ps_status status = ask("@a#0", true);

    ck_assert_int_eq(status, _i < 1 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(applied.begun > 0, status == PS_OK);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions_applied");
    tcase_add_checked_fixture(tests, begin_asking, end_asking);
    tcase_add_test(tests, pushes_of_all_sessions_are_counted_once_each);
    tcase_add_test(tests, what_was_sent_before_the_question_is_refused_after_it);
    tcase_add_test(tests, also_of_a_client_whose_first_push_is_on_its_way);
    tcase_add_test(tests, a_push_under_way_keeps_the_question_waiting);
    tcase_add_test(tests, looking_changes_nothing);
    tcase_add_test(tests, nobody_asks_about_the_client_of_another);
    tcase_add_test(tests, who_was_forgotten_is_not_told_that_it_is_all);
    tcase_add_test(tests, a_random_id_is_not_counted);
    tcase_add_test(tests, a_replayed_push_counts_in_whatever_order_it_comes);
    tcase_add_test(tests, counts_are_in_checkpoints);
    tcase_add_test(tests, without_named_clients_checkpoints_are_those_of_before);
    tcase_add_loop_test(tests, any_refused_allocation_leaves_nothing, 0, 2);
    return run_tests("sessions_applied", tests);
}
