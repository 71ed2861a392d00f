/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's cases that are made of many threads, under their names. Nothing depends on how they
 * run: every value reaches one receive, and a key's values come in the order in which one thread
 * sent them. */
#include "rendezvous_world.h"

#include "run_suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, KEYS = 100, SAME = 200 };

static atomic_int next_send, next_receive, wrong;

static void *send_keys(void *argument)
{
    char word[16];
    (void)argument;
    for (int i; (i = atomic_fetch_add(&next_send, 1)) < KEYS;) {
        (void)snprintf(word, sizeof word, "%d", i);
        if (world_send(word, word) != PS_OK)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static void *receive_keys(void *argument)
{
    char word[16];
    char text[WORLD_TEXT_BYTES];
    (void)argument;
    for (int i; (i = atomic_fetch_add(&next_receive, 1)) < KEYS;) {
        (void)snprintf(word, sizeof word, "%d", i);
        if (world_receive(word, text) != PS_OK || strcmp(text, word) != 0)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static void run(void *(*one)(void *), void *(*other)(void *), int count)
{
    pthread_t threads[2 * THREADS];
    atomic_store(&next_send, 0);
    atomic_store(&next_receive, 0);
    atomic_store(&wrong, 0);
    for (int i = 0; i < 2 * count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, i % 2 == 0 ? one : other, NULL), 0);
    for (int i = 0; i < 2 * count; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}

START_TEST(random_send_recv)
{
    run(send_keys, receive_keys, THREADS);
    ck_assert_uint_eq(world.bytes, 0);
}
END_TEST

static void *send_same(void *argument)
{
    char word[16];
    (void)argument;
    for (int i = 0; i < SAME; i++) {
        (void)snprintf(word, sizeof word, "%d", i);
        if (world_send("same", word) != PS_OK)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static void *receive_same(void *argument)
{
    char text[WORLD_TEXT_BYTES];
    (void)argument;
    for (int i = 0; i < SAME; i++)
        if (world_receive("same", text) != PS_OK || strtol(text, NULL, 10) != i)
            atomic_fetch_add(&wrong, 1);
    return NULL;
}

START_TEST(multi_sends)
{
    run(send_same, receive_same, 1);
}
END_TEST

static void *receive_until_aborted(void *argument)
{
    char text[WORLD_TEXT_BYTES];
    (void)argument;
    if (world_receive("never", text) != PS_ERR_ABORTED)
        atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void *abort_step(void *argument)
{
    (void)argument;
    world_abort(WORLD_STEP, "fantasia!");
    return NULL;
}

/* Whether the abort comes before a receive, while it waits or between, it is told. */
START_TEST(recv_abort)
{
    run(receive_until_aborted, abort_step, THREADS);
}
END_TEST

START_TEST(recv_sleep_abort)
{
    pthread_t thread;
    atomic_store(&wrong, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_until_aborted, NULL), 0);
    world_await_waiting(1);
    world_abort(WORLD_STEP, "fantasia!");
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

static void *answer_foo(void *argument)
{
    char text[WORLD_TEXT_BYTES];
    (void)argument;
    if (world_receive("foo", text) != PS_OK || world_send("bar", text) != PS_OK)
        atomic_fetch_add(&wrong, 1);
    return NULL;
}

START_TEST(ping_pong)
{
    pthread_t thread;
    char text[WORLD_TEXT_BYTES];
    atomic_store(&wrong, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_foo, NULL), 0);
    world_await_waiting(1);
    ck_assert_int_eq(world_send("foo", "secret"), PS_OK);

    ck_assert_int_eq(world_receive("bar", text), PS_OK);
    ck_assert_str_eq(text, "secret");
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_threads");
    TCase *tests = tcase_create("rendezvous_threads");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, random_send_recv);
    tcase_add_test(tests, multi_sends);
    tcase_add_test(tests, recv_abort);
    tcase_add_test(tests, recv_sleep_abort);
    tcase_add_test(tests, ping_pong);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
