/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine.c when calls fail, servers go and time runs out. */
#include "client/engine/engine.h"

#include "base/clock.h"
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const float values[64] = {1, 2, 3, 4, 5, 6, 7, 8};
static struct bench bench;

START_TEST(a_refused_push_is_sent_again_after_a_pause)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, true);

    ck_assert_uint_eq(bench.sent_count, 0);
    uint64_t wake_ms = ps_engine_wake_ms(bench.engine);
    ck_assert_uint_ge(wake_ms, 1005);
    ck_assert_uint_le(wake_ms, 1010);
    bench_at(&bench, wake_ms - 1);
    ck_assert_uint_eq(bench.sent_count, 0);
    bench_at(&bench, wake_ms);
    ck_assert_uint_eq(bench.sent_count, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_uint_eq(items[0].retries, 1);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->retries, 1);
    ck_assert_str_eq(items[0].text, "");
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_that_broke_after_it_was_sent_is_sent_again)
{
    float destination[1] = {7};
    struct ps_item items[] = {bench_pull_item("w", destination, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PULL, items, 1, 1000);

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    bench_at(&bench, ps_engine_wake_ms(bench.engine));
    bench_succeed(&bench, 0, 5);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 5);
    ck_assert(destination[0] == 0);
    bench_close(&bench);
}
END_TEST

START_TEST(the_deadline_holds_to_the_millisecond_for_a_call_without_server)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    ps_engine_member(bench.engine, 0, 0);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 250);

    ck_assert_uint_eq(ps_engine_wake_ms(bench.engine), 1250);
    bench_at(&bench, 1249);
    ck_assert_ptr_null(bench.finished);
    bench_at(&bench, 1250);

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(items[0].text, "nobody serves shard 0, and nobody came in time");
    bench_close(&bench);
}
END_TEST

START_TEST(the_deadline_holds_to_the_millisecond_for_a_call_in_flight)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 250);

    bench_at(&bench, 1249);
    ck_assert_uint_eq(bench.cancelled_count, 0);
    bench_at(&bench, 1250);
    ck_assert_uint_eq(bench.cancelled_count, 1);
    ck_assert_uint_eq(bench.cancelled[0], bench.sent[0].call);
    ck_assert_ptr_null(bench.finished);
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_TIMEOUT);
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_in_flight_at_the_deadline_is_unavailable)
{
    float destination[1];
    struct ps_item items[] = {bench_pull_item("w", destination, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PULL, items, 1, 250);

    bench_at(&bench, 1250);
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(items[0].text, "no answer in time: its server is silent, or nobody has "
                                    "initialised the job");
    bench_close(&bench);
}
END_TEST

START_TEST(an_answer_that_crosses_the_cancellation_still_counts)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 250);

    bench_at(&bench, 1250);
    bench_succeed(&bench, 0, 8);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 8);
    bench_close(&bench);
}
END_TEST

START_TEST(a_paused_call_ends_at_the_deadline_with_its_last_reason)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 3);

    bench_answer(&bench, 0, PS_ERR_BUSY, true);
    ck_assert_uint_eq(ps_engine_wake_ms(bench.engine), 1003);
    bench_at(&bench, 1003);

    ck_assert_int_eq(items[0].status, PS_ERR_BUSY);
    ck_assert_str_eq(items[0].text, "busy");
    bench_close(&bench);
}
END_TEST

START_TEST(a_batch_whose_time_is_over_before_it_starts_sends_nothing)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);

    bench_start(&bench, PS_METHOD_PUSH, items, 1, 0);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    bench_close(&bench);
}
END_TEST

START_TEST(b9_a_missing_server_does_not_disturb_server_0)
{
    struct ps_item items[] = {bench_push_item("param_a", values, 1),
                              bench_push_item("param_b", values, 1)};
    bench_open(&bench, 2, 1000);
    ps_engine_member(bench.engine, 1, 0);

    bench_start(&bench, PS_METHOD_PUSH, items, 2, 100);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench.sent[0].shard, 0);
    bench_succeed(&bench, 0, 1);
    bench_at(&bench, 1100);
    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_int_eq(items[1].status, PS_ERR_UNAVAILABLE);
    bench_close(&bench);
}
END_TEST

START_TEST(b10_a_shard_that_comes_back_gets_its_calls_at_once)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    ps_engine_member(bench.engine, 0, 0);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 100);
    ck_assert_uint_eq(bench.sent_count, 0);

    ps_engine_member(bench.engine, 0, 9);
    bench_pump(&bench);

    ck_assert_uint_eq(bench.sent_count, 1);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(b11_a_new_server_of_the_shard_ends_the_pause_of_its_calls_only)
{
    struct ps_item items[] = {bench_push_item("param_a", values, 1),
                              bench_push_item("param_b", values, 1)};
    bench_open(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 2, 1000);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, true);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, true);

    ps_engine_member(bench.engine, 1, 1);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 0);
    ps_engine_member(bench.engine, 1, 2);
    bench_pump(&bench);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench.sent[0].shard, 1);
    bench_succeed(&bench, 0, 1);
    bench_at(&bench, 1010);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(an_initialisation_that_broke_is_repeated)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    items[0].config = ps_bytes_of_text("config");
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_INIT, items, 1, 1000);
    ck_assert(ps_bytes_equal(bench.sent[0].request->init.config, items[0].config));

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    bench_at(&bench, 1010);
    bench_answer(&bench, 0, PS_ERR_EXISTS, true);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert(items[0].before);
    bench_close(&bench);
}
END_TEST

START_TEST(a_batch_beyond_the_limit_is_refused_whole)
{
    bench_open(&bench, 1, 1000);
    const struct ps_batch_request request = {
        .method = PS_METHOD_FINISH, .items = NULL, .item_count = PS_BATCH_CALLS_MAX + 1};
    struct ps_batch *batch;

    ck_assert_int_eq(ps_engine_start(bench.engine, &request, 1000, &batch, NULL),
                     PS_ERR_OUT_OF_RANGE);
    bench_close(&bench);
}
END_TEST

START_TEST(start_survives_any_refused_allocation)
{
    struct ps_item items[] = {bench_push_item("w", values, 8)};
    bench_open(&bench, 2, 8);
    const struct ps_batch_request request = {
        .method = PS_METHOD_PUSH, .items = items, .item_count = 1, .deadline_ms = 2000};
    bench.heap.refuse_at = bench.heap.seen + _i;
    int64_t live = bench.heap.live;

    enum ps_status status = ps_engine_start(bench.engine, &request, 1000, &bench.batch, NULL);

    if (status != PS_OK) {
        ck_assert_int_lt(_i, 4);
        ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
        ck_assert_int_eq(bench.heap.live, live);
        bench.batch = NULL;
    } else {
        ck_assert_int_eq(_i, 4);
        bench_at(&bench, 2000);
    }
    bench_close(&bench);
}
END_TEST

START_TEST(create_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_engine_options options = {.memory = &memory, .shard_count = 3};
    struct ps_engine *engine = NULL;

    enum ps_status status = ps_engine_create(&options, &engine, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(status == PS_OK, _i == 2);
    ps_engine_destroy(engine);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(no_shards_or_too_many_are_refused)
{
    struct ps_engine *engine;
    struct ps_engine_options options = {.memory = ps_allocator_heap(), .shard_count = 0};
    ck_assert_int_eq(ps_engine_create(&options, &engine, NULL), PS_ERR_BAD_INPUT);
    options.shard_count = PS_SHARDS_MAX + 1;
    ck_assert_int_eq(ps_engine_create(&options, &engine, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

/* The channel gives the attempt at the former server up when it hears of the new one; pausing then
 * would keep a server waiting that has said nothing. */
START_TEST(a_push_whose_server_was_replaced_goes_to_the_next_one_at_once)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    ps_engine_member(bench.engine, 0, 2);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 1); /* the channel has not given it up yet */

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence, 1); /* it may have been applied: as it was */
    bench_succeed(&bench, 0, 7);
    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 7);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_that_fails_at_the_present_server_pauses)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    ps_engine_member(bench.engine, 0, 2);
    bench_pump(&bench);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, true);
    ck_assert_uint_eq(bench.sent_count, 0);
    ps_engine_member(bench.engine, 0, 0); /* nobody: nothing to go to */
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 0);

    ps_engine_member(bench.engine, 0, 3);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 1);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_failures");
    TCase *tests = tcase_create("engine_failures");
    tcase_add_test(tests, a_refused_push_is_sent_again_after_a_pause);
    tcase_add_test(tests, a_pull_that_broke_after_it_was_sent_is_sent_again);
    tcase_add_test(tests, the_deadline_holds_to_the_millisecond_for_a_call_without_server);
    tcase_add_test(tests, the_deadline_holds_to_the_millisecond_for_a_call_in_flight);
    tcase_add_test(tests, a_pull_in_flight_at_the_deadline_is_unavailable);
    tcase_add_test(tests, an_answer_that_crosses_the_cancellation_still_counts);
    tcase_add_test(tests, a_paused_call_ends_at_the_deadline_with_its_last_reason);
    tcase_add_test(tests, a_batch_whose_time_is_over_before_it_starts_sends_nothing);
    tcase_add_test(tests, b9_a_missing_server_does_not_disturb_server_0);
    tcase_add_test(tests, b10_a_shard_that_comes_back_gets_its_calls_at_once);
    tcase_add_test(tests, b11_a_new_server_of_the_shard_ends_the_pause_of_its_calls_only);
    tcase_add_test(tests, an_initialisation_that_broke_is_repeated);
    tcase_add_test(tests, a_batch_beyond_the_limit_is_refused_whole);
    tcase_add_loop_test(tests, start_survives_any_refused_allocation, 0, 5);
    tcase_add_loop_test(tests, create_survives_any_refused_allocation, 0, 3);
    tcase_add_test(tests, no_shards_or_too_many_are_refused);
    tcase_add_test(tests, a_push_whose_server_was_replaced_goes_to_the_next_one_at_once);
    tcase_add_test(tests, a_push_that_fails_at_the_present_server_pauses);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
