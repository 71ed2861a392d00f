/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions are counted, and ended when shards are put together. */
#include "tools/psckpt/session_summary.h"

#include "base/clock.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct shard_state states[2];
static struct shard_state shards[3];
static struct ps_error error;

static void set_up(void)
{
    for (size_t i = 0; i < 2; i++)
        shard_state_init(&states[i], ps_allocator_heap());
    for (size_t i = 0; i < 3; i++)
        shard_state_init(&shards[i], ps_allocator_heap());
}

static void tear_down(void)
{
    for (size_t i = 0; i < 2; i++)
        shard_state_fini(&states[i]);
    for (size_t i = 0; i < 3; i++)
        shard_state_fini(&shards[i]);
}

static struct ps_request_id request_of(const char *client, uint64_t session, uint64_t sequence)
{
    return (struct ps_request_id){.present = true,
                                  .client_id = ps_bytes_of_text(client),
                                  .session = session,
                                  .sequence = sequence};
}

/* Puts requests 1..last of a client into the sessions of a state. */
static void remember(struct shard_state *state, const char *client, uint64_t session, uint64_t last)
{
    struct ps_sessions table;
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct ps_bytes before = state->facts.sessions;
    ps_sessions_init(&table, ps_allocator_heap(), UINT32_MAX, 0);
    if (before.size > 0)
        ck_assert_int_eq(ps_sessions_decode(&table, before, UINT64_MAX, 0, NULL), PS_OK);
    for (uint64_t sequence = 1; sequence <= last; sequence++) {
        const struct ps_request_id request = request_of(client, session, sequence);
        ck_assert_int_eq(ps_sessions_remember(&table, &request, 0, sequence,
                                              (struct ps_session_answer){sequence, sequence}, NULL),
                         PS_OK);
    }
    ck_assert_int_eq(ps_sessions_encode(&table, ps_allocator_heap(), &bytes, &size, NULL), PS_OK);
    state->facts.sessions = shard_state_copy(state, (struct ps_bytes){bytes, size}, NULL);
    ps_release(ps_allocator_heap(), bytes);
    ps_sessions_fini(&table);
}

/* What a shard with these sessions answers. */
static enum ps_status ask(struct ps_bytes sessions, struct ps_request_id request)
{
    struct ps_sessions table;
    struct ps_session_call call;
    ps_sessions_init(&table, ps_allocator_heap(), 100, 0);
    ck_assert_int_eq(ps_sessions_decode(&table, sessions, 0, 0, NULL), PS_OK);
    enum ps_status status = ps_sessions_begin(&table, &request, 0, 0, &call, NULL);
    if (status == PS_OK && !call.is_repeat)
        ps_sessions_abort(&table, &call);
    ps_sessions_fini(&table);
    return status;
}

START_TEST(clients_and_requests_are_counted)
{
    struct session_summary summary;
    remember(&states[0], "b", 4, 300);
    remember(&states[0], "a", 9, 2);

    ck_assert_int_eq(session_summary_init(&summary, &states[0].facts, ps_allocator_heap(), &error),
                     PS_OK);

    ck_assert_uint_eq(summary.count, 2);
    ck_assert_mem_eq(summary.rows[0].id, "a", 1);
    ck_assert_uint_eq(summary.rows[0].session, 9);
    ck_assert_uint_eq(summary.rows[1].sequence, 300);
    ck_assert_uint_eq(summary.rows[1].slot_count, PS_SESSION_SLOTS);
    session_summary_fini(&summary);
}
END_TEST

START_TEST(no_sessions_are_no_clients)
{
    struct session_summary summary;
    const struct ps_checkpoint_facts facts = {.position = 0};

    ck_assert_int_eq(session_summary_init(&summary, &facts, ps_allocator_heap(), &error), PS_OK);

    ck_assert_uint_eq(summary.count, 0);
    session_summary_fini(&summary);
}
END_TEST

START_TEST(bytes_that_are_no_sessions_are_corrupt)
{
    struct session_summary summary;
    struct ps_checkpoint_facts facts = {.sessions = ps_bytes_of_text("PSSNxxxxxxxx")};
    ck_assert_int_eq(session_summary_init(&summary, &facts, ps_allocator_heap(), &error),
                     PS_ERR_UNSUPPORTED);
    facts.sessions = ps_bytes_of_text("something");
    ck_assert_int_eq(session_summary_init(&summary, &facts, ps_allocator_heap(), &error),
                     PS_ERR_CORRUPT);
}
END_TEST

START_TEST(after_merging_no_old_request_is_taken_by_any_shard)
{
    remember(&states[0], "a", 4, 10);
    remember(&states[1], "a", 6, 3);
    remember(&states[1], "b", 1, 1);

    ck_assert_int_eq(session_summary_merge(states, 2, shards, 3, &error), PS_OK);

    for (size_t i = 0; i < 3; i++) {
        struct ps_bytes sessions = shards[i].facts.sessions;
        for (uint64_t sequence = 1; sequence < 20; sequence++) {
            ck_assert_int_eq(ask(sessions, request_of("a", 4, sequence)), PS_ERR_STALE_SESSION);
            ck_assert_int_eq(ask(sessions, request_of("a", 6, sequence)), PS_ERR_STALE_SESSION);
            ck_assert_int_eq(ask(sessions, request_of("b", 1, sequence)), PS_ERR_STALE_SESSION);
        }
        ck_assert_int_eq(ask(sessions, request_of("a", 7, 1)), PS_OK);
        ck_assert_int_eq(ask(sessions, request_of("a", 8, 1)), PS_OK);
        ck_assert_int_eq(ask(sessions, request_of("b", 2, 1)), PS_OK);
        ck_assert_int_eq(ask(sessions, request_of("new", 1, 1)), PS_OK);
    }
}
END_TEST

START_TEST(a_session_that_none_can_follow_is_refused)
{
    remember(&states[0], "a", UINT64_MAX - 1, 1);

    ck_assert_int_eq(session_summary_merge(states, 2, shards, 3, &error), PS_ERR_UNSUPPORTED);
}
END_TEST

/* Whoever was there before, and whatever it repeats: it is told to begin another session. */
START_TEST(after_all_were_forgotten_sessions_of_before_are_refused)
{
    struct ps_sessions table;
    const uint64_t now_us = ps_unix_ns(ps_clock_real()) / 1000;
    remember(&states[0], "known", now_us, 3);

    ck_assert_int_eq(session_summary_forget(&states[0], &error), PS_OK);

    ps_sessions_init(&table, ps_allocator_heap(), UINT32_MAX, 0);
    ck_assert_int_eq(ps_sessions_decode(&table, states[0].facts.sessions, UINT64_MAX, 0, NULL),
                     PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&table), 0);
    ck_assert_uint_gt(table.floor, now_us);
    ps_sessions_fini(&table);
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    remember(&states[0], "a", 4, 10);
    remember(&states[1], "b", 6, 3);
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct shard_state shard;
        shard_state_init(&shard, &memory);

        enum ps_status status = session_summary_merge(states, 2, &shard, 1, &error);

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        shard_state_fini(&shard);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_summary");
    TCase *tcase = tcase_create("sessions");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, clients_and_requests_are_counted);
    tcase_add_test(tcase, no_sessions_are_no_clients);
    tcase_add_test(tcase, bytes_that_are_no_sessions_are_corrupt);
    tcase_add_test(tcase, after_merging_no_old_request_is_taken_by_any_shard);
    tcase_add_test(tcase, a_session_that_none_can_follow_is_refused);
    tcase_add_test(tcase, after_all_were_forgotten_sessions_of_before_are_refused);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
