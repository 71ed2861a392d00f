/* SPDX-License-Identifier: Apache-2.0 */
/* Large parameters go in ranges, both ways: through a server that takes no message above 4 MiB. */
#include "client/psclient.h"

#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

/* 20 MiB and a bit, so that the last range is a short one. */
enum { COUNT = 5 * 1024 * 1024 + 12345 };

static struct pserver_process server;
static struct psclient *client;
static struct psclient_error error;
static float *gradient;
static float *content;

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static struct psclient *open_client(void)
{
    struct psclient *opened;
    const struct psclient_options options = {.servers = server.address,
                                             .split_bytes = UINT64_C(1) << 40,
                                             .shared_memory = PSCLIENT_SHARED_MEMORY_OFF};
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

static int push(struct psclient *by, struct psclient_result *result)
{
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = gradient,
                                          .content_size = COUNT * sizeof(float)};
    return psclient_push(by, &one, 1, LONG_MS, result, &error);
}

/* The parameter is its index, each gradient takes 1 away. */
static void start_with(const char *const *arguments)
{
    pserver_process_start(&server, PSERVER_PROGRAM, "127.0.0.1:0", arguments);
    client = open_client();
    gradient = malloc(COUNT * sizeof *gradient);
    content = malloc(COUNT * sizeof *content);
    ck_assert(gradient != NULL && content != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        gradient[i] = 1;
        content[i] = (float)i;
    }
    struct psclient_parameter large = parameter(content);
    int selected = 0;
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, &large, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    memset(content, 0, COUNT * sizeof *content);
}

static void start(void)
{
    const char *const arguments[] = {"--message-bytes", "4194304", NULL};
    start_with(arguments);
}

static void finish(void)
{
    psclient_close(client);
    pserver_process_kill(&server);
    free(gradient);
    free(content);
}

/* Check's own assertions are too slow for so many. */
static void expect_content(uint64_t pushes)
{
    size_t i = 0;
    while (i < COUNT && content[i] == (float)i - (float)pushes)
        i++;
    ck_assert_msg(i == COUNT, "element %zu after %llu pushes", i, (unsigned long long)pushes);
}

START_TEST(a_parameter_above_the_largest_message_is_pushed_and_pulled)
{
    struct psclient_result result;
    start();
    struct psclient_parameter large = parameter(content);

    expect_ok(push(client, &result));
    ck_assert_uint_eq(result.version, 1);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));

    ck_assert_uint_eq(large.version, 1);
    expect_content(1);
    finish();
}
END_TEST

START_TEST(a_step_brings_the_parameter_as_it_is_after_it)
{
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = NULL,
                                          .content_size = COUNT * sizeof(float)};
    struct psclient_gradient pushed = one;
    struct psclient_parameter large = parameter(NULL);
    start();
    pushed.content = gradient;
    large.content = content;
    for (uint64_t step = 1; step <= 3; step++) {
        expect_ok(psclient_push_pull(client, &pushed, &large, 1, LONG_MS, NULL, &error));
        ck_assert_uint_eq(large.version, step);
        expect_content(step);
    }
    finish();
}
END_TEST

static atomic_bool stop;

static void push_all_the_time(void *argument)
{
    struct psclient *other = argument;
    struct psclient_error reason;
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = gradient,
                                          .content_size = COUNT * sizeof(float)};
    while (!atomic_load(&stop))
        ck_assert_int_eq(psclient_push(other, &one, 1, LONG_MS, NULL, &reason), PSCLIENT_OK);
}

START_TEST(what_is_pulled_while_others_push_is_one_version)
{
    struct ps_thread thread = {0};
    start();
    struct psclient *other = open_client();
    struct psclient_parameter large = parameter(content);
    atomic_store(&stop, false);
    ck_assert_int_eq(ps_thread_start(&thread, "pusher", push_all_the_time, other, NULL), PS_OK);
    for (int i = 0; i < 20; i++) {
        expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
        expect_content(large.version);
    }
    atomic_store(&stop, true);
    ps_thread_join(&thread);
    psclient_close(other);
    finish();
}
END_TEST

static void push_five_times(void *argument)
{
    struct psclient *other = argument;
    struct psclient_error reason;
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = gradient,
                                          .content_size = COUNT * sizeof(float)};
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(psclient_push(other, &one, 1, LONG_MS, NULL, &reason), PSCLIENT_OK);
}

START_TEST(two_who_push_at_the_same_time_are_both_applied_once)
{
    struct ps_thread thread = {0};
    start();
    struct psclient *other = open_client();
    struct psclient_parameter large = parameter(content);
    ck_assert_int_eq(ps_thread_start(&thread, "pusher", push_five_times, other, NULL), PS_OK);
    push_five_times(client);
    ps_thread_join(&thread);

    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 10);
    expect_content(10);
    psclient_close(other);
    finish();
}
END_TEST

static void take_steps(struct psclient *by, float *to)
{
    struct psclient_error reason;
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = gradient,
                                          .content_size = COUNT * sizeof(float)};
    for (int step = 0; step < 5; step++) {
        struct psclient_parameter large = parameter(to);
        struct psclient_result result;
        ck_assert_int_eq(psclient_push_pull(by, &one, &large, 1, LONG_MS, &result, &reason),
                         PSCLIENT_OK);
        ck_assert_uint_ge(large.version, result.version);
        size_t i = 0;
        while (i < COUNT && to[i] == (float)i - (float)large.version)
            i++;
        ck_assert_uint_eq(i, COUNT);
    }
}

static void take_steps_beside(void *argument)
{
    float *own = malloc(COUNT * sizeof *own);
    ck_assert_ptr_nonnull(own);
    take_steps(argument, own);
    free(own);
}

START_TEST(steps_of_two_bring_each_a_version_that_is_whole)
{
    struct ps_thread thread = {0};
    start();
    struct psclient *other = open_client();
    ck_assert_int_eq(ps_thread_start(&thread, "stepper", take_steps_beside, other, NULL), PS_OK);
    take_steps(client, content);
    ps_thread_join(&thread);

    struct psclient_parameter large = parameter(content);
    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 10);
    psclient_close(other);
    finish();
}
END_TEST

static atomic_uint acknowledged;

static void push_and_count(void *argument)
{
    struct psclient_error reason;
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = gradient,
                                          .content_size = COUNT * sizeof(float)};
    while (!atomic_load(&stop)) {
        ck_assert_int_eq(psclient_push(argument, &one, 1, LONG_MS, NULL, &reason), PSCLIENT_OK);
        atomic_fetch_add(&acknowledged, 1);
    }
}

/* Kills the server between two ranges, as it comes: the next one has whole pushes only. */
START_TEST(acknowledged_pushes_in_ranges_are_applied_once_through_kills)
{
    struct temp_folder folder;
    struct ps_thread thread = {0};
    temp_folder_init(&folder);
    const char *const arguments[] = {"--data-dir", folder.path, "--ack", "logged", NULL};
    char address[64];
    start_with(arguments);
    struct psclient_parameter large = parameter(content);
    memcpy(address, server.address, sizeof address);
    atomic_store(&stop, false);
    ck_assert_int_eq(ps_thread_start(&thread, "pusher", push_and_count, client, NULL), PS_OK);
    for (unsigned kills = 1; kills <= 4; kills++) {
        while (atomic_load(&acknowledged) < 2 * kills)
            expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
        pserver_process_kill(&server);
        pserver_process_start(&server, PSERVER_PROGRAM, address, arguments);
    }
    atomic_store(&stop, true);
    ps_thread_join(&thread);

    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, atomic_load(&acknowledged));
    expect_content(large.version);
    finish();
    temp_folder_fini(&folder);
}
END_TEST

START_TEST(an_element_that_is_not_finite_refuses_all_of_it)
{
    struct psclient_parameter large = parameter(NULL);
    start();
    large.content = content;
    gradient[3000000] = NAN;

    ck_assert_int_eq(push(client, NULL), PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "3000000"));

    expect_ok(psclient_pull(client, &large, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(large.version, 0);
    expect_content(0);
    finish();
}
END_TEST

START_TEST(memory_of_another_size_or_type_is_not_written)
{
    start();
    struct psclient_parameter wrong = parameter(content);
    wrong.content_size -= 4096;
    ck_assert_int_eq(psclient_pull(client, &wrong, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "asked for"));
    wrong = parameter(content);
    wrong.type = PSCLIENT_INT32;
    ck_assert_int_eq(psclient_pull(client, &wrong, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_msg(strstr(error.text, "asked for i32") != NULL, "%s", error.text);
    size_t i = 0;
    while (i < COUNT && content[i] == 0)
        i++;
    ck_assert_uint_eq(i, COUNT);
    finish();
}
END_TEST

START_TEST(a_parameter_that_is_not_there_is_named)
{
    start();
    struct psclient_parameter absent = parameter(content);
    absent.name = "absent";
    ck_assert_int_ne(psclient_pull(client, &absent, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_ptr_nonnull(strstr(error.text, "absent"));
    finish();
}
END_TEST

START_TEST(a_server_that_has_gone_ends_the_call_at_its_deadline)
{
    start();
    struct psclient_parameter large = parameter(content);
    pserver_process_kill(&server);
    ck_assert_int_ne(psclient_pull(client, &large, 1, 300, NULL, &error), PSCLIENT_OK);
    const struct psclient_gradient one = {.name = "large",
                                          .type = PSCLIENT_FLOAT32,
                                          .content = gradient,
                                          .content_size = COUNT * sizeof(float)};
    ck_assert_int_ne(psclient_push_pull(client, &one, &large, 1, 300, NULL, &error), PSCLIENT_OK);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_ranges");
    TCase *t = tcase_create("psclient_ranges");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_parameter_above_the_largest_message_is_pushed_and_pulled);
    tcase_add_test(t, a_step_brings_the_parameter_as_it_is_after_it);
    tcase_add_test(t, what_is_pulled_while_others_push_is_one_version);
    tcase_add_test(t, two_who_push_at_the_same_time_are_both_applied_once);
    tcase_add_test(t, steps_of_two_bring_each_a_version_that_is_whole);
    tcase_add_test(t, acknowledged_pushes_in_ranges_are_applied_once_through_kills);
    tcase_add_test(t, an_element_that_is_not_finite_refuses_all_of_it);
    tcase_add_test(t, memory_of_another_size_or_type_is_not_written);
    tcase_add_test(t, a_parameter_that_is_not_there_is_named);
    tcase_add_test(t, a_server_that_has_gone_ends_the_call_at_its_deadline);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
