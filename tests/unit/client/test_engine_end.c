/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine_end.c: batches that are cancelled. Deadlines, which are the same event, are
 * in test_engine_failures.c and test_engine_once.c. */
#include "engine_bench.h"

#include "client/engine/numbering.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct bench bench;
static const float values[4] = {1, 2, 3, 4};

static void cancel(void)
{
    ps_engine_cancel(bench.engine, bench.batch);
    bench_pump(&bench);
}

START_TEST(a_push_that_is_out_when_its_batch_is_cancelled_is_unknown)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 60000);

    cancel();
    ck_assert_uint_eq(bench.cancelled_count, 1);
    ck_assert_uint_eq(bench.cancelled[0], bench.sent[0].call);
    ck_assert_ptr_null(bench.finished);
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    ck_assert_str_eq(items[0].text, "cancelled before an answer came");
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_that_is_out_when_its_batch_is_cancelled_is_unavailable)
{
    float destination[1];
    struct ps_item items[] = {bench_pull_item("w", destination, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PULL, items, 1, 60000);

    cancel();
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    bench_close(&bench);
}
END_TEST

START_TEST(an_answer_that_crosses_the_cancellation_counts)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 60000);

    cancel();
    bench_succeed(&bench, 0, 8);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 8);
    bench_close(&bench);
}
END_TEST

START_TEST(what_was_not_sent_is_unavailable_at_once)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    ps_engine_member(bench.engine, 0, 0);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 60000);
    ck_assert_uint_eq(bench.sent_count, 0);

    cancel();

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(items[0].text, "cancelled before shard 0 was sent anything");
    bench_close(&bench);
}
END_TEST

START_TEST(what_pauses_ends_with_what_is_known_of_its_last_attempt)
{
    struct ps_item items[] = {bench_push_item("a", values, 1), bench_push_item("b", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 2, 60000);
    bench_answer(&bench, 0, PS_ERR_BUSY, true);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);

    cancel();

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_BUSY);
    ck_assert_int_eq(items[1].status, PS_ERR_TIMEOUT);
    bench_close(&bench);
}
END_TEST

START_TEST(a_call_that_comes_back_after_the_cancellation_is_not_sent_again)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 60000);

    cancel();
    bench_answer(&bench, 0, PS_ERR_BUSY, true);
    bench_at(&bench, bench.now_ms + 10000);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(items[0].status, PS_ERR_BUSY);
    bench_close(&bench);
}
END_TEST

START_TEST(a_second_cancellation_and_the_deadline_change_nothing)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 250);

    cancel();
    cancel();
    bench_at(&bench, bench.now_ms + 1000);
    ck_assert_uint_eq(bench.cancelled_count, 1);
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);
    cancel();

    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    bench_close(&bench);
}
END_TEST

/* Numbers that a cancelled batch gives back are those that another one waits for. */
START_TEST(a_cancellation_lets_another_batch_go_on)
{
    static struct ps_item many[PS_NUMBERING_SPAN_MAX];
    struct ps_item last[] = {bench_push_item("w", values, 1)};
    for (size_t i = 0; i < PS_NUMBERING_SPAN_MAX; i++)
        many[i] = bench_push_item("w", values, 1);
    bench_open_wide(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, many, PS_NUMBERING_SPAN_MAX, 60000);
    struct ps_batch *first = bench.batch;
    for (size_t i = 0; i < PS_NUMBERING_SPAN_MAX; i++)
        bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    bench_start(&bench, PS_METHOD_PUSH, last, 1, 60000);
    ck_assert_uint_eq(bench.sent_count, 0);

    ps_engine_cancel(bench.engine, first);
    bench_pump(&bench);

    ck_assert_ptr_eq(bench.finished, first);
    ck_assert_uint_eq(bench.sent_count, 1);
    ps_engine_end(bench.engine, first);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(ranges_that_are_out_are_cancelled_one_by_one)
{
    static const float large[64];
    struct ps_item items[] = {bench_push_item("w", large, 64)};
    bench_open_ranges(&bench, 1, 64);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 60000);
    uint32_t out = bench.sent_count;
    ck_assert_uint_gt(out, 0);

    cancel();
    ck_assert_uint_eq(bench.cancelled_count, out);
    while (bench.sent_count > 0)
        bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    bench_close(&bench);
}
END_TEST

static bool is_pull(enum ps_method method)
{
    return method == PS_METHOD_PULL;
}

START_TEST(all_batches_of_a_kind_are_cancelled_and_no_others)
{
    float destination[1];
    struct ps_item pulls[] = {bench_pull_item("w", destination, 1)};
    struct ps_item pushes[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PULL, pulls, 1, 60000);
    struct ps_batch *pull = bench.batch;
    bench_start(&bench, PS_METHOD_PUSH, pushes, 1, 60000);

    ps_engine_cancel_all(bench.engine, is_pull);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.cancelled_count, 1);
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_ptr_eq(bench.finished, pull);
    ps_engine_end(bench.engine, pull);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(pushes[0].status, PS_OK);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_end");
    TCase *cases = tcase_create("engine_end");
    tcase_add_test(cases, a_push_that_is_out_when_its_batch_is_cancelled_is_unknown);
    tcase_add_test(cases, a_pull_that_is_out_when_its_batch_is_cancelled_is_unavailable);
    tcase_add_test(cases, an_answer_that_crosses_the_cancellation_counts);
    tcase_add_test(cases, what_was_not_sent_is_unavailable_at_once);
    tcase_add_test(cases, what_pauses_ends_with_what_is_known_of_its_last_attempt);
    tcase_add_test(cases, a_call_that_comes_back_after_the_cancellation_is_not_sent_again);
    tcase_add_test(cases, a_second_cancellation_and_the_deadline_change_nothing);
    tcase_add_test(cases, a_cancellation_lets_another_batch_go_on);
    tcase_add_test(cases, ranges_that_are_out_are_cancelled_one_by_one);
    tcase_add_test(cases, all_batches_of_a_kind_are_cancelled_and_no_others);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
