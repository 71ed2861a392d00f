/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of libpsclient, at two real servers: who may read, who waits, and what is said of it. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { LONG_MS = 120000, SHORT_MS = 300, COUNT = 4 };

static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static float values[COUNT];

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

/* Servers without a data directory, and the parameter "w" cut over both of them. */
static void begin(void)
{
    static const char *const none[] = {NULL};
    char list[160];
    for (size_t i = 0; i < 2; i++)
        pserver_process_start(&servers[i], PSERVER_PROGRAM, "127.0.0.1:0", none);
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {
        .servers = list, .open_timeout_ms = LONG_MS, .split_bytes = 8};
    expect_ok(psclient_open(&options, &client, &error));
    struct psclient_parameter w = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};
    expect_ok(psclient_init(client, &w, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

static void end(void)
{
    psclient_close(client);
    for (size_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
}

static void set_clocks(uint32_t workers, enum psclient_consistency consistency, uint32_t staleness)
{
    const struct psclient_clocks clocks = {
        .workers = workers, .consistency = consistency, .staleness = staleness};
    expect_ok(psclient_set_clocks(client, "c", &clocks, LONG_MS, &error));
}

static void clock_to(uint32_t worker, uint64_t clock)
{
    uint64_t now = 0;
    expect_ok(psclient_clock(client, "c", worker, clock, LONG_MS, &now, &error));
    ck_assert_uint_eq(now, clock);
}

static int read_at(uint32_t worker, uint64_t clock, uint64_t timeout_ms)
{
    struct psclient_parameter w = {.name = "w",
                                   .type = PSCLIENT_FLOAT32,
                                   .content = values,
                                   .content_size = sizeof values,
                                   .clocks = "c",
                                   .clock = clock,
                                   .worker = worker};
    return psclient_pull(client, &w, 1, timeout_ms, NULL, &error);
}

START_TEST(a_read_waits_at_every_server_until_the_clocks_allow_it)
{
    begin();
    set_clocks(2, PSCLIENT_SSP, 1);
    clock_to(1, 1);
    expect_ok(read_at(1, 1, LONG_MS));
    clock_to(1, 2);

    ck_assert_int_eq(read_at(1, 2, SHORT_MS), PSCLIENT_UNAVAILABLE);
    clock_to(2, 1);
    expect_ok(read_at(1, 2, LONG_MS));
    end();
}
END_TEST

/* Three workers, then two others at clocks that begin anew; the first stage's are refused. */
START_TEST(a_stage_has_other_workers_and_begins_anew_at_every_server)
{
    static const uint32_t ranks[] = {1, 2};
    const struct psclient_clocks stage = {.workers = 3,
                                          .consistency = PSCLIENT_SSP,
                                          .task = 2,
                                          .clock = 5,
                                          .ranks = ranks,
                                          .rank_count = 2};
    struct psclient_worker_clock rows[3];
    uint64_t minimum = 0;
    size_t count = 0;
    begin();
    set_clocks(3, PSCLIENT_SSP, 0);
    clock_to(2, 40);

    expect_ok(psclient_set_clocks(client, "c", &stage, LONG_MS, &error));
    expect_ok(psclient_set_clocks(client, "c", &stage, LONG_MS, &error)); /* by another worker */
    expect_ok(psclient_clock_in_task(client, "c", 2, 2, 6, LONG_MS, NULL, &error));

    ck_assert_int_eq(psclient_clock_in_task(client, "c", 1, 2, 41, LONG_MS, NULL, &error),
                     PSCLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(error.text, "are in task 2"));
    ck_assert_int_eq(psclient_clock(client, "c", 1, 6, LONG_MS, NULL, &error), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(read_at(2, 6, SHORT_MS), PSCLIENT_UNAVAILABLE);
    clock_to(3, 6);
    expect_ok(read_at(2, 6, LONG_MS));
    expect_ok(psclient_progress(client, "c", 0, LONG_MS, &minimum, rows, 3, &count, &error));
    ck_assert(minimum == 6 && count == 3 && rows[0].absent == 1 && rows[1].absent == 0);
    end();
}
END_TEST

START_TEST(progress_is_that_of_the_slowest_at_every_server)
{
    struct psclient_worker_clock rows[2] = {{.clock = 9}};
    uint64_t minimum = 0;
    size_t count = 0;
    begin();
    set_clocks(3, PSCLIENT_BSP, 0);
    clock_to(1, 5);
    clock_to(2, 2);
    clock_to(3, 4);

    expect_ok(psclient_progress(client, "c", 2, LONG_MS, &minimum, rows, 2, &count, &error));

    ck_assert_uint_eq(minimum, 2);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(rows[0].clock, 5);
    ck_assert_uint_eq(rows[1].clock, 2);
    ck_assert_int_eq(rows[0].evicted, 0);
    expect_ok(psclient_progress(client, "c", 3, 1, &minimum, rows, 2, &count, &error));
    ck_assert_uint_eq(minimum, 2);
    end();
}
END_TEST

START_TEST(clocks_that_are_set_again_stay_as_they_are)
{
    uint64_t minimum = 0;
    size_t count = 0;
    begin();
    set_clocks(1, PSCLIENT_ASP, 0);
    clock_to(1, 7);
    set_clocks(1, PSCLIENT_ASP, 0);
    set_clocks(2, PSCLIENT_ASP, 0);

    expect_ok(psclient_progress(client, "c", 0, LONG_MS, &minimum, NULL, 0, &count, &error));

    ck_assert_uint_eq(minimum, 7);
    ck_assert_uint_eq(count, 2);
    end();
}
END_TEST

START_TEST(clocks_that_are_removed_are_gone_at_every_server_and_begin_anew)
{
    uint64_t minimum = 7;
    size_t count = 0;
    begin();
    set_clocks(1, PSCLIENT_SSP, 0);
    clock_to(1, 7);

    expect_ok(psclient_remove_clocks(client, "c", LONG_MS, &error));

    ck_assert_int_eq(read_at(1, 7, LONG_MS), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(psclient_clock(client, "c", 1, 8, LONG_MS, NULL, &error), PSCLIENT_NOT_FOUND);
    expect_ok(psclient_remove_clocks(client, "c", LONG_MS, &error)); /* of none */
    set_clocks(1, PSCLIENT_SSP, 0);
    expect_ok(psclient_progress(client, "c", 0, LONG_MS, &minimum, NULL, 0, &count, &error));
    ck_assert_uint_eq(minimum, 0);
    expect_ok(psclient_remove_clocks(client, "c", LONG_MS, &error));
    ck_assert_int_eq(psclient_remove_clocks(client, "", LONG_MS, &error), PSCLIENT_INVALID);
    end();
}
END_TEST

START_TEST(what_is_not_there_is_not_found_and_what_is_wrong_is_said)
{
    const struct psclient_clocks none = {.workers = 0};
    uint64_t minimum = 0;
    size_t count = 0;
    begin();
    ck_assert_int_eq(psclient_clock(client, "c", 1, 1, LONG_MS, NULL, &error), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(read_at(1, 0, LONG_MS), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(psclient_progress(client, "c", 0, LONG_MS, &minimum, NULL, 0, &count, &error),
                     PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(psclient_progress(client, "", 0, LONG_MS, &minimum, NULL, 0, &count, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_set_clocks(client, "c", &none, LONG_MS, &error), PSCLIENT_INVALID);
    set_clocks(1, PSCLIENT_BSP, 0);
    ck_assert_int_eq(psclient_clock(client, "c", 2, 1, LONG_MS, NULL, &error), PSCLIENT_NOT_FOUND);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient clocks");
    TCase *tests = tcase_create("clocks");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_read_waits_at_every_server_until_the_clocks_allow_it);
    tcase_add_test(tests, a_stage_has_other_workers_and_begins_anew_at_every_server);
    tcase_add_test(tests, progress_is_that_of_the_slowest_at_every_server);
    tcase_add_test(tests, clocks_that_are_set_again_stay_as_they_are);
    tcase_add_test(tests, clocks_that_are_removed_are_gone_at_every_server_and_begin_anew);
    tcase_add_test(tests, what_is_not_there_is_not_found_and_what_is_wrong_is_said);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
