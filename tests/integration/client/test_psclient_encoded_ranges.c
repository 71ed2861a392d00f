/* SPDX-License-Identifier: Apache-2.0 */
/* Large encoded gradients and replies go in ranges, both ways, through a server that takes no
 * message above 1 MiB, over TCP and through shared memory: the bits that the encoding says. */
#include "client/psclient.h"

#include "base/thread.h"
#include "optimizer/encoded.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

/* Above 2 MiB in every encoding, so that it goes in ranges; the last one is short. */
enum { COUNT = 2 * 1024 * 1024 + 123456, SHARE_DIVISOR = 4 };

static struct pserver_process server;
static struct psclient *client;
static struct psclient_error error;
static float *gradient;
static float *left;     /* what the encoding has left out so far */
static float *expected; /* the values */
static float *values;   /* that were pulled */
static uint8_t *encoded;

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static struct psclient *open_as(enum psclient_encoding encoding, enum psclient_encoding reply,
                                bool shares)
{
    struct psclient *opened;
    const struct psclient_options options = {.servers = server.address,
                                             .split_bytes = UINT64_C(1) << 40,
                                             .encoding = encoding,
                                             .reply_encoding = reply,
                                             .top_k_share = 1.0 / SHARE_DIVISOR,
                                             .shared_memory = shares ? PSCLIENT_SHARED_MEMORY_AUTO
                                                                     : PSCLIENT_SHARED_MEMORY_OFF};
    expect_ok(psclient_open(&options, &opened, &error));
    return opened;
}

static struct psclient_parameter parameter(float *to)
{
    return (struct psclient_parameter){.name = "large",
                                       .type = PSCLIENT_FLOAT32,
                                       .content = to,
                                       .content_size = COUNT * sizeof(float)};
}

static struct psclient_gradient pushed(void)
{
    return (struct psclient_gradient){.name = "large",
                                      .type = PSCLIENT_FLOAT32,
                                      .content = gradient,
                                      .content_size = COUNT * sizeof(float)};
}

/* SGD with rate 1: the values lose exactly what is pushed. */
static void start_with(const char *const *arguments, bool exact)
{
    int selected = 0;
    pserver_process_start(&server, PSERVER_PROGRAM, "127.0.0.1:0", arguments);
    gradient = malloc(COUNT * sizeof *gradient);
    left = calloc(COUNT, sizeof *left);
    expected = malloc(COUNT * sizeof *expected);
    values = malloc(COUNT * sizeof *values);
    encoded = malloc(COUNT * sizeof(double));
    ck_assert(gradient != NULL && left != NULL && expected != NULL && values != NULL &&
              encoded != NULL);
    for (size_t i = 0; i < COUNT; i++)
        expected[i] = values[i] = (float)(i % 1000) / (exact ? 1 : 7);
    struct psclient *first = open_as(PSCLIENT_NATIVE, PSCLIENT_NATIVE, false);
    struct psclient_parameter large = parameter(values);
    expect_ok(psclient_begin_init(first, LONG_MS, &selected, &error));
    expect_ok(psclient_init(first, &large, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(first, LONG_MS, &error));
    psclient_close(first);
}

static void start(bool exact)
{
    const char *const arguments[] = {"--message-bytes", "1048576", NULL};
    start_with(arguments, exact);
}

static void finish(void)
{
    psclient_close(client);
    pserver_process_kill(&server);
    free(gradient);
    free(left);
    free(expected);
    free(values);
    free(encoded);
}

static void fill(unsigned step)
{
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = (float)((i * 2654435761U + step * 40503U) % 2001) / 1000 - 1;
}

/* Takes what the next push of `gradient` is worth from the expected values, with what was left out
 * before it. */
static void expect_push(enum ps_encoding encoding)
{
    float *decoded = malloc(COUNT * sizeof *decoded);
    bool feeds_back = encoding == PS_ENCODING_INT8 || encoding == PS_ENCODING_TOP_K;
    ck_assert_ptr_nonnull(decoded);
    for (size_t i = 0; i < COUNT; i++)
        left[i] = feeds_back ? gradient[i] + left[i] : gradient[i];
    if (encoding == PS_ENCODING_TOP_K) {
        const size_t kept = (COUNT + SHARE_DIVISOR - 1) / SHARE_DIVISOR;
        memset(decoded, 0, COUNT * sizeof *decoded);
        ps_encode_top_k(PS_F32, left, COUNT, kept, encoded);
        for (size_t i = 0; i < kept; i++) {
            uint32_t index;
            memcpy(&index, encoded + i * 4, 4);
            memcpy(&decoded[index], encoded + (kept + i) * 4, 4);
        }
    } else {
        ck_assert_int_eq(ps_encode_all(encoding, PS_F32, left, COUNT, encoded, NULL), PS_OK);
        ps_decode_all(encoding, PS_F32, encoded, COUNT, decoded);
    }
    for (size_t i = 0; i < COUNT; i++) {
        expected[i] -= decoded[i];
        left[i] -= decoded[i];
    }
    free(decoded);
}

static void expect_values(const float *wanted)
{
    size_t i = 0;
    while (i < COUNT && memcmp(&values[i], &wanted[i], sizeof(float)) == 0)
        i++;
    ck_assert_msg(i == COUNT, "element %zu: %g, expected %g", i, (double)values[i],
                  (double)wanted[i]);
}

/* What comes of the expected values in a reply. */
static const float *reply_of(enum ps_encoding encoding)
{
    float *decoded = left; /* not needed any more */
    ck_assert_int_eq(ps_encode_all(encoding, PS_F32, expected, COUNT, encoded, NULL), PS_OK);
    ps_decode_all(encoding, PS_F32, encoded, COUNT, decoded);
    return decoded;
}

START_TEST(pushes_of_any_encoding_have_the_bits_that_it_says)
{
    struct psclient_result result;
    enum ps_encoding encoding = (enum ps_encoding)(_i / 2);
    start(false);
    client = open_as((enum psclient_encoding)encoding, PSCLIENT_NATIVE, _i % 2 == 1);
    for (unsigned step = 1; step <= 2; step++) {
        const struct psclient_gradient one = pushed();
        fill(step);
        expect_push(encoding);
        expect_ok(psclient_push(client, &one, 1, LONG_MS, &result, &error));
        ck_assert_uint_eq(result.version, step);
    }
    struct psclient_parameter large = parameter(values);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 2);
    expect_values(expected);
    finish();
}
END_TEST

START_TEST(replies_of_any_encoding_have_the_bits_that_it_says)
{
    enum ps_encoding encoding = (enum ps_encoding)(_i / 2);
    start(false);
    client = open_as(PSCLIENT_NATIVE, (enum psclient_encoding)encoding, _i % 2 == 1);
    struct psclient_parameter large = parameter(values);
    memset(values, 0, COUNT * sizeof *values);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    expect_values(reply_of(encoding));
    finish();
}
END_TEST

/* Encodings of the gradient and of the reply. */
static const enum ps_encoding steps[][2] = {
    {PS_ENCODING_INT8, PS_ENCODING_NATIVE},      {PS_ENCODING_INT8, PS_ENCODING_INT8},
    {PS_ENCODING_BFLOAT16, PS_ENCODING_FLOAT16}, {PS_ENCODING_NATIVE, PS_ENCODING_INT8},
    {PS_ENCODING_TOP_K, PS_ENCODING_NATIVE},     {PS_ENCODING_TOP_K, PS_ENCODING_BFLOAT16},
    {PS_ENCODING_FLOAT64, PS_ENCODING_FLOAT64}};
enum { STEPS = sizeof steps / sizeof steps[0] };

START_TEST(a_step_brings_the_parameter_as_it_is_after_it)
{
    const enum ps_encoding *encodings = steps[_i / 2];
    start(false);
    client = open_as((enum psclient_encoding)encodings[0], (enum psclient_encoding)encodings[1],
                     _i % 2 == 1);
    for (unsigned step = 1; step <= 2; step++) {
        const struct psclient_gradient one = pushed();
        struct psclient_parameter large = parameter(values);
        fill(step);
        expect_push(encodings[0]);
        memset(values, 0, COUNT * sizeof *values);
        expect_ok(psclient_push_pull(client, &one, &large, 1, LONG_MS, NULL, &error));
        ck_assert_uint_eq(large.version, step);
    }
    expect_values(reply_of(encodings[1]));
    finish();
}
END_TEST

/* A gradient that int8 says exactly, and values that lose it without rounding: nothing is left out,
 * and each value shows how many pushes there were. */
#define EXACT (127.0F / 128)

static void fill_exact(void)
{
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = EXACT;
}

static void expect_pushes(uint64_t count)
{
    size_t i = 0;
    while (i < COUNT && values[i] == (float)(i % 1000) - (float)count * EXACT)
        i++;
    ck_assert_msg(i == COUNT, "element %zu after %llu pushes: %g", i, (unsigned long long)count,
                  (double)values[i]);
}

static atomic_bool stop;
static atomic_uint acknowledged;

static void push_and_count(void *argument)
{
    struct psclient_error reason;
    const struct psclient_gradient one = pushed();
    while (!atomic_load(&stop)) {
        ck_assert_int_eq(psclient_push(argument, &one, 1, LONG_MS, NULL, &reason), PSCLIENT_OK);
        atomic_fetch_add(&acknowledged, 1);
    }
}

START_TEST(what_is_pulled_while_others_push_is_one_version)
{
    struct ps_thread thread = {0};
    start(true);
    client = open_as(PSCLIENT_INT8, PSCLIENT_AS_FLOAT64, _i == 1);
    struct psclient *other = open_as(PSCLIENT_INT8, PSCLIENT_NATIVE, _i == 1);
    struct psclient_parameter large = parameter(values);
    fill_exact();
    atomic_store(&stop, false);
    ck_assert_int_eq(ps_thread_start(&thread, "pusher", push_and_count, other, NULL), PS_OK);
    for (int i = 0; i < 10; i++) {
        expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
        expect_pushes(large.version);
    }
    atomic_store(&stop, true);
    ps_thread_join(&thread);
    psclient_close(other);
    finish();
}
END_TEST

static void take_steps(void *argument)
{
    struct psclient_error reason;
    const struct psclient_gradient one = pushed();
    float *own = malloc(COUNT * sizeof *own);
    ck_assert_ptr_nonnull(own);
    struct psclient_parameter large = parameter(own);
    for (int step = 0; step < 5; step++) {
        ck_assert_int_eq(psclient_push_pull(argument, &one, &large, 1, LONG_MS, NULL, &reason),
                         PSCLIENT_OK);
        size_t i = 0;
        while (i < COUNT && own[i] == (float)(i % 1000) - (float)large.version * EXACT)
            i++;
        ck_assert_uint_eq(i, COUNT);
    }
    free(own);
}

START_TEST(steps_of_two_bring_each_a_version_that_is_whole)
{
    struct ps_thread thread = {0};
    start(true);
    client = open_as(PSCLIENT_INT8, PSCLIENT_AS_FLOAT64, false);
    struct psclient *other = open_as(PSCLIENT_INT8, PSCLIENT_NATIVE, false);
    fill_exact();
    ck_assert_int_eq(ps_thread_start(&thread, "stepper", take_steps, other, NULL), PS_OK);
    take_steps(client);
    ps_thread_join(&thread);

    struct psclient_parameter large = parameter(values);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 10);
    expect_pushes(10);
    psclient_close(other);
    finish();
}
END_TEST

/* Kills the server between two ranges, as it comes: what was encoded once is sent again. */
START_TEST(acknowledged_pushes_are_applied_once_through_kills)
{
    struct temp_folder folder;
    struct ps_thread thread = {0};
    char address[64];
    temp_folder_init(&folder);
    const char *const arguments[] = {"--data-dir", folder.path, "--ack", "logged", NULL};
    start_with(arguments, true);
    client = open_as(PSCLIENT_INT8, PSCLIENT_NATIVE, false);
    struct psclient_parameter large = parameter(values);
    fill_exact();
    memcpy(address, server.address, sizeof address);
    atomic_store(&stop, false);
    ck_assert_int_eq(ps_thread_start(&thread, "pusher", push_and_count, client, NULL), PS_OK);
    for (unsigned kills = 1; kills <= 3; kills++) {
        while (atomic_load(&acknowledged) < 2 * kills)
            expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
        pserver_process_kill(&server);
        pserver_process_start(&server, PSERVER_PROGRAM, address, arguments);
    }
    atomic_store(&stop, true);
    ps_thread_join(&thread);

    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, atomic_load(&acknowledged));
    expect_pushes(large.version);
    finish();
    temp_folder_fini(&folder);
}
END_TEST

/* What top-k leaves out of a push that took two lives of the server is as it would have been. */
START_TEST(what_is_left_out_survives_a_push_that_is_sent_again)
{
    struct temp_folder folder;
    char address[64];
    temp_folder_init(&folder);
    const char *const arguments[] = {"--data-dir", folder.path, "--ack", "logged", NULL};
    start_with(arguments, false);
    client = open_as(PSCLIENT_TOP_K, PSCLIENT_NATIVE, false);
    memcpy(address, server.address, sizeof address);
    for (unsigned step = 1; step <= 3; step++) {
        struct psclient_operation *operation;
        const struct psclient_gradient one = pushed();
        fill(step);
        expect_push(PS_ENCODING_TOP_K);
        expect_ok(psclient_push_begin(client, &one, 1, LONG_MS, NULL, &operation, &error));
        (void)psclient_next(client, 10 * step);
        pserver_process_kill(&server);
        pserver_process_start(&server, PSERVER_PROGRAM, address, arguments);
        expect_ok(psclient_end(operation, NULL, &error));
    }
    struct psclient_parameter large = parameter(values);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 3);
    expect_values(expected);
    finish();
    temp_folder_fini(&folder);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_is_refused)
{
    start(true);
    client = open_as((enum psclient_encoding)_i, PSCLIENT_NATIVE, false);
    const struct psclient_gradient one = pushed();
    fill_exact();
    gradient[1234567] = NAN;
    ck_assert_int_eq(psclient_push(client, &one, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);

    struct psclient_parameter large = parameter(values);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 0);
    expect_pushes(0);
    finish();
}
END_TEST

START_TEST(memory_of_another_size_or_type_is_not_written)
{
    start(true);
    client = open_as(PSCLIENT_NATIVE, (enum psclient_encoding)_i, false);
    memset(values, 0, COUNT * sizeof *values);
    struct psclient_parameter wrong = parameter(values);
    wrong.content_size -= 4096;
    ck_assert_int_eq(psclient_pull(client, &wrong, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_msg(strstr(error.text, "asked for") != NULL, "%s", error.text);
    wrong = parameter(values);
    wrong.content_size -= 4;
    wrong.type = PSCLIENT_FLOAT64;
    ck_assert_int_eq(psclient_pull(client, &wrong, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    size_t i = 0;
    while (i < COUNT && values[i] == 0)
        i++;
    ck_assert_uint_eq(i, COUNT);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_encoded_ranges");
    TCase *t = tcase_create("psclient_encoded_ranges");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, pushes_of_any_encoding_have_the_bits_that_it_says, 2,
                        2 * PS_ENCODING_COUNT);
    tcase_add_loop_test(t, replies_of_any_encoding_have_the_bits_that_it_says, 2,
                        2 * PS_ENCODING_TOP_K);
    tcase_add_loop_test(t, a_step_brings_the_parameter_as_it_is_after_it, 0, 2 * STEPS);
    tcase_add_loop_test(t, what_is_pulled_while_others_push_is_one_version, 0, 2);
    tcase_add_test(t, steps_of_two_bring_each_a_version_that_is_whole);
    tcase_add_test(t, acknowledged_pushes_are_applied_once_through_kills);
    tcase_add_test(t, what_is_left_out_survives_a_push_that_is_sent_again);
    tcase_add_loop_test(t, a_gradient_that_is_not_finite_is_refused, PS_ENCODING_FLOAT64,
                        PS_ENCODING_COUNT);
    tcase_add_loop_test(t, memory_of_another_size_or_type_is_not_written, PS_ENCODING_FLOAT64,
                        PS_ENCODING_TOP_K);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
