/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's cases of a rendezvous between processes: two real servers, a client in this process
 * and others in children of it. Nothing depends on when something happens: where one side waits,
 * the other side's act comes before or during the wait, and both are right. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 60000

static struct temp_folder folder;
static struct pserver_process servers[2];
static char list[2 * sizeof servers[0].address];
static struct psclient *client;
static struct psclient_rendezvous *step;
static struct psclient_error error;

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static struct psclient *open_client(void)
{
    struct psclient *opened = NULL;
    const struct psclient_options options = {.servers = list, .open_timeout_ms = LONG_MS};
    expect_ok(psclient_open(&options, &opened, &error));
    return opened;
}

static struct psclient_rendezvous *open_step(struct psclient *of, uint64_t number)
{
    struct psclient_rendezvous *opened = NULL;
    expect_ok(psclient_rendezvous_open(of, number, NULL, LONG_MS, &opened, &error));
    return opened;
}

static void begin(void)
{
    temp_folder_init(&folder);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_start_alone(&servers[i], PSERVER_PROGRAM, &folder, i);
    (void)snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    client = open_client();
    step = open_step(client, 123);
}

static void end(void)
{
    psclient_rendezvous_close(step);
    psclient_close(client);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static int send_text(struct psclient_rendezvous *to, const char *key, const char *text)
{
    const struct psclient_tensor tensor = {.dtype = 7,
                                           .element_size = 1,
                                           .rank = 1,
                                           .shape = {strlen(text)},
                                           .content = (void *)(uintptr_t)text,
                                           .size = strlen(text)};
    return psclient_rendezvous_send(to, key, &tensor, LONG_MS, &error);
}

static void expect_text(struct psclient_rendezvous *from, const char *key, const char *text)
{
    struct psclient_tensor got = {0};
    expect_ok(psclient_rendezvous_recv(from, key, &got, LONG_MS, &error));
    ck_assert_uint_eq(got.size, strlen(text));
    ck_assert_mem_eq(got.content, text, got.size);
    ck_assert_uint_eq(got.dtype, 7);
    ck_assert_uint_eq(got.rank, 1);
    psclient_tensor_release(&got);
    ck_assert_ptr_null(got.content);
}

/* Another process that does this, and ends with 0 if all of it went well: this program once more,
 * since a client does not outlive a fork. */
static pid_t in_child(const char *act)
{
    char program[] = "/proc/self/exe";
    char *const arguments[] = {program, (char *)(uintptr_t)act, list, NULL};
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)execv(program, arguments);
        _exit(127);
    }
    return child;
}

static void expect_end(pid_t child)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void send_foo(struct psclient_rendezvous *own)
{
    if (send_text(own, "foo", "hello") != PSCLIENT_OK)
        _exit(1);
}

START_TEST(send_recv)
{
    expect_end(in_child("send_foo"));
    expect_text(step, "foo", "hello");
}
END_TEST

START_TEST(recv_send)
{
    pid_t child = in_child("send_foo");
    expect_text(step, "foo", "hello");
    expect_end(child);
}
END_TEST

static void answer_foo(struct psclient_rendezvous *own)
{
    struct psclient_tensor got = {0};
    if (psclient_rendezvous_recv(own, "foo", &got, LONG_MS, &error) != PSCLIENT_OK ||
        psclient_rendezvous_send(own, "bar", &got, LONG_MS, &error) != PSCLIENT_OK)
        _exit(1);
    psclient_tensor_release(&got);
}

START_TEST(ping_pong)
{
    pid_t child = in_child("answer_foo");
    expect_ok(send_text(step, "foo", "secret"));
    expect_text(step, "bar", "secret");
    expect_end(child);
}
END_TEST

enum { MANY = 100 };

static void send_many(struct psclient_rendezvous *own)
{
    char text[16];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        if (send_text(own, "same", text) != PSCLIENT_OK ||
            send_text(own, text, text) != PSCLIENT_OK)
            _exit(1);
    }
}

START_TEST(multi_sends_and_random_send_recv)
{
    char text[16];
    pid_t child = in_child("send_many");
    for (int i = MANY - 1; i >= 0; i--) {
        (void)snprintf(text, sizeof text, "%d", i);
        expect_text(step, text, text);
    }
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        expect_text(step, "same", text);
    }
    expect_end(child);
}
END_TEST

START_TEST(send_before_recv_and_recv_before_send)
{
    static const char *const keys[] = {"hello1", "hello2"};
    struct psclient_tensor got[2] = {{0}, {0}};
    expect_ok(send_text(step, "hello2", "b"));
    expect_ok(send_text(step, "hello1", "a"));
    expect_ok(psclient_rendezvous_recv_many(step, keys, got, 2, LONG_MS, &error));
    ck_assert_int_eq(*(char *)got[0].content, 'a');
    ck_assert_int_eq(*(char *)got[1].content, 'b');
    psclient_tensor_release(&got[0]);
    psclient_tensor_release(&got[1]);
}
END_TEST

enum { ASYNC = 10000 };

static void send_async(struct psclient_rendezvous *own)
{
    for (int i = 0; i < ASYNC / 10; i++)
        if (send_text(own, "remote", "x") != PSCLIENT_OK)
            _exit(1);
}

/* TensorFlow has 10,000 receives of one key; so many wait here, and ten processes send. */
START_TEST(remote_recv_async_many)
{
    const char **keys = calloc(ASYNC, sizeof *keys);
    struct psclient_tensor *got = calloc(ASYNC, sizeof *got);
    pid_t children[10];
    for (int i = 0; i < ASYNC; i++)
        keys[i] = "remote";
    for (int i = 0; i < 10; i++)
        children[i] = in_child("send_async");
    expect_ok(psclient_rendezvous_recv_many(step, keys, got, ASYNC, LONG_MS, &error));
    for (int i = 0; i < ASYNC; i++) {
        ck_assert_uint_eq(got[i].size, 1);
        psclient_tensor_release(&got[i]);
    }
    for (int i = 0; i < 10; i++)
        expect_end(children[i]);
    free(got);
    free(keys);
}
END_TEST

/* What is larger than a message's small parts goes by reference, here and at the servers. */
START_TEST(large_values_and_dead_ones_come_whole)
{
    enum { COUNT = 3 << 20 };
    uint8_t *bytes = malloc(COUNT);
    uint8_t *room = malloc(COUNT);
    for (int i = 0; i < COUNT; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 1000);
    const struct psclient_tensor sent = {.dtype = 3,
                                         .element_size = 4,
                                         .rank = 3,
                                         .shape = {3, 1 << 10, 1 << 8},
                                         .content = bytes,
                                         .size = COUNT};
    expect_ok(psclient_rendezvous_send(step, "w", &sent, LONG_MS, &error));
    expect_ok(psclient_rendezvous_send(step, "w", &sent, LONG_MS, &error));
    struct psclient_tensor own = {.content = room, .size = 100};
    ck_assert_int_eq(psclient_rendezvous_recv(step, "w", &own, LONG_MS, &error), PSCLIENT_INVALID);
    for (int i = 0; i < 2; i++) {
        own = (struct psclient_tensor){.content = room, .size = COUNT};
        expect_ok(psclient_rendezvous_recv(step, "w", &own, LONG_MS, &error));
        ck_assert_uint_eq(own.size, COUNT);
        ck_assert_mem_eq(room, bytes, COUNT);
        ck_assert_mem_eq(own.shape, sent.shape, sizeof sent.shape);
        ck_assert_int_eq(own.is_owned, 0);
    }
    expect_ok(psclient_rendezvous_send(
        step, "d", &(struct psclient_tensor){.element_size = 4, .rank = 1, .shape = {9}, .dead = 1},
        LONG_MS, &error));
    struct psclient_tensor dead = {0};
    expect_ok(psclient_rendezvous_recv(step, "d", &dead, LONG_MS, &error));
    ck_assert_int_eq(dead.dead, 1);
    ck_assert_uint_eq(dead.size, 0);
    psclient_tensor_release(&dead);
    free(room);
    free(bytes);
}
END_TEST

/* ---- Ends ---- */

static int receive_status;
static char receive_text[sizeof error.text];

static void *receive_never(void *argument)
{
    struct psclient_tensor got = {0};
    struct psclient_error why = {PSCLIENT_OK, ""};
    (void)argument;
    receive_status = psclient_rendezvous_recv(step, "never", &got, LONG_MS, &why);
    memcpy(receive_text, why.text, sizeof receive_text);
    return NULL;
}

static void expect_receive_fails(const char *text)
{
    ck_assert_int_eq(receive_status, PSCLIENT_ABORTED);
    ck_assert_str_eq(receive_text, text);
}

START_TEST(recv_abort)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_never, NULL), 0);
    expect_ok(psclient_rendezvous_abort(step, "fantasia!", LONG_MS, &error));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    expect_receive_fails("fantasia!");
    ck_assert_int_eq(send_text(step, "foo", "x"), PSCLIENT_ABORTED);
    ck_assert_str_eq(error.text, "fantasia!");
}
END_TEST

START_TEST(local_abort_by_cleanup)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_never, NULL), 0);
    expect_ok(psclient_rendezvous_cleanup(step, LONG_MS, &error));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    expect_receive_fails("Cleanup 123");
}
END_TEST

START_TEST(cleanup_all)
{
    struct psclient_tensor got = {0};
    expect_ok(send_text(step, "foo", "peach"));
    expect_ok(psclient_rendezvous_cleanup_all(client, LONG_MS, &error));
    ck_assert_int_eq(psclient_rendezvous_recv(step, "foo", &got, LONG_MS, &error),
                     PSCLIENT_ABORTED);
}
END_TEST

/* Cancelled again until the receive has begun: a cancellation before it ends nothing. */
START_TEST(local_cancel)
{
    pthread_t thread;
    receive_status = -1;
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_never, NULL), 0);
    struct timespec soon;
    do {
        expect_ok(psclient_rendezvous_cancel(step, LONG_MS, &error));
        ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &soon), 0);
        soon.tv_nsec += 10000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
    } while (pthread_timedjoin_np(thread, NULL, &soon) != 0);
    expect_receive_fails("[_Derived_]RecvAsync is cancelled.");
    expect_ok(send_text(step, "never", "for another"));
    expect_text(step, "never", "for another");
}
END_TEST

START_TEST(a_receive_whose_time_is_over_leaves_the_value_to_the_next)
{
    struct psclient_tensor got = {0};
    ck_assert_int_eq(psclient_rendezvous_recv(step, "foo", &got, 1, &error), PSCLIENT_UNKNOWN);
    ck_assert_ptr_null(got.content);
    expect_ok(send_text(step, "foo", "hello"));
    expect_text(step, "foo", "hello");
}
END_TEST

START_TEST(strict_steps_refuse_what_comes_twice)
{
    struct psclient_rendezvous *strict = NULL;
    struct psclient_tensor got = {0};
    const struct psclient_rendezvous_options options = {.session = "w", .strict = 1};
    const struct psclient_rendezvous_options other = {.session = "v", .strict = 1};
    expect_ok(psclient_rendezvous_open(client, 9, &options, LONG_MS, &strict, &error));
    expect_ok(send_text(strict, "foo", "hello"));
    ck_assert_int_eq(send_text(strict, "foo", "again"), PSCLIENT_ABORTED);
    ck_assert_str_eq(error.text, "Duplicated send: foo");
    expect_text(strict, "foo", "hello");
    ck_assert_int_eq(psclient_rendezvous_recv(strict, "foo", &got, LONG_MS, &error),
                     PSCLIENT_ABORTED);
    ck_assert_str_eq(error.text, "Duplicated recv: foo");
    struct psclient_rendezvous *second = NULL;
    ck_assert_int_eq(psclient_rendezvous_open(client, 9, &other, LONG_MS, &second, &error),
                     PSCLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(error.text, "Double init"));
    psclient_rendezvous_close(strict);
}
END_TEST

static void send_and_wait(struct psclient_rendezvous *own)
{
    send_foo(own);
    (void)raise(SIGKILL);
}

/* The sender is killed behind its send: the value is there, and what it never sent is waited for no
 * longer than the receiver likes. */
START_TEST(a_sender_that_is_killed_leaves_what_it_has_sent)
{
    int status = 0;
    struct psclient_tensor got = {0};
    pid_t child = in_child("send_and_wait");
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    expect_text(step, "foo", "hello");
    ck_assert_int_eq(psclient_rendezvous_recv(step, "foo", &got, 100, &error), PSCLIENT_UNKNOWN);
}
END_TEST

/* Both servers are killed while a receive waits, whichever has its key. */
START_TEST(a_receive_hears_that_its_server_was_lost)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_never, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        pserver_process_kill(&servers[i]);
        pserver_process_start_alone(&servers[i], PSERVER_PROGRAM, &folder, i);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(receive_status, PSCLIENT_ABORTED);
    ck_assert_ptr_nonnull(strstr(receive_text, "step 123: the server of shard "));
    ck_assert_int_eq(send_text(step, "foo", "x"), PSCLIENT_ABORTED);
    struct psclient_rendezvous *next = open_step(client, 124);
    expect_ok(send_text(next, "foo", "of the next step"));
    expect_text(next, "foo", "of the next step");
    psclient_rendezvous_close(next);
}
END_TEST

START_TEST(key)
{
    char text[200];
    struct psclient_parsed_key parsed;
    expect_ok(psclient_rendezvous_create_key("/job:mnist/replica:1/task:2/CPU:0", 7890,
                                             "/job:mnist/replica:1/task:2/device:GPU:0", "var0", 0,
                                             0, text, sizeof text, &error));
    expect_ok(psclient_rendezvous_parse_key(text, &parsed, &error));
    ck_assert_uint_eq(parsed.source_incarnation, 7890);
    ck_assert_int_eq(strncmp(parsed.edge.text, "var0", parsed.edge.size), 0);
    ck_assert_int_eq(psclient_rendezvous_parse_key("foo;bar;baz", &parsed, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_rendezvous_create_key("a", 0, "b", "c", 0, 0, text, 5, &error),
                     PSCLIENT_INVALID);
}
END_TEST

/* What a child does, by its name. */
static int run_child(const char *name)
{
    static const struct {
        const char *name;
        void (*act)(struct psclient_rendezvous *own);
    } acts[] = {{"send_foo", send_foo},
                {"answer_foo", answer_foo},
                {"send_many", send_many},
                {"send_async", send_async},
                {"send_and_wait", send_and_wait}};
    const struct psclient_options options = {.servers = list, .open_timeout_ms = LONG_MS};
    if (psclient_open(&options, &client, &error) != PSCLIENT_OK ||
        psclient_rendezvous_open(client, 123, NULL, LONG_MS, &step, &error) != PSCLIENT_OK)
        return 2;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (strcmp(acts[i].name, name) == 0)
            acts[i].act(step);
    psclient_rendezvous_close(step);
    psclient_close(client);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 3) {
        (void)snprintf(list, sizeof list, "%s", arguments[2]);
        return run_child(arguments[1]);
    }
    Suite *suite = suite_create("psclient_rendezvous");
    TCase *tests = tcase_create("psclient_rendezvous");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, send_recv);
    tcase_add_test(tests, recv_send);
    tcase_add_test(tests, ping_pong);
    tcase_add_test(tests, multi_sends_and_random_send_recv);
    tcase_add_test(tests, send_before_recv_and_recv_before_send);
    tcase_add_test(tests, remote_recv_async_many);
    tcase_add_test(tests, large_values_and_dead_ones_come_whole);
    tcase_add_test(tests, recv_abort);
    tcase_add_test(tests, local_abort_by_cleanup);
    tcase_add_test(tests, cleanup_all);
    tcase_add_test(tests, local_cancel);
    tcase_add_test(tests, a_receive_whose_time_is_over_leaves_the_value_to_the_next);
    tcase_add_test(tests, strict_steps_refuse_what_comes_twice);
    tcase_add_test(tests, a_sender_that_is_killed_leaves_what_it_has_sent);
    tcase_add_test(tests, a_receive_hears_that_its_server_was_lost);
    tcase_add_test(tests, key);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
