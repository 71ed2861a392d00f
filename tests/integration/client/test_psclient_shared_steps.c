/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of training through shared memory, with a real server: the same bits as in messages, each
 * gradient of its own counted once, and the caller's memory his alone once a call is over, whoever
 * was killed or stopped, and whatever memory was refused. */
#include "tests/integration/client/live_rig.h"

#include "client/client_state.h"
#include "expect_each.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define COUNT 100000
#define KILLS 6
#define TURNS 40
#define SWEEP_MAX 60
#define TRIES_MAX 1000

static float gradient[COUNT], values[COUNT];

struct way {
    enum psclient_shared_memory shared_memory;
    bool journal;
};
static const struct way ways[] = {
    {PSCLIENT_SHARED_MEMORY_OFF, false},
    {PSCLIENT_SHARED_MEMORY_AUTO, false},
    {PSCLIENT_SHARED_MEMORY_AUTO, true},
};
enum { ON_THE_WIRE, SHARED, JOURNALED, WAY_COUNT };

static struct psclient_parameter parameter(void)
{
    return (struct psclient_parameter){
        .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};
}

/* "w", all zeros, with plain SGD of rate 1. */
static void begin(const struct way *way)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", way->journal, NULL, NULL);
    client = open_one(&(struct psclient_options){.shared_memory = way->shared_memory});
    struct psclient_parameter w = parameter();
    initialise(&w, 1);
}

static int push(uint64_t timeout_ms)
{
    const struct psclient_gradient w = {.name = "w",
                                        .type = PSCLIENT_FLOAT32,
                                        .content = gradient,
                                        .content_size = sizeof gradient};
    return psclient_push(client, &w, 1, timeout_ms, NULL, &error);
}

static uint64_t pull(void)
{
    struct psclient_parameter w = parameter();
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    return w.version;
}

static void fill(float value)
{
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = value;
}

static void expect_all(float value)
{
    expect_each(i, COUNT, values[i] == value);
}

/* Pushes ones until content goes through shared memory. */
static void push_until_shared(void)
{
    fill(-1);
    for (int i = 0; i < TRIES_MAX && counters().shared_bytes == 0; i++)
        expect_ok(push(LONG_MS));
    ck_assert_uint_gt(counters().shared_bytes, 0);
}

/* Moves "w" towards a target, by calls of both kinds. */
static void train(const struct way *way, float *result)
{
    begin(way);
    pull();
    for (int turn = 0; turn < TURNS; turn++) {
        struct psclient_parameter w = parameter();
        const struct psclient_gradient step = {.name = "w",
                                               .type = PSCLIENT_FLOAT32,
                                               .content = gradient,
                                               .content_size = sizeof gradient};
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = 0.3f * (values[i] - (float)i / 7.0f);
        if (turn % 2 == 0) {
            expect_ok(psclient_push_pull(client, &step, &w, 1, LONG_MS, NULL, &error));
            ck_assert_uint_eq(w.version, (uint64_t)turn + 1);
            continue;
        }
        expect_ok(push(LONG_MS));
        ck_assert_uint_eq(pull(), (uint64_t)turn + 1);
    }
    bool shares = way->shared_memory == PSCLIENT_SHARED_MEMORY_AUTO;
    ck_assert_uint_eq(counters().tcp_servers, 1);
    ck_assert_uint_eq(counters().shared_servers, shares);
    ck_assert((counters().shared_bytes > 0) == shares);
    memcpy(result, values, sizeof values);
    finish();
}

START_TEST(training_comes_to_the_same_bits_every_way)
{
    static float here[COUNT], there[COUNT];
    train(&ways[_i], here);
    train(&ways[ON_THE_WIRE], there);
    ck_assert_int_eq(memcmp(here, there, sizeof here), 0);
}
END_TEST

START_TEST(what_is_not_finite_is_refused_there_too)
{
    begin(&ways[SHARED]);
    push_until_shared();
    uint64_t version = pull();
    gradient[COUNT - 1] = 1.0f / 0.0f;
    ck_assert_int_eq(push(LONG_MS), PSCLIENT_INVALID);
    ck_assert_uint_eq(pull(), version);
    finish();
}
END_TEST

START_TEST(wrong_sizes_are_told_there_too)
{
    begin(&ways[SHARED]);
    push_until_shared();
    struct psclient_parameter w = parameter();
    w.content_size -= sizeof(float);
    ck_assert_int_eq(psclient_pull(client, &w, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    const struct psclient_gradient less = {.name = "w",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = gradient,
                                           .content_size = sizeof gradient - sizeof(float)};
    ck_assert_int_eq(psclient_push(client, &less, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    finish();
}
END_TEST

/* Each step has another gradient, written into the same memory once the call before is over: what a
 * server that was killed may have read, or not, must not be mixed up with it. */
START_TEST(each_step_counts_once_when_the_server_is_killed)
{
    char address[64];
    float sum = 0;
    unsigned steps = 0;
    begin(&ways[JOURNALED]);
    strcpy(address, server.address);
    for (int kills = 0; kills <= KILLS; kills++) {
        uint64_t shared = counters().shared_bytes;
        unsigned until = steps + 30;
        while (steps < until || counters().shared_bytes == shared) {
            struct psclient_parameter w = parameter();
            const struct psclient_gradient step = {.name = "w",
                                                   .type = PSCLIENT_FLOAT32,
                                                   .content = gradient,
                                                   .content_size = sizeof gradient};
            struct psclient_operation *operation;
            float value = (float)(++steps % 7 + 1);
            ck_assert_uint_lt(steps, 100000);
            fill(-value);
            expect_ok(
                psclient_push_pull_begin(client, &step, &w, 1, LONG_MS, NULL, &operation, &error));
            if (steps == until && kills < KILLS) {
                pserver_process_kill(&server); /* in the middle of this step */
                start_server(address, true, NULL, NULL);
            }
            expect_ok(psclient_end(operation, NULL, &error));
            sum += value;
            ck_assert_uint_eq(w.version, steps);
            expect_all(sum);
        }
    }
    finish();
}
END_TEST

/* The server writes the reply of a pull that was given up when it goes on: not into what the caller
 * keeps there by then. */
START_TEST(a_pull_that_was_given_up_writes_nothing_afterwards)
{
    begin(&ways[SHARED]);
    push_until_shared();
    pull();
    struct psclient_parameter w = parameter();
    stop_server();
    ck_assert_int_ne(psclient_pull(client, &w, 1, 300, NULL, &error), PSCLIENT_OK);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = 5000;
    kill(server.pid, SIGCONT);
    for (int i = 0; i < 20; i++)
        expect_ok(push(LONG_MS));
    expect_all(5000);
    finish();
}
END_TEST

/* Refuses one allocation after the opening, while memory is offered and used. How many pushes went
 * well. */
static unsigned push_with_refusal(int refuse_at)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct psclient_options options = {.servers = server.address};
    unsigned pushes = 0;
    ck_assert_int_eq(ps_client_open(&options, &memory, &client, NULL), PS_OK);
    heap.refuse_at = heap.seen + refuse_at;
    fill(-1);
    for (int i = 0; i < 20; i++)
        pushes += push(LONG_MS) == PSCLIENT_OK;
    heap.refuse_at = -1;
    ck_assert_uint_ge(pushes, 19);
    unsigned version = (unsigned)pull();
    expect_all((float)version);
    psclient_close(client);
    ck_assert_int_eq(heap.live, 0);
    return pushes;
}

START_TEST(any_refused_allocation_leaves_a_client_that_works)
{
    begin(&ways[SHARED]);
    psclient_close(client);
    unsigned pushes = 0;
    for (int refuse_at = 0; refuse_at < SWEEP_MAX; refuse_at++)
        pushes += push_with_refusal(refuse_at);
    client = open_one(&(struct psclient_options){0});
    ck_assert_uint_eq(pull(), pushes);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_shared_steps");
    TCase *tests = tcase_create("psclient_shared_steps");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, training_comes_to_the_same_bits_every_way, SHARED, WAY_COUNT);
    tcase_add_test(tests, what_is_not_finite_is_refused_there_too);
    tcase_add_test(tests, wrong_sizes_are_told_there_too);
    tcase_add_test(tests, each_step_counts_once_when_the_server_is_killed);
    tcase_add_test(tests, a_pull_that_was_given_up_writes_nothing_afterwards);
    tcase_add_test(tests, any_refused_allocation_leaves_a_client_that_works);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
