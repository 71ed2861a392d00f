/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that are waited for one by one, and operations that are given up. */
#include "tests/integration/client/live_rig.h"

#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 4 << 20 };

static const float ones[4] = {1, 1, 1, 1};
static float values[4];

/* Four floats "w", and a parameter of 16 MiB "large". */
static void begin(void)
{
    static float large[LARGE];
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, NULL, NULL);
    client = open_one(&(struct psclient_options){.split_bytes = UINT64_MAX});
    struct psclient_parameter parameters[2] = {
        {.name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32},
        {.name = "large",
         .content = large,
         .content_size = sizeof large,
         .type = PSCLIENT_FLOAT32}};
    initialise(parameters, 2);
}

static struct psclient_operation *push(const struct psclient_gradient *gradient)
{
    struct psclient_operation *operation = NULL;
    expect_ok(psclient_push_begin(client, gradient, 1, LONG_MS, NULL, &operation, &error));
    return operation;
}

static const struct psclient_gradient small = {
    .name = "w", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};

static uint64_t version_of_w(void)
{
    struct psclient_parameter w = {
        .name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32};
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    return w.version;
}

START_TEST(an_operation_is_waited_for_in_slices)
{
    begin();
    stop_server();
    struct psclient_operation *operation = push(&small);

    ck_assert_int_eq(psclient_wait(operation, 0), 0);
    ck_assert_int_eq(psclient_wait(operation, 20), 0);
    kill(server.pid, SIGCONT);
    while (psclient_wait(operation, 20) == 0)
        continue;

    ck_assert_int_eq(psclient_wait(operation, 0), 1);
    ck_assert_ptr_null(psclient_next(client, 0));
    expect_ok(psclient_end(operation, NULL, &error));
    ck_assert_uint_eq(version_of_w(), 1);
    finish();
}
END_TEST

START_TEST(who_only_looks_leaves_an_operation_to_be_told)
{
    begin();
    struct psclient_operation *operation = push(&small);

    while (psclient_wait(operation, 0) == 0)
        continue;

    ck_assert_ptr_eq(psclient_next(client, 0), operation);
    expect_ok(psclient_end(operation, NULL, &error));
    finish();
}
END_TEST

static void *fetch_next(void *argument)
{
    (void)argument;
    return psclient_next(client, LONG_MS);
}

START_TEST(a_thread_that_fetches_is_not_told_of_what_another_waits_for)
{
    void *fetched;
    pthread_t thread;
    begin();
    stop_server();
    struct psclient_operation *waited = push(&small), *other = push(&small);
    ck_assert_int_eq(psclient_wait(waited, 1), 0);
    pthread_create(&thread, NULL, fetch_next, NULL);

    kill(server.pid, SIGCONT);
    while (psclient_wait(waited, 20) == 0)
        continue;
    pthread_join(thread, &fetched);

    ck_assert_ptr_eq(fetched, other);
    expect_ok(psclient_end(waited, NULL, &error));
    expect_ok(psclient_end(other, NULL, &error));
    finish();
}
END_TEST

static void *wait_for(void *argument)
{
    return psclient_wait(argument, LONG_MS) == 1 ? argument : NULL;
}

START_TEST(several_threads_wait_each_for_its_own_and_for_one)
{
    enum { THREADS = 4 };
    struct psclient_operation *operations[THREADS];
    pthread_t threads[THREADS + 1];
    begin();
    stop_server();
    for (int i = 0; i < THREADS; i++)
        operations[i] = push(&small);
    for (int i = 0; i <= THREADS; i++)
        pthread_create(&threads[i], NULL, wait_for, operations[i % THREADS]);

    kill(server.pid, SIGCONT);
    for (int i = 0; i <= THREADS; i++) {
        void *waited;
        pthread_join(threads[i], &waited);
        ck_assert_ptr_eq(waited, operations[i % THREADS]);
    }

    for (int i = 0; i < THREADS; i++)
        expect_ok(psclient_end(operations[i], NULL, &error));
    finish();
}
END_TEST

START_TEST(a_push_that_was_sent_and_is_cancelled_is_unknown)
{
    struct psclient_result result;
    begin();
    stop_server();
    struct psclient_operation *operation = push(&small);

    psclient_cancel(operation);
    ck_assert_int_eq(psclient_end(operation, &result, &error), PSCLIENT_UNKNOWN);

    ck_assert_int_eq(result.status, PSCLIENT_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(result.text, "cancelled"));
    kill(server.pid, SIGCONT);
    operation = push(&small);
    expect_ok(psclient_end(operation, &result, &error));
    ck_assert_uint_ge(result.version, 1);
    ck_assert_uint_le(result.version, 2);
    finish();
}
END_TEST

START_TEST(a_pull_that_is_cancelled_is_unavailable)
{
    struct psclient_operation *operation;
    begin();
    stop_server();
    struct psclient_parameter w = {
        .name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32};
    expect_ok(psclient_pull_begin(client, &w, 1, LONG_MS, NULL, &operation, &error));

    psclient_cancel(operation);

    ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_UNAVAILABLE);
    kill(server.pid, SIGCONT);
    finish();
}
END_TEST

/* The gradient is given back right behind the end: nothing reads it any more. */
START_TEST(large_content_is_free_when_its_operation_has_ended)
{
    float *gradient = calloc(LARGE, sizeof *gradient);
    const struct psclient_gradient large = {.name = "large",
                                            .type = PSCLIENT_FLOAT32,
                                            .content = gradient,
                                            .content_size = LARGE * sizeof *gradient};
    begin();
    stop_server();
    struct psclient_operation *operation = push(&large);
    ck_assert_int_eq(psclient_wait(operation, 20), 0);

    psclient_cancel(operation);
    ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_UNKNOWN);
    free(gradient);

    kill(server.pid, SIGCONT);
    operation = push(&small);
    expect_ok(psclient_end(operation, NULL, &error));
    finish();
}
END_TEST

static void *end_it(void *argument)
{
    struct psclient_error why;
    return psclient_end(argument, NULL, &why) == PSCLIENT_UNAVAILABLE ? argument : NULL;
}

/* Nobody serves any more, so that no answer ever wakes the thread that waits. */
START_TEST(a_cancellation_wakes_the_thread_that_waits)
{
    struct psclient_operation *operation;
    pthread_t thread;
    void *ended;
    begin();
    struct psclient_parameter w = {
        .name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32};
    pserver_process_kill(&server);
    expect_ok(psclient_pull_begin(client, &w, 1, LONG_MS, NULL, &operation, &error));
    pthread_create(&thread, NULL, end_it, operation);

    psclient_cancel(operation);
    pthread_join(thread, &ended);

    ck_assert_ptr_eq(ended, operation);
    finish();
}
END_TEST

/* The third time that it is asked. */
static int third_time(void *user)
{
    int *asked = user;
    return ++*asked == 3;
}

START_TEST(a_call_that_is_interrupted_ends_as_one_that_is_cancelled)
{
    int asked = 0;
    begin();
    stop_server();
    psclient_set_interrupted(client, third_time, &asked);
    struct psclient_result result;

    ck_assert_int_eq(psclient_push(client, &small, 1, LONG_MS, &result, &error), PSCLIENT_UNKNOWN);
    ck_assert_int_eq(asked, 3);
    ck_assert_int_eq(result.status, PSCLIENT_UNKNOWN);
    asked = 2;
    struct psclient_parameter w = {
        .name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32};
    ck_assert_int_eq(psclient_pull(client, &w, 1, LONG_MS, NULL, &error), PSCLIENT_UNAVAILABLE);
    /* Nobody is asked of a call that is answered, and of none any more. */
    kill(server.pid, SIGCONT);
    psclient_set_interrupted(client, NULL, NULL);
    asked = 2;
    ck_assert_uint_le(version_of_w(), 1);
    ck_assert_int_eq(asked, 2);
    finish();
}
END_TEST

START_TEST(a_cancellation_after_the_answer_changes_nothing)
{
    begin();
    struct psclient_operation *operation = push(&small);
    while (psclient_wait(operation, 20) == 0)
        continue;

    psclient_cancel(operation);

    expect_ok(psclient_end(operation, NULL, &error));
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_wait");
    TCase *cases = tcase_create("psclient_wait");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, an_operation_is_waited_for_in_slices);
    tcase_add_test(cases, who_only_looks_leaves_an_operation_to_be_told);
    tcase_add_test(cases, a_thread_that_fetches_is_not_told_of_what_another_waits_for);
    tcase_add_test(cases, several_threads_wait_each_for_its_own_and_for_one);
    tcase_add_test(cases, a_push_that_was_sent_and_is_cancelled_is_unknown);
    tcase_add_test(cases, a_pull_that_is_cancelled_is_unavailable);
    tcase_add_test(cases, large_content_is_free_when_its_operation_has_ended);
    tcase_add_test(cases, a_cancellation_wakes_the_thread_that_waits);
    tcase_add_test(cases, a_call_that_is_interrupted_ends_as_one_that_is_cancelled);
    tcase_add_test(cases, a_cancellation_after_the_answer_changes_nothing);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
