/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/init_epoch.c: under which epoch a shard took the parameters, and how batches
 * learn it. */
#include "client/engine/init_epoch.h"

#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

#define EXISTS UINT64_MAX /* in the lists below: the server was initialised already */

static const float values[4] = {1, 2, 3, 4};
static struct bench bench;

/* What is known after these answers, in this order. */
static uint64_t after(uint64_t known, const uint64_t *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (answers[i] == EXISTS)
            ps_init_epoch_exists(&known);
        else
            ps_init_epoch_taken(&known, answers[i]);
    }
    return known;
}

START_TEST(one_epoch_for_every_parameter_is_remembered)
{
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){7, 7, 7}, 3), 7);
}
END_TEST

START_TEST(epochs_that_differ_are_no_server_s_whatever_comes_after)
{
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){7, 9}, 2), PS_INIT_EPOCH_MIXED);
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){9, 7, 9, 9}, 4), PS_INIT_EPOCH_MIXED);
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){7, EXISTS, 7}, 3),
                      PS_INIT_EPOCH_MIXED);
}
END_TEST

START_TEST(a_server_that_was_initialised_before_vouches_for_itself_only)
{
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){EXISTS}, 1), PS_INIT_EPOCH_MIXED);
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){EXISTS, 7}, 2), PS_INIT_EPOCH_MIXED);
}
END_TEST

START_TEST(an_older_server_that_says_no_epoch_is_not_checked)
{
    ck_assert_uint_eq(after(PS_INIT_EPOCH_NONE, (uint64_t[]){0, 0}, 2), PS_INIT_EPOCH_NONE);
}
END_TEST

START_TEST(what_is_lost_stays_lost_until_it_is_sent_again)
{
    uint64_t epochs[] = {PS_INIT_EPOCH_NONE, 7, PS_INIT_EPOCH_MIXED};

    ps_init_epochs_lost(epochs, 3);

    ck_assert_uint_eq(epochs[0], PS_INIT_EPOCH_NONE);
    ck_assert_uint_eq(epochs[1], PS_INIT_EPOCH_LOST);
    ck_assert_uint_eq(epochs[2], PS_INIT_EPOCH_LOST);
    ck_assert_uint_eq(after(epochs[1], (uint64_t[]){9, 9}, 2), 9);
    ck_assert_uint_eq(after(epochs[2], (uint64_t[]){9, 10}, 2), PS_INIT_EPOCH_MIXED);
    ps_init_epochs_begin(epochs, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(epochs[i], PS_INIT_EPOCH_NONE);
}
END_TEST

/* Two shards; a finish of both is out. */
static void start_finish(uint64_t *epochs, struct ps_item *items)
{
    items[0] = (struct ps_item){.shard = 0};
    items[1] = (struct ps_item){.shard = 1};
    bench_open(&bench, 2, 1000);
    bench.init_epochs = epochs;
    bench_start(&bench, PS_METHOD_FINISH, items, 2, 100);
    ck_assert_uint_eq(bench.sent_count, 2);
}

START_TEST(a_finish_says_to_each_shard_under_which_epoch_it_took_the_parameters)
{
    uint64_t epochs[] = {7, 9};
    struct ps_item items[2];

    start_finish(epochs, items);

    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(bench.sent[i].request->finish.epoch, epochs[bench.sent[i].shard]);
    bench_succeed(&bench, 0, 0);
    bench_succeed(&bench, 0, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_refused_finish_is_not_sent_again_and_marks_what_is_lost)
{
    uint64_t epochs[] = {7, 9};
    struct ps_item items[2];
    start_finish(epochs, items);
    uint32_t refused = bench.sent[0].shard;

    bench_answer(&bench, 0, PS_ERR_STALE_EPOCH, true);
    bench_succeed(&bench, 0, 0);
    bench_at(&bench, 1090);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(items[refused].status, PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(items[1 - refused].status, PS_OK);
    ck_assert_uint_eq(epochs[0], PS_INIT_EPOCH_LOST);
    ck_assert_uint_eq(epochs[1], PS_INIT_EPOCH_LOST);
    bench_close(&bench);
}
END_TEST

START_TEST(every_range_of_a_cut_parameter_notes_its_shard_s_epoch)
{
    uint64_t epochs[2] = {0};
    struct ps_item item = bench_push_item("w", values, 4);
    bench_open(&bench, 2, 8);
    bench.init_epochs = epochs;
    bench_start(&bench, PS_METHOD_INIT, &item, 1, 100);
    ck_assert_uint_eq(bench.sent_count, 2);

    while (bench.sent_count > 0) {
        const struct ps_call_reply reply = {.method = PS_METHOD_INIT,
                                            .init = {.epoch = 7 + bench.sent[0].shard}};
        bench_reply(&bench, 0, &reply);
    }

    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(epochs[0], 7);
    ck_assert_uint_eq(epochs[1], 8);
    bench_close(&bench);
}
END_TEST

START_TEST(a_server_that_was_lost_between_two_parameters_is_noticed)
{
    uint64_t epochs[1] = {0};
    struct ps_item items[] = {bench_push_item("a", values, 1), bench_push_item("b", values, 1)};
    const struct ps_call_reply first = {.method = PS_METHOD_INIT, .init = {.epoch = 7}};
    const struct ps_call_reply second = {.method = PS_METHOD_INIT, .init = {.epoch = 9}};
    bench_open(&bench, 1, 1000);
    bench.init_epochs = epochs;
    bench_start(&bench, PS_METHOD_INIT, items, 2, 100);

    bench_reply(&bench, 0, &first);
    bench_reply(&bench, 0, &second);

    ck_assert_uint_eq(epochs[0], PS_INIT_EPOCH_MIXED);
    bench_close(&bench);
}
END_TEST

START_TEST(an_init_that_failed_notes_nothing)
{
    uint64_t epochs[1] = {0};
    struct ps_item item = bench_push_item("a", values, 1);
    bench_open(&bench, 1, 1000);
    bench.init_epochs = epochs;
    bench_start(&bench, PS_METHOD_INIT, &item, 1, 100);

    bench_answer(&bench, 0, PS_ERR_BAD_INPUT, true);

    ck_assert_uint_eq(epochs[0], PS_INIT_EPOCH_NONE);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("init_epoch");
    TCase *tests = tcase_create("init_epoch");
    tcase_add_test(tests, one_epoch_for_every_parameter_is_remembered);
    tcase_add_test(tests, epochs_that_differ_are_no_server_s_whatever_comes_after);
    tcase_add_test(tests, a_server_that_was_initialised_before_vouches_for_itself_only);
    tcase_add_test(tests, an_older_server_that_says_no_epoch_is_not_checked);
    tcase_add_test(tests, what_is_lost_stays_lost_until_it_is_sent_again);
    tcase_add_test(tests, a_finish_says_to_each_shard_under_which_epoch_it_took_the_parameters);
    tcase_add_test(tests, a_refused_finish_is_not_sent_again_and_marks_what_is_lost);
    tcase_add_test(tests, every_range_of_a_cut_parameter_notes_its_shard_s_epoch);
    tcase_add_test(tests, a_server_that_was_lost_between_two_parameters_is_noticed);
    tcase_add_test(tests, an_init_that_failed_notes_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
