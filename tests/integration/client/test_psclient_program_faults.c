/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of requests to server programs when something dies or is wrong: servers, programs
 * and workers that are killed, programs that do not answer, callbacks that wait, requests that
 * cannot be. No wait outlives its deadline, and it says whom it waits for. */
#include "program_rig.h"

#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 1000, KEYS = 8, SHORT_MS = 300 };

static struct program_rig rig;
static struct psclient *client;
static struct ps_customer *customer;
static struct psclient_error error;
static uint64_t keys[KEYS];
static float ones[KEYS] = {1, 1, 1, 1, 1, 1, 1, 1}, pulled[KEYS];

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%d %s", status, error.text);
}

static void open_customer(void)
{
    const struct ps_customer_options options = {.timeout_ms = RIG_LONG_MS};
    client = program_rig_open(rig.list);
    expect_ok(ps_customer_open(client, &options, &customer, &error));
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = PS_KEY_MAX / KEYS * i;
}

static void begin_alone(void)
{
    program_rig_begin(&rig, 2, 1, NULL);
    open_customer();
}

static void begin(void)
{
    program_rig_begin(&rig, 2, 1, "server");
    open_customer();
}

static void end(void)
{
    expect_ok(ps_customer_close(customer, &error));
    psclient_close(client);
    program_rig_end(&rig);
}

static struct ps_kv_pairs pairs(float *values)
{
    return (struct ps_kv_pairs){.keys = keys,
                                .key_count = KEYS,
                                .type = PSCLIENT_FLOAT32,
                                .values = values,
                                .value_count = KEYS};
}

static int64_t push(const struct ps_kv_call *call)
{
    const struct ps_kv_pairs pushed = pairs(ones);
    int64_t timestamp = -1;
    expect_ok(ps_kv_worker_push(customer, &pushed, call, &timestamp, &error));
    return timestamp;
}

static float pull_first(void)
{
    const struct ps_kv_pairs into = pairs(pulled);
    int64_t timestamp = -1;
    expect_ok(ps_kv_worker_pull(customer, &into, NULL, &timestamp, &error));
    expect_ok(ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error));
    return pulled[0];
}

/* ---- Deaths ---- */

START_TEST(waits_name_the_server_that_was_killed_and_end)
{
    int64_t timestamps[MANY];
    expect_ok(ps_kv_worker_wait(customer, push(NULL), RIG_LONG_MS, &error));
    pserver_process_kill(&rig.servers[1]);
    for (size_t i = 0; i < MANY; i++)
        timestamps[i] = push(NULL);

    ck_assert_int_eq(ps_kv_worker_wait(customer, timestamps[MANY - 1], SHORT_MS, &error),
                     PSCLIENT_UNKNOWN);
    ck_assert_msg(strstr(error.text, "server 1") != NULL, "%s", error.text);
    ck_assert_msg(strstr(error.text, rig.servers[1].address) != NULL, "%s", error.text);

    pserver_process_start_alone(&rig.servers[1], PSERVER_PROGRAM, &rig.folder, 1);
    for (size_t i = 0; i < MANY; i++) {
        int status = ps_kv_worker_wait(customer, timestamps[i], RIG_LONG_MS, &error);
        ck_assert_msg(status == PSCLIENT_OK || status == PSCLIENT_ABORTED, "%s", error.text);
    }
    ck_assert_uint_eq(ps_customer_open_count(customer), 0);
    for (size_t i = 0; i < MANY; i++)
        timestamps[i] = push(NULL);
    for (size_t i = 0; i < MANY; i++)
        expect_ok(ps_kv_worker_wait(customer, timestamps[i], RIG_LONG_MS, &error));
}
END_TEST

/* Server 0 has seen all of them: nothing of a worker that lives depends on one that was killed. */
START_TEST(a_worker_that_is_killed_keeps_nobody)
{
    pid_t child = program_rig_child(&rig, "flood", 0);
    (void)push(NULL);
    (void)usleep(200000);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);

    for (int i = 0; i < 20; i++)
        expect_ok(ps_kv_worker_wait(customer, push(NULL), RIG_LONG_MS, &error));
    ck_assert(pull_first() >= 21);
}
END_TEST

/* The next program takes what the first one had taken and not answered (`again`). */
START_TEST(a_program_that_is_killed_is_followed_by_another)
{
    int64_t timestamps[MANY];
    for (size_t i = 0; i < MANY; i++)
        timestamps[i] = push(NULL);
    expect_ok(ps_kv_worker_wait(customer, timestamps[0], RIG_LONG_MS, &error));
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(kill(rig.programs[i], SIGKILL), 0);
        ck_assert_int_eq(waitpid(rig.programs[i], NULL, 0), rig.programs[i]);
        rig.programs[i] = program_rig_child(&rig, "server", i);
    }

    for (size_t i = 0; i < MANY; i++)
        expect_ok(ps_kv_worker_wait(customer, timestamps[i], RIG_LONG_MS, &error));
    program_rig_stop_programs(&rig);
}
END_TEST

START_TEST(a_program_that_ends_between_take_and_answer_fails_the_request)
{
    const struct ps_serving_options options = {
        .role = PS_SERVING_SERVER, .lease_ms = 1000, .name = "forgetful"};
    struct ps_serving *serving = NULL;
    struct ps_serving_batch *batch = NULL;
    const struct ps_kv_pairs pushed = {
        .keys = keys, .key_count = 1, .type = PSCLIENT_FLOAT32, .values = ones, .value_count = 1};
    int64_t timestamp = -1;
    expect_ok(ps_serving_init(client, &options, &serving, &error));
    expect_ok(ps_kv_worker_push(customer, &pushed, NULL, &timestamp, &error));
    expect_ok(ps_serving_get_batch(serving, NULL, RIG_LONG_MS, &batch, &error));
    ps_serving_batch_release(batch);
    expect_ok(ps_serving_stop(serving, 0, &error));

    ck_assert_int_eq(ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error), PSCLIENT_ABORTED);
    ck_assert_msg(strstr(error.text, "forgetful") != NULL, "%s", error.text);
}
END_TEST

START_TEST(a_program_that_does_not_answer_lets_the_request_end_by_its_time)
{
    const struct ps_serving_options options = {.role = PS_SERVING_SERVER, .name = "slow"};
    const struct ps_kv_call call = {.timeout_ms = 1000};
    struct ps_serving *serving = NULL;
    struct ps_serving_batch *batch = NULL;
    const struct ps_kv_pairs pushed = {
        .keys = keys, .key_count = 1, .type = PSCLIENT_FLOAT32, .values = ones, .value_count = 1};
    int64_t timestamp = -1;
    expect_ok(ps_serving_init(client, &options, &serving, &error));
    expect_ok(ps_kv_worker_push(customer, &pushed, &call, &timestamp, &error));
    expect_ok(ps_serving_get_batch(serving, NULL, RIG_LONG_MS, &batch, &error));

    int waited = ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error);
    ck_assert_msg(waited == PSCLIENT_UNKNOWN, "%d %s", waited, error.text);
    ck_assert_msg(strstr(error.text, "server 0") != NULL, "%s", error.text);
    const struct ps_serving_reply reply = {0};
    int late = ps_serving_reply(serving, batch->requests[0].handler, &reply, RIG_LONG_MS, &error);
    ck_assert_msg(late == PSCLIENT_NOT_FOUND || late == PSCLIENT_OK, "%s", error.text);
    ps_serving_batch_release(batch);
    expect_ok(ps_serving_stop(serving, 0, &error));
}
END_TEST

/* ps-lite dies of the first request that comes before its handler. */
START_TEST(a_request_waits_for_its_program)
{
    int64_t timestamp = push(NULL);
    ck_assert_int_eq(ps_kv_worker_wait(customer, timestamp, SHORT_MS, &error), PSCLIENT_UNKNOWN);
    for (uint32_t i = 0; i < 2; i++)
        rig.programs[i] = program_rig_child(&rig, "server", i);
    expect_ok(ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error));
    ck_assert(pull_first() == 1.0F);
}
END_TEST

/* ---- Requests that cannot be ---- */

START_TEST(what_is_wrong_is_refused_before_anything_is_sent)
{
    uint64_t twice[] = {3, 3};
    uint32_t lens[KEYS] = {1, 1, 1, 1, 1, 1, 1, 2};
    struct ps_kv_pairs wrong = pairs(ones);
    int64_t timestamp = 0;
    wrong.keys = twice;
    wrong.key_count = 2;
    ck_assert_int_eq(ps_kv_worker_push(customer, &wrong, NULL, &timestamp, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(timestamp, -1);
    wrong = pairs(ones);
    wrong.lens = lens;
    ck_assert_int_eq(ps_kv_worker_push(customer, &wrong, NULL, &timestamp, &error),
                     PSCLIENT_INVALID);
    wrong = pairs(ones);
    wrong.type = 77;
    ck_assert_int_eq(ps_kv_worker_push(customer, &wrong, NULL, &timestamp, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(ps_simple_app_request(customer, 1, "x", 1, ps_worker_node(5), NULL, NULL,
                                           &timestamp, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(ps_customer_wait(customer, 0, 0, &error), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(ps_customer_barrier(customer, PS_GROUP_SERVERS, 10, &error), PSCLIENT_INVALID);
    ck_assert_uint_eq(ps_customer_open_count(customer), 0);
}
END_TEST

START_TEST(a_request_without_keys_is_over_at_once)
{
    const struct ps_kv_pairs none = {.type = PSCLIENT_FLOAT32};
    int64_t timestamp = -1;
    expect_ok(ps_kv_worker_push(customer, &none, NULL, &timestamp, &error));
    expect_ok(ps_kv_worker_wait(customer, timestamp, 0, &error));
}
END_TEST

/* Values are not written behind the caller's memory. */
START_TEST(an_answer_of_another_size_fails_the_pull)
{
    const struct ps_serving_options options = {.role = PS_SERVING_SERVER};
    struct ps_serving *serving = NULL;
    struct ps_serving_batch *batch = NULL;
    float much[4] = {9, 9, 9, 9}, own[2] = {0, 7};
    const struct psclient_tensor tensor = {
        .element_size = 4, .rank = 1, .shape = {4}, .content = much, .size = sizeof much};
    const struct ps_serving_reply reply = {.tensors = &tensor, .tensor_count = 1};
    const struct ps_kv_pairs into = {
        .keys = keys, .key_count = 1, .type = PSCLIENT_FLOAT32, .values = own, .value_count = 1};
    int64_t timestamp = -1;
    expect_ok(ps_serving_init(client, &options, &serving, &error));
    expect_ok(ps_kv_worker_pull(customer, &into, NULL, &timestamp, &error));
    expect_ok(ps_serving_get_batch(serving, NULL, RIG_LONG_MS, &batch, &error));
    int status = ps_serving_reply(serving, batch->requests[0].handler, &reply, RIG_LONG_MS, &error);
    ps_serving_batch_release(batch);

    if (status == PSCLIENT_OK)
        ck_assert_int_eq(ps_kv_worker_wait(customer, timestamp, RIG_LONG_MS, &error),
                         PSCLIENT_INVALID);
    else
        ck_assert_int_eq(status, PSCLIENT_INVALID);
    ck_assert(own[1] == 7);
    expect_ok(ps_serving_stop(serving, 0, &error));
}
END_TEST

/* ---- Callbacks ---- */

struct called {
    pthread_mutex_t lock;
    int count, status, inner;
};

/* Waits within the callback for another request of the same customer, which has a callback, too. */
static void call_and_wait(void *user, int64_t timestamp, int status, const char *text)
{
    struct called *called = user;
    struct psclient_error own;
    (void)text;
    (void)pthread_mutex_lock(&called->lock);
    called->count++;
    called->status = status;
    bool is_first = called->count == 1;
    (void)pthread_mutex_unlock(&called->lock);
    if (!is_first)
        return;
    const struct ps_kv_call call = {.callback = call_and_wait, .user = called};
    int64_t inner = push(&call);
    called->inner = ps_customer_wait(customer, inner, RIG_LONG_MS, &own);
    if (called->inner == PSCLIENT_OK)
        called->inner = ps_customer_wait(customer, timestamp, RIG_LONG_MS, &own);
    if (ps_customer_close(customer, &own) != PSCLIENT_FAILED)
        called->inner = -1;
}

START_TEST(a_callback_has_returned_before_the_wait_and_may_wait_itself)
{
    struct called called = {.lock = PTHREAD_MUTEX_INITIALIZER, .status = -1, .inner = -2};
    const struct ps_kv_call call = {.callback = call_and_wait, .user = &called};
    expect_ok(ps_kv_worker_wait(customer, push(&call), RIG_LONG_MS, &error));
    ck_assert_int_eq(called.count, 2);
    ck_assert_int_eq(called.status, PSCLIENT_OK);
    ck_assert_int_eq(called.inner, PSCLIENT_OK);
}
END_TEST

static void count_status(void *user, int64_t timestamp, int status, const char *text)
{
    struct called *called = user;
    (void)timestamp;
    (void)pthread_mutex_lock(&called->lock);
    called->count++;
    called->status = status;
    if (status != PSCLIENT_OK && text[0] == '\0')
        called->inner = -1;
    (void)pthread_mutex_unlock(&called->lock);
}

/* Nobody waits: the callbacks come by themselves, also of what is given up at the end. */
START_TEST(callbacks_have_a_status_whatever_happens)
{
    struct called called = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct ps_kv_call late = {
        .callback = count_status, .user = &called, .timeout_ms = SHORT_MS};
    const struct ps_kv_call open = {.callback = count_status, .user = &called};
    (void)push(&late);
    int count = 0;
    while (count == 0) {
        (void)usleep(1000);
        (void)pthread_mutex_lock(&called.lock);
        count = called.count;
        (void)pthread_mutex_unlock(&called.lock);
    }
    ck_assert_int_eq(called.status, PSCLIENT_UNKNOWN);
    for (int i = 0; i < 100; i++)
        (void)push(&open);
    expect_ok(ps_customer_close(customer, &error));
    ck_assert_int_eq(called.count, 101);
    ck_assert_int_eq(called.status, PSCLIENT_UNKNOWN);
    ck_assert_int_eq(called.inner, 0);
    expect_ok(ps_customer_open(client, NULL, &customer, &error));
}
END_TEST

/* ps-lite hands 12 pushes of one worker to the handler as 11 1 7 2 3 0 4 5 8 6 10 9. */
START_TEST(requests_of_one_worker_are_taken_in_their_order)
{
    enum { COUNT = 12 };
    const struct ps_serving_options options = {.role = PS_SERVING_SERVER};
    struct ps_serving *serving = NULL;
    for (int32_t i = 0; i < COUNT; i++) {
        const struct ps_kv_call call = {.command = i};
        (void)push(&call);
    }
    expect_ok(ps_serving_init(client, &options, &serving, &error));
    for (int32_t i = 0; i < COUNT; i++) {
        struct ps_serving_batch *batch = NULL;
        const struct ps_serving_reply reply = {0};
        expect_ok(ps_serving_get_batch(serving, NULL, RIG_LONG_MS, &batch, &error));
        ck_assert_int_eq(batch->requests[0].command, i);
        expect_ok(
            ps_serving_reply(serving, batch->requests[0].handler, &reply, RIG_LONG_MS, &error));
        ps_serving_batch_release(batch);
    }
    expect_ok(ps_serving_stop(serving, 0, &error));
}
END_TEST

/* A worker that only asks, until it is killed. */
static void flood(const struct program_words *words)
{
    rig.server_count = 0;
    client = program_rig_open(words->list);
    program_rig_must(ps_customer_open(client, NULL, &customer, &error), &error, "open");
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = PS_KEY_MAX / KEYS * i;
    for (size_t i = 0; i < MANY; i++) {
        const struct ps_kv_pairs pushed = pairs(ones);
        int64_t timestamp = -1;
        program_rig_must(ps_kv_worker_push(customer, &pushed, NULL, &timestamp, &error), &error,
                         "push");
    }
    (void)pause();
}

static TCase *make_case(const char *name, void (*start)(void))
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, start, end);
    return tests;
}

int main(int argc, char **argv)
{
    struct program_words words;
    if (program_rig_words(argc, argv, &words)) {
        if (strcmp(words.act, "flood") == 0)
            flood(&words);
        else
            program_rig_serve_keys(&words);
        return 0;
    }
    Suite *suite = suite_create("psclient program faults");
    TCase *served = make_case("with programs", begin);
    TCase *alone = make_case("without programs", begin_alone);
    tcase_add_test(served, waits_name_the_server_that_was_killed_and_end);
    tcase_add_test(served, a_worker_that_is_killed_keeps_nobody);
    tcase_add_test(served, a_program_that_is_killed_is_followed_by_another);
    tcase_add_test(served, a_callback_has_returned_before_the_wait_and_may_wait_itself);
    tcase_add_test(alone, a_program_that_ends_between_take_and_answer_fails_the_request);
    tcase_add_test(alone, a_program_that_does_not_answer_lets_the_request_end_by_its_time);
    tcase_add_test(alone, a_request_waits_for_its_program);
    tcase_add_test(alone, what_is_wrong_is_refused_before_anything_is_sent);
    tcase_add_test(alone, a_request_without_keys_is_over_at_once);
    tcase_add_test(alone, an_answer_of_another_size_fails_the_pull);
    tcase_add_test(alone, callbacks_have_a_status_whatever_happens);
    tcase_add_test(alone, requests_of_one_worker_are_taken_in_their_order);
    suite_add_tcase(suite, served);
    suite_add_tcase(suite, alone);
    return run_suite(suite);
}
