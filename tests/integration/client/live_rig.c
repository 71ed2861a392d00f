/* SPDX-License-Identifier: Apache-2.0 */
/* One server, one client, and threads that call. */
#include "tests/integration/client/live_rig.h"

#include "base/clock.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 4 };

struct temp_folder folder;
struct pserver_process server;
struct psclient *client;
struct psclient_error error;

static pthread_t threads[THREADS_MAX];
static size_t thread_count;
static bool (*step_of_threads)(void *argument);
static atomic_bool stop;
static atomic_uint succeeded, failed;

void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

void start_server(const char *listen, bool journal, const char *option, const char *value)
{
    char data[600];
    const char *arguments[8] = {"--etcd-ttl", "60s"};
    size_t count = 2;
    if (journal) {
        temp_folder_path(&folder, "data", data, sizeof data);
        arguments[count++] = "--data-dir";
        arguments[count++] = data;
    }
    if (option != NULL) {
        arguments[count++] = option;
        arguments[count++] = value;
    }
    pserver_process_start(&server, PSERVER_PROGRAM, listen, arguments);
}

struct psclient *open_one(const struct psclient_options *options)
{
    struct psclient_options wish = *options;
    struct psclient *opened = NULL;
    if (wish.servers == NULL)
        wish.servers = server.address;
    expect_ok(psclient_open(&wish, &opened, &error));
    return opened;
}

void initialise(struct psclient_parameter *parameters, size_t count)
{
    int selected = 0;
    for (size_t i = 0; i < count; i++)
        memset(parameters[i].content, 0, parameters[i].content_size);
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, parameters, count, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

struct psclient_counters counters(void)
{
    struct psclient_counters now;
    psclient_get_counters(client, &now);
    return now;
}

void stop_server(void)
{
    kill(server.pid, SIGSTOP);
    ck_assert_int_eq(waitpid(server.pid, NULL, WUNTRACED), server.pid);
}

void await_log(const char *words)
{
    static char text[1 << 20];
    size_t size = 0;
    text[0] = '\0';
    while (strstr(text, words) == NULL) {
        struct pollfd readable = {server.log, POLLIN, 0};
        ck_assert_int_eq(poll(&readable, 1, LONG_MS), 1);
        ssize_t got = read(server.log, text + size, sizeof text - 1 - size);
        ck_assert_int_gt(got, 0);
        size += (size_t)got;
        text[size] = '\0';
    }
}

void kill_another_client(void)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char program[] = "/proc/self/exe";
        char *const arguments[] = {program, server.address, NULL};
        dup2(ends[1], STDOUT_FILENO);
        execv(program, arguments);
        _exit(127);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    close(ends[0]);
}

void finish(void)
{
    psclient_close(client);
    pserver_process_kill(&server);
    temp_folder_fini(&folder);
}

/* ---- Threads ---- */

static void *step_until_stopped(void *argument)
{
    while (!atomic_load(&stop))
        atomic_fetch_add(step_of_threads(argument) ? &succeeded : &failed, 1);
    return NULL;
}

void begin_steps(bool (*step)(void *argument), void *argument)
{
    ck_assert_uint_lt(thread_count, THREADS_MAX);
    if (thread_count == 0) {
        atomic_store(&stop, false);
        atomic_store(&succeeded, 0);
        step_of_threads = step;
    }
    ck_assert_int_eq(pthread_create(&threads[thread_count++], NULL, step_until_stopped, argument),
                     0);
}

void await_steps(unsigned count)
{
    unsigned until = atomic_load(&succeeded) + count;
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), LONG_MS);
    while (atomic_load(&succeeded) < until) {
        ck_assert_uint_eq(atomic_load(&failed), 0);
        ck_assert_uint_gt(ps_time_left_ms(ps_clock_real(), deadline_ms), 0);
        poll(NULL, 0, 1);
    }
}

void await_shared_steps(void)
{
    uint64_t before = counters().shared_calls;
    for (int i = 0; i < 500 && counters().shared_calls == before; i++)
        await_steps(3);
    ck_assert_uint_gt(counters().shared_calls, before);
}

unsigned end_steps(void)
{
    atomic_store(&stop, true);
    while (thread_count > 0)
        pthread_join(threads[--thread_count], NULL);
    ck_assert_uint_eq(atomic_load(&failed), 0);
    return atomic_load(&succeeded);
}
