/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient with real servers and a small model: how evenly the model is spread, and that
 * everybody finds it again, whoever died in the middle. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/etcd/etcd_process.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 120000
#define COUNT 64
#define NAMES 6
#define SHARDS_MAX 4

static struct etcd_process etcd;
static struct temp_folder folder;
static struct pserver_process servers[SHARDS_MAX];
static uint32_t shard_count;
static struct psclient_error error;
static float values[NAMES][COUNT], gradient[COUNT];

/* By their names alone, four of them go to one of two shards, and none to one of four. */
static struct psclient_parameter parameters[NAMES] = {
    {.name = "embed"},  {.name = "conv1"},  {.name = "conv2"},
    {.name = "dense1"}, {.name = "dense2"}, {.name = "output"},
};

static void start_server(uint32_t index, bool saves)
{
    char count[8];
    (void)snprintf(count, sizeof count, "%u", shard_count);
    const char *const arguments[] = {"--etcd",
                                     etcd.url,
                                     "--num-pservers",
                                     count,
                                     "--etcd-ttl",
                                     "1s",
                                     saves ? "--data-dir" : NULL,
                                     folder.path,
                                     NULL};
    pserver_process_start(&servers[index], PSERVER_PROGRAM, "127.0.0.1:0", arguments);
}

static void start(uint32_t count, bool saves)
{
    shard_count = count;
    temp_folder_init(&folder);
    etcd_process_start(&etcd, NULL);
    for (uint32_t i = 0; i < count; i++)
        start_server(i, saves);
    for (int i = 0; i < NAMES; i++) {
        for (int k = 0; k < COUNT; k++)
            values[i][k] = (float)(100 * i + k);
        parameters[i].type = PSCLIENT_FLOAT32;
        parameters[i].content = values[i];
        parameters[i].content_size = sizeof values[i];
    }
    for (int k = 0; k < COUNT; k++)
        gradient[k] = 1;
}

static void finish(void)
{
    for (uint32_t i = 0; i < shard_count; i++)
        pserver_process_kill(&servers[i]);
    etcd_process_fini(&etcd);
    temp_folder_fini(&folder);
}

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

/* By one server, or by etcd. */
static struct psclient *open_client(bool by_etcd, const char *placement)
{
    const struct psclient_options options = {.etcd = by_etcd ? etcd.url : NULL,
                                             .servers = by_etcd ? NULL : servers[0].address,
                                             .open_timeout_ms = LONG_MS,
                                             .lock_ttl_ms = 1500,
                                             .placement = placement};
    struct psclient *client = NULL;
    expect_ok(psclient_open(&options, &client, &error));
    return client;
}

static void begin(struct psclient *client, int turn)
{
    int selected = -1;
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    ck_assert_int_eq(selected, turn);
}

static void initialise(struct psclient *client)
{
    begin(client, 1);
    expect_ok(psclient_init(client, parameters, NAMES, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

/* Each value went down by one with each push. */
static void expect_values(struct psclient *client, uint64_t pushes)
{
    static float pulled[NAMES][COUNT];
    struct psclient_parameter wanted[NAMES];
    memcpy(wanted, parameters, sizeof wanted);
    for (int i = 0; i < NAMES; i++)
        wanted[i].content = pulled[i];
    expect_ok(psclient_pull(client, wanted, NAMES, LONG_MS, NULL, &error));
    for (int i = 0; i < NAMES; i++) {
        ck_assert_uint_eq(wanted[i].version, pushes);
        for (int k = 0; k < COUNT; k++)
            ck_assert(pulled[i][k] == values[i][k] - (float)pushes);
    }
}

static void push_all(struct psclient *client)
{
    struct psclient_gradient gradients[NAMES];
    for (int i = 0; i < NAMES; i++)
        gradients[i] = (struct psclient_gradient){.name = parameters[i].name,
                                                  .type = PSCLIENT_FLOAT32,
                                                  .content = gradient,
                                                  .content_size = sizeof gradient};
    expect_ok(psclient_push(client, gradients, NAMES, LONG_MS, NULL, &error));
}

/* How many of the parameters the fullest server has. */
static uint64_t fullest(struct psclient *client)
{
    uint64_t most = 0, all = 0;
    for (uint32_t i = 0; i < shard_count; i++) {
        struct psclient_server_status status;
        expect_ok(psclient_server_status(client, i, LONG_MS, &status, &error));
        most = status.parameter_count > most ? status.parameter_count : most;
        all += status.parameter_count;
    }
    ck_assert_uint_eq(all, NAMES);
    return most;
}

START_TEST(a_small_model_is_spread_and_found_by_who_was_there_before)
{
    const bool by_etcd = _i == 1;
    start(by_etcd ? 4 : 2, false);
    struct psclient *trainer = open_client(by_etcd, NULL);
    struct psclient *early = open_client(!by_etcd, NULL);
    struct psclient *giver = open_client(!by_etcd, NULL);
    static float pulled[NAMES][COUNT];
    struct psclient_parameter wanted[NAMES];
    struct psclient_operation *operation = NULL;
    memcpy(wanted, parameters, sizeof wanted);
    for (int i = 0; i < NAMES; i++)
        wanted[i].content = pulled[i];
    expect_ok(psclient_pull_begin(early, wanted, NAMES, LONG_MS, NULL, &operation, &error));

    initialise(trainer);

    ck_assert_uint_eq(fullest(trainer), by_etcd ? 2 : 3);
    expect_ok(psclient_end(operation, NULL, &error));
    for (int i = 0; i < NAMES; i++)
        ck_assert_mem_eq(pulled[i], values[i], sizeof values[i]);
    push_all(early);
    expect_values(trainer, 1);
    /* The first that a client does which was opened before, and places by itself. */
    struct psclient_parameter added = parameters[0];
    added.name = "added";
    expect_ok(psclient_define(giver, &added, 1, LONG_MS, NULL, &error));
    struct psclient *late = open_client(by_etcd, NULL);
    expect_values(late, 1);
    added.content = pulled[0];
    expect_ok(psclient_pull(late, &added, 1, LONG_MS, NULL, &error));
    psclient_close(late);
    psclient_close(giver);
    psclient_close(early);
    psclient_close(trainer);
    finish();
}
END_TEST

/* Ends the right in one of two ways, with the placement decided and nothing given for good. */
static void initialise_and_die(bool by_etcd)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct psclient *client = open_client(by_etcd, NULL);
        begin(client, 1);
        expect_ok(psclient_init(client, parameters, NAMES, LONG_MS, NULL, &error));
        (void)!write(ends[1], "", 1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

START_TEST(who_goes_on_after_a_killed_initialiser_places_by_the_same_number)
{
    const bool by_etcd = _i == 1;
    start(4, false);
    initialise_and_die(by_etcd);
    /* By these alone, and by this client's wish, the job would be classic. */
    struct psclient *trainer = open_client(!by_etcd, "classic");
    begin(trainer, 1);
    for (int i = 0; i < NAMES; i++)
        expect_ok(psclient_init(trainer, &parameters[i], 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(trainer, LONG_MS, &error));
    ck_assert_uint_eq(fullest(trainer), 2);
    push_all(trainer);
    struct psclient *late = open_client(by_etcd, NULL);
    expect_values(late, 1);
    psclient_close(late);
    psclient_close(trainer);
    finish();
}
END_TEST

START_TEST(a_job_that_lost_a_shard_is_initialised_anew_in_the_same_places)
{
    start(2, false);
    struct psclient *trainer = open_client(_i == 1, _i == 1 ? "classic" : NULL);
    initialise(trainer);
    uint64_t most = fullest(trainer);
    pserver_process_kill(&servers[1]);
    start_server(1, false);
    struct psclient *second = open_client(_i != 1, NULL);

    begin(second, 1);
    expect_ok(psclient_init(second, parameters, NAMES, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(second, LONG_MS, &error));

    ck_assert_uint_eq(fullest(second), most);
    expect_values(second, 0);
    expect_values(trainer, 0);
    psclient_close(second);
    psclient_close(trainer);
    finish();
}
END_TEST

START_TEST(servers_that_were_killed_come_back_with_the_placement)
{
    start(2, true);
    /* All addresses that a client without the store knows are gone then. */
    struct psclient *trainer = open_client(true, NULL);
    initialise(trainer);
    push_all(trainer);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    for (uint32_t i = 0; i < 2; i++)
        start_server(i, true);
    expect_values(trainer, 1);
    struct psclient *late = open_client(true, NULL);
    ck_assert_uint_eq(fullest(late), 3);
    expect_values(late, 1);
    psclient_close(late);
    psclient_close(trainer);
    finish();
}
END_TEST

START_TEST(servers_of_a_list_are_told_by_the_first)
{
    char list[1200];
    const char *const arguments[] = {NULL};
    start(0, false);
    shard_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_start(&servers[i], PSERVER_PROGRAM, "127.0.0.1:0", arguments);
    (void)snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {.servers = list, .open_timeout_ms = LONG_MS};
    struct psclient *trainer, *early, *late;
    expect_ok(psclient_open(&options, &trainer, &error));
    expect_ok(psclient_open(&options, &early, &error));
    initialise(trainer);
    ck_assert_uint_eq(fullest(trainer), 3);
    begin(early, 0);
    push_all(early);
    expect_ok(psclient_open(&options, &late, &error));
    expect_values(late, 1);
    psclient_close(late);
    psclient_close(early);
    psclient_close(trainer);
    finish();
}
END_TEST

/* The reader never asks for anything but what is new. */
START_TEST(a_replica_that_was_opened_before_the_decision_finds_its_parameters)
{
    start(_i == 1 ? 4 : 2, false);
    struct psclient *reader = open_client(false, NULL);
    static float copies[NAMES][COUNT];
    struct psclient_parameter wanted[NAMES];
    struct psclient_replica *replica = NULL;
    memcpy(wanted, parameters, sizeof wanted);
    for (int i = 0; i < NAMES; i++)
        wanted[i].content = copies[i];
    expect_ok(psclient_replica_open(reader, wanted, NAMES, &replica, &error));
    struct psclient *trainer = open_client(false, NULL);
    initialise(trainer);
    ck_assert_uint_le(fullest(trainer), 3);

    for (uint64_t pushes = 1; pushes <= 2; pushes++) {
        push_all(trainer);
        expect_ok(psclient_pull_since(replica, LONG_MS, NULL, &error));
        for (int i = 0; i < NAMES; i++) {
            ck_assert_uint_eq(wanted[i].version, pushes);
            ck_assert(copies[i][COUNT - 1] == values[i][COUNT - 1] - (float)pushes);
        }
    }

    psclient_replica_close(replica);
    psclient_close(trainer);
    psclient_close(reader);
    finish();
}
END_TEST

int main(void)
{
    if (!etcd_process_available())
        return 77;
    Suite *suite = suite_create("psclient_placement");
    TCase *tests = tcase_create("psclient_placement");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, a_small_model_is_spread_and_found_by_who_was_there_before, 0, 2);
    tcase_add_loop_test(tests, who_goes_on_after_a_killed_initialiser_places_by_the_same_number, 0,
                        2);
    tcase_add_loop_test(tests, a_job_that_lost_a_shard_is_initialised_anew_in_the_same_places, 0,
                        2);
    tcase_add_test(tests, servers_that_were_killed_come_back_with_the_placement);
    tcase_add_test(tests, servers_of_a_list_are_told_by_the_first);
    tcase_add_loop_test(tests, a_replica_that_was_opened_before_the_decision_finds_its_parameters,
                        0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
