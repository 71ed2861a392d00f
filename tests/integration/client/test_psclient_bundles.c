/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient in batches, with a real server, and with one that knows none. */
#include "client/psclient.h"

#include "expect_each.h"
#include "run_suite.h"
#include "tests/support/client/fake_server.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

enum { COUNT = 500, LENGTH = 4096 };

static struct temp_folder folder;
static struct pserver_process server;
static struct psclient *client;
static struct psclient_error error;
static char names[COUNT][16];
static float gradient[LENGTH];
static float values[COUNT][LENGTH];
static struct psclient_gradient gradients[COUNT];
static struct psclient_parameter parameters[COUNT];
static struct psclient_result results[COUNT];

static void start_server(const char *listen)
{
    const char *const arguments[] = {"--data-dir", folder.path, "--ack", "logged",
                                     "--etcd-ttl", "60s",       NULL};
    pserver_process_start(&server, PSERVER_PROGRAM, listen, arguments);
}

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void open_client(const char *address)
{
    const struct psclient_options options = {.servers = address};
    expect_ok(psclient_open(&options, &client, &error));
    for (int i = 0; i < LENGTH; i++)
        gradient[i] = 1;
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "p%d", i);
        /* Of all sizes, so that messages are cut everywhere. */
        size_t size = sizeof(float) * (size_t)(1 + i * 31 % LENGTH);
        for (int k = 0; k < LENGTH; k++)
            values[i][k] = (float)(i + k);
        gradients[i] = (struct psclient_gradient){
            .name = names[i], .type = PSCLIENT_FLOAT32, .content = gradient, .content_size = size};
        parameters[i] = (struct psclient_parameter){
            .name = names[i], .type = PSCLIENT_FLOAT32, .content = values[i], .content_size = size};
    }
}

static void start(void)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0");
    open_client(server.address);
    int selected = 0;
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, parameters, COUNT, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

static void finish(void)
{
    psclient_close(client);
    pserver_process_stop(&server);
    temp_folder_fini(&folder);
}

static void expect_values(float pushed, uint64_t version)
{
    for (int i = 0; i < COUNT; i++) {
        ck_assert_uint_eq(parameters[i].version, version);
        expect_each(k, parameters[i].content_size / sizeof(float),
                    values[i][k] == (float)(i + (int)k) - pushed);
    }
}

START_TEST(a_step_is_pushed_and_pulled_as_one)
{
    start();
    for (uint64_t step = 1; step <= 3; step++) {
        expect_ok(
            psclient_push_pull(client, gradients, parameters, COUNT, LONG_MS, results, &error));
        expect_values((float)step, step);
        for (int i = 0; i < COUNT; i++)
            ck_assert_uint_eq(results[i].version, step);
    }
    finish();
}
END_TEST

START_TEST(pushes_and_pulls_go_in_batches)
{
    start();
    expect_ok(psclient_push(client, gradients, COUNT, LONG_MS, results, &error));
    expect_ok(psclient_pull(client, parameters, COUNT, LONG_MS, NULL, &error));
    expect_values(1, 1);
    finish();
}
END_TEST

START_TEST(one_bad_item_does_not_spoil_the_others)
{
    start();
    gradients[7].name = "nobody";
    gradients[9].content_size = 8;
    int status = psclient_push_pull(client, gradients, parameters, COUNT, LONG_MS, results, &error);
    ck_assert_int_eq(status, PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(results[7].status, PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(results[9].status, PSCLIENT_INVALID);
    for (int i = 0; i < COUNT; i++)
        ck_assert(i == 7 || i == 9 || results[i].version == 1);
    finish();
}
END_TEST

START_TEST(a_batch_outlives_its_server_and_counts_once)
{
    char address[64];
    start();
    (void)snprintf(address, sizeof address, "%s", server.address);
    for (int step = 1; step <= 4; step++) {
        pserver_process_kill(&server);
        start_server(address);
        expect_ok(
            psclient_push_pull(client, gradients, parameters, COUNT, LONG_MS, results, &error));
        expect_values((float)step, (uint64_t)step);
    }
    finish();
}
END_TEST

/* 32 pushes of 8 parameters are kept in flight; they go in messages of many. */
START_TEST(operations_that_go_together_outlive_their_server_and_count_once)
{
    enum { FLIGHT = 32, PARAMETERS = 8, PUSHES = 1500 };
    char address[64];
    start();
    (void)snprintf(address, sizeof address, "%s", server.address);
    int begun = 0;
    for (int ended = 0; ended < PUSHES; ended++) {
        struct psclient_operation *operation;
        for (; begun < PUSHES && begun - ended < FLIGHT; begun++)
            expect_ok(psclient_push_begin(client, &gradients[begun % PARAMETERS], 1, LONG_MS, NULL,
                                          &operation, &error));
        if (ended % 500 == 250) {
            pserver_process_kill(&server);
            start_server(address);
        }
        operation = psclient_next(client, LONG_MS);
        ck_assert_ptr_nonnull(operation);
        expect_ok(psclient_end(operation, NULL, &error));
    }
    expect_ok(psclient_pull(client, parameters, PARAMETERS, LONG_MS, NULL, &error));
    for (int i = 0; i < PARAMETERS; i++) {
        uint64_t pushes = PUSHES / PARAMETERS + (i < PUSHES % PARAMETERS);
        ck_assert_uint_eq(parameters[i].version, pushes);
        ck_assert(values[i][0] == (float)i - (float)pushes);
    }
    finish();
}
END_TEST

/* 100 MiB; the server takes messages of 64. */
START_TEST(a_parameter_above_any_message_goes_in_ranges)
{
    enum { LARGE = 25 * 1024 * 1024 };
    struct psclient_parameter large = {
        .name = "large", .type = PSCLIENT_FLOAT32, .content_size = LARGE * sizeof(float)};
    float *ones = malloc(large.content_size);
    float *content = malloc(large.content_size);
    ck_assert(ones != NULL && content != NULL);
    for (size_t i = 0; i < LARGE; i++) {
        ones[i] = 1;
        content[i] = (float)(i % 65536);
    }
    large.content = content;
    const struct psclient_gradient push = {.name = "large",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = ones,
                                           .content_size = large.content_size};
    temp_folder_init(&folder);
    start_server("127.0.0.1:0");
    open_client(server.address);
    int selected = 0;
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, &large, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));

    expect_ok(psclient_push(client, &push, 1, LONG_MS, results, &error));
    ck_assert_uint_eq(results[0].version, 1);
    expect_ok(psclient_push_pull(client, &push, &large, 1, LONG_MS, results, &error));

    ck_assert_uint_eq(results[0].version, 2);
    ck_assert_int_eq(results[0].duplicate, 0);
    ck_assert_uint_eq(large.version, 2);
    expect_each(i, LARGE, content[i] == (float)(i % 65536) - 2);
    free(ones);
    free(content);
    finish();
}
END_TEST

/* As an older server answers what it does not know. */
START_TEST(a_server_without_batches_is_served_with_single_calls)
{
    const struct fake_answer unknown = {.kind = FAKE_REFUSE, .status = PS_ERR_UNSUPPORTED};
    struct fake_server *fake = fake_server_start(0);
    fake_server_answer(fake, PS_METHOD_PUSHES, unknown);
    fake_server_answer(fake, PS_METHOD_PUSH_PULL, unknown);
    open_client(fake_server_address(fake));

    expect_ok(psclient_push(client, gradients, 100, LONG_MS, results, &error));

    ck_assert_uint_ge(fake_server_calls(fake, PS_METHOD_PUSHES), 1);
    ck_assert_uint_eq(fake_server_calls(fake, PS_METHOD_PUSH), 100);
    ck_assert_uint_eq(results[50].retries, 1);
    expect_ok(psclient_push(client, gradients, 10, LONG_MS, results, &error));
    ck_assert_uint_eq(fake_server_calls(fake, PS_METHOD_PUSH), 110);
    ck_assert_uint_eq(results[5].retries, 0);
    /* It pulls one by one, too; this server's answers are empty. */
    (void)psclient_push_pull(client, gradients, parameters, 3, LONG_MS, results, &error);
    ck_assert_uint_eq(fake_server_calls(fake, PS_METHOD_PUSH), 113);
    ck_assert_uint_eq(fake_server_calls(fake, PS_METHOD_PULL), 3);
    psclient_close(client);
    fake_server_stop(fake);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_bundles");
    TCase *t = tcase_create("psclient_bundles");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_step_is_pushed_and_pulled_as_one);
    tcase_add_test(t, pushes_and_pulls_go_in_batches);
    tcase_add_test(t, one_bad_item_does_not_spoil_the_others);
    tcase_add_test(t, a_batch_outlives_its_server_and_counts_once);
    tcase_add_test(t, operations_that_go_together_outlive_their_server_and_count_once);
    tcase_add_test(t, a_parameter_above_any_message_goes_in_ranges);
    tcase_add_test(t, a_server_without_batches_is_served_with_single_calls);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
