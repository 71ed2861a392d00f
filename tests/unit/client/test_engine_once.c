/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine.c: request ids. What may have been applied is sent again under the same
 * number,
 * and the numbers in use stay within what a server remembers. */
#include "client/engine/engine.h"

#include "base/clock.h"
#include "client/engine/numbering.h"
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const float values[64] = {1, 2, 3, 4, 5, 6, 7, 8};
static struct bench bench;

static void wake(void)
{
    bench_at(&bench, ps_engine_wake_ms(bench.engine));
}

/* Answers the i-th call in flight as a server that applied it before. */
static void answer_duplicate(uint32_t i, uint64_t version, uint64_t position)
{
    const struct ps_call_reply reply = {
        .method = PS_METHOD_PUSH,
        .push = {.version = version, .duplicate = true, .position = position}};
    bench_reply(&bench, i, &reply);
}

static void expect_id(uint32_t i, uint64_t session, uint64_t sequence)
{
    struct ps_request_id id = bench_id(&bench, i);
    ck_assert(id.present);
    ck_assert_uint_eq(id.session, session);
    ck_assert_uint_eq(id.sequence, sequence);
}

START_TEST(pushes_are_numbered_per_shard_from_1)
{
    struct ps_item items[] = {bench_push_item("param_a", values, 1),
                              bench_push_item("param_b", values, 1),
                              bench_push_item("param_a", values, 1)};
    bench_open(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 3, 100);

    ck_assert_uint_eq(bench.sent_count, 3);
    uint64_t next[2] = {1, 1};
    for (uint32_t i = 0; i < 3; i++) {
        struct ps_request_id id = bench_id(&bench, i);
        expect_id(i, 1, next[bench.sent[i].shard]++);
        ck_assert_uint_eq(id.client_id.size, 16);
    }
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

/* A request that an old route brings to the server of another shard must not be a repeat there. */
START_TEST(each_shard_has_a_client_id_of_its_own)
{
    bool seen[3] = {false};
    bench_open(&bench, 300, 1000);
    const uint32_t shards[3] = {0, 1, 258};
    struct ps_item items[3] = {{.shard = 0}, {.shard = 1}, {.shard = 258}};
    bench_start(&bench, PS_METHOD_FINISH, items, 3, 100);

    for (uint32_t i = 0; i < 3; i++) {
        const uint8_t *bytes = bench_id(&bench, i).client_id.data;
        uint32_t shard = bench.sent[i].shard;
        for (size_t k = 0; k < 14; k++)
            ck_assert_uint_eq(bytes[k], BENCH_CLIENT_BYTE);
        ck_assert_uint_eq(bytes[14], BENCH_CLIENT_BYTE ^ shard >> 8);
        ck_assert_uint_eq(bytes[15], BENCH_CLIENT_BYTE ^ (shard & 255));
        for (uint32_t k = 0; k < 3; k++)
            seen[k] = seen[k] || shards[k] == shard;
    }
    ck_assert(seen[0] && seen[1] && seen[2]);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(initialisation_is_numbered_and_reading_is_not)
{
    static const enum ps_method methods[] = {PS_METHOD_INIT, PS_METHOD_FINISH, PS_METHOD_PULL};
    float destination[1];
    bench_open(&bench, 1, 1000);
    for (uint64_t i = 0; i < 3; i++) {
        struct ps_item items[] = {bench_push_item("w", values, 1)};
        items[0].destination = (uint8_t *)destination;
        bench_start(&bench, methods[i], items, 1, 100);
        ck_assert(bench_id(&bench, 0).present == (methods[i] != PS_METHOD_PULL));
        if (methods[i] != PS_METHOD_PULL)
            expect_id(0, 1, i + 1);
        bench_succeed(&bench, 0, 1);
        ck_assert_int_eq(items[0].status, PS_OK);
        ps_engine_end(bench.engine, bench.batch);
        bench.batch = NULL;
    }
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_that_broke_is_sent_again_under_its_number)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    expect_id(0, 1, 1);

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    ck_assert_uint_eq(bench.sent_count, 0);
    wake();
    expect_id(0, 1, 1);
    answer_duplicate(0, 9, 4);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 9);
    ck_assert_uint_eq(items[0].position, 4);
    ck_assert(items[0].duplicate);
    ck_assert_uint_eq(items[0].retries, 1);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->resends, 1);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->duplicates, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_refused_push_keeps_its_number_and_is_no_resend)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);

    bench_answer(&bench, 0, PS_ERR_BUSY, true);
    wake();

    expect_id(0, 1, 1);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->retries, 1);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->resends, 0);
    bench_succeed(&bench, 0, 1);
    ck_assert(!items[0].duplicate);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_that_broke_goes_to_the_next_owner_at_once_under_its_number)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);

    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);
    ps_engine_member(bench.engine, 0, 2);
    bench_pump(&bench);

    ck_assert_uint_eq(bench.sent_count, 1);
    expect_id(0, 1, 1);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

/* Whatever came after the attempt that broke. */
START_TEST(a_push_that_may_have_been_applied_is_unknown_at_the_deadline)
{
    static const enum ps_status later[] = {PS_ERR_BUSY, PS_ERR_UNAVAILABLE, PS_ERR_NOT_OWNER,
                                           PS_ERR_INTERNAL};
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 20);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    wake();
    bench_answer(&bench, 0, later[_i], true);

    bench_at(&bench, 1019);
    ck_assert_ptr_null(bench.finished);
    if (bench.sent_count > 0)
        bench_answer(&bench, 0, later[_i], true);
    bench_at(&bench, 1020);

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    ck_assert_str_eq(items[0].text, ps_status_word(later[_i]));
    bench_close(&bench);
}
END_TEST

START_TEST(a_refusal_that_crosses_the_cancellation_does_not_make_a_broken_push_certain)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 50);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    wake();

    bench_at(&bench, 1050);
    ck_assert_uint_eq(bench.cancelled_count, 1);
    bench_answer(&bench, 0, PS_ERR_BUSY, true);

    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_that_was_only_refused_is_certain_at_the_deadline)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 3);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, true);
    bench_at(&bench, 1003);
    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_to_lost_parameters_fails_at_once_also_after_a_break)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    wake();
    bench_answer(&bench, 0, PS_ERR_NOT_READY, true);
    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_NOT_READY);
    bench_close(&bench);
}
END_TEST

/* ---- The window ---- */

#define MANY 300

static struct ps_item many[2][MANY];

static void fill_many(void)
{
    for (size_t i = 0; i < MANY; i++)
        many[0][i] = many[1][i] = bench_push_item("w", values, 1);
}

static void answer_all(void)
{
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
}

START_TEST(numbers_in_use_never_span_more_than_the_window)
{
    fill_many();
    bench_open_wide(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, many[0], MANY, 10000);
    ck_assert_uint_eq(bench.sent_count, PS_NUMBERING_SPAN_MAX);

    while (bench.sent_count > 1)
        bench_succeed(&bench, 1, 1); /* all but the oldest */
    expect_id(0, 1, 1);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    ck_assert_uint_eq(bench.sent_count, 0); /* it still stands in the way */
    wake();
    ck_assert_uint_eq(bench.sent_count, 1);
    bench_succeed(&bench, 0, 1);

    ck_assert_uint_eq(bench.sent_count, MANY - PS_NUMBERING_SPAN_MAX);
    expect_id(0, 1, PS_NUMBERING_SPAN_MAX + 1);
    answer_all();
    ck_assert_ptr_eq(bench.finished, bench.batch);
    bench_close(&bench);
}
END_TEST

START_TEST(batches_share_the_window_and_one_makes_room_for_the_other)
{
    fill_many();
    bench_open_wide(&bench, 1, 150);
    bench_start(&bench, PS_METHOD_PUSH, many[0], 150, 10000);
    struct ps_batch *first = bench.batch;
    bench_start(&bench, PS_METHOD_PUSH, many[1], 150, 10000);
    ck_assert_uint_eq(bench.sent_count, PS_NUMBERING_SPAN_MAX);
    ck_assert_ptr_eq(bench.sent[191].batch, bench.batch);

    bench_succeed(&bench, 0, 1);

    ck_assert_uint_eq(bench.sent_count, PS_NUMBERING_SPAN_MAX);
    ck_assert_ptr_eq(bench.sent[191].batch, bench.batch);
    expect_id(191, 1, PS_NUMBERING_SPAN_MAX + 1);
    answer_all();
    ps_engine_end(bench.engine, first);
    bench_close(&bench);
}
END_TEST

START_TEST(a_full_window_of_one_shard_leaves_the_others_alone)
{
    fill_many();
    for (size_t i = 0; i < MANY; i++)
        many[0][i] = bench_push_item(i < 250 ? "param_a" : "param_b", values, 1);
    bench_open_wide(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_PUSH, many[0], MANY, 10000);
    ck_assert_uint_eq(bench.sent_count, PS_NUMBERING_SPAN_MAX + 50);
    answer_all();
    bench_close(&bench);
}
END_TEST

START_TEST(a_deadline_gives_numbers_back_and_lets_another_batch_go_on)
{
    fill_many();
    bench_open_wide(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, many[0], PS_NUMBERING_SPAN_MAX, 50);
    struct ps_batch *first = bench.batch;
    for (uint32_t i = 0; i < PS_NUMBERING_SPAN_MAX; i++)
        bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    bench_start(&bench, PS_METHOD_PUSH, many[1], 1, 10000);
    ck_assert_uint_eq(bench.sent_count, 0);

    bench_at(&bench, 1050);

    ck_assert_ptr_eq(bench.finished, first);
    ck_assert_int_eq(many[0][0].status, PS_ERR_TIMEOUT);
    ck_assert_uint_eq(bench.sent_count, 1);
    expect_id(0, 1, PS_NUMBERING_SPAN_MAX + 1);
    ps_engine_end(bench.engine, first);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(calls_that_wait_for_room_end_at_their_deadline_to_the_millisecond)
{
    fill_many();
    bench_open_wide(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, many[0], PS_NUMBERING_SPAN_MAX, 10000);
    struct ps_batch *first = bench.batch;
    bench_start(&bench, PS_METHOD_PUSH, many[1], 1, 50);
    bench_at(&bench, 1049);
    ck_assert_ptr_null(bench.finished);
    bench_at(&bench, 1050);
    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(many[1][0].status, PS_ERR_UNAVAILABLE);
    answer_all();
    ps_engine_end(bench.engine, first);
    bench.finished = bench.batch;
    bench_close(&bench);
}
END_TEST

/* ---- Sessions ---- */

START_TEST(a_forgotten_session_goes_on_in_the_next_with_what_was_not_applied)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);

    bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
    ck_assert_uint_eq(bench.sent_count, 0);
    wake();

    expect_id(0, 2, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(items[0].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_forgotten_session_is_final_for_what_may_have_been_applied)
{
    struct ps_item items[] = {bench_push_item("a", values, 1), bench_push_item("b", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 2, 1000);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    wake();
    ck_assert_uint_eq(bench.sent_count, 2);
    expect_id(1, 1, 1);

    bench_answer(&bench, 1, PS_ERR_STALE_SESSION, true);
    ck_assert_int_eq(items[0].status, PS_ERR_STALE_SESSION);
    ck_assert_str_eq(items[0].text, "stale_session");
    bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
    wake();
    expect_id(0, 2, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(items[1].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_new_session_waits_for_the_last_number_of_the_old_one)
{
    struct ps_item items[] = {bench_push_item("a", values, 1), bench_push_item("b", values, 1),
                              bench_push_item("c", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 3, 1000);

    bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
    wake();
    ck_assert_uint_eq(bench.sent_count, 1);
    expect_id(0, 1, 2);
    bench_succeed(&bench, 0, 1);

    ck_assert_uint_eq(bench.sent_count, 2);
    expect_id(0, 2, 1);
    expect_id(1, 2, 2);
    answer_all();
    bench_close(&bench);
}
END_TEST

START_TEST(an_initialisation_goes_on_in_a_new_session_whatever_broke)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_INIT, items, 1, 1000);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    wake();
    bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
    wake();
    expect_id(0, 2, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(items[0].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_server_that_never_remembers_is_given_up_at_the_deadline)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 500);
    while (bench.finished == NULL) {
        if (bench.sent_count > 0)
            bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
        wake();
    }
    ck_assert_uint_eq(bench.now_ms, 1500);
    ck_assert_int_eq(items[0].status, PS_ERR_STALE_SESSION);
    ck_assert_uint_lt(items[0].retries, 20);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_once");
    TCase *tests = tcase_create("engine_once");
    tcase_add_test(tests, pushes_are_numbered_per_shard_from_1);
    tcase_add_test(tests, each_shard_has_a_client_id_of_its_own);
    tcase_add_test(tests, initialisation_is_numbered_and_reading_is_not);
    tcase_add_test(tests, a_push_that_broke_is_sent_again_under_its_number);
    tcase_add_test(tests, a_refused_push_keeps_its_number_and_is_no_resend);
    tcase_add_test(tests, a_push_that_broke_goes_to_the_next_owner_at_once_under_its_number);
    tcase_add_loop_test(tests, a_push_that_may_have_been_applied_is_unknown_at_the_deadline, 0, 4);
    tcase_add_test(tests,
                   a_refusal_that_crosses_the_cancellation_does_not_make_a_broken_push_certain);
    tcase_add_test(tests, a_push_that_was_only_refused_is_certain_at_the_deadline);
    tcase_add_test(tests, a_push_to_lost_parameters_fails_at_once_also_after_a_break);
    tcase_add_test(tests, numbers_in_use_never_span_more_than_the_window);
    tcase_add_test(tests, batches_share_the_window_and_one_makes_room_for_the_other);
    tcase_add_test(tests, a_full_window_of_one_shard_leaves_the_others_alone);
    tcase_add_test(tests, a_deadline_gives_numbers_back_and_lets_another_batch_go_on);
    tcase_add_test(tests, calls_that_wait_for_room_end_at_their_deadline_to_the_millisecond);
    tcase_add_test(tests, a_forgotten_session_goes_on_in_the_next_with_what_was_not_applied);
    tcase_add_test(tests, a_forgotten_session_is_final_for_what_may_have_been_applied);
    tcase_add_test(tests, a_new_session_waits_for_the_last_number_of_the_old_one);
    tcase_add_test(tests, an_initialisation_goes_on_in_a_new_session_whatever_broke);
    tcase_add_test(tests, a_server_that_never_remembers_is_given_up_at_the_deadline);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
