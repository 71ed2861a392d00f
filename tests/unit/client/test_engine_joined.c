/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of different batches that leave at the same moment go in one message. */
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { BATCHES = 80, MIDDLE = 16 * 1024 / 4, LARGE = MIDDLE + 1 };

static struct bench bench;
static char names[BATCHES][8];
static float values[LARGE];
static float destinations[BATCHES];
static struct ps_item items[BATCHES];
static struct ps_batch *batches[BATCHES];
static size_t begun;

static void open_bench(uint32_t shard_count, uint32_t message_calls_max)
{
    bench_open_together(&bench, shard_count, message_calls_max);
    begun = 0;
}

/* One more batch of one call, which nobody has collected yet. */
static void begin_for(enum ps_method method, size_t length, uint64_t timeout_ms)
{
    size_t i = begun++;
    (void)snprintf(names[i], sizeof names[i], "p%zu", i);
    items[i] = bench_push_item(names[i], values, length);
    if (method != PS_METHOD_PUSH)
        items[i].destination = (uint8_t *)&destinations[i];
    batches[i] = bench_begin(&bench, method, &items[i], 1, timeout_ms);
}

static void begin(enum ps_method method, size_t length)
{
    begin_for(method, length, 1000);
}

static void close_bench(void)
{
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 3);
    for (size_t i = 0; i < begun; i++) {
        ck_assert(ps_batch_is_finished(batches[i]));
        ps_engine_end(bench.engine, batches[i]);
    }
    bench_close(&bench);
}

START_TEST(calls_of_many_batches_go_together_in_their_order)
{
    open_bench(1, 64);
    for (size_t i = 0; i < 5; i++)
        begin(PS_METHOD_PUSH_PULL, 1);
    bench_pump(&bench);

    ck_assert_uint_eq(bench.message_count, 1);
    ck_assert_uint_eq(bench.sent_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(bench_id(&bench, i).sequence, i + 1);
        ck_assert_uint_eq(bench.sent[i].request->push_pull.push.shard, 1);
    }
    close_bench();
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(items[i].status, PS_OK);
        ck_assert_uint_eq(items[i].version, 3);
    }
}
END_TEST

START_TEST(each_batch_is_finished_with_its_own_call)
{
    open_bench(1, 64);
    for (size_t i = 0; i < 3; i++)
        begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    bench_succeed(&bench, 1, 9);
    ck_assert_ptr_eq(bench.finished, batches[1]);
    ck_assert(!ps_batch_is_finished(batches[0]) && !ps_batch_is_finished(batches[2]));
    bench_answer(&bench, 0, PS_ERR_NOT_FOUND, true);
    close_bench();
    ck_assert_int_eq(items[0].status, PS_ERR_NOT_FOUND);
    ck_assert_int_eq(items[1].status, PS_OK);
    ck_assert_int_eq(items[2].status, PS_OK);
}
END_TEST

START_TEST(a_call_that_broke_is_repeated_under_its_number_whatever_goes_with_it)
{
    open_bench(1, 64);
    for (size_t i = 0; i < 3; i++)
        begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    bench_answer(&bench, 1, PS_ERR_UNAVAILABLE, false);
    bench_succeed(&bench, 0, 1);
    bench_succeed(&bench, 0, 1);
    begin(PS_METHOD_PUSH, 1);
    bench_at(&bench, bench.now_ms + 200);

    ck_assert_uint_eq(bench.message_count, 2);
    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence, 2);
    ck_assert_uint_eq(bench_id(&bench, 1).sequence, 4);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->resends, 1);
    close_bench();
}
END_TEST

START_TEST(another_method_is_neither_joined_nor_overtaken)
{
    open_bench(1, 64);
    begin(PS_METHOD_PUSH, 1);
    begin(PS_METHOD_PULL, 1);
    begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.message_count, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(bench.sent[i].request->method, i == 1 ? PS_METHOD_PULL : PS_METHOD_PUSH);
    close_bench();
}
END_TEST

START_TEST(calls_for_different_servers_go_apart)
{
    open_bench(2, 64);
    for (size_t i = 0; i < 8; i++)
        begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 8);
    ck_assert_uint_ge(bench.message_count, 2);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(bench.sent[i].shard + 1, bench_meant(&bench, i));
    close_bench();
}
END_TEST

START_TEST(what_is_larger_goes_alone)
{
    open_bench(1, 64);
    begin(PS_METHOD_PUSH, 1);
    begin(PS_METHOD_PUSH, LARGE);
    begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 3);
    ck_assert_uint_eq(bench.sent[0].part_count, 1);
    close_bench();
}
END_TEST

START_TEST(a_message_has_128_KiB_and_its_calls_at_most)
{
    open_bench(1, 64);
    for (size_t i = 0; i < 10; i++)
        begin(PS_METHOD_PUSH, MIDDLE);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.message_count, 2);
    ck_assert_uint_eq(bench.sent[0].part_count, 8);
    ck_assert_uint_eq(bench.sent[8].part_count, 2);
    close_bench();

    open_bench(1, 64);
    bench.message_count = 0;
    for (size_t i = 0; i < BATCHES; i++)
        begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.message_count, 2);
    ck_assert_uint_eq(bench.sent[0].part_count, 64);
    close_bench();
}
END_TEST

START_TEST(an_engine_without_such_messages_sends_each_call_alone)
{
    open_bench(1, 0);
    for (size_t i = 0; i < 4; i++)
        begin(PS_METHOD_PUSH, 1);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.message_count, 4);
    close_bench();
}
END_TEST

/* The message has the last of their deadlines; who has an earlier one is cancelled at his. */
START_TEST(every_call_keeps_its_own_deadline)
{
    open_bench(1, 64);
    begin_for(PS_METHOD_PUSH, 1, 100);
    begin_for(PS_METHOD_PUSH, 1, 5000);
    begin_for(PS_METHOD_PUSH, 1, 300);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent[0].deadline_ms, bench.now_ms + 5000);

    bench_at(&bench, bench.now_ms + 100);
    ck_assert_uint_eq(bench.cancelled_count, 1);
    ck_assert_uint_eq(bench.cancelled[0], bench.sent[0].call);
    for (size_t i = 0; i < 3; i++)
        bench_answer(&bench, 0, PS_ERR_CANCELLED, false);
    ck_assert_ptr_eq(bench.finished, batches[0]);
    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    bench_at(&bench, bench.now_ms + 50);
    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence, 2);
    ck_assert_uint_eq(bench_id(&bench, 1).sequence, 3);
    close_bench();
    ck_assert_int_eq(items[1].status, PS_OK);
    ck_assert_int_eq(items[2].status, PS_OK);
}
END_TEST

START_TEST(a_call_whose_deadline_came_before_it_left_is_not_sent)
{
    open_bench(1, 64);
    begin_for(PS_METHOD_PUSH, 1, 1000);
    begin_for(PS_METHOD_PUSH, 1, 10);
    begin_for(PS_METHOD_PUSH, 1, 1000);
    bench_at(&bench, bench.now_ms + 10);
    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert_ptr_eq(bench.finished, batches[1]);
    ck_assert_int_eq(items[1].status, PS_ERR_UNAVAILABLE);
    close_bench();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_joined");
    TCase *t = tcase_create("engine_joined");
    tcase_add_test(t, calls_of_many_batches_go_together_in_their_order);
    tcase_add_test(t, each_batch_is_finished_with_its_own_call);
    tcase_add_test(t, a_call_that_broke_is_repeated_under_its_number_whatever_goes_with_it);
    tcase_add_test(t, another_method_is_neither_joined_nor_overtaken);
    tcase_add_test(t, calls_for_different_servers_go_apart);
    tcase_add_test(t, what_is_larger_goes_alone);
    tcase_add_test(t, a_message_has_128_KiB_and_its_calls_at_most);
    tcase_add_test(t, an_engine_without_such_messages_sends_each_call_alone);
    tcase_add_test(t, every_call_keeps_its_own_deadline);
    tcase_add_test(t, a_call_whose_deadline_came_before_it_left_is_not_sent);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
