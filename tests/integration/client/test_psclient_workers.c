/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of a job with real servers and a real etcd: ranks that stay, and that come free. */
#include "client/psclient.h"

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
#define TTL_MS 1000
/* Long enough for a machine that has much to do. */
#define KEPT_MS 6000

static struct etcd_process etcd;
static struct pserver_process servers[2];
static struct psclient_error error;

static void start_server(uint32_t index)
{
    const char *const arguments[] = {"--etcd", etcd.url, "--num-pservers", "2", "--etcd-ttl",
                                     "1s",     NULL};
    pserver_process_start(&servers[index], PSERVER_PROGRAM, "127.0.0.1:0", arguments);
}

static void start(void)
{
    etcd_process_start(&etcd, NULL);
    for (uint32_t i = 0; i < 2; i++)
        start_server(i);
}

static void finish(void)
{
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    etcd_process_fini(&etcd);
}

static struct psclient *open_client(uint32_t server)
{
    const struct psclient_options options = {.servers = servers[server].address,
                                             .open_timeout_ms = LONG_MS};
    struct psclient *opened = NULL;
    int status = psclient_open(&options, &opened, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    return opened;
}

/* Of this test: the servers are those of all. */
static const char *group;

static struct psclient_place join(struct psclient *client, const char *name, uint32_t size,
                                  uint64_t ttl_ms)
{
    const struct psclient_worker_options options = {
        .group = group, .name = name, .size = size, .ttl_ms = ttl_ms};
    struct psclient_place place = {.rank = UINT32_MAX};
    int status = psclient_join_workers(client, &options, LONG_MS, &place, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    return place;
}

/* Joins, says so, and keeps the place until it is killed. */
static pid_t start_worker(uint32_t server, const char *name, uint64_t ttl_ms)
{
    int ends[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct psclient *client = open_client(server);
        (void)join(client, name, 3, ttl_ms);
        (void)!write(ends[1], "", 1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void kill_worker(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Processes are forked before this one has a client: gRPC does not survive every fork. */
START_TEST(a_name_has_its_rank_again_after_its_process_was_killed)
{
    pid_t first = start_worker(0, "a", TTL_MS);
    pid_t second = start_worker(1, "b", LONG_MS);
    kill_worker(first);
    struct psclient *client = open_client(1);
    const struct psclient_worker_options same = {.name = "b"};
    struct psclient_place place;

    /* The group has its size from the others. */
    ck_assert_uint_eq(join(client, "c", 0, LONG_MS).size, 3);
    ck_assert_uint_eq(join(client, "c", 0, LONG_MS).rank, 2);

    struct psclient *other = open_client(0);
    int status = psclient_join_workers(other, &same, 0, &place, &error);
    ck_assert_int_eq(status, PSCLIENT_ALREADY);
    ck_assert_msg(strstr(error.text, "rank 1 of group workers is held by b on ") != NULL, "%s",
                  error.text);
    ck_assert_uint_eq(join(other, "a", 3, LONG_MS).rank, 0);

    psclient_close(other);
    psclient_close(client);
    kill_worker(second);
}
END_TEST

START_TEST(a_place_is_kept_when_servers_and_the_store_die)
{
    struct psclient *client = open_client(0);
    struct psclient *other = open_client(1);
    struct psclient_place before = join(client, "a", 2, KEPT_MS);
    struct psclient_place now;
    struct psclient_worker_list list;
    ck_assert_uint_eq(join(other, "b", 2, LONG_MS).rank, 1);

    pserver_process_kill(&servers[0]);

    /* The other server hears the worker that called the one that died. */
    bool is_heard = false;
    while (!is_heard) {
        int status = psclient_list_workers(other, group, 0, LONG_MS, &list, &error);
        ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
        ck_assert_uint_eq(list.count, 2);
        is_heard = list.workers[0].heard;
        psclient_worker_list_release(&list);
        (void)psclient_barrier_group(other, group, "pause", 1, 100, &error);
    }
    etcd_process_kill(&etcd);
    etcd_process_restart(&etcd);
    ck_assert_int_eq(psclient_list_workers(client, group, 0, LONG_MS, &list, &error), PSCLIENT_OK);
    ck_assert_uint_eq(list.count, 2);
    psclient_worker_list_release(&list);

    ck_assert_int_eq(psclient_worker_rank(client, NULL, &now, &error), PSCLIENT_OK);
    ck_assert_uint_eq(now.rank, before.rank);
    ck_assert_uint_eq(now.incarnation, before.incarnation);
    psclient_close(other);
    psclient_close(client);
}
END_TEST

START_TEST(whoever_waits_hears_who_comes_and_goes)
{
    group = "changes";
    struct psclient *client = open_client(0);
    struct psclient *other = open_client(1);
    struct psclient_worker_list list;
    ck_assert_int_eq(psclient_list_workers(client, group, 0, LONG_MS, &list, &error), PSCLIENT_OK);
    ck_assert_uint_eq(list.count, 0);
    uint64_t revision = list.revision;
    psclient_worker_list_release(&list);

    (void)join(other, "late", 0, LONG_MS);
    ck_assert_int_eq(psclient_list_workers(client, group, revision, LONG_MS, &list, &error),
                     PSCLIENT_OK);
    ck_assert_uint_eq(list.count, 1);
    ck_assert_str_eq(list.workers[0].name, "late");
    ck_assert_str_eq(list.workers[0].group, "changes");
    revision = list.revision;
    psclient_worker_list_release(&list);

    ck_assert_int_eq(psclient_leave_workers(other, group, LONG_MS, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_list_workers(client, group, revision, LONG_MS, &list, &error),
                     PSCLIENT_OK);
    ck_assert_uint_eq(list.count, 0);
    psclient_worker_list_release(&list);
    psclient_close(other);
    psclient_close(client);
}
END_TEST

START_TEST(a_barrier_of_a_group_names_who_is_missing)
{
    group = "barrier";
    struct psclient *client = open_client(0);
    struct psclient *other = open_client(1);
    (void)join(client, "a", 3, LONG_MS);
    (void)join(other, "b", 3, LONG_MS);

    /* A server answers an eighth of the time before its end; a busy machine needs more. */
    int status = PSCLIENT_OK;
    for (uint64_t timeout_ms = 100; timeout_ms < LONG_MS; timeout_ms *= 16) {
        status = psclient_barrier_group(client, group, "epoch", 1, timeout_ms, &error);
        if (strstr(error.text, "missing") != NULL)
            break;
    }

    ck_assert_int_eq(status, PSCLIENT_UNKNOWN);
    ck_assert_msg(strstr(error.text, "missing: 1 (b on ") != NULL, "%s", error.text);
    ck_assert_msg(strstr(error.text, " 2 (nobody)") != NULL, "%s", error.text);
    psclient_close(other);
    psclient_close(client);
}
END_TEST

/* A server without etcd remembers nobody; its workers have not gone. */
START_TEST(a_server_that_is_alone_has_its_workers_again)
{
    static const char *const nothing[] = {NULL};
    struct pserver_process *alone = &servers[0];
    char address[sizeof alone->address];
    pserver_process_start(alone, PSERVER_PROGRAM, "127.0.0.1:0", nothing);
    strcpy(address, alone->address);
    struct psclient *client = open_client(0);
    const struct psclient_worker_options third = {
        .name = "a", .size = 4, .rank = 3, .ttl_ms = TTL_MS};
    struct psclient_place before;
    struct psclient_place now;
    struct psclient_worker_list list = {0};
    ck_assert_int_eq(psclient_join_workers(client, &third, LONG_MS, &before, &error), PSCLIENT_OK);
    ck_assert_uint_eq(before.rank, 2);

    pserver_process_kill(alone);
    pserver_process_start(alone, PSERVER_PROGRAM, address, nothing);

    for (uint64_t revision = 0; list.count == 0; revision = list.revision) {
        psclient_worker_list_release(&list);
        int status = psclient_list_workers(client, NULL, revision, LONG_MS, &list, &error);
        ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    }
    psclient_worker_list_release(&list);
    ck_assert_int_eq(psclient_worker_rank(client, NULL, &now, &error), PSCLIENT_OK);
    ck_assert_uint_eq(now.rank, 2);
    psclient_close(client);
    pserver_process_kill(alone);
}
END_TEST

/* Whoever has the rank by now keeps it. */
START_TEST(a_place_that_another_has_is_lost)
{
    struct psclient_place place;
    group = "lost";
    struct psclient *client = open_client(0);
    (void)join(client, "a", 1, TTL_MS);
    ck_assert_int_eq(psclient_worker_rank(client, "other", &place, &error), PSCLIENT_NOT_FOUND);
    /* As somebody would who repairs by hand: the row goes, and another's comes. */
    const char *const change[] = {"put", "/workers/lost/ranks/0", "client=1 ttl_ms=1000", NULL};
    ck_assert_int_eq(etcd_process_ctl(&etcd, change), 0);
    while (psclient_worker_rank(client, group, &place, &error) == PSCLIENT_OK)
        (void)psclient_barrier_group(client, group, "pause", 1, 50, &error);

    ck_assert_msg(strncmp(error.text, "rank 0 of group lost was lost: ", 31) == 0, "%s",
                  error.text);
    ck_assert_int_eq(psclient_join_workers(client, NULL, 0, &place, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_leave_workers(client, group, LONG_MS, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_leave_workers(client, group, LONG_MS, &error), PSCLIENT_NOT_FOUND);
    psclient_close(client);
}
END_TEST

int main(void)
{
    if (!etcd_process_available())
        return 77;
    Suite *suite = suite_create("psclient workers");
    TCase *tests = tcase_create("workers");
    tcase_set_timeout(tests, 240);
    tcase_add_unchecked_fixture(tests, start, finish);
    tcase_add_test(tests, a_name_has_its_rank_again_after_its_process_was_killed);
    tcase_add_test(tests, whoever_waits_hears_who_comes_and_goes);
    tcase_add_test(tests, a_barrier_of_a_group_names_who_is_missing);
    tcase_add_test(tests, a_place_that_another_has_is_lost);
    suite_add_tcase(suite, tests);
    TCase *alone = tcase_create("alone");
    tcase_set_timeout(alone, 240);
    tcase_add_test(alone, a_server_that_is_alone_has_its_workers_again);
    suite_add_tcase(suite, alone);
    TCase *deaths = tcase_create("deaths");
    tcase_set_timeout(deaths, 240);
    tcase_add_checked_fixture(deaths, start, finish);
    tcase_add_test(deaths, a_place_is_kept_when_servers_and_the_store_die);
    suite_add_tcase(suite, deaths);
    return run_suite(suite);
}
