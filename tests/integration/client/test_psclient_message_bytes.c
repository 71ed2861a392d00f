/* SPDX-License-Identifier: Apache-2.0 */
/* Large contents for a server on this host that takes only small messages (--message-bytes): what
 * it would not take as one goes in ranges. */
#include "tests/integration/client/live_rig.h"

#include "client/psclient_program.h"
#include "client/psclient_rendezvous.h"
#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES "4MiB"
#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {3 * MIB, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 100 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

struct pair {
    size_t size;
    float *gradient, *values;
};

static struct pair make_pair(size_t size)
{
    struct pair pair = {.size = size};
    pair.gradient = calloc(1, size);
    pair.values = calloc(1, size);
    ck_assert(pair.gradient != NULL && pair.values != NULL);
    return pair;
}

static void end_pair(struct pair *pair)
{
    free(pair->gradient);
    free(pair->values);
}

static void begin(struct pair *pair, size_t size)
{
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, "--message-bytes", MESSAGE_BYTES);
    client = open_one(&(struct psclient_options){0});
    *pair = make_pair(size);
    struct psclient_parameter parameters[] = {
        {.name = "w", .content = pair->values, .content_size = size, .type = PSCLIENT_FLOAT32},
        {.name = "v", .content = pair->values, .content_size = size, .type = PSCLIENT_FLOAT32}};
    initialise(parameters, 2);
}

static int push(struct psclient *with, const struct pair *pair, struct psclient_error *why)
{
    const struct psclient_gradient w = {.name = "w",
                                        .type = PSCLIENT_FLOAT32,
                                        .content = pair->gradient,
                                        .content_size = pair->size};
    return psclient_push(with, &w, 1, LONG_MS, NULL, why);
}

static int pull(const struct pair *pair, uint64_t *version)
{
    struct psclient_parameter w = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = pair->values, .content_size = pair->size};
    int status = psclient_pull(client, &w, 1, LONG_MS, NULL, &error);
    *version = w.version;
    return status;
}

static void fill(const struct pair *pair, float value)
{
    for (size_t i = 0; i < pair->size / sizeof(float); i++)
        pair->gradient[i] = value;
}

START_TEST(contents_above_a_servers_largest_message_are_pushed_and_pulled)
{
    struct pair pair;
    uint64_t version;
    begin(&pair, sizes[_i]);
    for (int turn = 1; turn <= 3; turn++) {
        fill(&pair, -(float)turn);
        expect_ok(push(client, &pair, &error));
    }

    expect_ok(pull(&pair, &version));

    ck_assert_uint_eq(version, 3);
    expect_each(i, pair.size / sizeof(float), pair.values[i] == 6);
    ck_assert_uint_gt(counters().shared_bytes, 0);
    end_pair(&pair);
    finish();
}
END_TEST

struct rival {
    struct psclient *client;
    struct pair pair;
    struct psclient_error why;
    int status;
};

static void *compete(void *argument)
{
    struct rival *rival = argument;
    for (unsigned i = 0; i < 10 && rival->status == PSCLIENT_OK; i++)
        rival->status = push(rival->client, &rival->pair, &rival->why);
    return NULL;
}

/* Who is overtaken sends the next ones as one, where the server takes them so. */
START_TEST(clients_that_overtake_each_other_are_not_refused)
{
    struct pair pair;
    struct rival rivals[2];
    pthread_t threads[2];
    uint64_t version;
    begin(&pair, 16 * MIB);
    for (int i = 0; i < 2; i++) {
        rivals[i] = (struct rival){.client = open_one(&(struct psclient_options){0}),
                                   .pair = make_pair(pair.size)};
        fill(&rivals[i].pair, -1);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compete, &rivals[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_msg(rivals[i].status == PSCLIENT_OK, "%s", rivals[i].why.text);
        psclient_close(rivals[i].client);
        end_pair(&rivals[i].pair);
    }

    expect_ok(pull(&pair, &version));

    ck_assert_uint_eq(version, 20);
    expect_each(i, pair.size / sizeof(float), pair.values[i] == 20);
    end_pair(&pair);
    finish();
}
END_TEST

/* Requests to programs are not cut: over TCP one that the server does not take is refused at once,
 * with what to do about it. */
START_TEST(a_request_that_is_too_large_says_what_to_do)
{
    const struct psclient_options over_tcp = {.shared_memory = PSCLIENT_SHARED_MEMORY_OFF};
    const uint64_t key = 1;
    struct pair pair = make_pair(5 * MIB);
    struct ps_customer *customer = NULL;
    int64_t timestamp = -1;
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, "--message-bytes", MESSAGE_BYTES);
    client = open_one(&over_tcp);
    const struct ps_kv_pairs pushed = {.keys = (uint64_t *)(uintptr_t)&key,
                                       .key_count = 1,
                                       .type = PSCLIENT_FLOAT32,
                                       .values = pair.gradient,
                                       .value_count = pair.size / sizeof(float)};
    expect_ok(ps_customer_open(client, NULL, &customer, &error));
    expect_ok(ps_kv_worker_push(customer, &pushed, NULL, &timestamp, &error));

    int status = ps_kv_worker_wait(customer, timestamp, LONG_MS, &error);

    ck_assert_msg(status == PSCLIENT_INVALID, "%d %s", status, error.text);
    ck_assert_ptr_nonnull(strstr(error.text, "--message-bytes"));
    ck_assert_ptr_nonnull(strstr(error.text, "4194304"));
    expect_ok(ps_customer_close(customer, &error));
    end_pair(&pair);
    finish();
}
END_TEST

/* Values of the rendezvous are in parts of 2 MiB anyhow. */
START_TEST(a_value_above_a_servers_largest_message_goes_in_parts)
{
    const struct psclient_options over_tcp = {.shared_memory = PSCLIENT_SHARED_MEMORY_OFF};
    struct pair pair = make_pair(9 * MIB);
    struct psclient_rendezvous *step = NULL;
    temp_folder_init(&folder);
    start_server("127.0.0.1:0", false, "--message-bytes", MESSAGE_BYTES);
    client = open_one(&over_tcp);
    fill(&pair, 3);
    const struct psclient_tensor sent = {
        .rank = 1, .shape = {1}, .content = (void *)pair.gradient, .size = pair.size};
    struct psclient_tensor received = {.content = (void *)pair.values, .size = pair.size};
    expect_ok(psclient_rendezvous_open(client, 7, NULL, LONG_MS, &step, &error));
    expect_ok(psclient_rendezvous_send(step, "k", &sent, LONG_MS, &error));
    expect_ok(psclient_rendezvous_recv(step, "k", &received, LONG_MS, &error));
    expect_each(i, pair.size / sizeof(float), pair.values[i] == 3);
    expect_ok(psclient_rendezvous_cleanup(step, LONG_MS, &error));
    psclient_rendezvous_close(step);
    end_pair(&pair);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_message_bytes");
    TCase *tests = tcase_create("psclient_message_bytes");
    tcase_set_timeout(tests, 180);
    tcase_add_loop_test(tests, contents_above_a_servers_largest_message_are_pushed_and_pulled, 0,
                        SIZES);
    tcase_add_test(tests, clients_that_overtake_each_other_are_not_refused);
    tcase_add_test(tests, a_request_that_is_too_large_says_what_to_do);
    tcase_add_test(tests, a_value_above_a_servers_largest_message_goes_in_parts);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
