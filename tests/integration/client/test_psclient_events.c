/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose operations go on while nobody waits, and the descriptor that says so. */
#include "tests/integration/client/live_rig.h"

#include "base/clock.h"
#include "run_suite.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const float ones[4] = {1, 1, 1, 1};
static const struct psclient_gradient small = {
    .name = "w", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};
static float values[4];
static int events;

static struct psclient_parameter w(void)
{
    return (struct psclient_parameter){
        .name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32};
}

static void begin_with(bool journal)
{
    struct psclient_parameter parameter = w();
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", journal, NULL, NULL);
    client = open_one(&(struct psclient_options){0});
    initialise(&parameter, 1);
    events = psclient_event_fd(client);
    ck_assert_int_ge(events, 0);
    ck_assert_int_eq(psclient_event_fd(client), events);
}

static void begin(void)
{
    begin_with(false);
}

static struct psclient_operation *push(void)
{
    struct psclient_operation *operation = NULL;
    expect_ok(psclient_push_begin(client, &small, 1, LONG_MS, NULL, &operation, &error));
    return operation;
}

static bool is_readable(int timeout_ms)
{
    struct pollfd wish = {.fd = events, .events = POLLIN};
    return poll(&wish, 1, timeout_ms) == 1;
}

static struct psclient_operation *await_event(void)
{
    ck_assert(is_readable(LONG_MS));
    struct psclient_operation *operation = psclient_next(client, 0);
    ck_assert_ptr_nonnull(operation);
    return operation;
}

START_TEST(an_operation_is_finished_while_nobody_waits)
{
    begin();
    ck_assert(!is_readable(0));
    ck_assert_ptr_null(psclient_next(client, 0));

    for (int i = 0; i < 100; i++) {
        struct psclient_operation *operation = push();
        ck_assert_ptr_eq(await_event(), operation);
        ck_assert(!is_readable(0));
        expect_ok(psclient_end(operation, NULL, &error));
    }
    finish();
}
END_TEST

START_TEST(the_descriptor_is_readable_until_the_last_is_fetched)
{
    enum { OPERATIONS = 16 };
    struct psclient_result result;
    begin();
    for (int i = 0; i < OPERATIONS; i++)
        (void)push();

    for (int i = 0; i < OPERATIONS; i++)
        expect_ok(psclient_end(await_event(), &result, &error));

    ck_assert_uint_eq(result.version, OPERATIONS);
    ck_assert(!is_readable(0));
    ck_assert_ptr_null(psclient_next(client, 0));
    finish();
}
END_TEST

/* As an event loop does it: many at once, each of which begins the next. */
START_TEST(a_loop_keeps_many_operations_under_way)
{
    enum { TOGETHER = 32, PUSHES = 2000 };
    int begun = 0, ended = 0;
    begin();
    for (; begun < TOGETHER; begun++)
        (void)push();

    while (ended < PUSHES) {
        struct psclient_operation *operation = await_event();
        for (; operation != NULL; operation = psclient_next(client, 0)) {
            expect_ok(psclient_end(operation, NULL, &error));
            ended++;
            if (begun < PUSHES) {
                (void)push();
                begun++;
            }
        }
    }

    struct psclient_parameter parameter = w();
    expect_ok(psclient_pull(client, &parameter, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(parameter.version, PUSHES);
    finish();
}
END_TEST

START_TEST(an_operation_that_is_ended_before_it_is_fetched_leaves_nothing_to_read)
{
    begin();

    struct psclient_operation *operation = push();
    expect_ok(psclient_end(operation, NULL, &error));

    ck_assert(!is_readable(0));
    ck_assert_ptr_null(psclient_next(client, 0));
    finish();
}
END_TEST

static void *push_often(void *argument)
{
    struct psclient_error why;
    for (int i = 0; i < 500; i++)
        if (psclient_push(client, &small, 1, LONG_MS, NULL, &why) != PSCLIENT_OK)
            return NULL;
    return argument;
}

START_TEST(threads_that_wait_share_the_client_with_a_loop)
{
    enum { OPERATIONS = 500 };
    pthread_t threads[2];
    void *went_well;
    begin();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, push_often, &client);

    for (int i = 0; i < OPERATIONS; i++) {
        struct psclient_operation *operation = push();
        if (i % 3 == 0)
            while (psclient_wait(operation, 1) == 0)
                continue;
        else
            ck_assert_ptr_eq(await_event(), operation);
        expect_ok(psclient_end(operation, NULL, &error));
    }

    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &went_well);
        ck_assert_ptr_nonnull(went_well);
    }
    finish();
}
END_TEST

START_TEST(a_timeout_passes_while_nobody_waits)
{
    struct psclient_operation *operation = NULL, *late = NULL;
    begin();
    stop_server();
    late = push();

    expect_ok(psclient_push_begin(client, &small, 1, 100, NULL, &operation, &error));
    ck_assert_ptr_eq(await_event(), operation);
    /* What a busy machine has not sent by then is not in doubt. */
    int status = psclient_end(operation, NULL, &error);
    ck_assert(status == PSCLIENT_UNKNOWN || status == PSCLIENT_UNAVAILABLE);

    kill(server.pid, SIGCONT);
    ck_assert_ptr_eq(await_event(), late);
    expect_ok(psclient_end(late, NULL, &error));
    finish();
}
END_TEST

START_TEST(a_cancellation_is_told)
{
    begin();
    stop_server();
    struct psclient_operation *operation = push();

    psclient_cancel(operation);

    ck_assert_ptr_eq(await_event(), operation);
    ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_UNKNOWN);
    kill(server.pid, SIGCONT);
    finish();
}
END_TEST

/* What is repeated is repeated by the thread of the client, too. */
START_TEST(an_operation_outlives_its_server)
{
    char address[sizeof server.address];
    begin_with(true);
    strcpy(address, server.address);
    pserver_process_kill(&server);
    struct psclient_operation *operation = push();

    start_server(address, true, NULL, NULL);

    ck_assert_ptr_eq(await_event(), operation);
    expect_ok(psclient_end(operation, NULL, &error));
    finish();
}
END_TEST

START_TEST(what_was_finished_before_the_descriptor_was_asked_for_is_told)
{
    struct psclient_parameter parameter = w();
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, NULL, NULL);
    client = open_one(&(struct psclient_options){0});
    initialise(&parameter, 1);
    struct psclient_operation *operation = push();
    while (psclient_wait(operation, 0) == 0)
        continue;

    events = psclient_event_fd(client);

    ck_assert_ptr_eq(await_event(), operation);
    expect_ok(psclient_end(operation, NULL, &error));
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_events");
    TCase *cases = tcase_create("psclient_events");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, an_operation_is_finished_while_nobody_waits);
    tcase_add_test(cases, the_descriptor_is_readable_until_the_last_is_fetched);
    tcase_add_test(cases, a_loop_keeps_many_operations_under_way);
    tcase_add_test(cases, an_operation_that_is_ended_before_it_is_fetched_leaves_nothing_to_read);
    tcase_add_test(cases, threads_that_wait_share_the_client_with_a_loop);
    tcase_add_test(cases, a_timeout_passes_while_nobody_waits);
    tcase_add_test(cases, a_cancellation_is_told);
    tcase_add_test(cases, an_operation_outlives_its_server);
    tcase_add_test(cases, what_was_finished_before_the_descriptor_was_asked_for_is_told);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
