/* SPDX-License-Identifier: Apache-2.0 */
/* ps-lite's own test programs, with their sequences and their assertions, as separate processes:
 * connection, simple app, keys and values, several customers, push and pull at once, benchmark; for
 * 1, 2 and 4 servers and as many workers. */
#include "program_rig.h"

#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 10000, REPEATS = 50, SIMPLE_REQUESTS = 100 };

static const uint32_t sizes[][2] = {{1, 1}, {2, 2}, {4, 4}, {1, 4}, {4, 1}};

/* A worker's own part: a client, and a customer of its rank. */
struct worker {
    struct psclient *client;
    struct ps_customer *customer;
    struct psclient_error error;
};

static void open_worker(const struct program_words *words, uint32_t customer, uint32_t workers,
                        struct worker *worker)
{
    const struct ps_customer_options options = {.customer = customer,
                                                .worker =
                                                    1 + words->rank + customer * words->workers,
                                                .workers = workers,
                                                .timeout_ms = RIG_LONG_MS};
    program_rig_must(ps_customer_open(worker->client, &options, &worker->customer, &worker->error),
                     &worker->error, "ps_customer_open");
}

static void wait_for(struct worker *worker, int64_t timestamp)
{
    program_rig_must(ps_kv_worker_wait(worker->customer, timestamp, RIG_LONG_MS, &worker->error),
                     &worker->error, "wait");
}

/* test_connection: start, and finalize with a barrier. */
static void connect_only(const struct program_words *words)
{
    struct worker worker = {.client = program_rig_open(words->list)};
    open_worker(words, 0, words->workers, &worker);
    program_rig_must(ps_customer_finalize(worker.customer, RIG_LONG_MS, &worker.error),
                     &worker.error, "finalize");
    psclient_close(worker.client);
}

static void note_body(void *user, int64_t timestamp, uint32_t node, const void *body, size_t size)
{
    size_t *count = user;
    (void)timestamp;
    if (ps_node_rank(node) < RIG_SERVERS_MAX && size == 4 && memcmp(body, "test", 4) == 0)
        (*count)++;
}

/* test_simple_app: 100 requests with the body "test", each answered by all. */
static void ask_simply(const struct program_words *words)
{
    struct worker worker = {.client = program_rig_open(words->list)};
    int64_t timestamps[SIMPLE_REQUESTS];
    size_t answers = 0;
    open_worker(words, 0, words->workers, &worker);
    for (int i = 0; i < SIMPLE_REQUESTS; i++) {
        const struct ps_kv_call call = {.user = &answers};
        program_rig_must(ps_simple_app_request(worker.customer, 1, "test", 4, PS_GROUP_SERVERS,
                                               note_body, &call, &timestamps[i], &worker.error),
                         &worker.error, "request");
        if (timestamps[i] != i)
            exit(4);
    }
    for (int i = 0; i < SIMPLE_REQUESTS; i++)
        wait_for(&worker, timestamps[i]);
    if (answers != (size_t)SIMPLE_REQUESTS * words->servers)
        exit(5);
    program_rig_must(ps_customer_finalize(worker.customer, RIG_LONG_MS, &worker.error),
                     &worker.error, "finalize");
    psclient_close(worker.client);
}

/* The keys and values of test_kv_app: 10,000 keys over the whole range, shifted by the rank. */
struct keys {
    uint64_t keys[KEYS];
    float values[KEYS], pulled[KEYS], outs[KEYS];
};

static void fill(struct keys *keys, uint32_t rank)
{
    unsigned seed = rank + 7;
    for (size_t i = 0; i < KEYS; i++) {
        keys->keys[i] = PS_KEY_MAX / KEYS * i + rank;
        keys->values[i] = (float)(rand_r(&seed) % 1000);
    }
}

static void expect_times(const float *got, const float *values, float times, int code)
{
    double error = 0;
    for (size_t i = 0; i < KEYS; i++)
        error += fabs((double)got[i] - (double)(values[i] * times));
    if (error / (double)times > 1e-5) {
        (void)fprintf(stderr, "error %g after %g pushes\n", error, (double)times);
        exit(code);
    }
}

/* test_kv_app: 50 pushes, at most ten on their way; a pull; then pushes and pulls in one, one after
 * another. */
static void run_keys(struct worker *worker, uint32_t rank)
{
    struct keys *keys = calloc(1, sizeof *keys);
    int64_t timestamps[REPEATS], timestamp = -1;
    struct psclient_error *error = &worker->error;
    fill(keys, rank);
    struct ps_kv_pairs pairs = {.keys = keys->keys,
                                .key_count = KEYS,
                                .type = PSCLIENT_FLOAT32,
                                .values = keys->values,
                                .value_count = KEYS};
    struct ps_kv_pairs into = pairs;
    into.values = keys->pulled;
    for (int i = 0; i < REPEATS; i++) {
        program_rig_must(ps_kv_worker_push(worker->customer, &pairs, NULL, &timestamps[i], error),
                         error, "push");
        if (i > 10)
            wait_for(worker, timestamps[i - 10]);
    }
    for (int i = 0; i < REPEATS; i++)
        wait_for(worker, timestamps[i]);
    program_rig_must(ps_kv_worker_pull(worker->customer, &into, NULL, &timestamp, error), error,
                     "pull");
    wait_for(worker, timestamp);
    expect_times(keys->pulled, keys->values, REPEATS, 6);
    for (int i = 0; i < 10; i++) {
        program_rig_must(
            ps_kv_worker_zpush_pull(worker->customer, &pairs, keys->outs, NULL, &timestamp, error),
            error, "push_pull");
        wait_for(worker, timestamp);
        expect_times(keys->outs, keys->values, (float)(REPEATS + i + 1), 7);
    }
    free(keys);
}

static void keys_of_one(const struct program_words *words)
{
    struct worker worker = {.client = program_rig_open(words->list)};
    open_worker(words, 0, words->workers, &worker);
    run_keys(&worker, words->rank);
    program_rig_must(ps_customer_finalize(worker.customer, RIG_LONG_MS, &worker.error),
                     &worker.error, "finalize");
    psclient_close(worker.client);
}

/* test_kv_app_multi_workers: two customers in threads of one process, each a worker by itself. */
static void *run_customer(void *argument)
{
    struct worker *worker = argument;
    run_keys(worker, ps_customer_rank(worker->customer));
    program_rig_must(ps_customer_finalize(worker->customer, RIG_LONG_MS, &worker->error),
                     &worker->error, "finalize");
    return NULL;
}

static void keys_of_two(const struct program_words *words)
{
    struct worker workers[2] = {{.client = program_rig_open(words->list)}};
    pthread_t threads[2];
    workers[1].client = workers[0].client;
    for (uint32_t i = 0; i < 2; i++)
        open_worker(words, i, 2 * words->workers, &workers[i]);
    for (uint32_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run_customer, &workers[i]) != 0)
            exit(8);
    for (uint32_t i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    psclient_close(workers[0].client);
}

/* test_kv_app_benchmark with 100,000 keys: pushes and pulls of everything, without a look at the
 * clock. */
static void run_benchmark(const struct program_words *words)
{
    enum { MANY = 100000, ROUNDS = 5 };
    struct worker worker = {.client = program_rig_open(words->list)};
    uint64_t *keys = calloc(MANY, sizeof *keys);
    float *values = calloc(MANY, sizeof *values), *pulled = calloc(MANY, sizeof *pulled);
    int64_t timestamp = -1;
    open_worker(words, 0, words->workers, &worker);
    for (size_t i = 0; i < MANY; i++) {
        keys[i] = PS_KEY_MAX / MANY * i;
        values[i] = (float)(i % 100);
    }
    const struct ps_kv_pairs pairs = {keys, MANY, PSCLIENT_FLOAT32, values, MANY, NULL};
    const struct ps_kv_pairs into = {keys, MANY, PSCLIENT_FLOAT32, pulled, MANY, NULL};
    program_rig_must(
        ps_customer_barrier(worker.customer, PS_GROUP_WORKERS, RIG_LONG_MS, &worker.error),
        &worker.error, "barrier");
    for (int i = 0; i < ROUNDS; i++) {
        (void)ps_kv_worker_zpush(worker.customer, &pairs, NULL, &timestamp, &worker.error);
        wait_for(&worker, timestamp);
    }
    program_rig_must(
        ps_customer_barrier(worker.customer, PS_GROUP_WORKERS, RIG_LONG_MS, &worker.error),
        &worker.error, "barrier");
    (void)ps_kv_worker_zpull(worker.customer, &into, NULL, &timestamp, &worker.error);
    wait_for(&worker, timestamp);
    for (size_t i = 0; i < MANY; i++)
        if (pulled[i] != values[i] * ROUNDS * (float)words->workers)
            exit(9);
    program_rig_must(ps_customer_finalize(worker.customer, RIG_LONG_MS, &worker.error),
                     &worker.error, "finalize");
    psclient_close(worker.client);
    free(keys);
    free(values);
    free(pulled);
}

static const struct {
    const char *act;
    void (*run)(const struct program_words *words);
} acts[] = {{"connection", connect_only}, {"simple", ask_simply},
            {"keys", keys_of_one},        {"customers", keys_of_two},
            {"benchmark", run_benchmark}, {"server", program_rig_serve_keys}};

/* ---- The tests ---- */

/* All workers of the job do the same. */
static void run_job(const char *act, const uint32_t size[2])
{
    struct program_rig rig;
    pid_t workers[4];
    program_rig_begin(&rig, size[0], size[1], "server");
    for (uint32_t i = 0; i < size[1]; i++)
        workers[i] = program_rig_child(&rig, act, i);
    for (uint32_t i = 0; i < size[1]; i++)
        program_rig_expect_end(workers[i]);
    program_rig_stop_programs(&rig);
    program_rig_end(&rig);
}

START_TEST(connection)
{
    run_job("connection", sizes[_i]);
}
END_TEST

START_TEST(simple_app)
{
    run_job("simple", sizes[_i]);
}
END_TEST

START_TEST(kv_app)
{
    run_job("keys", sizes[_i]);
}
END_TEST

START_TEST(kv_app_multi_workers)
{
    run_job("customers", sizes[_i]);
}
END_TEST

START_TEST(kv_app_benchmark)
{
    run_job("benchmark", sizes[_i]);
}
END_TEST

int main(int argc, char **argv)
{
    struct program_words words;
    if (program_rig_words(argc, argv, &words)) {
        for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
            if (strcmp(acts[i].act, words.act) == 0) {
                acts[i].run(&words);
                return 0;
            }
        return 2;
    }
    Suite *suite = suite_create("ps-lite's programs");
    TCase *tests = tcase_create("programs");
    int count = (int)(sizeof sizes / sizeof sizes[0]);
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, connection, 0, count);
    tcase_add_loop_test(tests, simple_app, 0, count);
    tcase_add_loop_test(tests, kv_app, 0, count);
    tcase_add_loop_test(tests, kv_app_multi_workers, 0, count);
    tcase_add_loop_test(tests, kv_app_benchmark, 0, count);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
