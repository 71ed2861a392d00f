/* SPDX-License-Identifier: Apache-2.0 */
/* Small calls go together in one message; what becomes of each is its own affair. */
#include "client/engine/numbering.h"
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 100, LARGE = 300 * 1024 / 4, MIDDLE = 16 * 1024 / 4, LONG = 1000 };

static struct bench bench;
static char names[MANY][24];
static float values[LARGE];
static float destinations[MANY];
static struct ps_item items[MANY];

static void make_items(enum ps_method method, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "p%zu", i);
        items[i] = bench_push_item(names[i], values, 1);
        if (method != PS_METHOD_PUSH)
            items[i].destination = (uint8_t *)&destinations[i];
    }
}

START_TEST(small_calls_go_together)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH, MANY);
    bench_start(&bench, PS_METHOD_PUSH, items, MANY, 1000);

    ck_assert_uint_eq(bench.message_count, 2);
    ck_assert_uint_eq(bench.sent_count, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(bench_id(&bench, i).sequence, i + 1);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 7);
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(items[i].status, PS_OK);
        ck_assert_uint_eq(items[i].version, 7);
    }
    bench_close(&bench);
}
END_TEST

START_TEST(a_message_ends_with_its_last_call)
{
    bench_open_together(&bench, 1, 10);
    make_items(PS_METHOD_PUSH, 30);
    bench_start(&bench, PS_METHOD_PUSH, items, 30, 1000);
    ck_assert_uint_eq(bench.message_count, 2);
    for (int i = 0; i < 9; i++)
        bench_succeed(&bench, 0, 1);
    ck_assert_uint_eq(bench.message_count, 2);
    bench_succeed(&bench, 0, 1);
    ck_assert_uint_eq(bench.message_count, 3);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

/* 1,000 calls of 16 KiB: while some are out, no message is begun for the few numbers that are left.
 * The first messages are smaller, and so are the last. */
START_TEST(a_long_batch_goes_in_full_messages)
{
    static struct ps_item many[LONG];
    static char many_names[LONG][24];
    bench_open_wide_together(&bench, 1, 8, 64);
    for (size_t i = 0; i < LONG; i++) {
        (void)snprintf(many_names[i], sizeof many_names[i], "p%zu", i);
        many[i] = bench_push_item(many_names[i], values, MIDDLE);
    }
    bench_start(&bench, PS_METHOD_PUSH, many, LONG, 1000);
    ck_assert_uint_eq(bench.message_count, 4);
    ck_assert_uint_eq(bench.sent[0].part_count, 16);
    ck_assert_uint_eq(bench.sent[16].part_count, 32);
    ck_assert_uint_eq(bench.sent[48].part_count, 64);
    ck_assert_uint_eq(bench.sent[112].part_count, 64);

    size_t smallest = 64;
    for (size_t done = 0; bench.sent_count > 0; done++) {
        if (done < LONG - 192 && bench.sent[bench.sent_count - 1].part_count < smallest)
            smallest = bench.sent[bench.sent_count - 1].part_count;
        ck_assert_uint_le(bench.sent[bench.sent_count - 1].part_count, 64);
        bench_succeed(&bench, 0, 1);
    }
    ck_assert_uint_ge(smallest, 8);
    ck_assert_uint_le(bench.message_count, 26);
    for (size_t i = 0; i < LONG; i++)
        ck_assert_int_eq(many[i].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(with_nothing_out_a_message_goes_for_the_numbers_that_are_left)
{
    static struct ps_item many[LONG];
    bench_open_wide_together(&bench, 1, 8, 64);
    for (size_t i = 0; i < PS_NUMBERING_SPAN_MAX - 1; i++)
        many[i] = bench_push_item("p", values, 1);
    bench_start(&bench, PS_METHOD_PUSH, many, PS_NUMBERING_SPAN_MAX - 1, 1000);
    ck_assert_uint_eq(bench.sent_count, PS_NUMBERING_SPAN_MAX - 1);
    struct ps_batch *first = bench.batch;

    make_items(PS_METHOD_PUSH, 10);
    bench_start(&bench, PS_METHOD_PUSH, items, 10, 1000);
    ck_assert_uint_eq(bench.sent_count, PS_NUMBERING_SPAN_MAX);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    for (size_t i = 0; i < 10; i++)
        ck_assert_int_eq(items[i].status, PS_OK);
    ck_assert(ps_batch_is_finished(first));
    ps_engine_end(bench.engine, first);
    bench_close(&bench);
}
END_TEST

START_TEST(a_large_call_goes_alone)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH, 3);
    items[1] = bench_push_item("large", values, LARGE);
    bench_start(&bench, PS_METHOD_PUSH, items, 3, 1000);
    ck_assert_uint_eq(bench.message_count, 2);
    ck_assert_uint_eq(bench.sent[0].part_count, 1);
    ck_assert_uint_eq(bench.sent[1].part_count, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_uint_eq(bench.sent[1].part_count, 1);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_call_that_broke_is_repeated_under_its_number)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH, 5);
    bench_start(&bench, PS_METHOD_PUSH, items, 5, 10000);
    bench_answer(&bench, 1, PS_ERR_BUSY, true);
    bench_answer(&bench, 2, PS_ERR_UNAVAILABLE, false);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 3);
    bench_at(&bench, bench.now_ms + 200);

    ck_assert_uint_eq(bench.message_count, 2);
    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence + bench_id(&bench, 1).sequence, 2 + 4);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 3);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->retries, 2);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->resends, 1);
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(items[i].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_first_call_that_is_repeated_waits_for_the_others_of_its_message)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH, 3);
    bench_start(&bench, PS_METHOD_PUSH, items, 3, 10000);
    bench_answer(&bench, 0, PS_ERR_BUSY, true);
    bench_at(&bench, bench.now_ms + 200);
    ck_assert_uint_eq(bench.sent_count, 2);
    bench_succeed(&bench, 0, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence, 1);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_server_without_such_messages_gets_calls_one_by_one)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH, 4);
    bench_start(&bench, PS_METHOD_PUSH, items, 4, 10000);
    while (bench.sent_count > 0) {
        struct ps_call_outcome outcome = {
            .status = PS_ERR_UNAVAILABLE, .refused = true, .no_bundles = true};
        uint64_t call = bench.sent[0].call;
        memmove(&bench.sent[0], &bench.sent[1], --bench.sent_count * sizeof bench.sent[0]);
        ps_engine_outcome(bench.engine, call, &outcome, bench.now_ms);
    }
    bench_at(&bench, bench.now_ms + 200);
    ck_assert_uint_eq(bench.message_count, 3); /* two are out at once */
    ck_assert_uint_eq(bench.sent[0].part_count, 1);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    ck_assert_uint_eq(bench.message_count, 5);
    bench_close(&bench);
}
END_TEST

START_TEST(pushes_that_pull_take_both_answers)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH_PULL, 3);
    bench_start(&bench, PS_METHOD_PUSH_PULL, items, 3, 1000);
    ck_assert_uint_eq(bench.message_count, 1);
    ck_assert_uint_eq(bench_id(&bench, 2).sequence, 3);
    ck_assert_uint_eq(bench.sent[0].request->push_pull.push.shard, 1);
    ck_assert_uint_eq(bench.sent[0].request->push_pull.pull.shard, 1);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 4);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(items[i].status, PS_OK);
        ck_assert_uint_eq(items[i].version, 4);
        ck_assert_uint_eq(items[i].pulled_version, 5);
    }
    bench_close(&bench);
}
END_TEST

START_TEST(a_deadline_cancels_every_call_of_a_message)
{
    bench_open_together(&bench, 1, 64);
    make_items(PS_METHOD_PUSH, 3);
    bench_start(&bench, PS_METHOD_PUSH, items, 3, 50);
    bench_at(&bench, bench.now_ms + 50);
    ck_assert_uint_eq(bench.cancelled_count, 3);
    while (bench.sent_count > 0)
        bench_answer(&bench, 0, PS_ERR_CANCELLED, false);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(items[i].status, PS_ERR_TIMEOUT);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_messages");
    TCase *t = tcase_create("engine_messages");
    tcase_add_test(t, small_calls_go_together);
    tcase_add_test(t, a_message_ends_with_its_last_call);
    tcase_add_test(t, a_long_batch_goes_in_full_messages);
    tcase_add_test(t, with_nothing_out_a_message_goes_for_the_numbers_that_are_left);
    tcase_add_test(t, a_large_call_goes_alone);
    tcase_add_test(t, a_call_that_broke_is_repeated_under_its_number);
    tcase_add_test(t, a_first_call_that_is_repeated_waits_for_the_others_of_its_message);
    tcase_add_test(t, a_server_without_such_messages_gets_calls_one_by_one);
    tcase_add_test(t, pushes_that_pull_take_both_answers);
    tcase_add_test(t, a_deadline_cancels_every_call_of_a_message);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
