/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient and a real server on one host: what is small by itself goes through shared memory
 * when it is large together, and a batch keeps its promises there. */
#include "tests/integration/client/live_rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 300, LENGTH = 4096, STEPS = 12, KILLS = 6, STOPS = 8 };

static char names[COUNT][16];
static float gradient[LENGTH];
static float values[COUNT][LENGTH];
static struct psclient_gradient gradients[COUNT];
static struct psclient_parameter parameters[COUNT];
static struct psclient_result results[COUNT];

static void fill(float value)
{
    for (int i = 0; i < LENGTH; i++)
        gradient[i] = value;
}

/* Parameters of all sizes up to 16 KiB, all zeros, with plain SGD of rate 1. */
static void begin(const struct psclient_options *options, bool journal)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", journal, "--shared-memory", "on");
    client = open_one(options);
    fill(-1);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "p%d", i);
        size_t size = sizeof(float) * (size_t)(1 + i * 31 % LENGTH);
        gradients[i] = (struct psclient_gradient){
            .name = names[i], .type = PSCLIENT_FLOAT32, .content = gradient, .content_size = size};
        parameters[i] = (struct psclient_parameter){
            .name = names[i], .type = PSCLIENT_FLOAT32, .content = values[i], .content_size = size};
    }
    initialise(parameters, COUNT);
}

static int step(uint64_t timeout_ms)
{
    return psclient_push_pull(client, gradients, parameters, COUNT, timeout_ms, results, &error);
}

/* Steps until the memory was taken; how many that were. */
static unsigned share(void)
{
    unsigned steps = 0;
    for (; counters().shared_calls == 0 && steps < 10000; steps++)
        expect_ok(step(LONG_MS));
    ck_assert_uint_gt(counters().shared_calls, 0);
    return steps;
}

/* All elements of parameter i are equal; which value that is. */
static float value_of(int i)
{
    expect_each(k, parameters[i].content_size / sizeof(float), values[i][k] == values[i][0]);
    return values[i][0];
}

/* Every parameter has seen so many steps. */
static void expect_all(unsigned steps)
{
    for (int i = 0; i < COUNT; i++) {
        ck_assert_uint_eq(parameters[i].version, steps);
        ck_assert(value_of(i) == (float)steps);
    }
}

/* With and without a journal, as float32 and in half as many bytes. */
START_TEST(small_parameters_go_there_together_and_are_exact)
{
    enum psclient_encoding encoding = _i < 2 ? PSCLIENT_NATIVE : PSCLIENT_BFLOAT16;
    begin(&(struct psclient_options){.encoding = encoding, .reply_encoding = encoding},
          _i % 2 == 1);
    unsigned steps = share();
    for (int i = 0; i < STEPS; i++) {
        expect_ok(step(LONG_MS));
        expect_all(++steps);
    }
    for (int i = 0; i < STEPS; i++) {
        expect_ok(psclient_push(client, gradients, COUNT, LONG_MS, results, &error));
        memset(values, 0, sizeof values);
        expect_ok(psclient_pull(client, parameters, COUNT, LONG_MS, NULL, &error));
        expect_all(++steps);
    }
    ck_assert_uint_gt(counters().shared_calls, (uint64_t)STEPS * COUNT);
    finish();
}
END_TEST

START_TEST(each_item_has_its_own_status)
{
    static float broken[LENGTH];
    begin(&(struct psclient_options){0}, _i == 1);
    unsigned steps = share();
    broken[LENGTH / 2] = NAN;
    gradients[70].name = "nobody";
    gradients[71].content_size -= sizeof(float);
    gradients[131].content = broken;
    gradients[131].content_size = sizeof broken;

    int status = step(LONG_MS);

    ck_assert_int_eq(status, PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(results[70].status, PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(results[71].status, PSCLIENT_INVALID);
    ck_assert_int_ne(results[131].status, PSCLIENT_OK);
    for (int i = 0; i < COUNT; i++) {
        if (i == 70 || i == 71 || i == 131)
            continue;
        ck_assert_int_eq(results[i].status, PSCLIENT_OK);
        ck_assert_uint_eq(results[i].version, steps + 1);
        ck_assert(value_of(i) == (float)(steps + 1));
    }
    finish();
}
END_TEST

/* ---- Kills ---- */

static bool step_once(void *argument)
{
    (void)argument;
    return step(LONG_MS) == PSCLIENT_OK;
}

START_TEST(each_item_counts_once_when_the_server_is_killed)
{
    char address[64];
    begin(&(struct psclient_options){0}, true);
    strcpy(address, server.address);
    unsigned steps = share();
    begin_steps(step_once, NULL);
    for (int kills = 0; kills < KILLS; kills++) {
        await_steps(3);
        poll(NULL, 0, kills); /* not always at the same point of a step */
        pserver_process_kill(&server);
        start_server(address, true, "--shared-memory", "on");
    }
    await_shared_steps(); /* the new server's memory is used */
    expect_all(steps + end_steps());
    finish();
}
END_TEST

/* ---- A server that stands still ---- */

static void *stop_server_soon(void *argument)
{
    poll(NULL, 0, *(const int *)argument);
    kill(server.pid, SIGSTOP);
    return NULL;
}

static void *resume_server(void *argument)
{
    poll(NULL, 0, *(const int *)argument);
    kill(server.pid, SIGCONT);
    return NULL;
}

/* The server stops somewhere within a step, which is given up. What the next one writes must not
 * be what the server reads for the rest of the first. */
START_TEST(places_that_the_server_may_still_read_are_not_used_again)
{
    static float before[COUNT];
    begin(&(struct psclient_options){0}, false);
    unsigned steps = share();
    for (int i = 0; i < COUNT; i++)
        before[i] = (float)steps;
    for (int round = 0; round < STOPS; round++) {
        pthread_t other;
        int delay_ms = 1 + round, resume_ms = 20;
        float sum = 0;
        fill(-1);
        ck_assert_int_eq(pthread_create(&other, NULL, stop_server_soon, &delay_ms), 0);
        while (step(200) == PSCLIENT_OK)
            sum += 1;
        pthread_join(other, NULL);
        fill(-1000);
        ck_assert_int_eq(pthread_create(&other, NULL, resume_server, &resume_ms), 0);
        expect_ok(step(LONG_MS));
        pthread_join(other, NULL);

        sum += 1000;
        for (int i = 0; i < COUNT; i++) {
            float more = value_of(i) - before[i] - sum; /* was the item of that step applied? */
            ck_assert_msg(more == 0 || more == 1, "round %d: %d: %f", round, i, (double)more);
            before[i] = values[i][0];
        }
    }
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_shared_batch");
    TCase *tests = tcase_create("psclient_shared_batch");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, small_parameters_go_there_together_and_are_exact, 0, 4);
    tcase_add_loop_test(tests, each_item_has_its_own_status, 0, 2);
    tcase_add_test(tests, each_item_counts_once_when_the_server_is_killed);
    tcase_add_test(tests, places_that_the_server_may_still_read_are_not_used_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
