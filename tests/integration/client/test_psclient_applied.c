/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_last_applied with real servers: a trainer that comes back knows from which batch to go
 * on, whatever was killed. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000
#define COUNT 1000

static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient_error error;
static float values[COUNT], ones[COUNT];

/* "large" is cut over both servers, "small" is whole on one. */
static struct psclient_parameter parameters[] = {
    {.name = "large", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values},
    {.name = "small", .type = PSCLIENT_FLOAT32, .content = values, .content_size = 40}};

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void start(uint32_t index)
{
    pserver_process_start_alone(&servers[index], PSERVER_PROGRAM, &folder, index);
}

static void kill_and_restart(uint32_t index)
{
    pserver_process_kill(&servers[index]);
    start(index);
}

static struct psclient *open_as(const char *client_id)
{
    char list[160];
    struct psclient *client = NULL;
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {
        .servers = list, .open_timeout_ms = LONG_MS, .split_bytes = 2048, .client_id = client_id};
    expect_ok(psclient_open(&options, &client, &error));
    return client;
}

static void begin(void)
{
    int selected = 0;
    temp_folder_init(&folder);
    start(0);
    start(1);
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    struct psclient *client = open_as(NULL);
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, parameters, 2, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    psclient_close(client);
}

static void end(void)
{
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static int push(struct psclient *client, const char *name, size_t size)
{
    const struct psclient_gradient gradient = {
        .name = name, .type = PSCLIENT_FLOAT32, .content = ones, .content_size = size};
    return psclient_push(client, &gradient, 1, LONG_MS, NULL, &error);
}

static void push_batch(struct psclient *client)
{
    expect_ok(push(client, "large", sizeof ones));
    expect_ok(push(client, "small", 40));
}

static void expect_pushes(struct psclient *client, uint64_t large, uint64_t small, uint64_t version)
{
    struct psclient_last_applied applied;
    expect_ok(psclient_last_applied(client, LONG_MS, &applied, &error));
    ck_assert_int_eq(applied.known, 1);
    ck_assert_int_eq(applied.whole, 1);
    ck_assert_uint_eq(applied.count, 2);
    ck_assert_str_eq(applied.rows[0].name, "large");
    ck_assert_uint_eq(applied.rows[0].pushes, large);
    ck_assert_uint_eq(applied.rows[0].pushes_of_any, large);
    ck_assert_str_eq(applied.rows[1].name, "small");
    ck_assert_uint_eq(applied.rows[1].pushes, small);
    ck_assert_uint_eq(applied.rows[1].version, version);
    psclient_last_applied_release(&applied);
}

START_TEST(a_trainer_that_comes_back_knows_where_to_go_on)
{
    struct psclient *other = open_as("other");
    struct psclient *first = open_as("t7");
    push_batch(first);
    push_batch(other);
    push_batch(first);
    expect_ok(push(first, "large", sizeof ones));
    psclient_close(first);

    struct psclient *second = open_as("t7");
    expect_pushes(second, 3, 2, 3);
    push_batch(second);
    for (uint32_t i = 0; i < 2; i++)
        kill_and_restart(i);
    push_batch(second);
    push_batch(other);
    psclient_close(second);

    struct psclient *third = open_as("t7");
    expect_pushes(third, 5, 4, 5);
    expect_pushes(other, 2, 2, 6);
    psclient_close(third);
    psclient_close(other);
}
END_TEST

START_TEST(counts_are_in_checkpoints)
{
    struct psclient *first = open_as("t7");
    push_batch(first);
    for (uint32_t i = 0; i < 2; i++) {
        struct psclient_saved saved;
        expect_ok(psclient_save(first, i, LONG_MS, &saved, &error));
    }
    push_batch(first);
    psclient_close(first);
    for (uint32_t i = 0; i < 2; i++)
        kill_and_restart(i);

    struct psclient *second = open_as("t7");
    expect_pushes(second, 2, 2, 2);
    psclient_close(second);
}
END_TEST

START_TEST(whoever_comes_later_has_the_id)
{
    struct psclient_last_applied applied;
    struct psclient *first = open_as("t7");
    expect_ok(psclient_last_applied(first, LONG_MS, &applied, &error));
    ck_assert_int_eq(applied.known, 0);
    ck_assert_int_eq(applied.whole, 1);
    ck_assert_uint_eq(applied.count, 0);
    psclient_last_applied_release(&applied);
    push_batch(first);

    struct psclient *second = open_as("t7");
    expect_pushes(second, 1, 1, 1);

    ck_assert_int_eq(push(first, "small", 40), PSCLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(error.text, "is over"));
    push_batch(second);
    ck_assert_int_eq(push(first, "small", 40), PSCLIENT_FAILED);
    expect_pushes(second, 2, 2, 2);
    psclient_close(first);
    psclient_close(second);
}
END_TEST

START_TEST(without_a_client_id_there_is_nothing_to_ask)
{
    struct psclient_last_applied applied;
    struct psclient *client = open_as(NULL);

    ck_assert_int_eq(psclient_last_applied(client, LONG_MS, &applied, &error), PSCLIENT_INVALID);

    psclient_close(client);
}
END_TEST

START_TEST(a_client_id_that_goes_to_no_terminal_is_refused)
{
    struct psclient *client = NULL;
    const struct psclient_options options = {.servers = servers[0].address, .client_id = "a b"};

    ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient applied");
    TCase *tests = tcase_create("applied");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_trainer_that_comes_back_knows_where_to_go_on);
    tcase_add_test(tests, counts_are_in_checkpoints);
    tcase_add_test(tests, whoever_comes_later_has_the_id);
    tcase_add_test(tests, without_a_client_id_there_is_nothing_to_ask);
    tcase_add_test(tests, a_client_id_that_goes_to_no_terminal_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
