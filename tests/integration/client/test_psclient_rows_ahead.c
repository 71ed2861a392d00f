/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are read ahead, at two real servers under SparseSSP. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { LONG_MS = 120000, SHORT_MS = 300, WIDTH = 2 };

static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_table *tables[2]; /* of two workers */
static struct psclient_error error;
static const uint64_t near = 1;
static uint64_t far[2]; /* of the other server */

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void set_clocks(uint32_t staleness, uint32_t speculation, uint64_t task)
{
    const struct psclient_clocks clocks = {.workers = 2,
                                           .consistency = PSCLIENT_SPARSE_SSP,
                                           .staleness = staleness,
                                           .speculation = speculation,
                                           .task = task};
    expect_ok(psclient_set_clocks(client, "c", &clocks, LONG_MS, &error));
}

static void begin(void)
{
    static const char *const none[] = {NULL};
    static float w;
    char list[160];
    for (size_t i = 0; i < 2; i++)
        pserver_process_start(&servers[i], PSERVER_PROGRAM, "127.0.0.1:0", none);
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {.servers = list, .open_timeout_ms = LONG_MS};
    const struct psclient_table_options table = {.name = "emb",
                                                 .type = PSCLIENT_FLOAT32,
                                                 .width = WIDTH,
                                                 .init = PSCLIENT_ROWS_CONSTANT,
                                                 .low = 4};
    struct psclient_parameter parameter = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = &w, .content_size = sizeof w};
    expect_ok(psclient_open(&options, &client, &error));
    expect_ok(psclient_init(client, &parameter, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    expect_ok(psclient_table_define(client, &table, LONG_MS, &tables[0], &error));
    expect_ok(psclient_table_open(client, "emb", LONG_MS, &tables[1], &error));
    for (uint32_t rank = 0; rank < 2; rank++)
        expect_ok(psclient_table_at(tables[rank], "c", 1 + rank, 0, &error));
    set_clocks(0, 1, 1);
    /* Two keys of the server that does not have key 1. */
    uint64_t key = 1;
    for (size_t i = 0; i < 2; i++)
        do
            far[i] = ++key;
        while (psclient_table_shard(tables[0], key) == psclient_table_shard(tables[0], 1));
}

static void end(void)
{
    for (size_t i = 0; i < 2; i++)
        psclient_table_close(tables[i]);
    psclient_close(client);
    for (size_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
}

static struct psclient_rows_ahead *ahead(uint32_t rank, uint64_t clock, const uint64_t *keys,
                                         size_t count, float *rows, uint64_t timeout_ms)
{
    struct psclient_rows_ahead *read = NULL;
    expect_ok(psclient_rows_ahead_begin(tables[rank], clock, keys, count, rows, timeout_ms, &read,
                                        &error));
    return read;
}

static void read_now(uint32_t rank, uint64_t clock, const uint64_t *keys, size_t count, float *rows)
{
    expect_ok(psclient_rows_ahead_end(ahead(rank, clock, keys, count, rows, LONG_MS), &error));
}

static void clock_to(uint32_t rank, uint64_t clock)
{
    expect_ok(psclient_clock(client, "c", 1 + rank, clock, LONG_MS, NULL, &error));
}

START_TEST(a_read_ahead_waits_for_its_own_clock_and_then_goes)
{
    float rows[4 * WIDTH] = {0}, other[WIDTH];
    begin();
    const uint64_t keys[] = {far[0], near, far[1], near};
    struct psclient_rows_ahead *next = ahead(0, 1, keys, 4, rows, LONG_MS);
    read_now(1, 0, &near, 1, other); /* worker 1 updates that key in its first iteration */
    ck_assert_float_eq(other[0], 4);
    const float gradient[WIDTH] = {1, 2};
    expect_ok(psclient_table_add(tables[1], &near, 1, gradient, LONG_MS, &error));
    clock_to(0, 1);
    clock_to(1, 1);

    expect_ok(psclient_rows_ahead_end(next, &error));

    /* In the caller's order, with the other worker's update: SGD of rate 1. */
    const float expected[4 * WIDTH] = {4, 4, 3, 2, 4, 4, 3, 2};
    ck_assert_mem_eq(rows, expected, sizeof rows);
    end();
}
END_TEST

START_TEST(who_is_ahead_reads_what_nobody_slower_has_announced)
{
    float rows[WIDTH];
    begin();
    read_now(0, 0, &near, 1, rows);
    read_now(1, 0, &far[0], 1, rows);
    clock_to(0, 1);

    read_now(0, 1, &near, 1, rows); /* SSP(0) would wait for worker 1 */
    ck_assert_float_eq(rows[0], 4);
    set_clocks(0, 1, 2);
    read_now(1, 0, &far[0], 1, rows);
    clock_to(0, 1);
    struct psclient_rows_ahead *conflict = ahead(0, 1, &far[0], 1, rows, SHORT_MS);
    ck_assert_int_eq(psclient_rows_ahead_end(conflict, &error), PSCLIENT_UNAVAILABLE);
    struct psclient_rows_ahead *again = ahead(0, 1, &far[0], 1, rows, LONG_MS);
    clock_to(1, 1);
    expect_ok(psclient_rows_ahead_end(again, &error));
    psclient_rows_ahead_cancel(ahead(0, 2, &far[1], 1, rows, LONG_MS));
    psclient_rows_ahead_cancel(NULL);
    end();
}
END_TEST

START_TEST(what_cannot_be_read_ahead_is_refused)
{
    float rows[WIDTH];
    struct psclient_rows_ahead *read = NULL;
    begin();
    read_now(0, 0, &near, 1, rows);
    ck_assert_int_eq(psclient_rows_ahead_end(ahead(0, 0, &far[0], 1, rows, LONG_MS), &error),
                     PSCLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(error.text, "other keys at clock 0"));
    ck_assert_int_eq(psclient_rows_ahead_end(ahead(0, 3, &near, 1, rows, LONG_MS), &error),
                     PSCLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(error.text, "at most 2 ahead"));
    expect_ok(psclient_table_at(tables[1], NULL, 0, 0, &error));
    ck_assert_int_eq(
        psclient_rows_ahead_begin(tables[1], 0, &near, 1, rows, LONG_MS, &read, &error),
        PSCLIENT_INVALID);
    ck_assert_ptr_null(read);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient rows ahead");
    TCase *tests = tcase_create("psclient rows ahead");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, a_read_ahead_waits_for_its_own_clock_and_then_goes);
    tcase_add_test(tests, who_is_ahead_reads_what_nobody_slower_has_announced);
    tcase_add_test(tests, what_cannot_be_read_ahead_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
