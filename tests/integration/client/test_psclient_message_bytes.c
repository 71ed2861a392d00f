/* SPDX-License-Identifier: Apache-2.0 */
/* Large contents for a server on this host that takes only small messages (--message-bytes): what
 * it would not take as one goes in ranges. */
#include "tests/integration/client/live_rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

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

int main(void)
{
    Suite *suite = suite_create("psclient_message_bytes");
    TCase *tests = tcase_create("psclient_message_bytes");
    tcase_set_timeout(tests, 180);
    tcase_add_loop_test(tests, contents_above_a_servers_largest_message_are_pushed_and_pulled, 0,
                        SIZES);
    tcase_add_test(tests, clients_that_overtake_each_other_are_not_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
