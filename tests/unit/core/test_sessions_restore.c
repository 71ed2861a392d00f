/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/sessions_restore.c: what journals and checkpoints say is remembered, whatever the
 * order and the limit. */
#include "tests/unit/core/core_sessions.h"

static void fill(uint64_t now_ms)
{
    static const char *const names[CLIENTS_MAX] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        ck_assert_int_eq(apply(names[i], 1, 1, now_ms + i), PS_OK);
}

static enum ps_status remember(const char *client, uint64_t session, uint64_t sequence)
{
    struct ps_request_id id = id_of(client, session, sequence);
    struct ps_session_answer answer = {.version = sequence * 10};
    return ps_sessions_remember(&sessions, &id, 0, 0, answer, &error);
}

START_TEST(what_is_replayed_is_remembered_in_any_order)
{
    ck_assert_int_eq(remember("a", 2, 5000), PS_OK);
    ck_assert_int_eq(remember("a", 2, 5000 - PS_SESSION_SLOTS), PS_OK);
    ck_assert_int_eq(remember("a", 1, 5001), PS_OK);
    ck_assert_int_eq(remember("a", 2, 4999), PS_OK);

    ck_assert(is_repeat("a", 2, 5000));
    ck_assert(is_repeat("a", 2, 4999));
    ck_assert(!is_repeat("a", 2, 5001));
    ck_assert_int_eq(apply("a", 2, 5000 - PS_SESSION_SLOTS, 0), PS_ERR_STALE_SESSION);
}
END_TEST

START_TEST(a1_replay_forgets_nobody)
{
    fill(0);

    ck_assert_int_eq(remember("e", 1, 1), PS_OK);
    ck_assert_int_eq(remember("f", 1, 1), PS_OK);

    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX + 2);
    ck_assert(is_repeat("a", 1, 1));
    ck_assert(is_repeat("f", 1, 1));
}
END_TEST

START_TEST(a_table_that_replay_made_too_large_shrinks_by_one_with_each_new_client)
{
    fill(0);
    ck_assert_int_eq(remember("e", 1, 1), PS_OK);
    ck_assert_int_eq(remember("f", 1, 1), PS_OK);

    ck_assert_int_eq(apply("g", 2, 1, 5), PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX + 1);
    ck_assert_int_eq(apply("h", 2, 1, 5), PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
}
END_TEST

START_TEST(replay_of_an_id_that_no_client_had_is_corrupt)
{
    ck_assert_int_eq(remember("a", 1, 0), PS_ERR_CORRUPT);
    ck_assert_int_eq(remember("", 1, 1), PS_ERR_CORRUPT);
}
END_TEST

/* Two checkpoints cannot have made one client; the table says who is there. */
START_TEST(a_client_that_is_put_answers_as_it_did_where_it_was_written)
{
    struct ps_session_slot slots[4] = {{.sequence = 4, .answer.version = 40},
                                       {.sequence = 0},
                                       {.sequence = 6, .answer.version = 60}};
    struct ps_session_client client = {
        .id = "a", .id_size = 1, .session = 7, .slot_places = 4, .slots = slots};
    ck_assert(!ps_sessions_knows(&sessions, text("a")));

    ck_assert_int_eq(ps_sessions_put(&sessions, &client), PS_OK);

    ck_assert(ps_sessions_knows(&sessions, text("a")));
    ck_assert(is_repeat("a", 7, 4));
    ck_assert(is_repeat("a", 7, 6));
    ck_assert(!is_repeat("a", 7, 5));
    ck_assert_ptr_nonnull(ps_sessions_next(&sessions, NULL));
    ck_assert_ptr_null(ps_sessions_next(&sessions, ps_sessions_next(&sessions, NULL)));
}
END_TEST

START_TEST(memory_that_is_refused_puts_nobody)
{
    struct ps_session_slot slots[4] = {{.sequence = 4}};
    struct ps_session_client client = {
        .id = "a", .id_size = 1, .session = 7, .slot_places = 4, .slots = slots};
    heap.refuse_at = heap.seen + _i;

    enum ps_status status = ps_sessions_put(&sessions, &client);

    ck_assert_int_eq(status, heap.seen > heap.refuse_at ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(ps_sessions_knows(&sessions, text("a")) == (status == PS_OK));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions_restore");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, what_is_replayed_is_remembered_in_any_order);
    tcase_add_test(tests, a1_replay_forgets_nobody);
    tcase_add_test(tests, a_table_that_replay_made_too_large_shrinks_by_one_with_each_new_client);
    tcase_add_test(tests, replay_of_an_id_that_no_client_had_is_corrupt);
    tcase_add_test(tests, a_client_that_is_put_answers_as_it_did_where_it_was_written);
    tcase_add_loop_test(tests, memory_that_is_refused_puts_nobody, 0, 5);
    return run_tests("sessions_restore", tests);
}
