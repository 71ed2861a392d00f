/* SPDX-License-Identifier: Apache-2.0 */
/* Large contents through shared memory, in ranges and as one: exact, once, and whole, whoever is
 * killed or comes first. */
#include "tests/integration/client/live_rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_MAX ((size_t)17 * 1024 * 1024)

/* Of 4 MiB and some, of 64 MiB, and of more than goes as one in any way. */
static const size_t large_counts[] = {(1 << 20) + 4321, 16 << 20, LARGE_MAX};

/* The thread sanitizer is slow, and sees all there is to see in the first. */
#ifdef __SANITIZE_THREAD__
enum { LARGE_COUNTS = 1 };
#else
enum { LARGE_COUNTS = sizeof large_counts / sizeof large_counts[0] };
#endif

struct large {
    size_t count;
    float *gradient, *values;
};

static struct large make_large(size_t count)
{
    struct large large = {.count = count};
    large.gradient = calloc(count, sizeof(float));
    large.values = calloc(count, sizeof(float));
    ck_assert(large.gradient != NULL && large.values != NULL);
    return large;
}

static void end_large(struct large *large)
{
    free(large->gradient);
    free(large->values);
}

static void begin_large(struct large *large, size_t count, bool journal)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", journal, NULL, NULL);
    client = open_one(&(struct psclient_options){0});
    *large = make_large(count);
    struct psclient_parameter w = {.name = "w",
                                   .content = large->values,
                                   .content_size = count * sizeof(float),
                                   .type = PSCLIENT_FLOAT32};
    initialise(&w, 1);
}

/* From any thread. */
static int step_with(struct psclient *with, const struct large *large, uint64_t *version,
                     struct psclient_error *why)
{
    size_t bytes = large->count * sizeof(float);
    const struct psclient_gradient gradient = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = large->gradient, .content_size = bytes};
    struct psclient_parameter w = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = large->values, .content_size = bytes};
    int status = psclient_push_pull(with, &gradient, &w, 1, LONG_MS, NULL, why);
    *version = w.version;
    return status;
}

static int step(const struct large *large, uint64_t *version)
{
    return step_with(client, large, version, &error);
}

START_TEST(large_contents_are_exact)
{
    struct large large;
    uint64_t version;
    size_t count = large_counts[_i];
    begin_large(&large, count, false);
    for (int turn = 1; turn <= 4; turn++) {
        for (size_t i = 0; i < count; i++)
            large.gradient[i] = -(float)(i % 1000 + (size_t)turn);
        expect_ok(step(&large, &version));
        ck_assert_uint_eq(version, (uint64_t)turn);
        expect_each(i, count,
                    large.values[i] ==
                        (float)turn * (float)(i % 1000) + (float)(turn * (turn + 1)) / 2);
    }
    ck_assert_uint_gt(counters().shared_bytes, 0);
    end_large(&large);
    finish();
}
END_TEST

START_TEST(a_large_gradient_that_is_not_finite_changes_nothing)
{
    struct large large;
    uint64_t version;
    begin_large(&large, large_counts[0], false);
    for (int turn = 1; turn <= 3; turn++) {
        memset(large.gradient, 0, large.count * sizeof(float));
        large.gradient[0] = -1;
        expect_ok(step(&large, &version));
        ck_assert_uint_eq(version, (uint64_t)turn);
        large.gradient[large.count - 1] = 0.0f / 0.0f;
        ck_assert_int_eq(step(&large, &version), PSCLIENT_INVALID);
    }
    large.gradient[large.count - 1] = 0;
    expect_ok(step(&large, &version));
    ck_assert(large.values[0] == 4 && large.values[large.count - 1] == 0);
    end_large(&large);
    finish();
}
END_TEST

/* Kill -9 in the middle of a large step: it counts once, whatever ranges of it had been applied. */
START_TEST(large_steps_count_once_when_the_server_is_killed)
{
    struct large large;
    uint64_t version;
    char address[64];
    float sum = 0;
    begin_large(&large, large_counts[0], true);
    strcpy(address, server.address);
    size_t bytes = large.count * sizeof(float);
    for (int turn = 1; turn <= 12; turn++) {
        const struct psclient_gradient gradient = {.name = "w",
                                                   .type = PSCLIENT_FLOAT32,
                                                   .content = large.gradient,
                                                   .content_size = bytes};
        struct psclient_operation *operation;
        for (size_t i = 0; i < large.count; i++)
            large.gradient[i] = -(float)turn;
        sum += (float)turn;
        expect_ok(psclient_push_begin(client, &gradient, 1, LONG_MS, NULL, &operation, &error));
        if (turn % 4 == 0) {
            (void)psclient_next(client, (uint64_t)turn % 3);
            pserver_process_kill(&server);
            start_server(address, true, NULL, NULL);
        }
        expect_ok(psclient_end(operation, NULL, &error));
    }
    memset(large.gradient, 0, bytes);
    expect_ok(step(&large, &version));
    ck_assert_uint_eq(version, 13);
    expect_each(i, large.count, large.values[i] == sum);
    end_large(&large);
    finish();
}
END_TEST

struct rival {
    struct psclient *client;
    struct large large;
    bool failed;
};

static void *compete(void *argument)
{
    struct rival *rival = argument;
    uint64_t version;
    for (unsigned i = 0; i < 30 && !rival->failed; i++)
        rival->failed = step_with(rival->client, &rival->large, &version, NULL) != PSCLIENT_OK;
    return NULL;
}

/* Ranges of one are applied in vain when the other's push comes first. */
START_TEST(two_clients_that_push_the_same_large_parameter_both_count)
{
    struct large large;
    struct rival rivals[2];
    pthread_t threads[2];
    uint64_t version;
    begin_large(&large, large_counts[0], _i == 1);
    for (int i = 0; i < 2; i++) {
        rivals[i] = (struct rival){.client = open_one(&(struct psclient_options){0}),
                                   .large = make_large(large.count)};
        for (size_t k = 0; k < large.count; k++)
            rivals[i].large.gradient[k] = -1;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compete, &rivals[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(!rivals[i].failed);
        psclient_close(rivals[i].client);
        end_large(&rivals[i].large);
    }
    expect_ok(step(&large, &version));
    ck_assert_uint_eq(version, 61);
    expect_each(i, large.count, large.values[i] == 60);
    end_large(&large);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_large");
    TCase *tests = tcase_create("psclient_large");
    tcase_set_timeout(tests, 180);
    tcase_add_loop_test(tests, large_contents_are_exact, 0, LARGE_COUNTS);
    tcase_add_test(tests, a_large_gradient_that_is_not_finite_changes_nothing);
    tcase_add_test(tests, large_steps_count_once_when_the_server_is_killed);
    tcase_add_loop_test(tests, two_clients_that_push_the_same_large_parameter_both_count, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
