/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient with real servers, in every encoding: the bits that the encoding says, and with error
 * feedback nothing that is lost for good. */
#include "client/psclient.h"

#include "optimizer/encoded.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000
#define COUNT 3000 /* cut over two servers */
#define HALF (COUNT / 2)

static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static char list[160];
static float values[COUNT];
static float expected[COUNT];
static float gradient[COUNT];

static void open_as(enum psclient_encoding encoding, enum psclient_encoding reply_encoding)
{
    const struct psclient_options options = {.servers = list,
                                             .split_bytes = 2048,
                                             .encoding = encoding,
                                             .reply_encoding = reply_encoding,
                                             .top_k_share = 0.05};
    int status = psclient_open(&options, &client, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static struct psclient_parameter parameter = {
    .name = "w", .type = PSCLIENT_FLOAT32, .content = values, .content_size = sizeof values};

/* SGD with rate 1: the value loses exactly what is pushed. */
static void start(void)
{
    int selected = 0;
    temp_folder_init(&folder);
    for (uint32_t i = 0; i < 2; i++) {
        char data[600];
        const char *const arguments[] = {
            "--data-dir", temp_folder_path(&folder, i == 0 ? "s0" : "s1", data, sizeof data), NULL};
        pserver_process_start(&servers[i], PSERVER_PROGRAM, "127.0.0.1:0", arguments);
    }
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    for (int i = 0; i < COUNT; i++)
        expected[i] = values[i] = (float)cos(i) * 4;
    open_as(PSCLIENT_NATIVE, PSCLIENT_NATIVE);
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_init(client, &parameter, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    psclient_close(client);
}

static void finish(void)
{
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static void fill(int step)
{
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (float)(sin(i * 0.7 + step) * (i % 50 == 0 ? 10 : 0.1) + 0.01);
}

static void push(void)
{
    const struct psclient_gradient pushed = {.name = "w",
                                             .type = PSCLIENT_FLOAT32,
                                             .content = gradient,
                                             .content_size = sizeof gradient};
    int status = psclient_push(client, &pushed, 1, LONG_MS, NULL, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void pull(void)
{
    memset(values, 0, sizeof values);
    int status = psclient_pull(client, &parameter, 1, LONG_MS, NULL, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

/* What half a gradient is worth once it has gone through the encoding. */
static void decode_half(enum ps_encoding encoding, const float *half, float *decoded)
{
    static uint8_t encoded[HALF * 8];
    memset(decoded, 0, HALF * sizeof *decoded);
    if (encoding != PS_ENCODING_TOP_K) {
        ck_assert_int_eq(ps_encode_all(encoding, PS_F32, half, HALF, encoded, NULL), PS_OK);
        ps_decode_all(encoding, PS_F32, encoded, HALF, decoded);
        return;
    }
    size_t kept = HALF / 20;
    ps_encode_top_k(PS_F32, half, HALF, kept, encoded);
    for (size_t i = 0; i < kept; i++) {
        uint32_t index;
        memcpy(&index, encoded + i * 4, 4);
        memcpy(&decoded[index], encoded + (kept + i) * 4, 4);
    }
}

START_TEST(a_push_is_worth_what_its_encoding_says)
{
    static float decoded[COUNT];
    start();
    open_as((enum psclient_encoding)_i, PSCLIENT_NATIVE);
    fill(1);

    push();

    decode_half((enum ps_encoding)_i, gradient, decoded);
    decode_half((enum ps_encoding)_i, gradient + HALF, decoded + HALF);
    pull();
    for (int i = 0; i < COUNT; i++)
        expected[i] -= decoded[i];
    ck_assert_mem_eq(values, expected, sizeof values);
    psclient_close(client);
    finish();
}
END_TEST

START_TEST(a_pull_is_worth_what_its_encoding_says)
{
    static float decoded[COUNT];
    start();
    open_as(PSCLIENT_NATIVE, (enum psclient_encoding)_i);

    pull();

    decode_half((enum ps_encoding)_i, expected, decoded);
    decode_half((enum ps_encoding)_i, expected + HALF, decoded + HALF);
    ck_assert_mem_eq(values, decoded, sizeof values);
    psclient_close(client);
    finish();
}
END_TEST

START_TEST(a_push_with_a_pull_is_encoded_both_ways)
{
    static float decoded[COUNT];
    const struct psclient_gradient pushed = {.name = "w",
                                             .type = PSCLIENT_FLOAT32,
                                             .content = gradient,
                                             .content_size = sizeof gradient};
    start();
    open_as(PSCLIENT_BFLOAT16, PSCLIENT_FLOAT16);
    fill(1);

    int status = psclient_push_pull(client, &pushed, &parameter, 1, LONG_MS, NULL, &error);

    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    decode_half(PS_ENCODING_BFLOAT16, gradient, decoded);
    decode_half(PS_ENCODING_BFLOAT16, gradient + HALF, decoded + HALF);
    for (int i = 0; i < COUNT; i++)
        expected[i] -= decoded[i];
    decode_half(PS_ENCODING_FLOAT16, expected, decoded);
    decode_half(PS_ENCODING_FLOAT16, expected + HALF, decoded + HALF);
    ck_assert_mem_eq(values, decoded, sizeof values);
    psclient_close(client);
    finish();
}
END_TEST

/* The drift of 0.01 a push would make 2 if it were left out for good. */
START_TEST(with_feedback_the_server_follows_the_sum_of_the_gradients)
{
    const double bound = _i == 0 ? 0.1 : 12;
    static double wanted[COUNT];
    struct psclient_counters counters;
    start();
    open_as(_i == 0 ? PSCLIENT_INT8 : PSCLIENT_TOP_K, PSCLIENT_NATIVE);
    for (int i = 0; i < COUNT; i++)
        wanted[i] = (double)expected[i];

    for (int step = 0; step < 200; step++) {
        fill(step);
        push();
        for (int i = 0; i < COUNT; i++)
            wanted[i] -= (double)gradient[i];
    }

    pull();
    double distance = 0;
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
        distance = fmax(distance, fabs((double)values[i] - wanted[i]));
        sum += fabs((double)values[i] - wanted[i]);
    }
    ck_assert_double_lt(distance, bound);
    ck_assert_double_lt(sum / COUNT, _i == 0 ? 0.05 : 1);
    psclient_get_counters(client, &counters);
    ck_assert_uint_eq(counters.feedback_bytes, sizeof gradient);
    psclient_close(client);
    finish();
}
END_TEST

START_TEST(options_that_cannot_be_are_refused)
{
    const struct psclient_options wrong[] = {
        {.servers = "127.0.0.1:1", .encoding = (enum psclient_encoding)7},
        {.servers = "127.0.0.1:1", .reply_encoding = PSCLIENT_TOP_K},
        {.servers = "127.0.0.1:1", .top_k_share = 1.5},
        {.servers = "127.0.0.1:1", .top_k_share = -1},
        {.servers = "127.0.0.1:1", .top_k_share = NAN}};
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(psclient_open(&wrong[i], &client, &error), PSCLIENT_INVALID);
}
END_TEST

START_TEST(a_gradient_that_cannot_be_encoded_fails_alone)
{
    static float poisoned[10];
    struct psclient_result results[2];
    const struct psclient_gradient pushed[] = {{.name = "v",
                                                .type = PSCLIENT_FLOAT32,
                                                .content = poisoned,
                                                .content_size = sizeof poisoned},
                                               {.name = "w",
                                                .type = PSCLIENT_FLOAT32,
                                                .content = gradient,
                                                .content_size = sizeof gradient}};
    start();
    open_as(PSCLIENT_INT8, PSCLIENT_NATIVE);
    fill(1);
    poisoned[3] = NAN;

    ck_assert_int_eq(psclient_push(client, pushed, 2, LONG_MS, results, &error), PSCLIENT_INVALID);

    ck_assert_int_eq(results[0].status, PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(results[0].text, "not finite"));
    ck_assert_int_eq(results[1].status, PSCLIENT_OK);
    psclient_close(client);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_encodings");
    TCase *tests = tcase_create("psclient_encodings");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_push_is_worth_what_its_encoding_says, 0, PSCLIENT_TOP_K + 1);
    tcase_add_loop_test(tests, a_pull_is_worth_what_its_encoding_says, 0, PSCLIENT_TOP_K);
    tcase_add_loop_test(tests, with_feedback_the_server_follows_the_sum_of_the_gradients, 0, 2);
    tcase_add_test(tests, a_push_with_a_pull_is_encoded_both_ways);
    tcase_add_test(tests, options_that_cannot_be_are_refused);
    tcase_add_test(tests, a_gradient_that_cannot_be_encoded_fails_alone);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
