/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions to rounds, and pulls that wait for other clients, as the engine sends them. */
#include "engine_bench.h"
#include "ranges_rig.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct bench bench;
static float values[4];
static float destination[4];

static struct ps_item contribution(const char *name)
{
    struct ps_item item = bench_push_item(name, values, 1);
    item.destination = (uint8_t *)destination;
    item.worker = 3;
    item.round = 8;
    item.weight = 0.5F;
    item.at_least_version = 8;
    return item;
}

static struct ps_item read_at_clock(const char *name)
{
    struct ps_item item = bench_pull_item(name, destination, 1);
    item.worker = 2;
    item.clock = 7;
    item.clocks = ps_bytes_of_text("epoch");
    return item;
}

START_TEST(a_contribution_says_whose_it_is_and_for_which_round)
{
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {contribution("w")};
    bench_start(&bench, PS_METHOD_PUSH_PULL, items, 1, 1000);

    const struct ps_push_request *push = ps_call_push_of(bench.sent[0].request);
    ck_assert_uint_eq(push->worker, 3);
    ck_assert_uint_eq(push->round, 8);
    ck_assert(push->weight == 0.5F);
    const struct ps_pull_request *pull = ps_call_pull_of(bench.sent[0].request);
    ck_assert_uint_eq(pull->at_least_version, 8);
    ck_assert_uint_eq(pull->worker, 0);
    bench_succeed(&bench, 0, 8);
    ck_assert_int_eq(items[0].status, PS_OK);
    bench_close(&bench);
}
END_TEST

/* Each part of a cut parameter has rounds of its own, under the same numbers. */
START_TEST(every_part_of_a_cut_parameter_is_told_and_the_lowest_version_counts)
{
    bench_open(&bench, 2, 8);
    struct ps_item items[] = {contribution("w")};
    items[0].size = sizeof values;
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    ck_assert_uint_eq(bench.sent_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(bench.sent[i].request->push.round, 8);

    const struct ps_call_reply made = {.method = PS_METHOD_PUSH, .push = {.version = 9}};
    const struct ps_call_reply held = {.method = PS_METHOD_PUSH,
                                       .push = {.version = 8, .held = true}};
    bench_reply(&bench, 0, &made);
    bench_reply(&bench, 0, &held);

    ck_assert_int_eq(items[0].status, PS_OK);
    ck_assert_uint_eq(items[0].version, 8);
    ck_assert(items[0].held && !items[0].late);
    bench_close(&bench);
}
END_TEST

START_TEST(what_came_late_is_told_and_forgotten_by_the_next_batch)
{
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {contribution("w")};
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    const struct ps_call_reply late = {.method = PS_METHOD_PUSH,
                                       .push = {.version = 9, .late = true}};
    bench_reply(&bench, 0, &late);
    ck_assert(items[0].late && !items[0].held);
    ck_assert_uint_eq(items[0].version, 9);
    ps_engine_end(bench.engine, bench.batch);

    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    bench_succeed(&bench, 0, 10);
    ck_assert(!items[0].late && !items[0].held);
    bench_close(&bench);
}
END_TEST

START_TEST(a_reader_says_at_which_clock_it_is)
{
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {read_at_clock("w")};
    bench_start(&bench, PS_METHOD_PULL, items, 1, 1000);

    const struct ps_pull_request *pull = &bench.sent[0].request->pull;
    ck_assert_uint_eq(pull->worker, 2);
    ck_assert_uint_eq(pull->clock, 7);
    ck_assert(ps_bytes_equal(pull->clocks, ps_bytes_of_text("epoch")));
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_clock_without_a_worker_or_without_clocks_is_not_sent)
{
    static char long_name[PS_CLOCKS_NAME_BYTES_MAX + 2];
    memset(long_name, 'c', sizeof long_name - 1);
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {read_at_clock("a"), read_at_clock("b"), read_at_clock("c")};
    items[0].worker = 0;
    items[1].clocks = (struct ps_bytes){0};
    items[2].clocks = ps_bytes_of_text(long_name);
    bench_start(&bench, PS_METHOD_PULL, items, 3, 1000);

    ck_assert_uint_eq(bench.sent_count, 0);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(items[i].status, PS_ERR_BAD_INPUT);
    bench_close(&bench);
}
END_TEST

/* A server of before there were rounds answers with what it has. */
START_TEST(values_of_an_earlier_version_than_was_waited_for_are_no_answer)
{
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {bench_pull_item("w", destination, 1)};
    items[0].at_least_version = 8;
    destination[0] = 5;
    bench_start(&bench, PS_METHOD_PULL, items, 1, 1000);
    bench_succeed(&bench, 0, 7);

    ck_assert_int_eq(items[0].status, PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(items[0].text, "version 7 came, and 8 was waited for"));
    ck_assert(destination[0] == 5);
    bench_close(&bench);
}
END_TEST

static struct ps_batch *begin(enum ps_method method, struct ps_item *item)
{
    return bench_begin(&bench, method, item, 1, 1000);
}

START_TEST(whoever_has_waited_in_vain_is_told_for_what)
{
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {bench_pull_item("w", destination, 1), read_at_clock("v")};
    items[0].at_least_version = 8;
    bench_start(&bench, PS_METHOD_PULL, items, 2, 100);
    bench_at(&bench, bench.now_ms + 100);
    for (size_t i = 0; i < 2; i++)
        bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(items[0].text, "no answer in time: version 8 was waited for");
    ck_assert_str_eq(items[1].text,
                     "no answer in time: worker 1 may not read at clock 7 of epoch yet");
    bench_close(&bench);
}
END_TEST

/* The server has given up a little before its client, which asks once more for the rest. */
START_TEST(whoever_has_waited_in_vain_is_told_what_the_server_said_last)
{
    static const struct ps_call_outcome late = {
        .status = PS_ERR_TIMEOUT, .refused = true, .text = "worker 1 has ended 0"};
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {read_at_clock("v")};
    bench_start(&bench, PS_METHOD_PULL, items, 1, 1000);
    bench_at(&bench, bench.now_ms + 900);
    bench_give(&bench, 0, &late);
    bench_at(&bench, bench.now_ms + 90);
    ck_assert_uint_eq(bench.sent_count, 1);
    bench_at(&bench, bench.now_ms + 10);
    bench_answer(&bench, 0, PS_ERR_CANCELLED, false);

    ck_assert_int_eq(items[0].status, PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(items[0].text, "no answer in time: worker 1 has ended 0");
    bench_close(&bench);
}
END_TEST

/* The first one waits for what the second or a third one does: behind it in one message neither
 * would ever be answered. */
START_TEST(a_call_that_waits_for_others_shares_no_message_with_another_batch)
{
    struct ps_item plain[] = {bench_pull_item("a", destination, 1),
                              bench_pull_item("b", destination, 1)};
    struct ps_item waiting[] = {bench_pull_item("c", destination, 1), read_at_clock("d")};
    struct ps_batch *batches[4];
    waiting[0].at_least_version = 2;
    for (size_t first = 0; first < 2; first++) {
        bench_open_together(&bench, 1, 64);
        bench.message_count = 0;
        batches[0] = begin(PS_METHOD_PULL, first == 0 ? &waiting[0] : &plain[0]);
        batches[1] = begin(PS_METHOD_PULL, first == 0 ? &plain[0] : &waiting[0]);
        batches[2] = begin(PS_METHOD_PULL, &waiting[1]);
        batches[3] = begin(PS_METHOD_PULL, &plain[1]);
        bench_pump(&bench);

        ck_assert_uint_eq(bench.message_count, 4);
        while (bench.sent_count > 0)
            bench_succeed(&bench, 0, 2);
        for (size_t i = 0; i < 4; i++)
            ps_engine_end(bench.engine, batches[i]);
        bench_close(&bench);
    }
}
END_TEST

START_TEST(the_contributions_of_one_batch_go_together)
{
    struct ps_item items[] = {contribution("a"), contribution("b"), contribution("c")};
    bench_open_together(&bench, 1, 64);
    bench.message_count = 0;
    bench_start(&bench, PS_METHOD_PUSH_PULL, items, 3, 1000);

    ck_assert_uint_eq(bench.message_count, 1);
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 8);
    bench_close(&bench);
}
END_TEST

/* The wait may be long; a call that was told "unavailable" meanwhile keeps number and round. */
START_TEST(a_contribution_is_repeated_under_its_number_for_the_same_round)
{
    bench_open(&bench, 1, 0);
    struct ps_item items[] = {contribution("w")};
    bench_start(&bench, PS_METHOD_PUSH_PULL, items, 1, 60000);
    uint64_t number = bench_id(&bench, 0).sequence;
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    bench_at(&bench, bench.now_ms + 100);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence, number);
    ck_assert_uint_eq(ps_call_push_of(bench.sent[0].request)->round, 8);
    bench_succeed(&bench, 0, 8);
    ck_assert_int_eq(items[0].status, PS_OK);
    bench_close(&bench);
}
END_TEST

/* Nobody knows what a contribution makes before the round is over: its values are pulled behind
 * it. */
START_TEST(ranges_of_a_contribution_bring_back_no_values)
{
    static struct ranges_rig rig;
    ranges_rig_begin(&rig, PS_METHOD_PUSH_PULL);
    rig.request.push_pull.push.worker = 1;
    rig.request.push_pull.push.round = 8;
    rig.request.push_pull.pull.at_least_version = 8;
    ranges_rig_again(&rig);
    while (ranges_rig_oldest(&rig)->method == PS_METHOD_PUSH) {
        ck_assert_uint_eq(ranges_rig_oldest(&rig)->push.round, 8);
        if (rig.sent_count > 1)
            ranges_rig_stage(&rig);
        else
            ranges_rig_push(&rig, 8);
    }

    ck_assert_int_eq(ranges_rig_oldest(&rig)->method, PS_METHOD_PULL);
    ck_assert_uint_eq(ranges_rig_oldest(&rig)->pull.at_least_version, 8);
    while (rig.sent_count > 0)
        ranges_rig_pull(&rig, 8);
    ck_assert_int_eq(rig.ranges.outcome.status, PS_OK);
    ranges_rig_assert_pulled(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_rounds");
    TCase *t = tcase_create("engine_rounds");
    tcase_add_test(t, a_contribution_says_whose_it_is_and_for_which_round);
    tcase_add_test(t, every_part_of_a_cut_parameter_is_told_and_the_lowest_version_counts);
    tcase_add_test(t, what_came_late_is_told_and_forgotten_by_the_next_batch);
    tcase_add_test(t, a_reader_says_at_which_clock_it_is);
    tcase_add_test(t, a_clock_without_a_worker_or_without_clocks_is_not_sent);
    tcase_add_test(t, values_of_an_earlier_version_than_was_waited_for_are_no_answer);
    tcase_add_test(t, whoever_has_waited_in_vain_is_told_for_what);
    tcase_add_test(t, whoever_has_waited_in_vain_is_told_what_the_server_said_last);
    tcase_add_test(t, a_call_that_waits_for_others_shares_no_message_with_another_batch);
    tcase_add_test(t, the_contributions_of_one_batch_go_together);
    tcase_add_test(t, a_contribution_is_repeated_under_its_number_for_the_same_round);
    tcase_add_test(t, ranges_of_a_contribution_bring_back_no_values);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
