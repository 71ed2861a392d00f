/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas of tables with two real servers, also with one that is killed again and again: what is
 * read here has the bits of what a get brings. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

enum { WIDTH = 8, KEYS = 20000, SOME = KEYS / 100, KILLS = 5 };

static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_table *table;
static struct psclient_replica *replica;
static struct psclient_error error;
static uint64_t keys[KEYS];
static float gradients[KEYS][WIDTH], rows[KEYS][WIDTH], copy[KEYS][WIDTH];

static struct psclient_table_options options_of(double low)
{
    return (struct psclient_table_options){.name = "t",
                                           .type = PSCLIENT_FLOAT32,
                                           .width = WIDTH,
                                           .init = PSCLIENT_ROWS_UNIFORM,
                                           .low = low,
                                           .high = low + 1,
                                           .seed = 7};
}

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void begin(const struct psclient_table_options *options)
{
    char list[160];
    int selected = 0;
    temp_folder_init(&folder);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_start_alone(&servers[i], PSERVER_PROGRAM, &folder, i);
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * UINT64_C(0x9E3779B97F4A7C15);
        for (uint64_t k = 0; k < WIDTH; k++)
            gradients[i][k] = 0.25f + (float)(i + k);
    }
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options where = {.servers = list, .open_timeout_ms = LONG_MS};
    expect_ok(psclient_open(&where, &client, &error));
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_table_define(client, options, LONG_MS, &table, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    expect_ok(psclient_replica_open_table(client, "t", LONG_MS, &replica, &error));
}

static void end(void)
{
    psclient_replica_close(replica);
    psclient_table_close(table);
    psclient_close(client);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static void add(size_t first, size_t count)
{
    expect_ok(psclient_table_add(table, keys + first, count, gradients[first], LONG_MS, &error));
}

static void pull(void)
{
    struct psclient_result result;
    expect_ok(psclient_pull_since(replica, LONG_MS, &result, &error));
    ck_assert_int_eq(result.status, PSCLIENT_OK);
}

/* Of all keys, those without a row as well. */
static void expect_same(void)
{
    expect_ok(psclient_table_get(table, keys, KEYS, rows, LONG_MS, &error));
    expect_ok(psclient_replica_get(replica, keys, KEYS, copy, &error));
    ck_assert_mem_eq(rows, copy, sizeof rows);
}

static struct psclient_replica_counters counters(void)
{
    struct psclient_replica_counters all;
    psclient_replica_get_counters(replica, &all);
    return all;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* The first `count` of the keys, each once; with less room as many as go, and the same number. */
static void expect_keys(size_t count)
{
    static uint64_t found[KEYS], expected[KEYS];
    uint64_t all = 0;
    memcpy(expected, keys, count * sizeof expected[0]);
    qsort(expected, count, sizeof expected[0], by_number);
    found[count - 1] = 0;
    ck_assert_int_eq(psclient_replica_keys(replica, found, count - 1, &all, &error), PSCLIENT_OK);
    ck_assert_uint_eq(all, count);
    ck_assert_uint_eq(found[count - 1], 0);
    ck_assert_int_eq(psclient_replica_keys(replica, found, KEYS, &all, &error), PSCLIENT_OK);
    ck_assert_uint_eq(all, count);
    qsort(found, count, sizeof found[0], by_number);
    ck_assert_mem_eq(found, expected, count * sizeof found[0]);
    ck_assert_int_eq(psclient_replica_keys(replica, NULL, 0, &all, &error), PSCLIENT_OK);
}

START_TEST(a_table_is_followed_by_what_was_pushed_to)
{
    const struct psclient_table_options options = options_of(-0.5);
    begin(&options);
    ck_assert_int_eq(psclient_replica_get(replica, keys, 1, copy, &error),
                     PSCLIENT_NOT_INITIALIZED);
    pull();
    expect_same();
    ck_assert_uint_eq(psclient_replica_rows(replica), 0);

    add(0, KEYS / 2);
    pull();
    expect_same();
    ck_assert_uint_eq(psclient_replica_rows(replica), KEYS / 2);
    expect_keys(KEYS / 2);
    const uint64_t each = 8 + WIDTH * sizeof(float);
    ck_assert_uint_eq(psclient_replica_row_bytes(replica), WIDTH * sizeof(float));
    ck_assert_uint_eq(counters().received_bytes, each * (KEYS / 2));

    add(SOME, SOME);
    pull();
    expect_same();
    ck_assert_uint_eq(counters().received_bytes, each * (KEYS / 2 + SOME));
    pull();
    ck_assert_uint_eq(counters().received_bytes, each * (KEYS / 2 + SOME));
    ck_assert_uint_eq(counters().copies, 2);
    ck_assert_uint_eq(counters().anchors, 0);
    end();
}
END_TEST

START_TEST(rows_that_go_for_others_go_here)
{
    struct psclient_table_options options = options_of(0);
    options.rows_max = 1000;
    options.full = PSCLIENT_ROWS_OLDEST;
    begin(&options);
    for (size_t i = 0; i < 20; i++) {
        add(i * SOME * 2, SOME * 4);
        pull();
        expect_same();
        ck_assert_uint_le(psclient_replica_rows(replica), 2000);
    }
    ck_assert_uint_gt(psclient_replica_rows(replica), 500);
    ck_assert_uint_eq(counters().anchors, 0);
    end();
}
END_TEST

START_TEST(another_table_of_the_name_comes_whole)
{
    const char *const names[] = {"t"};
    const struct psclient_table_options options = options_of(0);
    struct psclient_table_options other = options_of(10);
    begin(&options);
    add(0, 100);
    pull();
    expect_same();
    expect_ok(psclient_drop(client, names, 1, LONG_MS, NULL, &error));
    psclient_table_close(table);
    expect_ok(psclient_table_define(client, &other, LONG_MS, &table, &error));
    add(50, 10);
    pull();
    expect_same();
    ck_assert_uint_eq(psclient_replica_rows(replica), 10);
    ck_assert_uint_eq(counters().anchors, 2);

    expect_ok(psclient_drop(client, names, 1, LONG_MS, NULL, &error));
    psclient_table_close(table);
    other.width = WIDTH / 2;
    expect_ok(psclient_table_define(client, &other, LONG_MS, &table, &error));
    ck_assert_int_eq(psclient_pull_since(replica, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    end();
}
END_TEST

START_TEST(what_is_no_table_is_not_followed)
{
    struct psclient_replica *none;
    const struct psclient_table_options options = options_of(0);
    begin(&options);
    ck_assert_int_eq(psclient_replica_open_table(client, "nobody", LONG_MS, &none, &error),
                     PSCLIENT_NOT_FOUND);
    expect_ok(psclient_replica_open(client, NULL, 0, &none, &error));
    ck_assert_int_eq(psclient_replica_get(none, keys, 1, copy, &error), PSCLIENT_INVALID);
    ck_assert_uint_eq(psclient_replica_rows(none), 0);
    psclient_replica_close(none);
    end();
}
END_TEST

/* ---- Beside pushes ---- */

static atomic_bool stop;

/* Every element of a row is the same at all times. */
static void *push_until_stopped(void *nothing)
{
    struct psclient_error why;
    for (size_t i = 0; !atomic_load(&stop); i = (i + SOME) % (KEYS - SOME))
        (void)psclient_table_add(table, keys + i, SOME, gradients[i], LONG_MS, &why);
    return nothing;
}

static void begin_level(void)
{
    struct psclient_table_options options = options_of(0);
    options.init = PSCLIENT_ROWS_ZERO;
    options.high = 0;
    begin(&options);
    for (size_t i = 0; i < KEYS; i++)
        for (size_t k = 0; k < WIDTH; k++)
            gradients[i][k] = (float)i;
    atomic_store(&stop, false);
}

static void expect_whole_rows(void)
{
    expect_ok(psclient_replica_get(replica, keys, KEYS, copy, &error));
    for (size_t i = 0; i < KEYS; i++)
        for (size_t k = 1; k < WIDTH; k++)
            ck_assert(copy[i][k] == copy[i][0]);
}

START_TEST(rows_are_whole_while_others_push)
{
    pthread_t pusher;
    begin_level();
    pull();
    ck_assert_int_eq(pthread_create(&pusher, NULL, push_until_stopped, NULL), 0);
    for (int i = 0; i < 50; i++) {
        pull();
        expect_whole_rows();
    }
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(pusher, NULL), 0);
    pull();
    expect_same();
    ck_assert_uint_eq(counters().anchors, 0);
    end();
}
END_TEST

/* What a server had acknowledged from memory alone may be lost with it, and its numbers be given to
 * other pushes. */
START_TEST(a_server_that_is_killed_is_followed_on)
{
    pthread_t pusher;
    begin_level();
    pull();
    ck_assert_int_eq(pthread_create(&pusher, NULL, push_until_stopped, NULL), 0);
    for (uint32_t i = 0; i < KILLS; i++) {
        pull();
        pserver_process_kill(&servers[i % 2]);
        /* With one server away: what is here stays, each row whole. */
        ck_assert_int_ne(psclient_pull_since(replica, 50, NULL, &error), PSCLIENT_OK);
        expect_whole_rows();
        pserver_process_start_alone(&servers[i % 2], PSERVER_PROGRAM, &folder, i % 2);
        pull();
        expect_whole_rows();
    }
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(pusher, NULL), 0);
    pull();
    expect_same();
    ck_assert_uint_eq(counters().anchors, KILLS);
    ck_assert_uint_eq(counters().mismatches, 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_replica_rows");
    TCase *tests = tcase_create("psclient_replica_rows");
    tcase_set_timeout(tests, 180);
    tcase_add_test(tests, a_table_is_followed_by_what_was_pushed_to);
    tcase_add_test(tests, rows_that_go_for_others_go_here);
    tcase_add_test(tests, another_table_of_the_name_comes_whole);
    tcase_add_test(tests, what_is_no_table_is_not_followed);
    tcase_add_test(tests, rows_are_whole_while_others_push);
    tcase_add_test(tests, a_server_that_is_killed_is_followed_on);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
