/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient and a real server on one host, at a unix socket that both name: what is promised
 * holds there as over TCP, whoever is killed or stopped, and from another network. */
#include "tests/integration/client/live_rig.h"

#include "base/clock.h"
#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 20000
#define LARGE_COUNT (8 * 1024 * 1024)
#define KILLS 6
#define TURNS 40

enum { SKIPPED = 77 };

static float values[COUNT], gradient[COUNT];

/* The socket's file, and the server's address by it. */
static char path[600], local[620];

static struct psclient *open_client(const char *servers, enum psclient_shared_memory shared_memory)
{
    return open_one(&(struct psclient_options){.servers = servers, .shared_memory = shared_memory});
}

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

/* A folder, and in it the socket of a server. */
static void serve(bool journal)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "s", path, sizeof path);
    (void)snprintf(local, sizeof local, "unix:%s", path);
    start_server("127.0.0.1:0", journal, "--listen-unix", path);
}

static void begin(enum psclient_shared_memory shared_memory)
{
    struct psclient_parameter w = parameter();
    serve(true);
    client = open_client(local, shared_memory);
    initialise(&w, 1);
    fill(-1);
}

/* What was pushed is there, and nothing else. */
static void push_and_check(unsigned turns)
{
    uint64_t version = pull();
    for (unsigned turn = 1; turn <= turns; turn++) {
        ck_assert_int_eq(push(LONG_MS), PSCLIENT_OK);
        ck_assert_uint_eq(pull(), version + turn);
        expect_each(i, COUNT, values[i] == (float)(version + turn));
    }
}

START_TEST(a_server_is_found_at_the_file_that_both_name)
{
    begin(_i == 0 ? PSCLIENT_SHARED_MEMORY_OFF : PSCLIENT_SHARED_MEMORY_AUTO);
    push_and_check(TURNS);
    ck_assert_uint_eq(counters().unix_servers, 1);
    ck_assert_uint_eq(counters().tcp_servers, 0);
    ck_assert_uint_eq(counters().shared_servers, (unsigned)_i);

    /* The file of the one that was killed is still there. */
    pserver_process_kill(&server);
    ck_assert_int_eq(access(path, F_OK), 0);
    start_server("127.0.0.1:0", true, "--listen-unix", path);
    push_and_check(TURNS);

    finish();
}
END_TEST

/* Whatever else the server offers: who names its port stays there. */
START_TEST(who_names_the_port_goes_over_tcp)
{
    begin(PSCLIENT_SHARED_MEMORY_OFF);
    psclient_close(client);
    client = open_client(server.address, PSCLIENT_SHARED_MEMORY_OFF);
    push_and_check(TURNS);
    ck_assert_uint_eq(counters().tcp_servers, 1);
    ck_assert_uint_eq(counters().unix_servers, 0);
    finish();
}
END_TEST

/* ---- Kills ---- */

static bool push_one(void *argument)
{
    (void)argument;
    return push(LONG_MS) == PSCLIENT_OK;
}

START_TEST(acknowledged_pushes_count_once_when_the_server_is_killed)
{
    begin(PSCLIENT_SHARED_MEMORY_OFF);
    for (size_t i = 0; i < 2; i++)
        begin_steps(push_one, NULL);
    for (int kills = 0; kills < KILLS; kills++) {
        await_steps(50);
        pserver_process_kill(&server);
        start_server("127.0.0.1:0", true, "--listen-unix", path);
    }
    await_steps(20);
    unsigned acknowledged = end_steps();

    ck_assert_uint_eq(pull(), acknowledged);
    expect_each(i, COUNT, values[i] == (float)acknowledged);
    finish();
}
END_TEST

/* More than the socket holds: gRPC has the caller's memory until the socket takes it, and the
 * server reads no more. The call ends with its deadline all the same. */
START_TEST(a_server_that_stands_still_does_not_keep_the_callers_memory)
{
    const size_t size = LARGE_COUNT * sizeof(float);
    float *content = calloc(LARGE_COUNT, sizeof *content);
    struct psclient_parameter large = {
        .name = "l", .type = PSCLIENT_FLOAT32, .content = content, .content_size = size};
    const struct psclient_gradient step = {
        .name = "l", .type = PSCLIENT_FLOAT32, .content = content, .content_size = size};
    ck_assert_ptr_nonnull(content);
    serve(false);
    client = open_client(local, PSCLIENT_SHARED_MEMORY_OFF);
    initialise(&large, 1);
    ck_assert_int_eq(psclient_push(client, &step, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    stop_server();

    uint64_t before_ms = ps_now_ms(ps_clock_real());
    int status = psclient_push(client, &step, 1, 300, NULL, &error);
    uint64_t took_ms = ps_now_ms(ps_clock_real()) - before_ms;

    ck_assert_msg(status == PSCLIENT_UNKNOWN || status == PSCLIENT_UNAVAILABLE, "%s", error.text);
    ck_assert_uint_lt(took_ms, LONG_MS);
    kill(server.pid, SIGCONT);
    ck_assert_int_eq(psclient_push(client, &step, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    finish();
    free(content);
}
END_TEST

/* As in a container that has the file, and a network of its own. */
static int train_in_another_network(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return SKIPPED;
    struct psclient_parameter w = parameter();
    client = open_client(local, PSCLIENT_SHARED_MEMORY_OFF);
    initialise(&w, 1);
    fill(-1);
    push_and_check(TURNS);
    bool stayed = counters().retries == 0;
    psclient_close(client);
    return stayed ? EXIT_SUCCESS : EXIT_FAILURE;
}

START_TEST(a_server_in_another_network_is_reached)
{
    int status;
    serve(false);
    pid_t child = fork();
    if (child == 0)
        _exit(train_in_another_network());
    ck_assert_int_eq(waitpid(child, &status, 0), child);

    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) != SKIPPED) /* this user may make no namespace */
        ck_assert_int_eq(WEXITSTATUS(status), EXIT_SUCCESS);
    pserver_process_kill(&server);
    temp_folder_fini(&folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_unix");
    TCase *tests = tcase_create("psclient_unix");
    tcase_set_timeout(tests, 180);
    tcase_add_loop_test(tests, a_server_is_found_at_the_file_that_both_name, 0, 2);
    tcase_add_test(tests, who_names_the_port_goes_over_tcp);
    tcase_add_test(tests, acknowledged_pushes_count_once_when_the_server_is_killed);
    tcase_add_test(tests, a_server_that_stands_still_does_not_keep_the_callers_memory);
    tcase_add_test(tests, a_server_in_another_network_is_reached);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
