/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes and pulls that do not wait. */
#include "tests/integration/client/psclient_rig.h"

#include "base/clock.h"
#include "proto/bundle_codec.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct fake_answer hold = {.kind = FAKE_HOLD};

START_TEST(each_operation_is_told_of_once_when_it_is_finished)
{
    struct psclient_gradient gradients[16];
    bool told[16] = {false};
    int numbers[16];
    struct psclient_operation *operation;
    open_client(2, "ready");

    for (int i = 0; i < 16; i++) {
        gradients[i] = gradient(i % 2 == 0 ? "param_a" : "param_b");
        numbers[i] = i;
        ck_assert_int_eq(
            psclient_push_begin(client, &gradients[i], 1, LONG_MS, &numbers[i], &operation, &error),
            PSCLIENT_OK);
    }
    for (int i = 0; i < 16; i++) {
        operation = psclient_next(client, LONG_MS);
        ck_assert_ptr_nonnull(operation);
        int number = *(int *)psclient_operation_user(operation);
        ck_assert(!told[number]);
        told[number] = true;
        ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_OK);
    }

    ck_assert_ptr_null(psclient_next(client, 0));
    close_client();
}
END_TEST

START_TEST(a_pull_brings_values_and_versions_when_it_is_ended)
{
    float content[4] = {0};
    struct psclient_parameter wish = parameter("param_a", content);
    struct psclient_operation *operation;
    struct psclient_result result;
    open_client(1, "ready");

    ck_assert_int_eq(psclient_pull_begin(client, &wish, 1, LONG_MS, NULL, &operation, &error),
                     PSCLIENT_OK);
    ck_assert_int_eq(psclient_end(operation, &result, &error), PSCLIENT_OK);

    ck_assert(memcmp(content, ones, sizeof ones) == 0);
    ck_assert_uint_eq(wish.version, 6);
    ck_assert_uint_eq(result.version, 6);
    close_client();
}
END_TEST

START_TEST(an_operation_that_was_ended_is_told_to_nobody)
{
    struct psclient_gradient one = gradient("a"), other = gradient("b"), last = gradient("c");
    struct psclient_operation *operations[3];
    open_client(1, "ready");
    psclient_push_begin(client, &one, 1, LONG_MS, NULL, &operations[0], &error);
    psclient_push_begin(client, &other, 1, LONG_MS, NULL, &operations[1], &error);
    psclient_push_begin(client, &last, 1, LONG_MS, NULL, &operations[2], &error);

    ck_assert_int_eq(psclient_end(operations[2], NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_end(operations[0], NULL, &error), PSCLIENT_OK);

    ck_assert_ptr_eq(psclient_next(client, LONG_MS), operations[1]);
    ck_assert_int_eq(psclient_end(operations[1], NULL, &error), PSCLIENT_OK);
    ck_assert_ptr_null(psclient_next(client, 0));
    close_client();
}
END_TEST

START_TEST(an_empty_operation_is_finished_at_once)
{
    struct psclient_operation *operation;
    open_client(1, "ready");

    ck_assert_int_eq(psclient_push_begin(client, NULL, 0, LONG_MS, NULL, &operation, &error),
                     PSCLIENT_OK);

    ck_assert_ptr_eq(psclient_next(client, 0), operation);
    ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_OK);
    close_client();
}
END_TEST

START_TEST(a_server_that_never_answers_ends_an_operation_at_its_timeout)
{
    struct psclient_gradient held = gradient("w");
    struct psclient_operation *operation;
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, hold);
    uint64_t started_ms = ps_now_ms(ps_clock_real());

    ck_assert_int_eq(psclient_push_begin(client, &held, 1, 150, NULL, &operation, &error),
                     PSCLIENT_OK);
    bool ended = psclient_next(client, 10) != NULL;
    ck_assert(!ended || ps_now_ms(ps_clock_real()) - started_ms >= 150);
    /* What a busy machine has not sent by then is not in doubt. */
    int status = psclient_end(operation, NULL, &error);
    ck_assert(status == PSCLIENT_UNKNOWN || status == PSCLIENT_UNAVAILABLE);

    ck_assert_uint_ge(ps_now_ms(ps_clock_real()) - started_ms, 150);
    close_client();
}
END_TEST

START_TEST(a_wrong_gradient_is_judged_when_the_operation_is_ended)
{
    struct psclient_gradient wrong = gradient("w");
    struct psclient_operation *operation;
    wrong.content_size = 7;
    open_client(1, "ready");

    ck_assert_int_eq(psclient_push_begin(client, &wrong, 1, LONG_MS, NULL, &operation, &error),
                     PSCLIENT_OK);

    ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_INVALID);
    close_client();
}
END_TEST

static void *push_often(void *argument)
{
    (void)argument;
    for (int i = 0; i < 50; i++) {
        struct psclient_gradient mine = gradient("param_b");
        struct psclient_error own;
        if (psclient_push(client, &mine, 1, LONG_MS, NULL, &own) != PSCLIENT_OK)
            return &client;
    }
    return NULL;
}

static pthread_t threads[3];

static void start_waiting_threads(void)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, push_often, NULL), 0);
}

static void join_waiting_threads(void)
{
    for (int i = 0; i < 3; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
}

START_TEST(threads_that_wait_and_one_that_does_not_share_a_client)
{
    struct psclient_gradient mine = gradient("param_a");
    open_client(1, "ready");
    start_waiting_threads();

    for (int i = 0; i < 50; i++) {
        struct psclient_operation *operation;
        ck_assert_int_eq(psclient_push_begin(client, &mine, 1, LONG_MS, NULL, &operation, &error),
                         PSCLIENT_OK);
        ck_assert_ptr_eq(psclient_next(client, LONG_MS), operation);
        ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_OK);
    }

    join_waiting_threads();
    close_client();
}
END_TEST

/* ---- Small ones that leave together ---- */

static struct ps_buffer two_results;

/* A client whose server answers messages of two pushes, and an operation that is finished and not
 * fetched yet: what is begun beside it is held. */
static struct psclient_operation *open_with_one_finished(void)
{
    struct psclient_operation *operation;
    struct ps_push_result results[2] = {{.reply = {.version = 3}}, {.reply = {.version = 4}}};
    open_client(1, "ready");
    ps_buffer_init(&two_results, ps_allocator_heap(), 1000);
    for (int i = 0; i < 2; i++)
        ps_encode_push_result(&results[i], &two_results);
    fake_server_answer(
        servers[0], PS_METHOD_PUSHES,
        (struct fake_answer){.kind = FAKE_REPLY,
                             .bytes = {(const uint8_t *)two_results.text, two_results.size}});
    ck_assert_int_eq(psclient_push_begin(client, NULL, 0, LONG_MS, NULL, &operation, &error),
                     PSCLIENT_OK);
    return operation;
}

static void close_client_of_two(void)
{
    close_client();
    ps_buffer_fini(&two_results);
}

START_TEST(what_is_begun_before_the_finished_ones_are_fetched_leaves_as_one)
{
    struct psclient_gradient one = gradient("a"), other = gradient("b");
    struct psclient_operation *first, *second, *finished = open_with_one_finished();
    struct psclient_result results[2];
    psclient_push_begin(client, &one, 1, LONG_MS, NULL, &first, &error);
    psclient_push_begin(client, &other, 1, LONG_MS, NULL, &second, &error);
    ck_assert_ptr_eq(psclient_next(client, LONG_MS), finished);
    ck_assert_int_eq(psclient_end(finished, NULL, &error), PSCLIENT_OK);

    ck_assert_ptr_eq(psclient_next(client, LONG_MS), first);
    ck_assert_ptr_eq(psclient_next(client, LONG_MS), second);
    ck_assert_int_eq(psclient_end(first, &results[0], &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_end(second, &results[1], &error), PSCLIENT_OK);

    ck_assert_uint_eq(results[0].version, 3);
    ck_assert_uint_eq(results[1].version, 4);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSHES), 1);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 0);
    close_client_of_two();
}
END_TEST

START_TEST(one_that_is_held_leaves_when_it_is_waited_for)
{
    struct psclient_gradient one = gradient("a");
    struct psclient_operation *held, *finished = open_with_one_finished();
    psclient_push_begin(client, &one, 1, LONG_MS, NULL, &held, &error);

    ck_assert_int_eq(psclient_end(held, NULL, &error), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 1);
    ck_assert_int_eq(psclient_end(finished, NULL, &error), PSCLIENT_OK);
    close_client_of_two();
}
END_TEST

START_TEST(one_that_is_held_leaves_with_a_call_that_waits)
{
    struct psclient_gradient one = gradient("a"), waits = gradient("b");
    struct psclient_operation *held, *finished = open_with_one_finished();
    psclient_push_begin(client, &one, 1, LONG_MS, NULL, &held, &error);

    ck_assert_int_eq(psclient_push(client, &waits, 1, LONG_MS, NULL, &error), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSHES), 1);
    ck_assert_int_eq(psclient_end(held, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_end(finished, NULL, &error), PSCLIENT_OK);
    close_client_of_two();
}
END_TEST

/* Also behind a descriptor, which is readable all the time. */
START_TEST(one_that_is_held_leaves_though_the_caller_never_comes_back)
{
    struct psclient_gradient one = gradient("a");
    struct psclient_operation *held, *finished = open_with_one_finished();
    if (_i == 1)
        ck_assert_int_ge(psclient_event_fd(client), 0);
    psclient_push_begin(client, &one, 1, LONG_MS, NULL, &held, &error);

    fake_server_await(servers[0], PS_METHOD_PUSH, 1);

    ck_assert_int_eq(psclient_end(held, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_end(finished, NULL, &error), PSCLIENT_OK);
    close_client_of_two();
}
END_TEST

START_TEST(with_nothing_to_fetch_each_leaves_when_it_is_begun)
{
    struct psclient_gradient one = gradient("a"), other = gradient("b");
    struct psclient_operation *operations[2];
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, hold);
    ck_assert_int_eq(psclient_push(client, NULL, 0, LONG_MS, NULL, &error), PSCLIENT_OK);
    psclient_push_begin(client, &one, 1, LONG_MS, NULL, &operations[0], &error);
    psclient_push_begin(client, &other, 1, LONG_MS, NULL, &operations[1], &error);

    fake_server_await(servers[0], PS_METHOD_PUSH, 2);

    for (int i = 0; i < 2; i++) {
        psclient_cancel(operations[i]);
        ck_assert_int_eq(psclient_end(operations[i], NULL, &error), PSCLIENT_UNKNOWN);
    }
    close_client();
}
END_TEST

/* Many under way from one thread, beside threads that wait. The server knows no such messages. */
START_TEST(operations_that_are_held_share_a_client_with_threads_that_wait)
{
    enum { FLIGHT = 8, PUSHES = 200 };
    struct psclient_gradient mine = gradient("param_a");
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSHES, refuse(PS_ERR_UNSUPPORTED));
    start_waiting_threads();

    int begun = 0;
    for (int ended = 0; ended < PUSHES; ended++) {
        struct psclient_operation *operation;
        for (; begun < PUSHES && begun - ended < FLIGHT; begun++)
            ck_assert_int_eq(
                psclient_push_begin(client, &mine, 1, LONG_MS, NULL, &operation, &error),
                PSCLIENT_OK);
        operation = psclient_next(client, LONG_MS);
        ck_assert_ptr_nonnull(operation);
        ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_OK);
    }

    join_waiting_threads();
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_operation");
    TCase *tests = tcase_create("operations");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, each_operation_is_told_of_once_when_it_is_finished);
    tcase_add_test(tests, a_pull_brings_values_and_versions_when_it_is_ended);
    tcase_add_test(tests, an_operation_that_was_ended_is_told_to_nobody);
    tcase_add_test(tests, an_empty_operation_is_finished_at_once);
    tcase_add_test(tests, a_server_that_never_answers_ends_an_operation_at_its_timeout);
    tcase_add_test(tests, a_wrong_gradient_is_judged_when_the_operation_is_ended);
    tcase_add_test(tests, threads_that_wait_and_one_that_does_not_share_a_client);
    tcase_add_test(tests, what_is_begun_before_the_finished_ones_are_fetched_leaves_as_one);
    tcase_add_test(tests, one_that_is_held_leaves_when_it_is_waited_for);
    tcase_add_test(tests, one_that_is_held_leaves_with_a_call_that_waits);
    tcase_add_loop_test(tests, one_that_is_held_leaves_though_the_caller_never_comes_back, 0, 2);
    tcase_add_test(tests, with_nothing_to_fetch_each_leaves_when_it_is_begun);
    tcase_add_test(tests, operations_that_are_held_share_a_client_with_threads_that_wait);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
