/* SPDX-License-Identifier: Apache-2.0 */
/* A model that grows, shrinks and learns at another rate, on real servers that are killed. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define LONG_MS 120000
#define COUNT 1000

static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static struct psclient_result results[2];
static float zeros[COUNT], ones[COUNT], read_back[COUNT];

/* OptimizerConfig {const_lr {learning_rate: 0.5}} */
static const uint8_t half_rate[] = {0x62, 9, 0x09, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f};

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void start(uint32_t index)
{
    pserver_process_start_alone(&servers[index], PSERVER_PROGRAM, &folder, index);
}

static void kill_and_restart_all(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        pserver_process_kill(&servers[i]);
        start(i);
    }
}

/* "large" is cut over both servers, whatever is small is whole on one. */
static struct psclient_parameter parameter(const char *name, float *content, size_t count)
{
    return (struct psclient_parameter){.name = name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = content,
                                       .content_size = count * sizeof(float)};
}

static void begin(void)
{
    char list[160];
    int selected = 0;
    temp_folder_init(&folder);
    start(0);
    start(1);
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {
        .servers = list, .open_timeout_ms = LONG_MS, .split_bytes = 2048};
    const struct psclient_parameter first = parameter("first", zeros, 10);
    expect_ok(psclient_open(&options, &client, &error));
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_init(client, &first, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

static void end(void)
{
    psclient_close(client);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static int push(const char *name, size_t count)
{
    const struct psclient_gradient gradient = {.name = name,
                                               .type = PSCLIENT_FLOAT32,
                                               .content = ones,
                                               .content_size = count * sizeof(float)};
    return psclient_push(client, &gradient, 1, LONG_MS, NULL, &error);
}

static void expect_values(const char *name, size_t count, float value, uint64_t version)
{
    struct psclient_parameter pulled = parameter(name, read_back, count);
    expect_ok(psclient_pull(client, &pulled, 1, LONG_MS, NULL, &error));
    for (size_t i = 0; i < count; i++)
        ck_assert_float_eq(read_back[i], value);
    ck_assert_uint_eq(pulled.version, version);
}

static void define_both(const float *content)
{
    struct psclient_parameter both[] = {parameter("large", (float *)(uintptr_t)content, COUNT),
                                        parameter("small", (float *)(uintptr_t)content, 10)};
    expect_ok(psclient_define(client, both, 2, LONG_MS, results, &error));
}

START_TEST(what_is_defined_trains_and_survives_kill_9)
{
    define_both(zeros);
    ck_assert_int_eq(results[0].existed + results[1].existed, 0);
    expect_ok(push("large", COUNT));
    expect_ok(push("small", 10));
    kill_and_restart_all();

    expect_values("large", COUNT, -1, 1);
    define_both(ones);

    ck_assert_int_eq(results[0].existed, 1);
    ck_assert_int_eq(results[1].existed, 1);
    expect_values("large", COUNT, -1, 1);
    expect_values("small", 10, -1, 1);
}
END_TEST

START_TEST(another_parameter_of_the_name_is_refused_and_the_rest_defined)
{
    struct psclient_parameter wrong[] = {parameter("first", zeros, 11),
                                         parameter("small", zeros, 10)};

    ck_assert_int_eq(psclient_define(client, wrong, 2, LONG_MS, results, &error), PSCLIENT_ALREADY);

    ck_assert_int_eq(results[0].status, PSCLIENT_ALREADY);
    ck_assert_int_eq(results[1].status, PSCLIENT_OK);
    expect_values("first", 10, 0, 0);
    expect_values("small", 10, 0, 0);
}
END_TEST

START_TEST(what_is_dropped_is_gone_and_may_come_again)
{
    const char *names[] = {"large", "small"};
    define_both(zeros);
    expect_ok(push("large", COUNT));
    expect_ok(psclient_drop(client, names, 2, LONG_MS, results, &error));
    ck_assert_uint_eq(results[0].version, 1);
    ck_assert_int_eq(push("large", COUNT), PSCLIENT_NOT_FOUND);
    kill_and_restart_all();

    ck_assert_int_eq(push("small", 10), PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(psclient_drop(client, names, 2, LONG_MS, results, &error), PSCLIENT_NOT_FOUND);
    define_both(ones);

    ck_assert_int_eq(results[0].existed, 0);
    expect_values("large", COUNT, 1, 0);
    expect_ok(push("first", 10));
}
END_TEST

START_TEST(another_rate_holds_from_the_next_push_on_and_survives_kill_9)
{
    const char *names[] = {"large", "first"};
    struct psclient_config configs[2];
    define_both(zeros);
    expect_ok(push("large", COUNT));

    expect_ok(psclient_configure(client, names, 2, half_rate, sizeof half_rate, LONG_MS, results,
                                 configs, &error));

    ck_assert_uint_eq(results[0].version, 1);
    ck_assert_uint_eq(configs[0].step, 1);
    ck_assert_uint_eq(configs[1].step, 0);
    ck_assert_uint_gt(configs[0].size, 0);
    expect_ok(push("large", COUNT));
    expect_values("large", COUNT, -1.5F, 2);
    kill_and_restart_all();
    expect_ok(push("large", COUNT));
    expect_values("large", COUNT, -2, 3);
    expect_ok(push("first", 10));
    expect_values("first", 10, -0.5F, 1);
}
END_TEST

START_TEST(a_rule_cannot_be_changed)
{
    static const uint8_t adam[] = {0x08, 4};
    const char *name = "first";

    ck_assert_int_eq(
        psclient_configure(client, &name, 1, adam, sizeof adam, LONG_MS, results, NULL, &error),
        PSCLIENT_INVALID);

    ck_assert_ptr_nonnull(strstr(error.text, "adam"));
}
END_TEST

START_TEST(configurations_are_listed)
{
    struct psclient_param_info rows[4];
    struct psclient_config configs[4];
    const char *name = "first";
    size_t told = 0;
    expect_ok(psclient_configure(client, &name, 1, half_rate, sizeof half_rate, LONG_MS, NULL, NULL,
                                 &error));
    for (uint32_t i = 0; i < 2; i++) {
        size_t count = 0;
        int more = 0;
        expect_ok(psclient_list_configs(client, i, NULL, rows, configs, 4, &count, &more, LONG_MS,
                                        &error));
        told += count > 0 && configs[0].size > 0 ? 1 : 0;
    }

    ck_assert_uint_eq(told, 1);
}
END_TEST

START_TEST(a_replica_of_what_is_dropped_says_so_and_keeps_its_copy)
{
    struct psclient_replica *replica = NULL;
    const char *name = "small";
    define_both(ones);
    struct psclient_parameter copies[] = {parameter("first", read_back, 10),
                                          parameter("small", read_back + 10, 10)};
    expect_ok(psclient_replica_open(client, copies, 2, &replica, &error));
    expect_ok(psclient_pull_since(replica, LONG_MS, results, &error));
    expect_ok(psclient_drop(client, &name, 1, LONG_MS, NULL, &error));
    expect_ok(push("first", 10));

    ck_assert_int_eq(psclient_pull_since(replica, LONG_MS, results, &error), PSCLIENT_NOT_FOUND);

    ck_assert_int_eq(results[0].status, PSCLIENT_OK);
    ck_assert_int_eq(results[1].status, PSCLIENT_NOT_FOUND);
    ck_assert_float_eq(read_back[0], -1);
    ck_assert_float_eq(read_back[10], 1);
    define_both(zeros);
    expect_ok(psclient_pull_since(replica, LONG_MS, results, &error));
    ck_assert_float_eq(read_back[10], 0);
    psclient_replica_close(replica);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient grow");
    TCase *tests = tcase_create("grow");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, what_is_defined_trains_and_survives_kill_9);
    tcase_add_test(tests, another_parameter_of_the_name_is_refused_and_the_rest_defined);
    tcase_add_test(tests, what_is_dropped_is_gone_and_may_come_again);
    tcase_add_test(tests, another_rate_holds_from_the_next_push_on_and_survives_kill_9);
    tcase_add_test(tests, a_rule_cannot_be_changed);
    tcase_add_test(tests, configurations_are_listed);
    tcase_add_test(tests, a_replica_of_what_is_dropped_says_so_and_keeps_its_copy);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
