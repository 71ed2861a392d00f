/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient and a real server on one host: large content goes through shared memory, and what is
 * promised holds there as it does on the wire, whoever is killed or stopped meanwhile. */
#include "tests/integration/client/live_rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100000
#define KILLS 8
#define TURNS 60

static float values[COUNT], gradient[COUNT];

static struct psclient_parameter parameter(void)
{
    return (struct psclient_parameter){
        .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};
}

/* From any thread. */
static int push(uint64_t timeout_ms)
{
    const struct psclient_gradient w = {.name = "w",
                                        .type = PSCLIENT_FLOAT32,
                                        .content = gradient,
                                        .content_size = sizeof gradient};
    return psclient_push(client, &w, 1, timeout_ms, NULL, NULL);
}

static uint64_t pull(void)
{
    struct psclient_parameter w = parameter();
    int status = psclient_pull(client, &w, 1, LONG_MS, NULL, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    return w.version;
}

static void fill(float value)
{
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = value;
}

static void expect_ramp(float slope)
{
    expect_each(i, COUNT, values[i] == slope * (float)(i % 1000));
}

static void expect_all(float value)
{
    expect_each(i, COUNT, values[i] == value);
}

static void begin(const char *shared_memory, bool journal)
{
    temp_folder_init(&folder);
    struct psclient_parameter w = parameter();
    start_server("127.0.0.1:0", journal, "--shared-memory", shared_memory);
    client = open_one(&(struct psclient_options){0});
    initialise(&w, 1);
}

START_TEST(large_content_takes_the_short_way_by_itself_and_is_exact)
{
    begin("auto", _i == 1);
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = -(float)(i % 1000);
        ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
        ck_assert_uint_eq(pull(), (uint64_t)turn + 1);
        expect_ramp((float)(turn + 1));
    }

    ck_assert_uint_gt(counters().shared_calls, 0);
    ck_assert_uint_eq(counters().shared_bytes, counters().shared_calls * sizeof values);
    finish();
}
END_TEST

/* One round trip: the slot of the gradient is the room for the parameter. */
START_TEST(a_step_goes_there_and_back_through_one_slot)
{
    begin("auto", _i == 1);
    struct psclient_parameter w = parameter();
    const struct psclient_gradient step = {.name = "w",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = gradient,
                                           .content_size = sizeof gradient};
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = -(float)(i % 1000);
        int status = psclient_push_pull(client, &step, &w, 1, LONG_MS, NULL, &error);
        ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
        ck_assert_uint_eq(w.version, (uint64_t)turn + 1);
        expect_ramp((float)(turn + 1));
    }

    ck_assert_uint_gt(counters().shared_calls, 0);
    ck_assert_uint_eq(counters().shared_bytes, 2 * counters().shared_calls * sizeof values);
    finish();
}
END_TEST

enum { GROUP = 8, GROUP_COUNT = 20000, SMALL_COUNT = 100 };

/* Several calls in one message: the large ones have places in a run, the small ones stay in it. */
START_TEST(a_batch_shares_what_is_large_and_carries_what_is_small)
{
    static float content[GROUP][GROUP_COUNT], steps[GROUP][GROUP_COUNT];
    char names[GROUP][8];
    struct psclient_parameter parameters[GROUP];
    struct psclient_gradient gradients[GROUP];
    for (size_t k = 0; k < GROUP; k++) {
        size_t size = (k % 2 == 0 ? GROUP_COUNT : SMALL_COUNT) * sizeof(float);
        (void)snprintf(names[k], sizeof names[k], "g%zu", k);
        parameters[k] = (struct psclient_parameter){.name = names[k],
                                                    .type = PSCLIENT_FLOAT32,
                                                    .content = content[k],
                                                    .content_size = size};
        gradients[k] = (struct psclient_gradient){
            .name = names[k], .type = PSCLIENT_FLOAT32, .content = steps[k], .content_size = size};
        for (size_t i = 0; i < GROUP_COUNT; i++)
            steps[k][i] = -(float)(k * 1000 + i % 100);
    }
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", _i == 1, "--shared-memory", "on");
    client = open_one(&(struct psclient_options){0});
    initialise(parameters, GROUP);

    for (int turn = 1; turn <= TURNS; turn++) {
        int status = turn % 2 == 0 ? psclient_push(client, gradients, GROUP, LONG_MS, NULL, &error)
                                   : psclient_push_pull(client, gradients, parameters, GROUP,
                                                        LONG_MS, NULL, &error);
        ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
        if (turn % 2 == 0)
            status = psclient_pull(client, parameters, GROUP, LONG_MS, NULL, &error);
        ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
        for (size_t k = 0; k < GROUP; k++)
            expect_each(i, gradients[k].content_size / sizeof(float),
                        content[k][i] == -(float)turn * steps[k][i]);
    }

    ck_assert_uint_gt(counters().shared_calls, 0);
    ck_assert_uint_eq(counters().shared_bytes % (GROUP_COUNT * sizeof(float)), 0);
    finish();
}
END_TEST

START_TEST(it_stays_on_the_wire_where_either_side_says_so)
{
    begin("off", false);
    ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
    ck_assert_uint_eq(pull(), 1);
    ck_assert_uint_eq(counters().shared_calls, 0);
    finish();

    begin("on", false);
    psclient_close(client);
    client = open_one(&(struct psclient_options){.shared_memory = PSCLIENT_SHARED_MEMORY_OFF});
    ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
    ck_assert_uint_eq(pull(), 1);
    ck_assert_uint_eq(counters().shared_calls, 0);
    finish();
}
END_TEST

/* Moves "w" towards a target, by gradients computed from what was pulled. */
static void train(enum psclient_shared_memory shared_memory, float *result)
{
    begin("auto", false);
    psclient_close(client);
    client = open_one(&(struct psclient_options){.shared_memory = shared_memory});
    pull();
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = 0.3f * (values[i] - (float)i / 7.0f);
        ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
        pull();
    }
    ck_assert((counters().shared_calls > 0) == (shared_memory == PSCLIENT_SHARED_MEMORY_AUTO));
    memcpy(result, values, sizeof values);
    finish();
}

START_TEST(training_converges_to_the_same_bits_as_on_the_wire)
{
    static float here[COUNT], there[COUNT];
    train(PSCLIENT_SHARED_MEMORY_AUTO, here);
    train(PSCLIENT_SHARED_MEMORY_OFF, there);
    ck_assert_int_eq(memcmp(here, there, sizeof here), 0);
    expect_each(i, COUNT,
                here[i] >= (float)i / 7.0f * 0.999f && here[i] <= (float)i / 7.0f * 1.001f);
}
END_TEST

/* ---- Kills ---- */

static bool push_one(void *argument)
{
    (void)argument;
    return push(LONG_MS) == PSCLIENT_OK;
}

/* What is pulled is one version: all elements are equal. */
static bool push_and_pull(void *argument)
{
    float *pulled = argument;
    const struct psclient_gradient step = {.name = "w",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = gradient,
                                           .content_size = sizeof gradient};
    struct psclient_parameter w = parameter();
    struct psclient_error why;
    w.content = pulled;
    bool ok = psclient_push_pull(client, &step, &w, 1, LONG_MS, NULL, &why) == PSCLIENT_OK;
    for (size_t i = 0; i < COUNT && ok; i++)
        ok = pulled[i] == (float)w.version;
    return ok;
}

START_TEST(acknowledged_pushes_count_once_when_the_server_is_killed)
{
    static float pulled[2][COUNT];
    char address[64];
    begin("auto", true);
    strcpy(address, server.address);
    fill(-1);
    for (size_t i = 0; i < 2; i++)
        begin_steps(_i == 1 ? push_and_pull : push_one, pulled[i]);
    for (int kills = 0; kills < KILLS; kills++) {
        await_steps(20);
        pserver_process_kill(&server);
        start_server(address, true, "--shared-memory", "auto");
    }
    await_steps(20);
    await_shared_steps(); /* the new server's memory is used */
    unsigned acknowledged = end_steps();

    ck_assert_uint_eq(pull(), acknowledged);
    expect_all((float)acknowledged);
    finish();
}
END_TEST

START_TEST(a_clients_memory_is_given_back_when_it_is_killed)
{
    begin("auto", false);
    fill(-1);
    kill_another_client(); /* which pushes through its memory by then */

    await_log("a client's memory is given back");

    ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
    uint64_t version = pull();
    expect_all((float)version);
    finish();
}
END_TEST

/* The other client of that test: says so when pushes go through shared memory, and goes on. */
static int push_for_ever(const char *address)
{
    const struct psclient_options options = {.servers = address};
    if (psclient_open(&options, &client, &error) != PSCLIENT_OK)
        return EXIT_FAILURE;
    fill(-1);
    for (bool told = false; push(LONG_MS) == PSCLIENT_OK;) {
        if (!told && counters().shared_calls > 3)
            told = write(STDOUT_FILENO, "!", 1) == 1;
    }
    return EXIT_FAILURE;
}

/* ---- A server that stands still ---- */

/* Enough that a server which pushes all the time is stopped within an update soon. */
enum { MET_IN_MIDDLE = 3, STOPS_MAX = 1000, GIVE_UP_MS = 100 };

static void *stop_server_soon(void *argument)
{
    poll(NULL, 0, *(const int *)argument % 7);
    kill(server.pid, SIGSTOP);
    return NULL;
}

/* Pushes ones until one is given up, since the server was stopped; how many were acknowledged. */
static unsigned push_until_stopped_at(int stops)
{
    pthread_t stopper;
    unsigned pushes = 0;
    fill(-1);
    ck_assert_int_eq(pthread_create(&stopper, NULL, stop_server_soon, &stops), 0);
    while (push(GIVE_UP_MS) == PSCLIENT_OK)
        pushes++;
    pthread_join(stopper, NULL);
    return pushes;
}

/* The server stops somewhere within a push, which is given up. The next one must not get the slot
 * of that push: the server reads it on when it goes on. That it was within the update is known by
 * the push's being applied after all; stops go on until that was seen a few times. */
START_TEST(a_slot_that_the_server_may_still_read_is_not_used_again)
{
    unsigned met = 0;
    float sum = 0;
    begin("auto", false);
    fill(-1);
    for (; counters().shared_calls == 0 && sum < 10000; sum += 1)
        ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
    for (int stops = 0; met < MET_IN_MIDDLE; stops++) {
        ck_assert_int_lt(stops, STOPS_MAX);
        sum += (float)push_until_stopped_at(stops);
        fill(-100);
        begin_steps(push_one, NULL);
        poll(NULL, 0, 20); /* the slots are written to */
        kill(server.pid, SIGCONT);
        await_steps(3);
        sum += 100.0f * (float)end_steps();

        pull();
        float more = values[0] - sum;
        ck_assert_msg(more == 0 || more == 1, "after %d stops: %f", stops + 1, (double)more);
        expect_all(values[0]);
        met += more == 1;
        sum = values[0];
    }
    finish();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return push_for_ever(argv[1]);
    Suite *suite = suite_create("psclient_shared");
    TCase *tests = tcase_create("psclient_shared");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, large_content_takes_the_short_way_by_itself_and_is_exact, 0, 2);
    tcase_add_loop_test(tests, a_step_goes_there_and_back_through_one_slot, 0, 2);
    tcase_add_loop_test(tests, a_batch_shares_what_is_large_and_carries_what_is_small, 0, 2);
    tcase_add_test(tests, it_stays_on_the_wire_where_either_side_says_so);
    tcase_add_test(tests, training_converges_to_the_same_bits_as_on_the_wire);
    tcase_add_loop_test(tests, acknowledged_pushes_count_once_when_the_server_is_killed, 0, 2);
    tcase_add_test(tests, a_clients_memory_is_given_back_when_it_is_killed);
    tcase_add_test(tests, a_slot_that_the_server_may_still_read_is_not_used_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
