/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas of libpsclient with real servers, also with one that is killed again and again: a copy
 * has what the server has, and at no time a mixture of two versions. */
#include "client/psclient.h"

#include "expect_each.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

enum { BLOCK = 256 * 1024, PER_BLOCK = BLOCK / 4, TOUCHED = 4, KILLS = 8 };

/* "dense" is pushed to as a whole; of "sparse" TOUCHED blocks are touched. */
enum { DENSE = 2 * PER_BLOCK + 11, SPARSE = 100 * PER_BLOCK };

static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;  /* pulls, and pushes whole gradients */
static struct psclient *chooser; /* pushes the TOUCHED elements alone */
static struct psclient_error error;
static float *dense, *sparse, *dense_copy, *sparse_copy, *gradient;
static struct psclient_parameter copies[2];
static struct psclient_replica *replica;

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void start_server(int i, const char *listen)
{
    char name[16];
    char data[600];
    (void)snprintf(name, sizeof name, "data%d", i);
    temp_folder_path(&folder, name, data, sizeof data);
    const char *const arguments[] = {"--data-dir", data,     "--etcd-ttl", "60s",
                                     "--ack",      "memory", NULL};
    pserver_process_start(&servers[i], PSERVER_PROGRAM, listen, arguments);
}

static struct psclient_parameter parameter(const char *name, float *values, size_t count)
{
    return (struct psclient_parameter){.name = name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = values,
                                       .content_size = count * sizeof *values};
}

static float *room(size_t count)
{
    float *values = calloc(count, sizeof *values);
    ck_assert_ptr_nonnull(values);
    return values;
}

static void open_clients(int server_count)
{
    char addresses[160];
    (void)snprintf(addresses, sizeof addresses, "%s%s%s", servers[0].address,
                   server_count > 1 ? "," : "", server_count > 1 ? servers[1].address : "");
    /* Small enough to cut "sparse" over two servers. */
    struct psclient_options options = {.servers = addresses, .split_bytes = 4 << 20};
    expect_ok(psclient_open(&options, &client, &error));
    options.encoding = PSCLIENT_TOP_K;
    options.top_k_share = (double)TOUCHED / SPARSE;
    expect_ok(psclient_open(&options, &chooser, &error));
}

static void initialise(void)
{
    int selected = 0;
    struct psclient_parameter both[] = {parameter("dense", dense, DENSE),
                                        parameter("sparse", sparse, SPARSE)};
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, both, 2, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

static void start(int server_count)
{
    temp_folder_init(&folder);
    for (int i = 0; i < server_count; i++)
        start_server(i, "127.0.0.1:0");
    dense = room(DENSE);
    sparse = room(SPARSE);
    dense_copy = room(DENSE);
    sparse_copy = room(SPARSE);
    gradient = room(SPARSE);
    open_clients(server_count);
    initialise();
    copies[0] = parameter("dense", dense_copy, DENSE);
    copies[1] = parameter("sparse", sparse_copy, SPARSE);
    expect_ok(psclient_replica_open(client, copies, 2, &replica, &error));
}

static void finish(int server_count)
{
    psclient_replica_close(replica);
    psclient_close(chooser);
    psclient_close(client);
    for (int i = 0; i < server_count; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
    free(dense);
    free(sparse);
    free(dense_copy);
    free(sparse_copy);
    free(gradient);
}

/* Every element of "dense" rises by one. */
static int push_dense(void)
{
    for (size_t i = 0; i < DENSE; i++)
        gradient[i] = -1;
    const struct psclient_gradient push = {.name = "dense",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = gradient,
                                           .content_size = DENSE * sizeof(float)};
    return psclient_push(client, &push, 1, LONG_MS, NULL, &error);
}

static size_t touched(size_t i)
{
    return i * (SPARSE / TOUCHED) + 5;
}

/* TOUCHED elements of "sparse" rise by one, in one push. */
static int push_sparse(float *room_for_gradient)
{
    memset(room_for_gradient, 0, SPARSE * sizeof(float));
    for (size_t i = 0; i < TOUCHED; i++)
        room_for_gradient[touched(i)] = -1;
    const struct psclient_gradient push = {.name = "sparse",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = room_for_gradient,
                                           .content_size = SPARSE * sizeof(float)};
    return psclient_push(chooser, &push, 1, LONG_MS, NULL, NULL);
}

static void pull_since(void)
{
    struct psclient_result results[2];
    expect_ok(psclient_pull_since(replica, LONG_MS, results, &error));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(results[i].status, PSCLIENT_OK);
        ck_assert_uint_eq(results[i].version, copies[i].version);
    }
}

/* What the servers have, by a full pull while nobody pushes. */
static void expect_same(void)
{
    struct psclient_parameter both[] = {parameter("dense", dense, DENSE),
                                        parameter("sparse", sparse, SPARSE)};
    expect_ok(psclient_pull(client, both, 2, LONG_MS, NULL, &error));
    ck_assert_uint_eq(both[0].version, copies[0].version);
    ck_assert_uint_eq(both[1].version, copies[1].version);
    ck_assert_mem_eq(dense, dense_copy, DENSE * sizeof(float));
    ck_assert_mem_eq(sparse, sparse_copy, SPARSE * sizeof(float));
    expect_ok(psclient_replica_verify(replica, &error));
}

/* Of one server: each copy is one version. */
static void expect_no_mixture(void)
{
    expect_each(i, DENSE, dense_copy[i] == (float)copies[0].version);
    for (size_t i = 0; i < TOUCHED; i++)
        ck_assert(sparse_copy[touched(i)] == (float)copies[1].version);
}

START_TEST(a_replica_pulls_what_has_changed)
{
    struct psclient_replica_counters before, after;
    start(1);
    pull_since();
    expect_same();
    psclient_replica_get_counters(replica, &before);
    ck_assert_uint_eq(before.received_bytes, (DENSE + (uint64_t)SPARSE) * sizeof(float));
    ck_assert_uint_eq(before.copies, 2);

    expect_ok(push_sparse(gradient));
    pull_since();
    expect_same();
    expect_no_mixture();
    psclient_replica_get_counters(replica, &after);
    ck_assert_uint_eq(after.received_bytes - before.received_bytes, TOUCHED * BLOCK);
    ck_assert_uint_eq(after.saved_bytes - before.saved_bytes,
                      DENSE * sizeof(float) + (uint64_t)(100 - TOUCHED) * BLOCK);
    ck_assert_uint_eq(after.anchors, 0);
    finish(1);
}
END_TEST

START_TEST(a_cut_parameter_is_kept_up_to_date_on_all_servers)
{
    struct psclient_replica_counters counters;
    start(2);
    pull_since();
    for (int i = 0; i < 5; i++) {
        expect_ok(push_sparse(gradient));
        expect_ok(push_dense());
        pull_since();
        expect_same();
    }
    psclient_replica_get_counters(replica, &counters);
    ck_assert_uint_eq(counters.copies, 3);
    ck_assert_uint_gt(counters.saved_bytes, counters.received_bytes);
    finish(2);
}
END_TEST

START_TEST(two_replicas_and_other_calls_go_on_beside_each_other)
{
    struct psclient_replica *other;
    float *values = room(DENSE);
    struct psclient_parameter copy = parameter("dense", values, DENSE);
    start(1);
    expect_ok(psclient_replica_open(client, &copy, 1, &other, &error));
    pull_since();
    expect_ok(push_dense());
    expect_ok(psclient_pull_since(other, LONG_MS, NULL, &error));
    ck_assert_uint_eq(copy.version, 1);
    ck_assert(values[0] == 1);
    ck_assert(dense_copy[0] == 0);
    pull_since();
    expect_same();
    psclient_replica_close(other);
    free(values);
    finish(1);
}
END_TEST

START_TEST(what_is_wrong_with_a_parameter_is_told)
{
    struct psclient_replica *other;
    struct psclient_result result;
    float values[4];
    struct psclient_parameter wrong = parameter("nobody", values, 4);
    start(1);
    expect_ok(psclient_replica_open(client, &wrong, 1, &other, &error));
    ck_assert_int_eq(psclient_pull_since(other, LONG_MS, &result, &error), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(result.status, PSCLIENT_NOT_FOUND);
    ck_assert_str_eq(result.text, "parameter: nobody does not exist");
    psclient_replica_close(other);

    wrong.name = "dense"; /* of another length */
    expect_ok(psclient_replica_open(client, &wrong, 1, &other, &error));
    ck_assert_int_eq(psclient_pull_since(other, LONG_MS, &result, &error), PSCLIENT_INVALID);
    psclient_replica_close(other);

    wrong.content_size = 3;
    ck_assert_int_eq(psclient_replica_open(client, &wrong, 1, &other, &error), PSCLIENT_INVALID);
    wrong = parameter("x#1/2", values, 4);
    ck_assert_int_eq(psclient_replica_open(client, &wrong, 1, &other, &error), PSCLIENT_INVALID);
    wrong = parameter(NULL, values, 4);
    ck_assert_int_eq(psclient_replica_open(client, &wrong, 1, &other, &error), PSCLIENT_INVALID);
    expect_ok(psclient_replica_open(client, NULL, 0, &other, &error));
    expect_ok(psclient_pull_since(other, LONG_MS, NULL, &error));
    psclient_replica_close(other);
    finish(1);
}
END_TEST

START_TEST(a_copy_that_was_written_to_is_found_and_repaired)
{
    start(1);
    pull_since();
    sparse_copy[7] = 3;
    ck_assert_int_eq(psclient_replica_verify(replica, &error), PSCLIENT_DATA_LOSS);
    pull_since();
    expect_same();
    finish(1);
}
END_TEST

START_TEST(a_pull_that_is_not_answered_leaves_what_was_there)
{
    start(1);
    pull_since();
    expect_ok(push_sparse(gradient));
    pull_since();
    pserver_process_kill(&servers[0]);
    struct psclient_result results[2];
    ck_assert_int_eq(psclient_pull_since(replica, 200, results, &error), PSCLIENT_UNAVAILABLE);
    ck_assert_int_eq(results[1].status, PSCLIENT_UNAVAILABLE);
    ck_assert_uint_eq(copies[1].version, 1);
    expect_no_mixture();
    expect_ok(psclient_replica_verify(replica, &error));
    finish(1);
}
END_TEST

/* ---- Kills ---- */

static atomic_bool stop;
static pthread_mutex_t pushing = PTHREAD_MUTEX_INITIALIZER;

static void *push_until_stopped(void *argument)
{
    float *mine = argument;
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&pushing);
        (void)push_sparse(mine);
        pthread_mutex_unlock(&pushing);
    }
    return NULL;
}

/* Pushes that are acknowledged from memory may be lost, and their versions given to others: a copy
 * must notice that whatever the numbers say. */
START_TEST(copies_are_never_mixtures_through_kills)
{
    pthread_t pusher;
    struct psclient_replica_counters counters;
    char address[64];
    start(1);
    float *mine = room(SPARSE);
    memcpy(address, servers[0].address, sizeof address);
    ck_assert_int_eq(pthread_create(&pusher, NULL, push_until_stopped, mine), 0);
    for (int i = 0; i < KILLS; i++) {
        for (int k = 0; k < 5 + i; k++) {
            expect_ok(push_dense());
            pull_since();
            expect_no_mixture();
        }
        pserver_process_kill(&servers[0]);
        start_server(0, address);
        pull_since();
        expect_no_mixture();
        pthread_mutex_lock(&pushing);
        pull_since();
        expect_same();
        pthread_mutex_unlock(&pushing);
    }
    atomic_store(&stop, true);
    pthread_join(pusher, NULL);
    psclient_replica_get_counters(replica, &counters);
    fprintf(stderr, "%d kills, %llu full copies after them, %llu MiB came, %llu MiB did not\n",
            KILLS, (unsigned long long)counters.anchors,
            (unsigned long long)counters.received_bytes >> 20,
            (unsigned long long)counters.saved_bytes >> 20);
    ck_assert_uint_eq(counters.anchors, 2 * KILLS);
    ck_assert_uint_eq(counters.mismatches, 0);
    ck_assert_uint_eq(counters.copies, 2);
    free(mine);
    finish(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_replica");
    TCase *tests = tcase_create("psclient_replica");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_replica_pulls_what_has_changed);
    tcase_add_test(tests, a_cut_parameter_is_kept_up_to_date_on_all_servers);
    tcase_add_test(tests, two_replicas_and_other_calls_go_on_beside_each_other);
    tcase_add_test(tests, what_is_wrong_with_a_parameter_is_told);
    tcase_add_test(tests, a_copy_that_was_written_to_is_found_and_repaired);
    tcase_add_test(tests, a_pull_that_is_not_answered_leaves_what_was_there);
    tcase_add_test(tests, copies_are_never_mixtures_through_kills);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
