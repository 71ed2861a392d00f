/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient with real servers of which it knows one, and without the address of their etcd. */
#include "client/psclient.h"

#include "expect_each.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/etcd/etcd_process.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 120000
#define COUNT 1000

static struct etcd_process etcd;
static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static float values[COUNT], ones[COUNT];

static struct psclient_parameter large = {
    .name = "large", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};

static void start_server(uint32_t index)
{
    const char *const arguments[] = {"--etcd", etcd.url,     "--num-pservers", "2", "--etcd-ttl",
                                     "1s",     "--data-dir", folder.path,      NULL};
    pserver_process_start(&servers[index], PSERVER_PROGRAM, "127.0.0.1:0", arguments);
}

static void start(void)
{
    temp_folder_init(&folder);
    etcd_process_start(&etcd, NULL);
    for (uint32_t i = 0; i < 2; i++)
        start_server(i);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
        ones[i] = 1;
    }
}

static void finish(void)
{
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    etcd_process_fini(&etcd);
    temp_folder_fini(&folder);
}

static struct psclient *open_for(const char *list, uint64_t lock_ttl_ms)
{
    const struct psclient_options options = {.servers = list,
                                             .open_timeout_ms = LONG_MS,
                                             .split_bytes = 2048,
                                             .lock_ttl_ms = lock_ttl_ms};
    struct psclient *opened = NULL;
    int status = psclient_open(&options, &opened, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    return opened;
}

/* However long the machine lets it wait, this trainer keeps its right. */
static struct psclient *open_with(const char *list)
{
    return open_for(list, LONG_MS);
}

static int begin(struct psclient *trainer, uint64_t timeout_ms)
{
    int selected = -1;
    int status = psclient_begin_init(trainer, timeout_ms, &selected, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    return selected;
}

static void initialise(void)
{
    ck_assert_int_eq(begin(client, LONG_MS), 1);
    ck_assert_int_eq(psclient_init(client, &large, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    int status = psclient_finish_init(client, LONG_MS, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void push_and_expect(uint64_t version)
{
    struct psclient_gradient gradient = {
        .name = "large", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};
    int status = psclient_push(client, &gradient, 1, LONG_MS, NULL, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    memset(values, 0, sizeof values);
    ck_assert_int_eq(psclient_pull(client, &large, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_uint_eq(large.version, version);
    expect_each(i, COUNT, values[i] == (float)i - (float)version);
}

START_TEST(servers_that_die_and_move_are_followed_without_the_store)
{
    start();
    client = open_with(servers[1].address);
    ck_assert_uint_eq(psclient_shard_count(client), 2);
    initialise();
    push_and_expect(1);

    /* The one that the client knows, then the one that it only heard of. */
    for (uint32_t i = 0; i < 2; i++) {
        pserver_process_kill(&servers[1 - i]);
        start_server(1 - i);
        push_and_expect(2 + i);
    }

    psclient_close(client);
    finish();
}
END_TEST

static void initialise_and_hang(const char *list, int told)
{
    client = open_for(list, 1500);
    struct psclient_parameter small = large;
    small.content_size = 40;
    if (begin(client, LONG_MS) != 1 ||
        psclient_init(client, &small, 1, LONG_MS, NULL, &error) != PSCLIENT_OK)
        _exit(1);
    (void)!write(told, "", 1);
    for (;;)
        pause();
}

START_TEST(the_right_of_an_initialiser_that_was_killed_passes_on)
{
    int ends[2];
    char byte;
    start();
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        initialise_and_hang(servers[0].address, ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);

    client = open_with(servers[1].address);
    int selected;
    ck_assert_int_eq(psclient_begin_init(client, 100, &selected, &error), PSCLIENT_UNAVAILABLE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    initialise();
    push_and_expect(1);

    struct psclient *other = open_with(servers[0].address);
    ck_assert_int_eq(begin(other, LONG_MS), 0);
    psclient_close(other);
    psclient_close(client);
    finish();
}
END_TEST

static struct psclient *start_alone(const char *const *arguments)
{
    pserver_process_start(&servers[0], PSERVER_PROGRAM, "127.0.0.1:0", arguments);
    return open_with(servers[0].address);
}

START_TEST(a_server_that_is_alone_lets_one_trainer_initialise)
{
    const char *const in_memory[] = {NULL};
    const char *const on_disk[] = {"--data-dir", folder.path, NULL};
    int selected = -1;
    temp_folder_init(&folder);
    client = start_alone(_i == 0 ? in_memory : on_disk);
    struct psclient *other = open_with(servers[0].address);
    ck_assert_int_eq(begin(client, LONG_MS), 1);
    ck_assert_int_eq(psclient_begin_init(other, 100, &selected, &error), PSCLIENT_UNAVAILABLE);
    ck_assert_int_eq(psclient_init(client, &large, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);

    ck_assert_int_eq(begin(other, LONG_MS), 0);

    psclient_close(other);
    psclient_close(client);
    pserver_process_kill(&servers[0]);
    temp_folder_fini(&folder);
}
END_TEST

START_TEST(a_trainer_that_closes_gives_the_right_up)
{
    const char *const in_memory[] = {NULL};
    temp_folder_init(&folder);
    client = start_alone(in_memory);
    ck_assert_int_eq(begin(client, LONG_MS), 1);
    psclient_close(client);
    client = open_with(servers[0].address);
    ck_assert_int_eq(begin(client, LONG_MS), 1);
    psclient_close(client);
    pserver_process_kill(&servers[0]);
    temp_folder_fini(&folder);
}
END_TEST

START_TEST(a_job_of_another_name_is_refused)
{
    const char *const in_memory[] = {"--job", "mine", NULL};
    temp_folder_init(&folder);
    client = start_alone(in_memory);
    const struct psclient_options options = {
        .servers = servers[0].address, .job = "yours", .open_timeout_ms = LONG_MS};
    struct psclient *other;
    ck_assert_int_eq(psclient_open(&options, &other, &error), PSCLIENT_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "mine"));
    psclient_close(client);
    pserver_process_kill(&servers[0]);
    temp_folder_fini(&folder);
}
END_TEST

int main(void)
{
    if (!etcd_process_available())
        return 77;
    Suite *suite = suite_create("psclient_seeds");
    TCase *tests = tcase_create("psclient_seeds");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, servers_that_die_and_move_are_followed_without_the_store);
    tcase_add_test(tests, the_right_of_an_initialiser_that_was_killed_passes_on);
    tcase_add_loop_test(tests, a_server_that_is_alone_lets_one_trainer_initialise, 0, 2);
    tcase_add_test(tests, a_trainer_that_closes_gives_the_right_up);
    tcase_add_test(tests, a_job_of_another_name_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
