/* Memory of psclient_memory_new, with real servers: used in place where it can be, memory like any
 * other elsewhere, and the caller's alone once a call is over, whoever was killed or stopped. */
#include "tests/integration/client/live_rig.h"

#include "client/client_state.h"
#include "expect_each.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 100000
#define BYTES (COUNT * sizeof(float))
#define PLACE_BYTES ((BYTES + 4095) / 4096 * 4096)
#define KILLS 6
#define TURNS 40
#define SWEEP_MAX 60

static float *gradient, *values; /* in the client's memory */

/* One way for content. */
struct way {
    enum psclient_shared_memory shared_memory;
    bool journal;
};
static const struct way ways[] = {
    {PSCLIENT_SHARED_MEMORY_OFF, false},
    {PSCLIENT_SHARED_MEMORY_AUTO, false},
    {PSCLIENT_SHARED_MEMORY_AUTO, true},
};
enum { WAY_COUNT = sizeof ways / sizeof ways[0] };

static void open_client(const struct way *way)
{
    void *memory;
    client = open_one(&(struct psclient_options){.shared_memory = way->shared_memory});
    expect_ok(psclient_memory_new(client, 2 * PLACE_BYTES, &memory, &error));
    gradient = memory;
    values = (float *)(void *)((char *)memory + PLACE_BYTES);
}

static struct psclient_parameter parameter(const char *name)
{
    return (struct psclient_parameter){
        .name = name, .type = PSCLIENT_FLOAT32, .content = values, .content_size = BYTES};
}

/* "w" and "v", all zeros, with plain SGD of rate 1. */
static void begin(const struct way *way)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", way->journal, NULL, NULL);
    open_client(way);
    struct psclient_parameter both[] = {parameter("w"), parameter("v")};
    initialise(both, 2);
}

static int push(uint64_t timeout_ms)
{
    const struct psclient_gradient w = {"w", PSCLIENT_FLOAT32, gradient, BYTES};
    return psclient_push(client, &w, 1, timeout_ms, NULL, &error);
}

static uint64_t pull(void)
{
    struct psclient_parameter w = parameter("w");
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    return w.version;
}

static void fill(float value)
{
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = value;
}

static void expect_at(const float *content, float value)
{
    expect_each(i, COUNT, content[i] == value);
}

static void expect_all(float value)
{
    expect_at(values, value);
}

/* Moves "w" towards a target in every way there is, by gradients that are written in place. */
static void train(const struct way *way, float *result)
{
    begin(way);
    pull();
    for (int turn = 0; turn < TURNS; turn++) {
        struct psclient_parameter w = parameter("w");
        const struct psclient_gradient step = {"w", PSCLIENT_FLOAT32, gradient, BYTES};
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = 0.3f * (values[i] - (float)i / 7.0f);
        if (turn % 2 == 0) {
            expect_ok(psclient_push_pull(client, &step, &w, 1, LONG_MS, NULL, &error));
            ck_assert_uint_eq(w.version, (uint64_t)turn + 1);
            continue;
        }
        expect_ok(psclient_push(client, &step, 1, LONG_MS, NULL, &error));
        ck_assert_uint_eq(pull(), (uint64_t)turn + 1);
    }
    bool shares = way->shared_memory == PSCLIENT_SHARED_MEMORY_AUTO;
    ck_assert_uint_eq(counters().tcp_servers, 1);
    ck_assert_uint_eq(counters().shared_servers, shares);
    ck_assert((counters().placed_bytes > 0) == shares);
    ck_assert_uint_le(counters().placed_bytes, counters().shared_bytes);
    memcpy(result, values, BYTES);
    finish();
}

START_TEST(training_comes_to_the_same_bits_every_way)
{
    static float here[COUNT], there[COUNT];
    train(&ways[_i], here);
    train(&ways[0], there);
    ck_assert_int_eq(memcmp(here, there, sizeof here), 0);
}
END_TEST

/* Of a batch, each content is looked at by itself: here one lies at a place, one does not. */
START_TEST(a_batch_uses_in_place_what_can_be)
{
    static float own[COUNT];
    begin(&ways[1]);
    uint64_t last = 0;
    for (int turn = 1; turn <= TURNS; turn++) {
        struct psclient_parameter results[] = {parameter("w"), parameter("v")};
        results[1].content = own;
        const struct psclient_gradient steps[] = {{"w", PSCLIENT_FLOAT32, gradient, BYTES},
                                                  {"v", PSCLIENT_FLOAT32, gradient, BYTES}};
        fill(-(float)turn);
        expect_ok(psclient_push_pull(client, steps, results, 2, LONG_MS, NULL, &error));
        last = counters().placed_bytes - last;
        expect_all((float)(turn * (turn + 1)) / 2);
        ck_assert_int_eq(memcmp(own, values, BYTES), 0);
        last = turn < TURNS ? counters().placed_bytes : last;
    }
    ck_assert_uint_eq(last, 3 * BYTES);
    finish();
}
END_TEST

START_TEST(content_that_begins_within_a_page_is_copied_and_exact)
{
    begin(&ways[1]);
    void *memory;
    expect_ok(psclient_memory_new(client, 2 * PLACE_BYTES, &memory, &error));
    gradient = (float *)memory + 1;
    values = gradient + COUNT;
    for (int turn = 1; turn <= TURNS; turn++) {
        fill(-1);
        expect_ok(push(LONG_MS));
        ck_assert_uint_eq(pull(), (uint64_t)turn);
        expect_all((float)turn);
    }
    ck_assert_uint_gt(counters().shared_bytes, 0);
    ck_assert_uint_eq(counters().placed_bytes, 0);
    expect_ok(psclient_memory_free(client, memory));
    ck_assert_int_eq(psclient_memory_free(client, memory), PSCLIENT_INVALID);
    expect_ok(psclient_memory_free(client, NULL));
    finish();
}
END_TEST

START_TEST(what_is_not_finite_is_refused_there_too)
{
    begin(&ways[1]);
    fill(-1);
    for (int i = 0; i < 1000 && counters().placed_bytes == 0; i++)
        expect_ok(push(LONG_MS));
    uint64_t version = pull();
    gradient[COUNT - 1] = 1.0f / 0.0f;
    ck_assert_int_eq(push(LONG_MS), PSCLIENT_INVALID);
    ck_assert_uint_eq(pull(), version);
    finish();
}
END_TEST

START_TEST(no_bytes_are_refused_and_wrong_sizes_are_told)
{
    void *memory;
    begin(&ways[1]);
    ck_assert_int_eq(psclient_memory_new(client, 0, &memory, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_memory_new(client, SIZE_MAX, &memory, &error), PSCLIENT_EXHAUSTED);
    fill(-1);
    for (int i = 0; i < 1000 && counters().placed_bytes == 0; i++)
        expect_ok(push(LONG_MS));
    struct psclient_parameter w = parameter("w");
    w.content_size = BYTES - 4;
    ck_assert_int_eq(psclient_pull(client, &w, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    const struct psclient_gradient less = {"w", PSCLIENT_FLOAT32, gradient, BYTES - 4};
    ck_assert_int_eq(psclient_push(client, &less, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    finish();
}
END_TEST

/* ---- Kills ---- */

/* Each step has another gradient, written into the same memory once the call before is over: what a
 * server that was killed may have read, or not, must not be mixed up with it. */
START_TEST(each_step_counts_once_when_the_server_is_killed)
{
    char address[64];
    float sum = 0;
    unsigned steps = 0;
    begin(&ways[2]);
    strcpy(address, server.address);
    for (int kills = 0; kills <= KILLS; kills++) {
        uint64_t placed = counters().placed_bytes;
        unsigned until = steps + 30;
        while (steps < until || counters().placed_bytes == placed) {
            struct psclient_parameter w = parameter("w");
            const struct psclient_gradient step = {"w", PSCLIENT_FLOAT32, gradient, BYTES};
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

/* ---- A server that stands still ---- */

static void *wake_server(void *argument)
{
    (void)argument;
    poll(NULL, 0, 50);
    kill(server.pid, SIGCONT);
    return NULL;
}

/* The first push is given up while the server has it unread. It must not find the second one's
 * bytes under the first one's id: they are written to the same memory. */
START_TEST(what_is_written_after_a_call_was_given_up_is_not_read_for_it)
{
    pthread_t waker;
    begin(&ways[1]);
    unsigned pushes = 0;
    fill(-1);
    for (; counters().placed_bytes == 0 && pushes < 10000; pushes++)
        expect_ok(push(LONG_MS));
    uint64_t placed = counters().placed_bytes;
    stop_server();
    ck_assert_int_eq(push(300), PSCLIENT_UNKNOWN);
    ck_assert_uint_gt(counters().placed_bytes, placed);
    expect_at(gradient, -1);
    fill(-1000);
    ck_assert_int_eq(pthread_create(&waker, NULL, wake_server, NULL), 0);
    for (int i = 0; i < 3; i++)
        expect_ok(push(LONG_MS));
    pthread_join(waker, NULL);

    pull();
    float sum = 3000.0f + (float)pushes;
    ck_assert_msg(values[0] == sum || values[0] == sum + 1, "%f", values[0]);
    expect_all(values[0]);
    finish();
}
END_TEST

/* The server writes the reply of a pull that was given up when it goes on: not into what the caller
 * keeps there by then. */
START_TEST(a_pull_that_was_given_up_writes_nothing_afterwards)
{
    begin(&ways[1]);
    fill(-1);
    for (int i = 0; i < 1000 && counters().placed_bytes == 0; i++)
        expect_ok(push(LONG_MS));
    pull();
    struct psclient_parameter w = parameter("w");
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

/* ---- Memory runs out ---- */

/* Refuses one allocation from the making of the memory on. How many pushes went well. */
static unsigned push_with_refusal(int refuse_at)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct psclient_options options = {.servers = server.address};
    unsigned pushes = 0;
    void *made = NULL;
    ck_assert_int_eq(ps_client_open(&options, &memory, &client, NULL), PS_OK);
    heap.refuse_at = heap.seen + refuse_at;
    int status = psclient_memory_new(client, 2 * PLACE_BYTES, &made, &error);
    ck_assert(status == PSCLIENT_OK || refuse_at < 2);
    if (status != PSCLIENT_OK)
        expect_ok(psclient_memory_new(client, 2 * PLACE_BYTES, &made, &error));
    gradient = made;
    values = (float *)(void *)((char *)made + PLACE_BYTES);
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
    begin(&ways[1]);
    psclient_close(client);
    unsigned pushes = 0;
    for (int refuse_at = 0; refuse_at < SWEEP_MAX; refuse_at++)
        pushes += push_with_refusal(refuse_at);
    open_client(&ways[1]);
    ck_assert_uint_eq(pull(), pushes);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_memory");
    TCase *tests = tcase_create("psclient_memory");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, training_comes_to_the_same_bits_every_way, 1, WAY_COUNT);
    tcase_add_test(tests, a_batch_uses_in_place_what_can_be);
    tcase_add_test(tests, content_that_begins_within_a_page_is_copied_and_exact);
    tcase_add_test(tests, what_is_not_finite_is_refused_there_too);
    tcase_add_test(tests, no_bytes_are_refused_and_wrong_sizes_are_told);
    tcase_add_test(tests, each_step_counts_once_when_the_server_is_killed);
    tcase_add_test(tests, what_is_written_after_a_call_was_given_up_is_not_read_for_it);
    tcase_add_test(tests, a_pull_that_was_given_up_writes_nothing_afterwards);
    tcase_add_test(tests, any_refused_allocation_leaves_a_client_that_works);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
