/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose process has forked. */
#include "tests/integration/client/psclient_rig.h"

#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool stop;

/* Runs `act` in a child. A child that hangs is killed by its alarm, and says so by its status. */
static void expect_in_child(int (*act)(void *argument), void *argument)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(act(argument));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

#define EXPECT(condition)              \
    do {                               \
        if (!(condition))              \
            return __LINE__ % 250 + 1; \
    } while (0)

static int is_refused(int status)
{
    return status == PSCLIENT_FAILED && strstr(error.text, "another process") != NULL;
}

static int call_everything(void *argument)
{
    float content[4];
    struct psclient_gradient push = gradient("w");
    struct psclient_parameter pull = parameter("w", content);
    struct psclient_result result;
    struct psclient_operation *operation = NULL;
    struct psclient_replica *replica = NULL;
    struct psclient_server_status server;
    struct psclient_counters counters;
    int selected;
    (void)argument;

    EXPECT(is_refused(psclient_push(client, &push, 1, LONG_MS, &result, &error)));
    EXPECT(result.status == PSCLIENT_FAILED);
    EXPECT(is_refused(psclient_pull(client, &pull, 1, LONG_MS, NULL, &error)));
    EXPECT(is_refused(psclient_push_pull(client, &push, &pull, 1, LONG_MS, NULL, &error)));
    EXPECT(is_refused(psclient_begin_init(client, LONG_MS, &selected, &error)));
    EXPECT(is_refused(psclient_init(client, &pull, 1, LONG_MS, NULL, &error)));
    EXPECT(is_refused(psclient_finish_init(client, LONG_MS, &error)));
    EXPECT(is_refused(psclient_barrier(client, "b", 1, 0, 1, LONG_MS, &error)));
    EXPECT(is_refused(psclient_server_status(client, 0, LONG_MS, &server, &error)));
    EXPECT(is_refused(psclient_push_begin(client, &push, 1, LONG_MS, NULL, &operation, &error)));
    EXPECT(psclient_replica_open(client, &pull, 1, &replica, &error) == PSCLIENT_OK);
    EXPECT(is_refused(psclient_pull_since(replica, LONG_MS, NULL, &error)));
    EXPECT(psclient_next(client, LONG_MS) == NULL);
    EXPECT(psclient_event_fd(client) == -1);
    psclient_cancel_init(client);
    psclient_get_counters(client, &counters);
    EXPECT(counters.tcp_servers == 0);
    psclient_replica_close(replica);
    psclient_close(client);
    return 0;
}

START_TEST(a_child_is_refused_and_the_parent_goes_on)
{
    struct psclient_gradient push = gradient("w");
    open_client(1, "ready");
    ck_assert_int_eq(psclient_push(client, &push, 1, LONG_MS, NULL, &error), PSCLIENT_OK);

    expect_in_child(call_everything, NULL);

    ck_assert_int_eq(psclient_push(client, &push, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    close_client();
}
END_TEST

static int end_operation(void *argument)
{
    struct psclient_result result;
    EXPECT(psclient_wait(argument, LONG_MS) == 1);
    psclient_cancel(argument);
    EXPECT(is_refused(psclient_end(argument, &result, &error)));
    EXPECT(result.status == PSCLIENT_FAILED);
    psclient_close(client);
    return 0;
}

START_TEST(an_operation_under_way_stays_the_parents)
{
    struct psclient_gradient push = gradient("w");
    struct psclient_operation *operation;
    open_client(1, "ready");
    ck_assert_int_eq(psclient_push_begin(client, &push, 1, LONG_MS, NULL, &operation, &error),
                     PSCLIENT_OK);

    expect_in_child(end_operation, operation);

    ck_assert_int_eq(psclient_end(operation, NULL, &error), PSCLIENT_OK);
    close_client();
}
END_TEST

static void *push_until_stopped(void *argument)
{
    struct psclient_gradient push = gradient("w");
    struct psclient_error why;
    while (!atomic_load(&stop))
        if (psclient_push(client, &push, 1, LONG_MS, NULL, &why) != PSCLIENT_OK)
            return NULL;
    return argument;
}

/* The fork meets threads in the middle of anything, with any lock in their hands. */
START_TEST(a_fork_in_the_middle_of_pushes_of_other_threads)
{
    pthread_t threads[2];
    void *went_well;
    open_client(2, "ready");
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, push_until_stopped, &client);

    for (int i = 0; i < 20; i++)
        expect_in_child(call_everything, NULL);

    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &went_well);
        ck_assert_ptr_nonnull(went_well);
    }
    close_client();
}
END_TEST

/* With the parent's client open: a child that opened one had its events come to the parent, which
 * ended with a signal. */
static int open_ones_own(void *servers_list)
{
    struct psclient *own = NULL;
    struct psclient_options options = {.servers = servers_list, .open_timeout_ms = LONG_MS};
    EXPECT(psclient_open(&options, &own, &error) == PSCLIENT_FAILED);
    EXPECT(own == NULL);
    EXPECT(strstr(error.text, "forked") != NULL);
    return 0;
}

START_TEST(a_child_opens_none_while_the_parent_has_one)
{
    struct psclient_gradient push = gradient("w");
    open_client(1, "ready");
    char address[64];
    (void)snprintf(address, sizeof address, "%s", fake_server_address(servers[0]));
    for (int i = 0; i < 20; i++) {
        expect_in_child(open_ones_own, address);
        ck_assert_int_eq(psclient_push(client, &push, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    }
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_fork");
    TCase *cases = tcase_create("psclient_fork");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, a_child_is_refused_and_the_parent_goes_on);
    tcase_add_test(cases, an_operation_under_way_stays_the_parents);
    tcase_add_test(cases, a_child_opens_none_while_the_parent_has_one);
    tcase_add_test(cases, a_fork_in_the_middle_of_pushes_of_other_threads);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
