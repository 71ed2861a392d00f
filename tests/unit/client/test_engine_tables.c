/* SPDX-License-Identifier: Apache-2.0 */
/* Items of tables: they go where they say, as one message however large, and under one number. */
#include "client/engine/engine.h"

#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static const uint8_t content[600];
static const uint64_t keys[4] = {7, 3, 9, 3};
static const struct ps_bytes rows = {content, sizeof content};
static const struct ps_encoded_push encoded = {.encoding = PS_ENCODING_ROWS, .ranges = &rows};
static struct bench bench;
static float destination[4];

static struct ps_item item_of(uint32_t shard)
{
    return (struct ps_item){.name = ps_bytes_of_text("t"),
                            .dtype = PS_F32,
                            .of_table = true,
                            .row_width = 10,
                            .shard = shard};
}

static struct ps_item push_of(uint32_t shard)
{
    struct ps_item item = item_of(shard);
    item.encoded = &encoded;
    item.size = sizeof content;
    return item;
}

static struct ps_item pull_of(uint32_t shard)
{
    struct ps_item item = item_of(shard);
    item.keys = (struct ps_bytes){(const uint8_t *)keys, sizeof keys};
    item.destination = (uint8_t *)destination;
    item.size = sizeof destination[0]; /* which is what the bench answers with */
    return item;
}

/* Neither by its name nor, being large, in ranges. */
START_TEST(a_push_of_rows_goes_whole_to_the_server_it_names)
{
    struct ps_item items[] = {push_of(0), push_of(1), push_of(2)};
    bench_open_ranges(&bench, 3, 64);
    bench_start(&bench, PS_METHOD_PUSH, items, 3, 1000);

    ck_assert_uint_eq(bench.sent_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct ps_push_request *push = &bench.sent[i].request->push;
        ck_assert_uint_eq(bench.sent[i].shard, i);
        ck_assert(ps_bytes_equal(push->name, ps_bytes_of_text("t")));
        ck_assert_int_eq(push->encoding, PS_ENCODING_ROWS);
        ck_assert_uint_eq(push->row_width, 10);
        ck_assert_uint_eq(push->content.size, sizeof content);
        ck_assert_uint_eq(push->range.count, 0);
    }
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(items[2].status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_push_that_may_have_been_applied_keeps_its_number)
{
    struct ps_item item = push_of(1);
    bench_open(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 100000);
    struct ps_request_id first = bench_id(&bench, 0);

    bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
    while (bench.sent_count == 0)
        bench_at(&bench, ps_engine_wake_ms(bench.engine));

    ck_assert_uint_eq(bench_id(&bench, 0).sequence, first.sequence);
    ck_assert_uint_eq(bench_id(&bench, 0).session, first.session);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(item.retries, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_read_of_keys_asks_for_them_and_takes_as_many_rows)
{
    struct ps_item item = pull_of(1);
    bench_open_ranges(&bench, 2, 8);
    bench_start(&bench, PS_METHOD_PULL, &item, 1, 1000);

    ck_assert_uint_eq(bench.sent_count, 1);
    const struct ps_pull_request *pull = &bench.sent[0].request->pull;
    ck_assert_uint_eq(pull->keys.size, sizeof keys);
    ck_assert_ptr_eq(pull->keys.pieces[0].data, keys);
    ck_assert_uint_eq(pull->range.count, 0);
    bench_succeed(&bench, 0, 5);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(item.pulled_version, 5);
    bench_close(&bench);
}
END_TEST

START_TEST(an_answer_of_another_length_or_type_is_refused)
{
    static const float three[3] = {1, 2, 3};
    const struct ps_bytes piece = {(const uint8_t *)three, sizeof three};
    for (int other_type = 0; other_type < 2; other_type++) {
        struct ps_item item = pull_of(0);
        struct ps_call_reply reply = {.method = PS_METHOD_PULL,
                                      .pull = {.dtype = other_type ? PS_I32 : PS_F32}};
        reply.pull.content = ps_view_of(&piece);
        bench_open(&bench, 1, 1000);
        bench_start(&bench, PS_METHOD_PULL, &item, 1, 1000);
        bench_reply(&bench, 0, &reply);
        ck_assert_int_eq(item.status, PS_ERR_BAD_INPUT);
        bench_close(&bench);
    }
}
END_TEST

/* Both halves of one message, of different sizes. */
START_TEST(rows_are_added_and_read_in_one_call)
{
    struct ps_item item = pull_of(1);
    item.encoded = &encoded;
    bench_open(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_PUSH_PULL, &item, 1, 1000);

    const struct ps_call_request *request = bench.sent[0].request;
    ck_assert_uint_eq(bench.sent[0].shard, 1);
    ck_assert_uint_eq(request->push_pull.push.content.size, sizeof content);
    ck_assert_uint_eq(request->push_pull.pull.keys.size, sizeof keys);
    bench_succeed(&bench, 0, 3);
    ck_assert_int_eq(item.status, PS_OK);
    ck_assert_uint_eq(item.version, 3);
    bench_close(&bench);
}
END_TEST

START_TEST(a_definition_has_no_content_and_goes_to_every_server)
{
    struct ps_item items[] = {item_of(0), item_of(1)};
    bench_open(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_DEFINE, items, 2, 1000);

    ck_assert_uint_eq(bench.sent_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(bench.sent[i].shard, i);
        ck_assert_uint_eq(bench.sent[i].request->init.content.size, 0);
    }
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 0);
    bench_close(&bench);
}
END_TEST

START_TEST(a_server_that_there_is_not_is_not_asked)
{
    struct ps_item item = push_of(2);
    bench_open(&bench, 2, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_OUT_OF_RANGE);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine tables");
    TCase *tests = tcase_create("tables");
    tcase_add_test(tests, a_push_of_rows_goes_whole_to_the_server_it_names);
    tcase_add_test(tests, a_push_that_may_have_been_applied_keeps_its_number);
    tcase_add_test(tests, a_read_of_keys_asks_for_them_and_takes_as_many_rows);
    tcase_add_test(tests, an_answer_of_another_length_or_type_is_refused);
    tcase_add_test(tests, rows_are_added_and_read_in_one_call);
    tcase_add_test(tests, a_definition_has_no_content_and_goes_to_every_server);
    tcase_add_test(tests, a_server_that_there_is_not_is_not_asked);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
