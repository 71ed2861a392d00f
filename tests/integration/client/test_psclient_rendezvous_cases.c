/* SPDX-License-Identifier: Apache-2.0 */
/* More of TensorFlow's cases between processes, under their names; those that one process alone can
 * show are here with two clients of it, over gRPC all the same. And what the reference has no test
 * of: initialisation that comes behind the first receives. */
#include "rendezvous_job.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A receive in a thread. */
struct wait {
    pthread_t thread;
    struct psclient_rendezvous *step;
    const char *key;
    int status;
    struct psclient_tensor got;
    struct psclient_error error;
};

static void *receive(void *argument)
{
    struct wait *wait = argument;
    wait->status =
        psclient_rendezvous_recv(wait->step, wait->key, &wait->got, LONG_MS, &wait->error);
    return NULL;
}

static void begin_wait(struct wait *wait, struct psclient_rendezvous *step, const char *key)
{
    *wait = (struct wait){.step = step, .key = key};
    ck_assert_int_eq(pthread_create(&wait->thread, NULL, receive, wait), 0);
}

static void expect_value(struct wait *wait, const char *text)
{
    ck_assert_int_eq(pthread_join(wait->thread, NULL), 0);
    ck_assert_msg(wait->status == PSCLIENT_OK, "%s", wait->error.text);
    if (text != NULL)
        ck_assert(wait->got.size == strlen(text) &&
                  memcmp(wait->got.content, text, wait->got.size) == 0);
    psclient_tensor_release(&wait->got);
}

static void expect_failure(struct wait *wait, const char *text)
{
    ck_assert_int_eq(pthread_join(wait->thread, NULL), 0);
    ck_assert_int_eq(wait->status, PSCLIENT_ABORTED);
    ck_assert_msg(strstr(wait->error.text, text) != NULL, "%s", wait->error.text);
}

#define CANCELLED "[_Derived_]RecvAsync is cancelled."

/* A cancellation ends what waits: it is said until there is something to end. */
static void *cancel_until_over(void *argument)
{
    struct wait *wait = argument;
    struct psclient_error why;
    for (int i = 0; i < 200 && wait->status == -1; i++) {
        (void)psclient_rendezvous_cancel(wait->step, LONG_MS, &why);
        struct psclient_tensor none = {0};
        (void)psclient_rendezvous_recv(job_step, "nobody's", &none, 10, &why);
    }
    return NULL;
}

START_TEST(cancel_after_recv)
{
    struct wait wait = {.step = job_step, .key = "foo", .status = -1};
    pthread_t canceller;
    ck_assert_int_eq(pthread_create(&canceller, NULL, cancel_until_over, &wait), 0);
    (void)receive(&wait);
    ck_assert_int_eq(pthread_join(canceller, NULL), 0);
    ck_assert_int_eq(wait.status, PSCLIENT_ABORTED);
    ck_assert_str_eq(wait.error.text, CANCELLED);
}
END_TEST

/* The value came first: the cancellation changes nothing. */
START_TEST(cancel_empty_queue)
{
    job_expect_ok(job_send_text(job_step, "foo", "hello"));
    job_expect_ok(psclient_rendezvous_cancel(job_step, LONG_MS, &job_error));
    job_expect_text(job_step, "foo", "hello");
    job_expect_ok(psclient_rendezvous_cancel(job_step, LONG_MS, &job_error));
}
END_TEST

/* 0 and 2 are of one handle, 1 and 3 of another, which is cancelled. */
START_TEST(cancel_multiple)
{
    struct psclient_rendezvous *other = job_open_step(job_client, 123);
    struct wait waits[4];
    for (int i = 0; i < 4; i++)
        begin_wait(&waits[i], i % 2 == 0 ? job_step : other, "foo");
    for (int i = 0; i < 20; i++) {
        struct psclient_tensor none = {0};
        job_expect_ok(psclient_rendezvous_cancel(other, LONG_MS, &job_error));
        ck_assert_int_eq(psclient_rendezvous_recv(job_step, "nobody's", &none, 10, &job_error),
                         PSCLIENT_UNKNOWN);
    }
    expect_failure(&waits[1], CANCELLED);
    expect_failure(&waits[3], CANCELLED);
    job_expect_ok(job_send_text(job_step, "foo", "hello"));
    job_expect_ok(job_send_text(job_step, "foo", "hello"));
    expect_value(&waits[0], "hello");
    expect_value(&waits[2], "hello");
    psclient_rendezvous_close(other);
}
END_TEST

enum { RANDOM_KEYS = 100, MULTI = 100 };

static void *send_shuffled(void *argument)
{
    struct psclient *client = job_open_client();
    struct psclient_rendezvous *step = job_open_step(client, 123);
    (void)argument;
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i * 37 % RANDOM_KEYS);
        ck_assert_int_eq(job_send_text(step, text, text), PSCLIENT_OK);
    }
    psclient_rendezvous_close(step);
    psclient_close(client);
    return NULL;
}

/* Both orders: half of the keys are asked for in the other direction. */
START_TEST(random_send_recv)
{
    pthread_t sender;
    ck_assert_int_eq(pthread_create(&sender, NULL, send_shuffled, NULL), 0);
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i % 2 == 0 ? i : RANDOM_KEYS - i);
        job_expect_text(job_step, text, text);
    }
    ck_assert_int_eq(pthread_join(sender, NULL), 0);
}
END_TEST

static void *send_same(void *argument)
{
    struct psclient *client = job_open_client();
    struct psclient_rendezvous *step = job_open_step(client, 123);
    (void)argument;
    for (int i = 0; i < MULTI; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        ck_assert_int_eq(job_send_text(step, "same", text), PSCLIENT_OK);
    }
    psclient_rendezvous_close(step);
    psclient_close(client);
    return NULL;
}

/* The reference compares no values: here they come in their order. */
START_TEST(multi_sends)
{
    pthread_t sender;
    ck_assert_int_eq(pthread_create(&sender, NULL, send_same, NULL), 0);
    for (int i = 0; i < MULTI; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        job_expect_text(job_step, "same", text);
    }
    ck_assert_int_eq(pthread_join(sender, NULL), 0);
}
END_TEST

/* Another client aborts while a receive waits, however long it has. */
START_TEST(recv_sleep_abort)
{
    struct psclient *client = job_open_client();
    struct psclient_rendezvous *other = job_open_step(client, 123);
    struct psclient_tensor none = {0};
    struct wait wait;
    begin_wait(&wait, job_step, "foo");
    /* As long as the reference sleeps. */
    ck_assert_int_eq(psclient_rendezvous_recv(other, "bar", &none, 1000, &job_error),
                     PSCLIENT_UNKNOWN);
    job_expect_ok(psclient_rendezvous_abort(other, "fantasia!", LONG_MS, &job_error));
    expect_failure(&wait, "fantasia!");
    psclient_rendezvous_close(other);
    psclient_close(client);
}
END_TEST

/* The first abort stays, and a value that had been queued is dropped. */
START_TEST(abort_then_recv_or_send)
{
    struct psclient_tensor none = {0};
    job_expect_ok(job_send_text(job_step, "foo", "dropped"));
    job_expect_ok(psclient_rendezvous_abort(job_step, "fantasia!", LONG_MS, &job_error));
    job_expect_ok(psclient_rendezvous_abort(job_step, "derived", LONG_MS, &job_error));
    ck_assert_int_eq(job_send_text(job_step, "foo", "x"), PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "fantasia!");
    ck_assert_int_eq(psclient_rendezvous_recv(job_step, "foo", &none, LONG_MS, &job_error),
                     PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "fantasia!");
}
END_TEST

/* The context is what sender and receiver agree on beside the bytes: type, shape and deadness. */
START_TEST(transfer_dummy_device_context)
{
    float content[6] = {0};
    struct psclient_tensor got = {0};
    const struct psclient_tensor sent = {.dtype = 123,
                                         .element_size = 4,
                                         .rank = 3,
                                         .shape = {1, 2, 3},
                                         .content = content,
                                         .size = sizeof content};
    job_expect_ok(psclient_rendezvous_send(job_step, "foo", &sent, LONG_MS, &job_error));
    job_expect_ok(psclient_rendezvous_recv(job_step, "foo", &got, LONG_MS, &job_error));
    ck_assert_uint_eq(got.dtype, 123);
    ck_assert_uint_eq(got.rank, 3);
    ck_assert_mem_eq(got.shape, sent.shape, sizeof got.shape);
    ck_assert_int_eq(got.dead, 0);
    psclient_tensor_release(&got);
}
END_TEST

static struct psclient_rendezvous *open_strict(uint64_t number)
{
    const struct psclient_rendezvous_options options = {.strict = 1};
    struct psclient_rendezvous *opened = NULL;
    job_expect_ok(
        psclient_rendezvous_open(job_client, number, &options, LONG_MS, &opened, &job_error));
    return opened;
}

/* Of two that wait for one key the second is refused at once; the first gets its value. */
START_TEST(duplicate_waiter_recv)
{
    struct psclient_rendezvous *strict = open_strict(9);
    struct wait waits[2];
    begin_wait(&waits[0], strict, "foo");
    begin_wait(&waits[1], strict, "foo");
    /* Whichever came second: it is over before anything is sent. */
    int ended = -1;
    while (ended < 0) {
        struct psclient_tensor none = {0};
        ck_assert_int_eq(psclient_rendezvous_recv(job_step, "nobody's", &none, 5, &job_error),
                         PSCLIENT_UNKNOWN);
        for (int i = 0; i < 2; i++)
            if (pthread_tryjoin_np(waits[i].thread, NULL) == 0)
                ended = i;
    }
    ck_assert_int_eq(waits[ended].status, PSCLIENT_ABORTED);
    ck_assert_str_eq(waits[ended].error.text, "Duplicated recv: foo");
    job_expect_ok(job_send_text(strict, "foo", "secret"));
    expect_value(&waits[1 - ended], "secret");
    job_expect_ok(job_send_text(strict, "bar", "secret"));
    job_expect_text(strict, "bar", "secret");
    psclient_rendezvous_close(strict);
}
END_TEST

START_TEST(duplicate_serial_recv)
{
    struct psclient_rendezvous *strict = open_strict(10);
    struct psclient_tensor none = {0};
    job_expect_ok(job_send_text(strict, "foo", "hello"));
    job_expect_text(strict, "foo", "hello");
    ck_assert_int_eq(psclient_rendezvous_recv(strict, "foo", &none, LONG_MS, &job_error),
                     PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "Duplicated recv: foo");
    psclient_rendezvous_close(strict);
}
END_TEST

/* One handle sends and is closed, another receives; then the step is cleaned up. */
START_TEST(local_send_recv)
{
    struct psclient_rendezvous *own = job_open_step(job_client, 321);
    job_expect_ok(job_send_text(own, "foo", "peach"));
    psclient_rendezvous_close(own);
    own = job_open_step(job_client, 321);
    job_expect_text(own, "foo", "peach");
    job_expect_ok(psclient_rendezvous_cleanup(own, LONG_MS, &job_error));
    psclient_rendezvous_close(own);
}
END_TEST

static void send_one(struct psclient_rendezvous *own)
{
    if (job_send_text(own, "remote", "x") != PSCLIENT_OK)
        exit(1);
}

START_TEST(remote_recv_one)
{
    pid_t child = job_in_child("send_one");
    job_expect_text(job_step, "remote", "x");
    job_expect_end(child);
}
END_TEST

/* ---- Initialisation behind the first use ---- */

static struct psclient_rendezvous *open_deferred(uint64_t number)
{
    const struct psclient_rendezvous_options options = {.deferred = 1};
    struct psclient_rendezvous *opened = NULL;
    job_expect_ok(
        psclient_rendezvous_open(job_client, number, &options, LONG_MS, &opened, &job_error));
    return opened;
}

/* A receive of a step that nobody has begun waits, and is kept when somebody does. */
START_TEST(a_receive_before_the_step_begins_is_deferred)
{
    struct psclient_rendezvous *deferred = open_deferred(77);
    struct psclient_tensor none = {0};
    struct wait wait;
    begin_wait(&wait, deferred, "foo");
    ck_assert_int_eq(psclient_rendezvous_recv(deferred, "bar", &none, 50, &job_error),
                     PSCLIENT_UNKNOWN);
    struct psclient_rendezvous *begun = job_open_step(job_client, 77);
    job_expect_ok(job_send_text(begun, "foo", "hello"));
    expect_value(&wait, "hello");
    psclient_rendezvous_close(begun);
    psclient_rendezvous_close(deferred);
}
END_TEST

/* A send does not wait for the beginning, and what it brought stays. */
START_TEST(a_send_before_the_step_begins_does_not_wait)
{
    struct psclient_rendezvous *deferred = open_deferred(78);
    job_expect_ok(job_send_text(deferred, "foo", "early"));
    struct psclient_rendezvous *begun = job_open_step(job_client, 78);
    job_expect_text(begun, "foo", "early");
    psclient_rendezvous_close(begun);
    psclient_rendezvous_close(deferred);
}
END_TEST

/* And one that was aborted before it began tells everybody who comes. */
START_TEST(an_abort_before_the_step_begins_is_told)
{
    struct psclient_rendezvous *deferred = open_deferred(79);
    struct psclient_rendezvous *begun = NULL;
    job_expect_ok(psclient_rendezvous_abort(deferred, "early", LONG_MS, &job_error));
    ck_assert_int_eq(psclient_rendezvous_open(job_client, 79, NULL, LONG_MS, &begun, &job_error),
                     PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "early");
    psclient_rendezvous_close(deferred);
}
END_TEST

int main(int count, char **arguments)
{
    if (count == 3)
        return job_run_child(arguments[2], send_one);
    Suite *suite = suite_create("psclient_rendezvous_cases");
    TCase *tests = tcase_create("psclient_rendezvous_cases");
    tcase_add_checked_fixture(tests, job_begin, job_end);
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, cancel_after_recv);
    tcase_add_test(tests, cancel_empty_queue);
    tcase_add_test(tests, cancel_multiple);
    tcase_add_test(tests, random_send_recv);
    tcase_add_test(tests, multi_sends);
    tcase_add_test(tests, recv_sleep_abort);
    tcase_add_test(tests, abort_then_recv_or_send);
    tcase_add_test(tests, transfer_dummy_device_context);
    tcase_add_test(tests, duplicate_waiter_recv);
    tcase_add_test(tests, duplicate_serial_recv);
    tcase_add_test(tests, local_send_recv);
    tcase_add_test(tests, remote_recv_one);
    tcase_add_test(tests, a_receive_before_the_step_begins_is_deferred);
    tcase_add_test(tests, a_send_before_the_step_begins_does_not_wait);
    tcase_add_test(tests, an_abort_before_the_step_begins_is_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
