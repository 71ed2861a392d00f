/* libpsclient and a real server on one host: calls go through the unix socket of the server, and
 * what is promised holds there as over TCP, whoever is killed, stopped or out of reach. */
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

#define COUNT 5000
#define LARGE_COUNT (8 * 1024 * 1024)
#define KILLS 6
#define TURNS 40

enum { SKIPPED = 77 };

static float values[COUNT], gradient[COUNT];

static struct psclient *open_client(const char *servers, enum psclient_unix_socket unix_socket)
{
    return open_one(&(struct psclient_options){.servers = servers,
                                               .shared_memory = PSCLIENT_SHARED_MEMORY_OFF,
                                               .unix_socket = unix_socket});
}

static struct psclient_parameter parameter(void)
{
    return (struct psclient_parameter){
        .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};
}

/* From any thread. */
static int push(uint64_t timeout_ms)
{
    const struct psclient_gradient w = {"w", PSCLIENT_FLOAT32, gradient, sizeof gradient};
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

static void begin(const char *listen_unix, bool journal)
{
    struct psclient_parameter w = parameter();
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", journal, "--listen-unix", listen_unix);
    client = open_client(server.address, PSCLIENT_UNIX_SOCKET_AUTO);
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

START_TEST(calls_go_through_the_unix_socket_by_themselves)
{
    begin("auto", _i == 1);

    push_and_check(TURNS);

    ck_assert_uint_gt(counters().unix_calls, TURNS);
    ck_assert_uint_eq(counters().unix_servers, 1);
    ck_assert_uint_eq(counters().retries, 0);
    finish();
}
END_TEST

START_TEST(they_stay_on_tcp_where_either_side_says_so)
{
    begin("off", false);
    push_and_check(TURNS);
    ck_assert_uint_eq(counters().unix_calls, 0);
    finish();

    begin("auto", false);
    psclient_close(client);
    client = open_client(server.address, PSCLIENT_UNIX_SOCKET_OFF);
    push_and_check(TURNS);
    ck_assert_uint_eq(counters().unix_calls, 0);
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
    char address[64];
    begin("auto", true);
    strcpy(address, server.address);
    for (size_t i = 0; i < 2; i++)
        begin_steps(push_one, NULL);
    for (int kills = 0; kills < KILLS; kills++) {
        await_steps(50);
        pserver_process_kill(&server);
        start_server(address, true, "--listen-unix", kills % 2 == 0 ? "off" : "auto");
    }
    await_steps(20);
    uint64_t before = counters().unix_calls;
    for (int i = 0; i < 500 && counters().unix_calls == before; i++)
        await_steps(20);
    ck_assert_uint_gt(counters().unix_calls, before); /* the new server's socket is used */
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
    const struct psclient_gradient step = {"l", PSCLIENT_FLOAT32, content, size};
    ck_assert_ptr_nonnull(content);
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, "--listen-unix", "auto");
    client = open_client(server.address, PSCLIENT_UNIX_SOCKET_AUTO);
    initialise(&large, 1);
    while (counters().unix_calls == 0)
        ck_assert_int_eq(psclient_push(client, &step, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    stop_server();

    uint64_t before_ms = ps_now_ms(ps_clock_real());
    int status = psclient_push(client, &step, 1, 300, NULL, &error);
    uint64_t took_ms = ps_now_ms(ps_clock_real()) - before_ms;

    ck_assert_msg(status == PSCLIENT_UNKNOWN || status == PSCLIENT_UNAVAILABLE, "%s", error.text);
    ck_assert_uint_lt(took_ms, 10000);
    kill(server.pid, SIGCONT);
    ck_assert_int_eq(psclient_push(client, &step, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    finish();
    free(content);
}
END_TEST

/* ---- Named sockets ---- */

START_TEST(a_server_is_found_at_the_file_that_both_name)
{
    char path[600], servers[620];
    struct psclient_parameter w = parameter();
    temp_folder_init(&folder);
    temp_folder_path(&folder, "s", path, sizeof path);
    (void)snprintf(servers, sizeof servers, "unix:%s", path);
    start_server("127.0.0.1:0", true, "--listen-unix", path);
    client = open_client(servers, _i == 0 ? PSCLIENT_UNIX_SOCKET_AUTO : PSCLIENT_UNIX_SOCKET_OFF);
    initialise(&w, 1);
    fill(-1);
    push_and_check(TURNS);

    /* The file of the one that was killed is still there. */
    pserver_process_kill(&server);
    ck_assert_int_eq(access(path, F_OK), 0);
    start_server("127.0.0.1:0", true, "--listen-unix", path);
    push_and_check(TURNS);

    finish();
}
END_TEST

/* As in a container that has the file, and a network of its own: no name of this one is known. */
static int train_in_another_network(const char *servers)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return SKIPPED;
    struct psclient_parameter w = parameter();
    client = open_client(servers, PSCLIENT_UNIX_SOCKET_AUTO);
    initialise(&w, 1);
    fill(-1);
    push_and_check(TURNS);
    bool stayed = counters().unix_calls == 0 && counters().retries == 0;
    psclient_close(client);
    return stayed ? EXIT_SUCCESS : EXIT_FAILURE;
}

START_TEST(in_another_network_the_way_that_works_is_kept)
{
    char path[600], servers[620];
    int status;
    temp_folder_init(&folder);
    temp_folder_path(&folder, "s", path, sizeof path);
    (void)snprintf(servers, sizeof servers, "unix:%s", path);
    start_server("127.0.0.1:0", false, "--listen-unix", path);
    pid_t child = fork();
    if (child == 0)
        _exit(train_in_another_network(servers));
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
    tcase_add_loop_test(tests, calls_go_through_the_unix_socket_by_themselves, 0, 2);
    tcase_add_test(tests, they_stay_on_tcp_where_either_side_says_so);
    tcase_add_test(tests, acknowledged_pushes_count_once_when_the_server_is_killed);
    tcase_add_test(tests, a_server_that_stands_still_does_not_keep_the_callers_memory);
    tcase_add_loop_test(tests, a_server_is_found_at_the_file_that_both_name, 0, 2);
    tcase_add_test(tests, in_another_network_the_way_that_works_is_kept);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
