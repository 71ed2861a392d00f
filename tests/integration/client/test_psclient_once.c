/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient with a real server that is killed again and again while it answers: what was
 * acknowledged was applied exactly once (promises P1 and P2). */
#include "client/psclient.h"

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
#define KILLS 12
#define PUSHERS 3
#define BATCH 6 /* gradients of one batch, all of the same parameter */

static struct temp_folder folder;
static struct pserver_process server;
static struct psclient *client;
static atomic_bool stop;
static atomic_uint acknowledged, failed;
static float one_less[256];

static void start_server(const char *listen)
{
    char data[600];
    temp_folder_path(&folder, "data", data, sizeof data);
    const char *const arguments[] = {"--data-dir", data, "--etcd-ttl", "60s", NULL};
    pserver_process_start(&server, PSERVER_PROGRAM, listen, arguments);
}

static struct psclient_parameter parameter(float *values)
{
    return (struct psclient_parameter){
        .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof one_less};
}

static void initialise(void)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    float zeros[256] = {0};
    struct psclient_parameter w = parameter(zeros);
    int selected = 0;
    int status = psclient_begin_init(client, LONG_MS, &selected, &error);
    if (status == PSCLIENT_OK)
        status = psclient_init(client, &w, 1, LONG_MS, NULL, &error);
    if (status == PSCLIENT_OK)
        status = psclient_finish_init(client, LONG_MS, &error);
    ck_assert_msg(status == PSCLIENT_OK && selected == 1, "%s", error.text);
}

/* Rate 1: every gradient adds 1 to every element. */
static void *push_until_stopped(void *argument)
{
    (void)argument;
    struct psclient_gradient gradients[BATCH];
    struct psclient_result results[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        gradients[i] = (struct psclient_gradient){.name = "w",
                                                  .type = PSCLIENT_FLOAT32,
                                                  .content = one_less,
                                                  .content_size = sizeof one_less};
    while (!atomic_load(&stop)) {
        (void)psclient_push(client, gradients, BATCH, LONG_MS, results, NULL);
        for (size_t i = 0; i < BATCH; i++)
            atomic_fetch_add(results[i].status == PSCLIENT_OK ? &acknowledged : &failed, 1);
    }
    return NULL;
}

/* Lets the pushers get on by so many acknowledgements. */
static void await_progress(unsigned count)
{
    struct psclient_error error;
    float values[256];
    struct psclient_parameter w = parameter(values);
    unsigned until = atomic_load(&acknowledged) + count;
    while (atomic_load(&acknowledged) < until && atomic_load(&failed) == 0)
        ck_assert_int_eq(psclient_pull(client, &w, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
}

START_TEST(acknowledged_pushes_are_applied_exactly_once_through_kills)
{
    pthread_t pushers[PUSHERS];
    struct psclient_error error;
    char address[64];
    for (size_t i = 0; i < 256; i++)
        one_less[i] = -1;
    temp_folder_init(&folder);
    start_server("127.0.0.1:0");
    memcpy(address, server.address, sizeof address);
    const struct psclient_options options = {.servers = address, .ack = PSCLIENT_ACK_LOGGED};
    ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_OK);
    initialise();

    for (size_t i = 0; i < PUSHERS; i++)
        ck_assert_int_eq(pthread_create(&pushers[i], NULL, push_until_stopped, NULL), 0);
    for (unsigned i = 0; i < KILLS; i++) {
        await_progress(20 + 7 * i);
        pserver_process_kill(&server);
        start_server(address);
    }
    await_progress(1);
    atomic_store(&stop, true);
    for (size_t i = 0; i < PUSHERS; i++)
        pthread_join(pushers[i], NULL);

    struct psclient_counters counters;
    psclient_get_counters(client, &counters);
    fprintf(stderr, "%u acknowledged, %llu sent again in doubt, %llu had been applied\n",
            atomic_load(&acknowledged), (unsigned long long)counters.resends,
            (unsigned long long)counters.duplicates);
    ck_assert_uint_eq(atomic_load(&failed), 0);
    float values[256];
    struct psclient_parameter w = parameter(values);
    ck_assert_int_eq(psclient_pull(client, &w, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_uint_eq(w.version, atomic_load(&acknowledged));
    for (size_t i = 0; i < 256; i++)
        ck_assert(values[i] == (float)atomic_load(&acknowledged));

    psclient_close(client);
    pserver_process_kill(&server);
    temp_folder_fini(&folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_once");
    TCase *tests = tcase_create("psclient_once");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, acknowledged_pushes_are_applied_exactly_once_through_kills);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
