/* SPDX-License-Identifier: Apache-2.0 */
/* client/answers.c: what an operator asks for, copied and cut to the fields of the public
 * header. */
#include "client/answers.h"

#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>

static struct bench bench;

START_TEST(a_status_reply_is_copied_and_cut_to_its_fields)
{
    struct psclient_server_status status;
    struct ps_item item = {.shard = 0, .answer = ps_answer_server(&status)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_STATUS, &item, 1, 100);
    struct ps_call_reply reply = {.method = PS_METHOD_STATUS,
                                  .status = {.state = "a state that is far too long",
                                             .address = "h:1",
                                             .epoch = 12,
                                             .uptime_ms = 5,
                                             .lost_count = 6}};

    bench_reply(&bench, 0, &reply);

    ck_assert_str_eq(status.state, "a state that is");
    ck_assert_str_eq(status.address, "h:1");
    ck_assert_str_eq(status.device, "");
    ck_assert_uint_eq(status.epoch, 12);
    ck_assert_uint_eq(status.uptime_ms, 5);
    ck_assert_uint_eq(status.lost_push_count, 6);
    bench_close(&bench);
}
END_TEST

START_TEST(a_list_reply_with_more_rows_than_asked_for_is_cut)
{
    struct psclient_param_info rows[2];
    struct ps_list_rows list = {.rows = rows, .row_size = sizeof rows[0], .count_max = 2};
    struct ps_item item = {
        .name = ps_bytes_of_text("a"), .rows_max = 2, .answer = ps_answer_list(&list)};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_LIST, &item, 1, 100);
    ck_assert_uint_eq(bench.sent[0].request->list.limit, 2);
    ck_assert(ps_bytes_equal(bench.sent[0].request->list.after, ps_bytes_of_text("a")));
    struct ps_param_info infos[3] = {{.name = ps_bytes_of_text("b"), .rule = "sgd"},
                                     {.name = ps_bytes_of_text("c"),
                                      .rule = "adam",
                                      .element_count = 6,
                                      .shape = {true, 2, {2, 3}}},
                                     {.name = ps_bytes_of_text("d")}};
    infos[0].element_count = 5;
    struct ps_call_reply reply = {.method = PS_METHOD_LIST,
                                  .list = {.params = infos, .param_count = 3}};

    bench_reply(&bench, 0, &reply);

    ck_assert_uint_eq(list.count, 2);
    ck_assert(list.more);
    ck_assert_str_eq(rows[1].name, "c");
    ck_assert_str_eq(rows[1].rule, "adam");
    ck_assert_uint_eq(rows[0].rank, 1);
    ck_assert_uint_eq(rows[0].shape[0], 5);
    ck_assert_uint_eq(rows[1].rank, 2);
    ck_assert_uint_eq(rows[1].shape[1], 3);
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("answers");
    TCase *tests = tcase_create("answers");
    tcase_add_test(tests, a_status_reply_is_copied_and_cut_to_its_fields);
    tcase_add_test(tests, a_list_reply_with_more_rows_than_asked_for_is_cut);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
