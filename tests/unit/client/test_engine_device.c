/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine_device.c: contents on a device, and what becomes of those that a server
 * cannot reach. */
#include "client/engine/engine.h"

#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 4

/* An address that nobody reads, and what the device has there. */
static float *const there = (float *)(uintptr_t)0x1000;
static const float on_device[COUNT] = {1, 2, 3, 4};
static struct bench bench;
static int fetches;
static bool fetch_fails;

static bool fetch(void *self, void *to, const uint8_t *from, size_t size)
{
    ck_assert_ptr_eq(self, &bench);
    fetches++;
    memcpy(to, (const uint8_t *)on_device + (from - (const uint8_t *)there), size);
    return !fetch_fails;
}

static const struct ps_device_place place = {.base = (const uint8_t *)(uintptr_t)0x1000,
                                             .share = {.bytes = sizeof on_device},
                                             .fetch = fetch,
                                             .self = &bench};

static struct ps_item begin(uint32_t shards, size_t split_bytes)
{
    struct ps_item item = bench_push_item("w", there, COUNT);
    item.place = &place;
    fetches = 0;
    fetch_fails = false;
    bench_open(&bench, shards, split_bytes);
    return item;
}

static const struct ps_push_request *sent(uint32_t i)
{
    return &bench.sent[i].request->push;
}

START_TEST(a_push_says_where_its_content_is_and_is_not_read)
{
    struct ps_item item = begin(1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_ptr_eq(sent(0)->place, &place);
    ck_assert_ptr_eq(sent(0)->content.pieces[0].data, there);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_int_eq(fetches, 0);
    bench_close(&bench);
}
END_TEST

/* An attempt before may have been applied: only its number tells the server that this is the same
 * push. */
START_TEST(what_cannot_go_is_brought_home_at_once_under_the_same_number)
{
    struct ps_item item = begin(1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 100000);
    uint64_t sequence = sent(0)->request.sequence;
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false); /* it broke on the way */
    while (bench.sent_count == 0)
        bench_at(&bench, ps_engine_wake_ms(bench.engine));
    ck_assert_ptr_eq(sent(0)->place, &place);

    bench_answer(&bench, 0, PS_ERR_UNSUPPORTED, true); /* the next server has no device */

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_ptr_null(sent(0)->place);
    ck_assert_uint_eq(sent(0)->request.sequence, sequence);
    ck_assert_mem_eq(sent(0)->content.pieces[0].data, on_device, sizeof on_device);
    ck_assert_int_eq(fetches, 1);
    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    while (bench.sent_count == 0)
        bench_at(&bench, ps_engine_wake_ms(bench.engine));
    ck_assert_uint_eq(sent(0)->request.sequence, sequence);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_int_eq(fetches, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(of_a_parameter_that_is_cut_each_part_is_brought_home_by_itself)
{
    struct ps_item item = begin(2, 8);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    ck_assert_uint_eq(bench.sent_count, 2);
    const uint8_t *second = sent(1)->content.pieces[0].data;
    ck_assert_uint_eq(sent(1)->content.size, sizeof on_device / 2);

    bench_answer(&bench, 1, PS_ERR_UNSUPPORTED, true);

    ck_assert_int_eq(fetches, 1);
    const struct ps_push_request *home = sent(0)->place == NULL ? sent(0) : sent(1);
    const struct ps_push_request *other = sent(0)->place == NULL ? sent(1) : sent(0);
    ck_assert_mem_eq(home->content.pieces[0].data,
                     (const uint8_t *)on_device + (second - (const uint8_t *)there),
                     sizeof on_device / 2);
    ck_assert_ptr_eq(other->place, &place);
    bench_succeed(&bench, 0, 1);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(item.status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(without_a_copy_the_push_fails_as_the_server_said)
{
    struct ps_item item = begin(1, 1000);
    fetch_fails = true;
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    bench_answer(&bench, 0, PS_ERR_UNSUPPORTED, true);
    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_UNSUPPORTED);
    ck_assert(!item.may_be_applied);
    bench_close(&bench);
}
END_TEST

/* A server that cannot do something else says so twice, and then it is believed. */
START_TEST(what_is_home_already_fails_as_ever)
{
    struct ps_item item = begin(1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);
    bench_answer(&bench, 0, PS_ERR_UNSUPPORTED, true);
    bench_answer(&bench, 0, PS_ERR_UNSUPPORTED, true);
    ck_assert_int_eq(item.status, PS_ERR_UNSUPPORTED);
    ck_assert_int_eq(fetches, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_is_left_to_its_caller)
{
    struct ps_item item = bench_pull_item("w", there, COUNT);
    struct ps_item pushed = begin(1, 1000);
    (void)pushed;
    item.place = &place;
    bench_start(&bench, PS_METHOD_PULL, &item, 1, 1000);
    ck_assert_ptr_eq(bench.sent[0].request->pull.room, there);
    ck_assert_ptr_null(bench.sent[0].request->pull.destination);
    bench_answer(&bench, 0, PS_ERR_UNSUPPORTED, true);
    ck_assert_int_eq(item.status, PS_ERR_UNSUPPORTED);
    ck_assert_int_eq(fetches, 0);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_device");
    TCase *tests = tcase_create("engine_device");
    tcase_add_test(tests, a_push_says_where_its_content_is_and_is_not_read);
    tcase_add_test(tests, what_cannot_go_is_brought_home_at_once_under_the_same_number);
    tcase_add_test(tests, of_a_parameter_that_is_cut_each_part_is_brought_home_by_itself);
    tcase_add_test(tests, without_a_copy_the_push_fails_as_the_server_said);
    tcase_add_test(tests, what_is_home_already_fails_as_ever);
    tcase_add_test(tests, a_pull_is_left_to_its_caller);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
