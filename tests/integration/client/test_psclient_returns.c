/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer that is killed with -9 in the middle of its pushes, again and again, and its servers
 * with it: it goes on with what psclient_last_applied says, and every batch is applied once to
 * every parameter. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMES = 6, ELEMENTS = 100, BATCHES = 300, DEATHS = 8, LONG_MS = 120000 };

static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f"};
static struct temp_folder folder;
static struct pserver_process servers[2];
static float values[NAMES][ELEMENTS], ones[ELEMENTS];

static void start(uint32_t index)
{
    pserver_process_start_alone(&servers[index], PSERVER_PROGRAM, &folder, index);
}

/* ---- In a process of its own: gRPC does not outlive a fork ---- */

static void demand(int status, const struct psclient_error *error)
{
    if (status == PSCLIENT_OK)
        return;
    (void)fprintf(stderr, "%s\n", error->text);
    _exit(1);
}

static struct psclient *open_as(const char *client_id)
{
    char list[160];
    struct psclient *client = NULL;
    struct psclient_error error;
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {
        .servers = list, .open_timeout_ms = LONG_MS, .client_id = client_id};
    demand(psclient_open(&options, &client, &error), &error);
    return client;
}

static void describe(struct psclient_parameter *parameters)
{
    for (size_t i = 0; i < NAMES; i++)
        parameters[i] = (struct psclient_parameter){.name = names[i],
                                                    .type = PSCLIENT_FLOAT32,
                                                    .content = values[i],
                                                    .content_size = sizeof values[i]};
}

static void initialise(int unused)
{
    int selected = 0;
    struct psclient_error error;
    struct psclient_parameter parameters[NAMES];
    struct psclient *client = open_as(NULL);
    (void)unused;
    describe(parameters);
    demand(psclient_begin_init(client, LONG_MS, &selected, &error), &error);
    demand(psclient_init(client, parameters, NAMES, LONG_MS, NULL, &error), &error);
    demand(psclient_finish_init(client, LONG_MS, &error), &error);
    psclient_close(client);
}

/* Pushes the next batch of every parameter that is not ahead of others. */
static void push_lowest(struct psclient *client, uint64_t *next, uint64_t lowest)
{
    struct psclient_gradient gradients[NAMES];
    struct psclient_error error;
    size_t count = 0;
    for (size_t i = 0; i < NAMES; i++)
        if (next[i] == lowest) {
            gradients[count++] = (struct psclient_gradient){.name = names[i],
                                                            .type = PSCLIENT_FLOAT32,
                                                            .content = ones,
                                                            .content_size = sizeof ones};
            next[i]++;
        }
    demand(psclient_push(client, gradients, count, LONG_MS, NULL, &error), &error);
}

static void train(int progress)
{
    uint64_t next[NAMES] = {0};
    struct psclient_last_applied applied;
    struct psclient_error error;
    struct psclient *client = open_as("trainer");
    demand(psclient_last_applied(client, LONG_MS, &applied, &error), &error);
    for (size_t k = 0; k < applied.count; k++)
        for (size_t i = 0; i < NAMES; i++)
            if (strcmp(applied.rows[k].name, names[i]) == 0)
                next[i] = applied.rows[k].pushes;
    if (!applied.whole)
        _exit(2);
    psclient_last_applied_release(&applied);
    for (;;) {
        uint64_t lowest = BATCHES;
        for (size_t i = 0; i < NAMES; i++)
            lowest = next[i] < lowest ? next[i] : lowest;
        if (lowest == BATCHES)
            break;
        push_lowest(client, next, lowest);
        if (write(progress, "p", 1) != 1)
            _exit(3);
    }
    psclient_close(client);
}

/* With SGD of rate 1 each push of ones takes 1 off. */
static void compare(int unused)
{
    struct psclient_error error;
    struct psclient_parameter parameters[NAMES];
    struct psclient *client = open_as(NULL);
    (void)unused;
    describe(parameters);
    demand(psclient_pull(client, parameters, NAMES, LONG_MS, NULL, &error), &error);
    for (size_t i = 0; i < NAMES; i++)
        if (parameters[i].version != BATCHES || values[i][0] != -(float)BATCHES ||
            values[i][ELEMENTS - 1] != -(float)BATCHES) {
            (void)fprintf(stderr, "%s: version %llu, value %g\n", names[i],
                          (unsigned long long)parameters[i].version, (double)values[i][0]);
            _exit(4);
        }
    psclient_close(client);
}

/* ---- The one that kills ---- */

static pid_t run(void (*work)(int progress), int progress)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        work(progress);
        _exit(0);
    }
    return child;
}

static void expect_success(pid_t child)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static void kill_server(uint32_t index)
{
    pserver_process_kill(&servers[index]);
    start(index);
}

/* Reads so many batches of progress, or until the trainer is through. */
static void await_batches(int progress, int count)
{
    char byte;
    for (int i = 0; i < count; i++)
        if (read(progress, &byte, 1) != 1)
            return;
}

START_TEST(every_batch_is_applied_once_whoever_is_killed)
{
    temp_folder_init(&folder);
    start(0);
    start(1);
    for (size_t i = 0; i < ELEMENTS; i++)
        ones[i] = 1;
    expect_success(run(initialise, -1));

    for (int death = 0; death < DEATHS; death++) {
        int pipes[2];
        ck_assert_int_eq(pipe(pipes), 0);
        pid_t trainer = run(train, pipes[1]);
        close(pipes[1]);
        await_batches(pipes[0], 7 + 3 * death);
        if (death % 3 == 1)
            kill_server((uint32_t)death % 2);
        kill(trainer, SIGKILL);
        ck_assert_int_eq(waitpid(trainer, NULL, 0), trainer);
        if (death % 3 == 2)
            kill_server((uint32_t)death % 2);
        close(pipes[0]);
    }
    int nowhere[2];
    ck_assert_int_eq(pipe(nowhere), 0);
    expect_success(run(train, nowhere[1]));
    expect_success(run(compare, -1));

    close(nowhere[0]);
    close(nowhere[1]);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient returns");
    TCase *tests = tcase_create("returns");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, every_batch_is_applied_once_whoever_is_killed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
