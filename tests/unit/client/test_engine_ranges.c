/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine_ranges.c: calls whose content goes in ranges, as the engine sees them. */
#include "client/engine/engine.h"

#include "client/calls/thresholds.h"
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>

#define RANGE_BYTES 64

static const float values[64] = {1, 2, 3, 4, 5, 6, 7, 8};
static struct bench bench;

/* The i-th message in flight is a range that is staged, or, with a version, the last of the
 * push. */
static void answer(uint32_t i, uint64_t version, size_t as_one_bytes_max)
{
    struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PUSH,
                                      .as_one_bytes_max = as_one_bytes_max};
    outcome.reply.push = (struct ps_push_reply){.version = version, .staged = version == 0};
    bench_give(&bench, i, &outcome);
}

START_TEST(a_large_push_is_one_call_of_several_messages)
{
    struct ps_item item = bench_push_item("w", values, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES);

    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 100);

    ck_assert_uint_eq(bench.sent_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(bench.sent[i].request->push.range.first, i * 16);
        ck_assert_uint_eq(bench_id(&bench, i).sequence, bench_id(&bench, 0).sequence);
        ck_assert_uint_eq(bench_meant(&bench, i), 1);
        for (uint32_t k = 0; k < i; k++)
            ck_assert_uint_ne(bench.sent[i].call, bench.sent[k].call);
    }
    answer(3, 0, 0);
    answer(0, 0, 0);
    answer(0, 0, 0);
    ck_assert_ptr_null(bench.finished);
    answer(0, 8, 0);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(item.version, 8);
    ck_assert_uint_eq(item.retries, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_call_in_ranges_leaves_alone_and_small_ones_leave_together)
{
    struct ps_item items[] = {bench_push_item("a", values, 2), bench_push_item("w", values, 64),
                              bench_push_item("b", values, 2), bench_push_item("c", values, 2)};
    bench_open_ranges(&bench, 1, RANGE_BYTES);

    bench_start(&bench, PS_METHOD_PUSH, items, 4, 100);

    ck_assert_uint_eq(bench.message_count, 1 + 4);
    answer(0, 1, 0);
    ck_assert_uint_eq(bench.message_count, 1 + 4 + 1);
    while (bench.sent_count > 0)
        answer(0, 2, 0);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(items[i].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_failure_of_one_range_repeats_all_of_them_under_the_same_number)
{
    struct ps_item item = bench_push_item("w", values, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    uint64_t sequence = bench_id(&bench, 0).sequence;

    bench_answer(&bench, 1, PS_ERR_UNAVAILABLE, false);
    ck_assert_uint_eq(bench.cancelled_count, 3);
    while (bench.sent_count > 0)
        bench_answer(&bench, 0, PS_ERR_CANCELLED, false);
    bench_at(&bench, 1500);

    ck_assert_uint_eq(bench.sent_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(bench_id(&bench, i).sequence, sequence);
    for (uint32_t i = 0; i < 3; i++)
        answer(0, 0, 0);
    answer(0, 9, 0);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(item.retries, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(at_the_deadline_every_range_is_cancelled_and_the_push_may_be_applied)
{
    struct ps_item item = bench_push_item("w", values, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 100);
    answer(0, 0, 0);

    bench_at(&bench, 1100);

    ck_assert_uint_eq(bench.cancelled_count, 3);
    ck_assert_ptr_null(bench.finished);
    while (bench.sent_count > 0)
        bench_answer(&bench, 0, PS_ERR_CANCELLED, false);
    ck_assert_int_eq(item.status, PS_ERR_TIMEOUT);
    ck_assert(item.may_be_applied);
    bench_close(&bench);
}
END_TEST

/* Outcomes may come one behind the other before anybody asks for actions. */
START_TEST(a_range_that_had_not_left_when_the_call_failed_never_leaves)
{
    struct ps_item item = bench_push_item("w", values, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES / 2);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    struct ps_call_outcome staged = {.reply.method = PS_METHOD_PUSH};
    staged.reply.push.staged = true;
    const struct ps_call_outcome moved = {.status = PS_ERR_UNAVAILABLE, .text = "moved"};
    ck_assert_uint_eq(bench.sent_count, 4);

    for (uint32_t i = 0; i < 4; i++)
        (void)ps_engine_outcome(bench.engine, bench.sent[i].call, i == 0 ? &staged : &moved,
                                bench.now_ms);
    bench.sent_count = 0;
    ps_engine_member(bench.engine, 0, 2);
    bench_pump(&bench);

    ck_assert_uint_eq(bench.cancelled_count, 0);
    ck_assert_uint_eq(bench.sent_count, 4);
    ck_assert_uint_eq(bench.sent[0].request->push.range.first, 0);
    for (uint32_t i = 0; i < 7; i++)
        answer(0, 0, 0);
    answer(0, 3, 0);
    ck_assert_int_eq(item.status, PS_OK);
    bench_close(&bench);
}
END_TEST

static void end_batch(void)
{
    ps_engine_end(bench.engine, bench.batch);
    bench.finished = NULL;
}

/* Pushes in ranges, of which the first round comes to nothing. */
static void push_and_be_overtaken(struct ps_item *item, size_t as_one_bytes_max)
{
    bench_start(&bench, PS_METHOD_PUSH, item, 1, 1000);
    for (uint32_t i = 0; i < 4 + 3; i++)
        answer(0, 0, as_one_bytes_max);
    answer(0, 2, as_one_bytes_max);
    ck_assert_int_eq(item->status, PS_OK);
    end_batch();
}

START_TEST(after_ranges_were_overtaken_contents_go_as_one_if_the_server_takes_them)
{
    struct ps_item item = bench_push_item("w", values, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES);
    push_and_be_overtaken(&item, sizeof values);

    for (uint32_t i = 0; i < PS_AS_ONE_CALLS; i++) {
        bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
        ck_assert_uint_eq(bench.sent_count, 1);
        ck_assert_uint_eq(bench.sent[0].request->push.range.count, 0);
        answer(0, 3, sizeof values);
        end_batch();
    }
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    ck_assert_uint_eq(bench.sent_count, 4);
    while (bench.sent_count > 0)
        answer(0, 4, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_server_that_takes_less_as_one_or_another_server_gets_ranges)
{
    struct ps_item item = bench_push_item("w", values, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES);
    push_and_be_overtaken(&item, sizeof values - 1);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    ck_assert_uint_eq(bench.sent_count, 4);
    while (bench.sent_count > 0)
        answer(0, 3, sizeof values);
    end_batch();

    ps_engine_member(bench.engine, 0, 2);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);

    ck_assert_uint_eq(bench.sent_count, 4);
    while (bench.sent_count > 0)
        answer(0, 4, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_in_ranges_is_put_together_in_the_callers_memory)
{
    float destination[64];
    struct ps_item item = bench_pull_item("w", destination, 64);
    bench_open_ranges(&bench, 1, RANGE_BYTES);
    bench_start(&bench, PS_METHOD_PULL, &item, 1, 100);
    ck_assert_uint_eq(bench.sent_count, 1);

    while (bench.sent_count > 0) {
        const struct ps_pull_request *asked = &bench.sent[0].request->pull;
        const struct ps_bytes piece = {(const uint8_t *)(values + asked->range.first),
                                       (size_t)asked->range.count * sizeof(float)};
        struct ps_call_outcome outcome = {.reply.method = PS_METHOD_PULL};
        outcome.reply.pull = (struct ps_pull_reply){.dtype = PS_F32,
                                                    .version = 5,
                                                    .range = asked->range,
                                                    .total = 64,
                                                    .content = ps_view_of(&piece)};
        bench_give(&bench, 0, &outcome);
    }

    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(item.pulled_version, 5);
    ck_assert_mem_eq(destination, values, sizeof values);
    bench_close(&bench);
}
END_TEST

START_TEST(a_batch_that_gets_no_memory_for_its_ranges_does_not_begin)
{
    struct ps_item item = bench_push_item("w", values, 64);
    const struct ps_batch_request request = {
        .method = PS_METHOD_PUSH, .items = &item, .item_count = 1, .deadline_ms = 2000};
    struct ps_batch *batch;
    bench_open_ranges(&bench, 1, RANGE_BYTES);
    bench.heap.refuse_at = bench.heap.seen + 3;

    ck_assert_int_eq(ps_engine_start(bench.engine, &request, 1000, &batch, NULL), PS_ERR_NO_MEMORY);

    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_ranges");
    TCase *tests = tcase_create("engine_ranges");
    tcase_add_test(tests, a_large_push_is_one_call_of_several_messages);
    tcase_add_test(tests, a_call_in_ranges_leaves_alone_and_small_ones_leave_together);
    tcase_add_test(tests, a_failure_of_one_range_repeats_all_of_them_under_the_same_number);
    tcase_add_test(tests, at_the_deadline_every_range_is_cancelled_and_the_push_may_be_applied);
    tcase_add_test(tests, a_range_that_had_not_left_when_the_call_failed_never_leaves);
    tcase_add_test(tests, after_ranges_were_overtaken_contents_go_as_one_if_the_server_takes_them);
    tcase_add_test(tests, a_server_that_takes_less_as_one_or_another_server_gets_ranges);
    tcase_add_test(tests, a_pull_in_ranges_is_put_together_in_the_callers_memory);
    tcase_add_test(tests, a_batch_that_gets_no_memory_for_its_ranges_does_not_begin);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
