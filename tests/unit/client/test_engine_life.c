/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine_life.c: requests to server programs, and what of them goes to which life of
 * a server. */
#include "client/engine/engine.h"

#include "engine_bench.h"
#include "proto/program_messages.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct bench bench;

static struct ps_item begin(uint64_t epoch)
{
    static const uint8_t message[] = {8, 1};
    const struct ps_item item = {.ask = {message, sizeof message}, .ask_epoch = epoch};
    bench_open(&bench, 1, 1000);
    return item;
}

static void ask(struct ps_item *item)
{
    bench_start(&bench, PS_METHOD_ASK, item, 1, 100000);
    ck_assert_uint_eq(bench.sent_count, 1);
}

/* The life that the request in flight is for. */
static uint64_t named(void)
{
    return bench.sent[0].request->ask_epoch;
}

static void ends_with(enum ps_status status, bool refused, uint64_t told)
{
    const struct ps_call_outcome outcome = {
        .status = status, .refused = refused, .session = told, .text = "it was refused"};
    bench_give(&bench, 0, &outcome);
    for (int i = 0; i < 10 && bench.sent_count == 0 && bench.finished == NULL; i++)
        bench_at(&bench, ps_engine_wake_ms(bench.engine));
}

START_TEST(a_first_request_names_no_life_and_its_repeat_only_one_that_knows_it)
{
    struct ps_item item = begin(0);
    ask(&item);
    ck_assert_uint_eq(named(), 0);

    ends_with(PS_ERR_UNAVAILABLE, false, 0);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert(named() == PS_EPOCH_BY_TOKEN);
    ends_with(PS_ERR_ABORTED, true, 77);
    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_ABORTED);
    bench_close(&bench);
}
END_TEST

START_TEST(what_a_server_certainly_did_not_take_is_asked_as_before)
{
    struct ps_item item = begin(0);
    ask(&item);

    ends_with(PS_ERR_BUSY, true, 0);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(named(), 0);
    bench_succeed(&bench, 0, 0);
    ck_assert_int_eq(item.status, PS_OK);
    bench_close(&bench);
}
END_TEST

/* The server had no memory, perhaps for the answer. */
START_TEST(a_refusal_for_want_of_memory_proves_nothing)
{
    struct ps_item item = begin(0);
    ask(&item);
    ends_with(PS_ERR_NO_MEMORY, true, 0);
    ck_assert(named() == PS_EPOCH_BY_TOKEN);
    bench_succeed(&bench, 0, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_request_for_a_former_life_goes_to_the_next_one_at_once)
{
    struct ps_item item = begin(5);
    ask(&item);
    ck_assert_uint_eq(named(), 5);
    uint64_t before_ms = bench.now_ms;

    ends_with(PS_ERR_ABORTED, true, 6);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench.now_ms, before_ms);
    ck_assert_uint_eq(named(), 6);
    bench_succeed(&bench, 0, 0);
    ck_assert_int_eq(item.status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_request_that_may_have_run_never_leaves_its_life)
{
    struct ps_item item = begin(5);
    ask(&item);
    ends_with(PS_ERR_UNAVAILABLE, false, 0);
    ck_assert_uint_eq(named(), 5);

    ends_with(PS_ERR_ABORTED, true, 6);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_ABORTED);
    bench_close(&bench);
}
END_TEST

/* Others are repeated when a server is busy. */
START_TEST(a_status_of_the_program_is_its_answer)
{
    struct ps_item item = begin(0);
    ask(&item);
    ends_with(PS_ERR_BUSY, true, 5);
    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_BUSY);
    bench_close(&bench);
}
END_TEST

/* "Aborted" without a life: a taker is gone, or the answer is not kept any more. */
START_TEST(an_abort_that_tells_no_life_is_the_end)
{
    struct ps_item item = begin(5);
    ask(&item);
    ends_with(PS_ERR_ABORTED, true, 0);
    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_ABORTED);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_life");
    TCase *tests = tcase_create("lives");
    tcase_add_test(tests, a_first_request_names_no_life_and_its_repeat_only_one_that_knows_it);
    tcase_add_test(tests, what_a_server_certainly_did_not_take_is_asked_as_before);
    tcase_add_test(tests, a_refusal_for_want_of_memory_proves_nothing);
    tcase_add_test(tests, a_request_for_a_former_life_goes_to_the_next_one_at_once);
    tcase_add_test(tests, a_request_that_may_have_run_never_leaves_its_life);
    tcase_add_test(tests, a_status_of_the_program_is_its_answer);
    tcase_add_test(tests, an_abort_that_tells_no_life_is_the_end);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
