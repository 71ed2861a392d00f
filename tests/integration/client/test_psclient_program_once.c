/* SPDX-License-Identifier: Apache-2.0 */
/* At most once across a crash: what a program was given before its server was killed is never given
 * to a program of the next life, also where the worker knew nothing of the server yet; and what
 * nobody was given goes to the next life as if nothing had happened. */
#include "program_rig.h"

#include "client/psclient_program.h"
#include "client/psclient_serving.h"
#include "run_suite.h"

#include <check.h>

enum { MANY = 20, SHORT_MS = 500 };

static struct program_rig rig;
static struct psclient *client, *program;
static struct ps_customer *customer;
static struct ps_serving *serving;
static struct psclient_error error;

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%d %s", status, error.text);
}

/* The program has a client of its own, as it would in a process of its own. */
static void begin(void)
{
    const struct ps_customer_options options = {.timeout_ms = RIG_LONG_MS};
    const struct ps_serving_options serves = {.role = PS_SERVING_SERVER, .name = "counter"};
    program_rig_begin(&rig, 1, 1, NULL);
    client = program_rig_open(rig.list);
    program = program_rig_open(rig.list);
    expect_ok(ps_customer_open(client, &options, &customer, &error));
    expect_ok(ps_serving_init(program, &serves, &serving, &error));
}

static void end(void)
{
    expect_ok(ps_serving_stop(serving, 0, &error));
    expect_ok(ps_customer_close(customer, &error));
    psclient_close(program);
    psclient_close(client);
    program_rig_end(&rig);
}

static void restart(void)
{
    pserver_process_kill(&rig.servers[0]);
    pserver_process_start_alone(&rig.servers[0], PSERVER_PROGRAM, &rig.folder, 0);
}

static int64_t push(int32_t command)
{
    static uint64_t key = 7;
    static float one = 1;
    const struct ps_kv_call call = {.command = command};
    const struct ps_kv_pairs pushed = {
        .keys = &key, .key_count = 1, .type = PSCLIENT_FLOAT32, .values = &one, .value_count = 1};
    int64_t timestamp = -1;
    expect_ok(ps_kv_worker_push(customer, &pushed, &call, &timestamp, &error));
    return timestamp;
}

/* The command of the next request, which is answered if `answers`; -1: there is none. */
static int32_t take(uint64_t timeout_ms, bool answers)
{
    const struct ps_serving_reply reply = {0};
    struct ps_serving_batch *batch = NULL;
    int status = ps_serving_get_batch(serving, NULL, timeout_ms, &batch, &error);
    if (status == PSCLIENT_UNKNOWN)
        return -1;
    expect_ok(status);
    int32_t command = batch->requests[0].command;
    if (answers)
        expect_ok(
            ps_serving_reply(serving, batch->requests[0].handler, &reply, RIG_LONG_MS, &error));
    ps_serving_batch_release(batch);
    return command;
}

/* The worker had no answer of this server before, and could not know that there are two. */
START_TEST(the_first_request_is_not_given_to_the_next_life)
{
    int64_t timestamp = push(1);
    ck_assert_int_eq(take(RIG_LONG_MS, false), 1);

    restart();

    int status = ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS / 2, &error);
    ck_assert_msg(status == PSCLIENT_ABORTED, "%d %s", status, error.text);
    ck_assert_int_eq(take(SHORT_MS, false), -1);
}
END_TEST

/* None of them has an answer to learn from when it leaves. */
START_TEST(requests_begun_before_the_first_answer_are_given_out_once)
{
    int64_t timestamps[MANY];
    for (int32_t i = 0; i < MANY; i++)
        timestamps[i] = push(i);
    for (int32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(take(RIG_LONG_MS, false), i);

    restart();

    for (int32_t i = 0; i < MANY; i++) {
        int status = ps_kv_worker_wait(customer, timestamps[i], RIG_LONG_MS / 2, &error);
        ck_assert_msg(status == PSCLIENT_ABORTED, "%d: %d %s", i, status, error.text);
    }
    ck_assert_int_eq(take(SHORT_MS, false), -1);
}
END_TEST

/* A simple request for a worker's mailbox is in no line of a server. */
START_TEST(a_request_to_a_worker_is_not_given_to_the_next_life)
{
    const struct ps_serving_options serves = {.role = PS_SERVING_SERVER, .worker_node = 1};
    int64_t timestamp = -1;
    expect_ok(ps_serving_stop(serving, 0, &error));
    expect_ok(ps_serving_init(program, &serves, &serving, &error));
    expect_ok(ps_simple_app_request(customer, 5, NULL, 0, ps_worker_node(0), NULL, NULL, &timestamp,
                                    &error));
    ck_assert_int_eq(take(RIG_LONG_MS, false), 5);

    restart();

    int status = ps_simple_app_wait(customer, timestamp, RIG_LONG_MS / 2, &error);
    ck_assert_msg(status == PSCLIENT_ABORTED, "%d %s", status, error.text);
    ck_assert_int_eq(take(SHORT_MS, false), -1);
}
END_TEST

/* The worker names a life that is gone, and the refusal is proof that nothing was carried out. */
START_TEST(a_request_that_was_never_sent_goes_to_the_next_life)
{
    int64_t timestamp = push(1);
    ck_assert_int_eq(take(RIG_LONG_MS, true), 1);
    expect_ok(ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error));

    restart();

    /* Behind the end of the old connection, so that it leaves over the new one. */
    struct psclient_server_status status;
    expect_ok(psclient_server_status(client, 0, RIG_LONG_MS, &status, &error));
    timestamp = push(2);
    /* Whoever waits drives the client: the refusal is read, and the request leaves again. */
    ck_assert_int_eq(ps_kv_worker_wait(customer, timestamp, SHORT_MS, &error), PSCLIENT_UNKNOWN);
    ck_assert_int_eq(take(RIG_LONG_MS, true), 2);
    expect_ok(ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient program once");
    TCase *tests = tcase_create("lives");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, the_first_request_is_not_given_to_the_next_life);
    tcase_add_test(tests, requests_begun_before_the_first_answer_are_given_out_once);
    tcase_add_test(tests, a_request_to_a_worker_is_not_given_to_the_next_life);
    tcase_add_test(tests, a_request_that_was_never_sent_goes_to_the_next_life);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
