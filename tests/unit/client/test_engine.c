/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine.c: one event at a time, no network and no clock. */
#include "client/engine/engine.h"

#include "base/clock.h"
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const float values[64] = {1, 2, 3, 4, 5, 6, 7, 8};
static struct bench bench;

START_TEST(b17_an_empty_batch_is_finished_at_once)
{
    bench_open(&bench, 2, 1000);

    bench_start(&bench, PS_METHOD_PULL, NULL, 0, 0);

    ck_assert_ptr_eq(bench.finished, bench.batch);
    ck_assert_uint_eq(bench.sent_count, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(every_parameter_goes_to_its_own_shard)
{
    struct ps_item items[] = {bench_push_item("param_a", values, 1),
                              bench_push_item("param_b", values, 1)};
    bench_open(&bench, 2, 1000);

    bench_start(&bench, PS_METHOD_PUSH, items, 2, 100);

    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert_uint_eq(bench.sent[0].shard, 0);
    ck_assert_uint_eq(bench.sent[1].shard, 1);
    ck_assert_uint_eq(bench.sent[0].deadline_ms, 1100);
    ck_assert_ptr_eq(bench.sent[0].request->push.content.pieces[0].data, values);
    bench_succeed(&bench, 1, 4);
    bench_succeed(&bench, 0, 3);
    ck_assert_uint_eq(items[0].version, 3);
    ck_assert_uint_eq(items[1].version, 4);
    bench_close(&bench);
}
END_TEST

START_TEST(a_large_parameter_is_cut_over_all_shards_and_put_together_again)
{
    float destination[5] = {0};
    struct ps_item items[] = {bench_pull_item("w", destination, 5)};
    bench_open(&bench, 2, 8);

    bench_start(&bench, PS_METHOD_PULL, items, 1, 100);

    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert(ps_bytes_equal(bench_name(&bench, 0), ps_bytes_of_text("w#0/2")));
    ck_assert(ps_bytes_equal(bench_name(&bench, 1), ps_bytes_of_text("w#1/2")));
    struct ps_bytes front = {(const uint8_t *)values, 12};
    struct ps_bytes back[] = {{(const uint8_t *)values + 12, 3}, {(const uint8_t *)values + 15, 5}};
    struct ps_call_reply reply = {.method = PS_METHOD_PULL,
                                  .pull = {.dtype = PS_F32, .content = {back, 2, 8}, .version = 6}};
    bench_reply(&bench, 1, &reply);
    ck_assert_ptr_null(bench.finished);
    reply.pull.content = ps_view_of(&front);
    reply.pull.version = 9;
    bench_reply(&bench, 0, &reply);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 6);
    ck_assert_int_eq(memcmp(destination, values, sizeof destination), 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_of_a_cut_parameter_sends_each_range_of_the_content)
{
    struct ps_item items[] = {bench_push_item("w", values, 5)};
    bench_open(&bench, 3, 4);

    bench_start(&bench, PS_METHOD_PUSH, items, 1, 100);

    ck_assert_uint_eq(bench.sent_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct ps_push_request *push = &bench.sent[i].request->push;
        ck_assert_uint_eq(bench.sent[i].shard, i);
        ck_assert_uint_eq(push->content.size, i < 2 ? 8 : 4);
        ck_assert_ptr_eq(push->content.pieces[0].data, (const uint8_t *)values + i * 8);
    }
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(the_same_name_may_stand_twice_in_a_batch)
{
    struct ps_item items[] = {bench_push_item("w", values, 1), bench_push_item("w", values, 1)};
    bench_open(&bench, 1, 1000);

    bench_start(&bench, PS_METHOD_PUSH, items, 2, 100);
    bench_succeed(&bench, 0, 1);
    bench_succeed(&bench, 0, 2);

    ck_assert_uint_eq(items[0].version, 1);
    ck_assert_uint_eq(items[1].version, 2);
    bench_close(&bench);
}
END_TEST

START_TEST(a_shard_never_has_more_calls_in_flight_than_allowed)
{
    struct ps_item items[7];
    for (size_t i = 0; i < 7; i++)
        items[i] = bench_push_item("w", values, 1);
    bench_open(&bench, 1, 1000);

    bench_start(&bench, PS_METHOD_PUSH, items, 7, 100);

    for (uint64_t i = 0; i < 7; i++) {
        ck_assert_uint_eq(bench.sent_count, i < 6 ? 2 : 1);
        bench_succeed(&bench, 0, i);
    }
    for (uint64_t i = 0; i < 7; i++)
        ck_assert_uint_eq(items[i].version, i);
    bench_close(&bench);
}
END_TEST

START_TEST(b18_one_bad_item_leaves_the_others_alone)
{
    struct ps_item items[] = {bench_push_item("a", values, 1), bench_push_item("gone", values, 1),
                              bench_push_item("b", values, 1)};
    bench_open(&bench, 1, 1000);

    bench_start(&bench, PS_METHOD_PUSH, items, 3, 100);
    bench_succeed(&bench, 0, 1);
    bench_answer(&bench, 0, PS_ERR_NOT_FOUND, true);
    bench_succeed(&bench, 0, 1);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_int_eq(items[1].status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(items[1].text, "not_found");
    ck_assert_int_eq(items[2].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(items_that_are_wrong_in_themselves_are_never_sent)
{
    struct ps_item odd = bench_push_item("odd", values, 1);
    odd.size = 3;
    struct ps_item no_type = bench_push_item("type", values, 1);
    no_type.dtype = (enum ps_dtype)77;
    struct ps_item reserved = bench_push_item("w#1/2", values, 1);
    struct ps_item items[] = {bench_push_item("empty", values, 0),
                              bench_push_item("null", NULL, 1),
                              bench_push_item("", values, 1),
                              odd,
                              no_type,
                              reserved};
    bench_open(&bench, 2, 1000);

    bench_start(&bench, PS_METHOD_PUSH, items, 6, 100);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_ptr_eq(bench.finished, bench.batch);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_int_eq(items[i].status, PS_ERR_BAD_INPUT);
        ck_assert_str_ne(items[i].text, "");
    }
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_of_another_type_or_length_fails_and_writes_nothing)
{
    float destination[2] = {7, 7};
    struct ps_item items[] = {bench_pull_item("a", destination, 2),
                              bench_pull_item("b", destination, 2)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PULL, items, 2, 100);
    struct ps_bytes longer = {(const uint8_t *)values, 12}, same = {(const uint8_t *)values, 8};
    struct ps_call_reply reply = {.method = PS_METHOD_PULL,
                                  .pull = {.dtype = PS_F32, .content = ps_view_of(&longer)}};

    bench_reply(&bench, 0, &reply);
    reply.pull.content = ps_view_of(&same);
    reply.pull.dtype = PS_I32;
    bench_reply(&bench, 0, &reply);

    ck_assert_int_eq(items[0].status, PS_ERR_BAD_INPUT);
    ck_assert_str_eq(items[0].text, "parameter a: has 12 bytes, asked for 8");
    ck_assert_int_eq(items[1].status, PS_ERR_BAD_INPUT);
    ck_assert_str_eq(items[1].text, "parameter b: holds i32 elements, asked for f32");
    ck_assert(destination[0] == 7 && destination[1] == 7);
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_of_any_type_takes_the_type_that_is_there)
{
    float destination[2];
    struct ps_item item = bench_pull_item("a", destination, 2);
    item.any_dtype = true;
    bench_open(&bench, 4, 4);
    bench_start(&bench, PS_METHOD_PULL, &item, 1, 100);
    struct ps_bytes content = {(const uint8_t *)values, 8};
    struct ps_call_reply reply = {
        .method = PS_METHOD_PULL,
        .pull = {.dtype = PS_I64, .content = ps_view_of(&content), .version = 3}};

    ck_assert_uint_eq(bench.sent_count, 1);
    bench_reply(&bench, 0, &reply);

    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_int_eq(item.dtype, PS_I64);
    bench_close(&bench);
}
END_TEST

START_TEST(b7_finish_goes_on_past_shards_that_are_finished_already)
{
    struct ps_item items[3] = {{.shard = 0}, {.shard = 1}, {.shard = 2}};
    bench_open(&bench, 3, 1000);

    bench_start(&bench, PS_METHOD_FINISH, items, 3, 100);
    ck_assert_uint_eq(bench.sent_count, 3);
    bench_answer(&bench, 0, PS_ERR_EXISTS, true);
    bench_succeed(&bench, 0, 0);
    bench_succeed(&bench, 0, 0);

    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(items[i].status, PS_OK);
    ck_assert(items[0].before);
    ck_assert(!items[1].before);
    bench_close(&bench);
}
END_TEST

START_TEST(a_call_to_a_shard_that_is_none_is_refused)
{
    struct ps_item item = {.shard = 2};
    bench_open(&bench, 2, 1000);

    bench_start(&bench, PS_METHOD_STATUS, &item, 1, 100);

    ck_assert_int_eq(item.status, PS_ERR_OUT_OF_RANGE);
    bench_close(&bench);
}
END_TEST

START_TEST(two_batches_go_side_by_side)
{
    struct ps_item first[] = {bench_push_item("a", values, 1)};
    struct ps_item second[] = {bench_push_item("b", values, 1)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, first, 1, 100);
    struct ps_batch *batch = bench.batch;
    bench_start(&bench, PS_METHOD_PUSH, second, 1, 50);
    ck_assert_uint_eq(bench.sent_count, 2);
    ck_assert_uint_eq(ps_engine_wake_ms(bench.engine), 1050);

    bench_succeed(&bench, 0, 1);
    ck_assert_ptr_eq(bench.finished, batch);
    ps_engine_end(bench.engine, batch);
    ps_engine_check(bench.engine);
    bench_succeed(&bench, 0, 1);

    ck_assert_uint_eq(ps_engine_wake_ms(bench.engine), PS_DEADLINE_NEVER);
    bench_close(&bench);
}
END_TEST

/* One item for each of two shards, of any method. */
static void start_for_two_shards(enum ps_method method, struct ps_item items[2], float *into)
{
    for (uint32_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "param_a" : "param_b";
        items[i] = method == PS_METHOD_PULL ? bench_pull_item(name, into + i, 1)
                                            : bench_push_item(name, values, 1);
        items[i].shard = i;
    }
    bench_start(&bench, method, items, 2, 1000);
    ck_assert_uint_eq(bench.sent_count, 2);
}

START_TEST(every_call_says_for_which_server_it_is_meant)
{
    static const enum ps_method methods[] = {PS_METHOD_INIT, PS_METHOD_FINISH, PS_METHOD_PUSH,
                                             PS_METHOD_PULL};
    struct ps_item items[2];
    float into[2];
    bench_open(&bench, 2, 1000);

    start_for_two_shards(methods[_i], items, into);

    ck_assert_uint_ne(bench.sent[0].shard, bench.sent[1].shard);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(bench_meant(&bench, i), 1 + bench.sent[i].shard);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_client_of_a_fixed_list_takes_whatever_servers_are_there)
{
    struct ps_item item = bench_push_item("w", values, 1);
    bench_open_any(&bench, 1);

    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);

    ck_assert_uint_eq(bench_meant(&bench, 0), 0);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_that_met_another_shards_server_was_certainly_not_applied)
{
    struct ps_item item = bench_push_item("w", values, 1);
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 50);
    bench_answer(&bench, 0, PS_ERR_NOT_OWNER, true);

    ps_engine_member(bench.engine, 0, 2);
    bench_pump(&bench);
    ck_assert_uint_eq(bench.sent_count, 1); /* at once: the shard has moved */
    bench_answer(&bench, 0, PS_ERR_NOT_OWNER, true);
    bench_at(&bench, 1050);

    ck_assert_int_eq(item.status, PS_ERR_NOT_OWNER);
    ck_assert_uint_eq(ps_engine_counters(bench.engine)->resends, 0);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tests = tcase_create("engine");
    tcase_add_test(tests, b17_an_empty_batch_is_finished_at_once);
    tcase_add_test(tests, every_parameter_goes_to_its_own_shard);
    tcase_add_test(tests, a_large_parameter_is_cut_over_all_shards_and_put_together_again);
    tcase_add_test(tests, a_push_of_a_cut_parameter_sends_each_range_of_the_content);
    tcase_add_test(tests, the_same_name_may_stand_twice_in_a_batch);
    tcase_add_test(tests, a_shard_never_has_more_calls_in_flight_than_allowed);
    tcase_add_test(tests, b18_one_bad_item_leaves_the_others_alone);
    tcase_add_test(tests, items_that_are_wrong_in_themselves_are_never_sent);
    tcase_add_test(tests, a_pull_of_another_type_or_length_fails_and_writes_nothing);
    tcase_add_test(tests, a_pull_of_any_type_takes_the_type_that_is_there);
    tcase_add_test(tests, b7_finish_goes_on_past_shards_that_are_finished_already);
    tcase_add_test(tests, a_call_to_a_shard_that_is_none_is_refused);
    tcase_add_test(tests, two_batches_go_side_by_side);
    tcase_add_loop_test(tests, every_call_says_for_which_server_it_is_meant, 0, 4);
    tcase_add_test(tests, a_client_of_a_fixed_list_takes_whatever_servers_are_there);
    tcase_add_test(tests, a_push_that_met_another_shards_server_was_certainly_not_applied);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
