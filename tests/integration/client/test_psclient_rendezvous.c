/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's cases of a rendezvous between processes: two real servers, a client in this process
 * and others in children of it. Nothing depends on when something happens: where one side waits,
 * the other side's act comes before or during the wait, and both are right. */
#include "rendezvous_job.h"
#include "run_suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_foo(struct psclient_rendezvous *own)
{
    if (job_send_text(own, "foo", "hello") != PSCLIENT_OK)
        _exit(1);
}

START_TEST(send_recv)
{
    job_expect_end(job_in_child("send_foo"));
    job_expect_text(job_step, "foo", "hello");
}
END_TEST

START_TEST(recv_send)
{
    pid_t child = job_in_child("send_foo");
    job_expect_text(job_step, "foo", "hello");
    job_expect_end(child);
}
END_TEST

static void answer_foo(struct psclient_rendezvous *own)
{
    struct psclient_tensor got = {0};
    if (psclient_rendezvous_recv(own, "foo", &got, LONG_MS, &job_error) != PSCLIENT_OK ||
        psclient_rendezvous_send(own, "bar", &got, LONG_MS, &job_error) != PSCLIENT_OK)
        _exit(1);
    psclient_tensor_release(&got);
}

START_TEST(ping_pong)
{
    pid_t child = job_in_child("answer_foo");
    job_expect_ok(job_send_text(job_step, "foo", "secret"));
    job_expect_text(job_step, "bar", "secret");
    job_expect_end(child);
}
END_TEST

enum { MANY = 100 };

static void send_many(struct psclient_rendezvous *own)
{
    char text[16];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        if (job_send_text(own, "same", text) != PSCLIENT_OK ||
            job_send_text(own, text, text) != PSCLIENT_OK)
            _exit(1);
    }
}

START_TEST(multi_sends_and_random_send_recv)
{
    char text[16];
    pid_t child = job_in_child("send_many");
    for (int i = MANY - 1; i >= 0; i--) {
        (void)snprintf(text, sizeof text, "%d", i);
        job_expect_text(job_step, text, text);
    }
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        job_expect_text(job_step, "same", text);
    }
    job_expect_end(child);
}
END_TEST

START_TEST(send_before_recv_and_recv_before_send)
{
    static const char *const keys[] = {"hello1", "hello2"};
    struct psclient_tensor got[2] = {{0}, {0}};
    job_expect_ok(job_send_text(job_step, "hello2", "b"));
    job_expect_ok(job_send_text(job_step, "hello1", "a"));
    job_expect_ok(psclient_rendezvous_recv_many(job_step, keys, got, 2, LONG_MS, &job_error));
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
        if (job_send_text(own, "remote", "x") != PSCLIENT_OK)
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
        children[i] = job_in_child("send_async");
    job_expect_ok(psclient_rendezvous_recv_many(job_step, keys, got, ASYNC, LONG_MS, &job_error));
    for (int i = 0; i < ASYNC; i++) {
        ck_assert_uint_eq(got[i].size, 1);
        psclient_tensor_release(&got[i]);
    }
    for (int i = 0; i < 10; i++)
        job_expect_end(children[i]);
    free(got);
    free(keys);
}
END_TEST

/* ---- Ends ---- */

static int receive_status;
static char receive_text[sizeof job_error.text];

static void *receive_never(void *argument)
{
    struct psclient_tensor got = {0};
    struct psclient_error why = {PSCLIENT_OK, ""};
    (void)argument;
    receive_status = psclient_rendezvous_recv(job_step, "never", &got, LONG_MS, &why);
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
    job_expect_ok(psclient_rendezvous_abort(job_step, "fantasia!", LONG_MS, &job_error));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    expect_receive_fails("fantasia!");
    ck_assert_int_eq(job_send_text(job_step, "foo", "x"), PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "fantasia!");
}
END_TEST

START_TEST(local_abort_by_cleanup)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_never, NULL), 0);
    job_expect_ok(psclient_rendezvous_cleanup(job_step, LONG_MS, &job_error));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    expect_receive_fails("Cleanup 123");
}
END_TEST

START_TEST(cleanup_all)
{
    struct psclient_tensor got = {0};
    job_expect_ok(job_send_text(job_step, "foo", "peach"));
    job_expect_ok(psclient_rendezvous_cleanup_all(job_client, LONG_MS, &job_error));
    ck_assert_int_eq(psclient_rendezvous_recv(job_step, "foo", &got, LONG_MS, &job_error),
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
        job_expect_ok(psclient_rendezvous_cancel(job_step, LONG_MS, &job_error));
        ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &soon), 0);
        soon.tv_nsec += 10000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
    } while (pthread_timedjoin_np(thread, NULL, &soon) != 0);
    expect_receive_fails("[_Derived_]RecvAsync is cancelled.");
    job_expect_ok(job_send_text(job_step, "never", "for another"));
    job_expect_text(job_step, "never", "for another");
}
END_TEST

START_TEST(a_receive_whose_time_is_over_leaves_the_value_to_the_next)
{
    struct psclient_tensor got = {0};
    ck_assert_int_eq(psclient_rendezvous_recv(job_step, "foo", &got, 1, &job_error),
                     PSCLIENT_UNKNOWN);
    ck_assert_ptr_null(got.content);
    job_expect_ok(job_send_text(job_step, "foo", "hello"));
    job_expect_text(job_step, "foo", "hello");
}
END_TEST

START_TEST(strict_steps_refuse_what_comes_twice)
{
    struct psclient_rendezvous *strict = NULL;
    struct psclient_tensor got = {0};
    const struct psclient_rendezvous_options options = {.session = "w", .strict = 1};
    const struct psclient_rendezvous_options other = {.session = "v", .strict = 1};
    job_expect_ok(psclient_rendezvous_open(job_client, 9, &options, LONG_MS, &strict, &job_error));
    job_expect_ok(job_send_text(strict, "foo", "hello"));
    ck_assert_int_eq(job_send_text(strict, "foo", "again"), PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "Duplicated send: foo");
    job_expect_text(strict, "foo", "hello");
    ck_assert_int_eq(psclient_rendezvous_recv(strict, "foo", &got, LONG_MS, &job_error),
                     PSCLIENT_ABORTED);
    ck_assert_str_eq(job_error.text, "Duplicated recv: foo");
    struct psclient_rendezvous *second = NULL;
    ck_assert_int_eq(psclient_rendezvous_open(job_client, 9, &other, LONG_MS, &second, &job_error),
                     PSCLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(job_error.text, "Double init"));
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
    pid_t child = job_in_child("send_and_wait");
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    job_expect_text(job_step, "foo", "hello");
    ck_assert_int_eq(psclient_rendezvous_recv(job_step, "foo", &got, 100, &job_error),
                     PSCLIENT_UNKNOWN);
}
END_TEST

/* Both job_servers are killed while a receive waits, whichever has its key. */
START_TEST(a_receive_hears_that_its_server_was_lost)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_never, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        pserver_process_kill(&job_servers[i]);
        pserver_process_start_alone(&job_servers[i], PSERVER_PROGRAM, &job_folder, i);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(receive_status, PSCLIENT_ABORTED);
    ck_assert_ptr_nonnull(strstr(receive_text, "step 123: the server of shard "));
    ck_assert_int_eq(job_send_text(job_step, "foo", "x"), PSCLIENT_ABORTED);
    struct psclient_rendezvous *next = job_open_step(job_client, 124);
    job_expect_ok(job_send_text(next, "foo", "of the next step"));
    job_expect_text(next, "foo", "of the next step");
    psclient_rendezvous_close(next);
}
END_TEST

START_TEST(key)
{
    char text[200];
    struct psclient_parsed_key parsed;
    job_expect_ok(psclient_rendezvous_create_key("/job:mnist/replica:1/task:2/CPU:0", 7890,
                                                 "/job:mnist/replica:1/task:2/device:GPU:0", "var0",
                                                 0, 0, text, sizeof text, &job_error));
    job_expect_ok(psclient_rendezvous_parse_key(text, &parsed, &job_error));
    ck_assert_uint_eq(parsed.source_incarnation, 7890);
    ck_assert_int_eq(strncmp(parsed.edge.text, "var0", parsed.edge.size), 0);
    ck_assert_int_eq(psclient_rendezvous_parse_key("foo;bar;baz", &parsed, &job_error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_rendezvous_create_key("a", 0, "b", "c", 0, 0, text, 5, &job_error),
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
    const struct psclient_options options = {.servers = job_list, .open_timeout_ms = LONG_MS};
    if (psclient_open(&options, &job_client, &job_error) != PSCLIENT_OK ||
        psclient_rendezvous_open(job_client, 123, NULL, LONG_MS, &job_step, &job_error) !=
            PSCLIENT_OK)
        return 2;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (strcmp(acts[i].name, name) == 0)
            acts[i].act(job_step);
    psclient_rendezvous_close(job_step);
    psclient_close(job_client);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 3) {
        (void)snprintf(job_list, sizeof job_list, "%s", arguments[2]);
        return run_child(arguments[1]);
    }
    Suite *suite = suite_create("psclient_rendezvous");
    TCase *tests = tcase_create("psclient_rendezvous");
    tcase_add_checked_fixture(tests, job_begin, job_end);
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, send_recv);
    tcase_add_test(tests, recv_send);
    tcase_add_test(tests, ping_pong);
    tcase_add_test(tests, multi_sends_and_random_send_recv);
    tcase_add_test(tests, send_before_recv_and_recv_before_send);
    tcase_add_test(tests, remote_recv_async_many);
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
