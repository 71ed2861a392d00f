/* libpsclient and a real server on one host: calls go through the unix socket of the server, and
 * what is promised holds there as over TCP, whoever is killed, stopped or out of reach. */
#include "client/psclient.h"

#include "base/clock.h"
#include "expect_each.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 60000
#define COUNT 5000
#define LARGE_COUNT (8 * 1024 * 1024)
#define KILLS 6
#define TURNS 40

enum { SKIPPED = 77 };

static struct temp_folder folder;
static struct pserver_process server;
static struct psclient *client;
static struct psclient_error error;
static float values[COUNT], gradient[COUNT];

static void start_server(const char *listen, const char *listen_unix, bool journal)
{
    char data[600];
    temp_folder_path(&folder, "data", data, sizeof data);
    const char *const arguments[] = {"--listen-unix",
                                     listen_unix,
                                     "--etcd-ttl",
                                     "1s",
                                     journal ? "--data-dir" : NULL,
                                     data,
                                     NULL};
    pserver_process_start(&server, PSERVER_PROGRAM, listen, arguments);
}

static struct psclient *open_client(const char *servers, enum psclient_unix_socket unix_socket)
{
    struct psclient *opened = NULL;
    const struct psclient_options options = {.servers = servers,
                                             .shared_memory = PSCLIENT_SHARED_MEMORY_OFF,
                                             .unix_socket = unix_socket};
    int status = psclient_open(&options, &opened, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    return opened;
}

static struct psclient_parameter parameter(void)
{
    return (struct psclient_parameter){
        .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};
}

/* Zeros, with plain SGD of rate 1. */
static void initialise(struct psclient_parameter *what)
{
    int selected = 0;
    memset(what->content, 0, what->content_size);
    int status = psclient_begin_init(client, LONG_MS, &selected, &error);
    if (status == PSCLIENT_OK)
        status = psclient_init(client, what, 1, LONG_MS, NULL, &error);
    if (status == PSCLIENT_OK)
        status = psclient_finish_init(client, LONG_MS, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
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

static struct psclient_counters counters(void)
{
    struct psclient_counters now;
    psclient_get_counters(client, &now);
    return now;
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
    start_server("127.0.0.1:0", listen_unix, journal);
    client = open_client(server.address, PSCLIENT_UNIX_SOCKET_AUTO);
    initialise(&w);
    fill(-1);
}

static void finish(void)
{
    psclient_close(client);
    pserver_process_kill(&server);
    temp_folder_fini(&folder);
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

static atomic_bool stop;
static atomic_uint acknowledged, failed;

static void *push_until_stopped(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop))
        atomic_fetch_add(push(LONG_MS) == PSCLIENT_OK ? &acknowledged : &failed, 1);
    return NULL;
}

/* Lets the pushers get on by so many acknowledgements. */
static void await_progress(unsigned count)
{
    unsigned until = atomic_load(&acknowledged) + count;
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), LONG_MS);
    while (atomic_load(&acknowledged) < until && atomic_load(&failed) == 0) {
        ck_assert_uint_gt(ps_time_left_ms(ps_clock_real(), deadline_ms), 0);
        poll(NULL, 0, 1);
    }
}

START_TEST(acknowledged_pushes_count_once_when_the_server_is_killed)
{
    pthread_t pushers[2];
    char address[64];
    begin("auto", true);
    strcpy(address, server.address);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&pushers[i], NULL, push_until_stopped, NULL), 0);
    for (int kills = 0; kills < KILLS; kills++) {
        await_progress(50);
        pserver_process_kill(&server);
        start_server(address, kills % 2 == 0 ? "off" : "auto", true);
    }
    await_progress(20);
    uint64_t before = counters().unix_calls;
    for (int i = 0; i < 500 && counters().unix_calls == before; i++)
        await_progress(20);
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(pushers[i], NULL);

    ck_assert_uint_eq(atomic_load(&failed), 0);
    ck_assert_uint_gt(counters().unix_calls, before); /* the new server's socket is used */
    ck_assert_uint_eq(pull(), atomic_load(&acknowledged));
    expect_each(i, COUNT, values[i] == (float)atomic_load(&acknowledged));
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
    start_server("127.0.0.1:0", "auto", false);
    client = open_client(server.address, PSCLIENT_UNIX_SOCKET_AUTO);
    initialise(&large);
    while (counters().unix_calls == 0)
        ck_assert_int_eq(psclient_push(client, &step, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    kill(server.pid, SIGSTOP);
    ck_assert_int_eq(waitpid(server.pid, NULL, WUNTRACED), server.pid);

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
    start_server("127.0.0.1:0", path, true);
    client = open_client(servers, _i == 0 ? PSCLIENT_UNIX_SOCKET_AUTO : PSCLIENT_UNIX_SOCKET_OFF);
    initialise(&w);
    fill(-1);
    push_and_check(TURNS);

    /* The file of the one that was killed is still there. */
    pserver_process_kill(&server);
    ck_assert_int_eq(access(path, F_OK), 0);
    start_server("127.0.0.1:0", path, true);
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
    initialise(&w);
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
    start_server("127.0.0.1:0", path, false);
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
