/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine_session.c: clients that have chosen their id. */
#include "client/engine/engine_session.h"

#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const float values[4] = {1, 2, 3, 4};
static struct bench bench;

/* NULL: of a random id. */
static void open_at(uint32_t shard_count, const char *client_name, uint64_t session)
{
    memset(&bench, 0, sizeof bench);
    bench.heap.refuse_at = -1;
    bench.memory = fault_heap_allocator(&bench.heap);
    bench.now_ms = 1000;
    const struct ps_engine_options options = {.memory = &bench.memory,
                                              .shard_count = shard_count,
                                              .client_name = client_name,
                                              .session = session};
    ck_assert_int_eq(ps_engine_create(&options, &bench.engine, NULL), PS_OK);
    for (uint32_t i = 0; i < shard_count; i++)
        ps_engine_member(bench.engine, i, 1);
}

/* On a bench whose client has chosen its id. */
static void open_named(uint32_t shard_count, const char *client_name)
{
    open_at(shard_count, client_name, 0);
}

static void wake(void)
{
    bench_at(&bench, ps_engine_wake_ms(bench.engine));
}

START_TEST(names_are_short_and_print)
{
    char name[PS_CLIENT_NAME_BYTES_MAX + 2] = {0};
    memset(name, 'x', PS_CLIENT_NAME_BYTES_MAX);
    ck_assert_int_eq(ps_client_name_check(name, NULL), PS_OK);
    name[PS_CLIENT_NAME_BYTES_MAX] = 'x';
    ck_assert_int_eq(ps_client_name_check(name, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_client_name_check("", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_client_name_check("a b", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_client_name_check("a\n", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_client_name_check("trainer-7/a#1", NULL), PS_OK);
}
END_TEST

START_TEST(the_longest_name_is_an_id_on_the_last_shard)
{
    char name[PS_CLIENT_NAME_BYTES_MAX + 1] = {0};
    struct ps_shard_client client;
    memset(name, 'x', PS_CLIENT_NAME_BYTES_MAX);

    ps_client_name_id(name, PS_SHARDS_MAX - 1, &client);

    ck_assert_uint_eq(client.size, PS_CLIENT_NAME_BYTES_MAX + 6);
    ck_assert_mem_eq(client.id + PS_CLIENT_NAME_BYTES_MAX + 1, "#4095", 5);
}
END_TEST

START_TEST(requests_go_under_the_name_and_the_shard)
{
    struct ps_item items[] = {{.shard = 0}, {.shard = 1}};
    open_named(2, "t7");
    bench_start(&bench, PS_METHOD_FINISH, items, 2, 100);

    for (uint32_t i = 0; i < 2; i++) {
        struct ps_bytes id = bench_id(&bench, i).client_id;
        ck_assert(
            ps_bytes_equal(id, ps_bytes_of_text(bench.sent[i].shard == 0 ? "@t7#0" : "@t7#1")));
        ck_assert(ps_bytes_equal(id, ps_engine_client_of(bench.engine, bench.sent[i].shard)));
    }
    while (bench.sent_count > 0)
        bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_chosen_id_begins_with_the_session_it_is_given)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    open_at(1, "t7", 41);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 100);

    ck_assert_uint_eq(bench_id(&bench, 0).session, 41);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

/* A server refuses a session that is ahead of its clock, and the client could only wait for it. */
START_TEST(a_random_id_begins_below_every_clock_whatever_its_own_says)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    open_at(1, NULL, UINT64_MAX / 2);
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
    ck_assert_uint_eq(bench_id(&bench, 0).session, 1);

    bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
    wake();

    ck_assert_uint_eq(bench_id(&bench, 0).session, 2);
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(the_session_that_a_server_has_begun_is_adopted)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    open_named(1, "t7");
    ck_assert(ps_engine_adopt_session(bench.engine, 0, 40));
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);

    ck_assert_uint_eq(bench_id(&bench, 0).session, 40);
    ck_assert_uint_eq(bench_id(&bench, 0).sequence, 1);
    ck_assert(!ps_engine_adopt_session(bench.engine, 0, 50));
    bench_succeed(&bench, 0, 1);
    bench_close(&bench);
}
END_TEST

START_TEST(a_clock_that_is_behind_is_put_right_by_the_server)
{
    struct ps_item items[] = {bench_push_item("w", values, 1)};
    open_named(1, "t7");
    bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);

    bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);
    wake();

    ck_assert_uint_eq(bench_id(&bench, 0).session, 2);
    bench_succeed(&bench, 0, 1);
    ck_assert_int_eq(items[0].status, PS_OK);
    bench_close(&bench);
}
END_TEST

/* The process of before would otherwise begin a session in turn, and push what the other one
 * pushes. */
START_TEST(a_client_that_was_taken_over_stays_so)
{
    open_named(1, "t7");
    ck_assert(ps_engine_adopt_session(bench.engine, 0, 40));
    for (uint64_t i = 1; i <= 2; i++) {
        struct ps_item items[] = {bench_push_item("w", values, 1)};
        bench_start(&bench, PS_METHOD_PUSH, items, 1, 1000);
        ck_assert_uint_eq(bench_id(&bench, 0).session, 40);
        ck_assert_uint_eq(bench_id(&bench, 0).sequence, i);

        bench_answer(&bench, 0, PS_ERR_STALE_SESSION, true);

        ck_assert_int_eq(items[0].status, PS_ERR_STALE_SESSION);
        ps_engine_end(bench.engine, bench.batch);
        bench.batch = NULL;
    }
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_session");
    TCase *tests = tcase_create("engine_session");
    tcase_add_test(tests, names_are_short_and_print);
    tcase_add_test(tests, the_longest_name_is_an_id_on_the_last_shard);
    tcase_add_test(tests, requests_go_under_the_name_and_the_shard);
    tcase_add_test(tests, a_chosen_id_begins_with_the_session_it_is_given);
    tcase_add_test(tests, a_random_id_begins_below_every_clock_whatever_its_own_says);
    tcase_add_test(tests, the_session_that_a_server_has_begun_is_adopted);
    tcase_add_test(tests, a_clock_that_is_behind_is_put_right_by_the_server);
    tcase_add_test(tests, a_client_that_was_taken_over_stays_so);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
