/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisations that another thread ends. */
#include "tests/integration/client/live_rig.h"

#include "run_suite.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static float values[4];
static atomic_bool returned;

static struct psclient_parameter w(void)
{
    return (struct psclient_parameter){
        .name = "w", .content = values, .content_size = sizeof values, .type = PSCLIENT_FLOAT32};
}

/* What one thread does, and what the call has said. */
struct act {
    int (*call)(struct psclient *with, struct psclient_error *why);
    struct psclient *with;
    int status;
    struct psclient_error why;
};

static int begin_init(struct psclient *with, struct psclient_error *why)
{
    int selected;
    return psclient_begin_init(with, LONG_MS, &selected, why);
}

static int give_parameters(struct psclient *with, struct psclient_error *why)
{
    const struct psclient_parameter parameter = w();
    return psclient_init(with, &parameter, 1, LONG_MS, NULL, why);
}

static int finish_init(struct psclient *with, struct psclient_error *why)
{
    return psclient_finish_init(with, LONG_MS, why);
}

static void *run(void *argument)
{
    struct act *act = argument;
    act->status = act->call(act->with, &act->why);
    atomic_store(&returned, true);
    return NULL;
}

/* Cancels until the call has returned: it may not have begun at first. */
static void cancel(struct act *act)
{
    pthread_t thread;
    atomic_store(&returned, false);
    pthread_create(&thread, NULL, run, act);
    while (!atomic_load(&returned)) {
        psclient_cancel_init(act->with);
        poll(NULL, 0, 1);
    }
    pthread_join(thread, NULL);
}

static void begin(void)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, NULL, NULL);
    client = open_one(&(struct psclient_options){0});
}

START_TEST(a_server_that_stands_still_is_not_waited_for)
{
    struct act act = {.call = begin_init};
    begin();
    act.with = client;
    stop_server();

    cancel(&act);

    ck_assert_int_eq(act.status, PSCLIENT_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(act.why.text, "cancelled"));
    kill(server.pid, SIGCONT);
    struct psclient_parameter parameter = w();
    initialise(&parameter, 1);
    finish();
}
END_TEST

START_TEST(a_turn_of_another_trainer_is_not_waited_for)
{
    int selected = 0;
    struct psclient_parameter parameter = w();
    begin();
    struct act act = {.call = begin_init, .with = open_one(&(struct psclient_options){0})};
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    ck_assert_int_eq(selected, 1);

    cancel(&act);
    ck_assert_int_eq(act.status, PSCLIENT_UNAVAILABLE);

    expect_ok(psclient_init(client, &parameter, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    expect_ok(psclient_begin_init(act.with, LONG_MS, &selected, &error));
    ck_assert_int_eq(selected, 0);
    psclient_close(act.with);
    finish();
}
END_TEST

START_TEST(parameters_and_the_end_are_not_waited_for)
{
    int selected = 0;
    begin();
    struct act give = {.call = give_parameters, .with = client};
    struct act end = {.call = finish_init, .with = client};
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    stop_server();

    cancel(&give);
    cancel(&end);

    ck_assert_int_ne(give.status, PSCLIENT_OK);
    ck_assert_int_ne(end.status, PSCLIENT_OK);
    kill(server.pid, SIGCONT);
    struct psclient_parameter parameter = w();
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    if (selected) {
        expect_ok(psclient_init(client, &parameter, 1, LONG_MS, NULL, &error));
        expect_ok(psclient_finish_init(client, LONG_MS, &error));
    }
    expect_ok(psclient_pull(client, &parameter, 1, LONG_MS, NULL, &error));
    finish();
}
END_TEST

START_TEST(a_cancellation_of_nothing_changes_nothing)
{
    struct psclient_parameter parameter = w();
    begin();

    psclient_cancel_init(client);

    initialise(&parameter, 1);
    psclient_cancel_init(client);
    expect_ok(psclient_pull(client, &parameter, 1, LONG_MS, NULL, &error));
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_cancel_init");
    TCase *cases = tcase_create("psclient_cancel_init");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, a_server_that_stands_still_is_not_waited_for);
    tcase_add_test(cases, a_turn_of_another_trainer_is_not_waited_for);
    tcase_add_test(cases, parameters_and_the_end_are_not_waited_for);
    tcase_add_test(cases, a_cancellation_of_nothing_changes_nothing);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
