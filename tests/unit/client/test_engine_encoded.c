/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/batch.c: gradients that were encoded before the engine got them. */
#include "client/engine/engine.h"

#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static const float values[4] = {1, 2, 3, 4};
static struct bench bench;

static void wake(void)
{
    bench_at(&bench, ps_engine_wake_ms(bench.engine));
}

/* Encoded before it was numbered, and never again. */
START_TEST(an_encoded_push_is_sent_again_as_the_same_bytes)
{
    const struct ps_bytes ranges[] = {{(const uint8_t *)"first", 5},
                                      {(const uint8_t *)"second", 6}};
    const struct ps_encoded_push encoded = {.encoding = PS_ENCODING_TOP_K, .ranges = ranges};
    struct ps_item item = bench_push_item("w", values, 4);
    item.encoded = &encoded;
    bench_open(&bench, 2, 8);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);

    for (int attempt = 0; attempt < 3; attempt++) {
        ck_assert_uint_eq(bench.sent_count, 2);
        for (uint32_t i = 0; i < 2; i++) {
            const struct ps_push_request *push = &bench.sent[i].request->push;
            const struct ps_bytes *range = &ranges[push->content.size == 5 ? 0 : 1];
            ck_assert_int_eq(push->encoding, PS_ENCODING_TOP_K);
            ck_assert_ptr_eq(push->content.pieces[0].data, range->data);
            ck_assert_uint_eq(push->content.pieces[0].size, range->size);
        }
        bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
        bench_answer(&bench, 0, PS_ERR_UNAVAILABLE, false);
        while (bench.sent_count < 2)
            wake();
    }
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(item.status, PS_OK);
    bench_close(&bench);
}
END_TEST

START_TEST(a_gradient_that_could_not_be_encoded_is_not_sent)
{
    const struct ps_encoded_push encoded = {
        .error = {.status = PS_ERR_BAD_INPUT, .text = "one is not finite"}};
    struct ps_item item = bench_push_item("w", values, 4);
    item.encoded = &encoded;
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PUSH, &item, 1, 1000);

    ck_assert_uint_eq(bench.sent_count, 0);
    ck_assert_int_eq(item.status, PS_ERR_BAD_INPUT);
    ck_assert_str_eq(item.text, "parameter w: one is not finite");
    bench_close(&bench);
}
END_TEST

START_TEST(a_pull_says_which_encoding_it_wants)
{
    float destination[4];
    struct ps_item item = bench_pull_item("w", destination, 4);
    item.encoding = PS_ENCODING_BFLOAT16;
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_PULL, &item, 1, 1000);

    ck_assert_int_eq(bench.sent[0].request->pull.encoding, PS_ENCODING_BFLOAT16);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_encoded");
    TCase *tests = tcase_create("engine_encoded");
    tcase_add_test(tests, an_encoded_push_is_sent_again_as_the_same_bytes);
    tcase_add_test(tests, a_gradient_that_could_not_be_encoded_is_not_sent);
    tcase_add_test(tests, a_pull_says_which_encoding_it_wants);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
