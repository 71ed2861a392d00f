/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient with real servers, which are killed and restarted. */
#include "client/psclient.h"

#include "base/clock.h"
#include "expect_each.h"
#include "run_suite.h"
#include "tests/integration/client/in_doubt.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/etcd/etcd_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define LONG_MS 120000
#define COUNT 1000

static struct etcd_process etcd;
static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static float values[COUNT], ones[COUNT];

static void start_followed(uint32_t index, const char *listen)
{
    const char *const arguments[] = {"--etcd", etcd.url,     "--num-pservers", "2", "--etcd-ttl",
                                     "60s",    "--data-dir", folder.path,      NULL};
    pserver_process_start(&servers[index], PSERVER_PROGRAM, listen, arguments);
}

static void start_alone(uint32_t index)
{
    pserver_process_start_alone(&servers[index], PSERVER_PROGRAM, &folder, index);
}

static void open_with(const char *etcd_url, const char *list)
{
    const struct psclient_options options = {
        .etcd = etcd_url, .servers = list, .open_timeout_ms = LONG_MS, .split_bytes = 2048};
    int status = psclient_open(&options, &client, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static const uint64_t two_rows[] = {2, COUNT / 2};
static struct psclient_parameter large_and_small[2] = {
    {.name = "large",
     .type = PSCLIENT_FLOAT32,
     .content = values,
     .content_size = sizeof values,
     .shape = two_rows,
     .rank = 2},
    {.name = "small", .type = PSCLIENT_FLOAT32, .content = values, .content_size = 40}};

static void initialise(void)
{
    int selected = 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
        ones[i] = 1;
    }
    int status = psclient_begin_init(client, LONG_MS, &selected, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    ck_assert_int_eq(selected, 1);
    status = psclient_init(client, large_and_small, 2, LONG_MS, NULL, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    status = psclient_finish_init(client, LONG_MS, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static int push_large(uint64_t timeout_ms)
{
    struct psclient_gradient gradient = {
        .name = "large", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};
    return psclient_push(client, &gradient, 1, timeout_ms, NULL, &error);
}

static int pull_large(uint64_t timeout_ms)
{
    memset(values, 0, sizeof values);
    return psclient_pull(client, large_and_small, 1, timeout_ms, NULL, &error);
}

static void finish(void)
{
    psclient_close(client);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    etcd_process_fini(&etcd);
    temp_folder_fini(&folder);
}

START_TEST(a_cut_parameter_is_initialised_pushed_and_pulled)
{
    char list[160];
    temp_folder_init(&folder);
    start_alone(0);
    start_alone(1);
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    open_with(NULL, list);
    initialise();

    ck_assert_int_eq(push_large(LONG_MS), PSCLIENT_OK);
    ck_assert_int_eq(pull_large(LONG_MS), PSCLIENT_OK);

    expect_each(i, COUNT, values[i] == (float)i - 1);
    ck_assert_uint_eq(large_and_small[0].version, 1);
    struct psclient_param_info rows[4];
    size_t count;
    int more;
    ck_assert_int_eq(psclient_list(client, 1, NULL, rows, 4, &count, &more, LONG_MS, &error),
                     PSCLIENT_OK);
    ck_assert_str_eq(rows[0].name, "large#1/2");
    ck_assert_uint_eq(rows[0].element_count, COUNT / 2);
    ck_assert_uint_eq(rows[0].rank, 2);
    ck_assert_mem_eq(rows[0].shape, two_rows, sizeof two_rows);
    finish();
}
END_TEST

START_TEST(wrong_requests_are_answered_with_the_contracts_texts)
{
    struct psclient_gradient unknown = {
        .name = "nothing", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = 4};
    struct psclient_gradient shorter = {
        .name = "small", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = 4};
    struct psclient_gradient other = {
        .name = "small", .type = PSCLIENT_INT32, .content = ones, .content_size = 40};
    temp_folder_init(&folder);
    start_alone(0);
    open_with(NULL, servers[0].address);
    struct psclient_parameter shapeless = large_and_small[1];
    shapeless.shape = two_rows;
    shapeless.rank = 2;
    ck_assert_int_eq(psclient_init(client, &shapeless, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "the shape [2,500] is that of 1000 elements"));
    ck_assert_int_eq(psclient_push(client, &shorter, 1, LONG_MS, NULL, &error),
                     PSCLIENT_NOT_INITIALIZED);
    ck_assert_ptr_nonnull(strstr(error.text, "pserver not fully initialized"));
    initialise();

    ck_assert_int_eq(psclient_push(client, &unknown, 1, LONG_MS, NULL, &error), PSCLIENT_NOT_FOUND);
    ck_assert_str_eq(error.text, "parameter: nothing does not exist");
    ck_assert_int_eq(psclient_push(client, &shorter, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_push(client, &other, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    int selected = 7;
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 0); /* b30: it is to pull */
    finish();
}
END_TEST

START_TEST(b17_a_pull_before_initialisation_waits_no_longer_than_its_timeout)
{
    temp_folder_init(&folder);
    start_alone(0);
    open_with(NULL, servers[0].address);
    uint64_t start_ms = ps_now_ms(ps_clock_real());

    int status = pull_large(300);

    ck_assert(status == PSCLIENT_UNAVAILABLE || status == PSCLIENT_NOT_INITIALIZED);
    ck_assert_uint_ge(ps_now_ms(ps_clock_real()) - start_ms, 300);
    ck_assert_uint_lt(ps_now_ms(ps_clock_real()) - start_ms, LONG_MS);
    finish();
}
END_TEST

START_TEST(b11_a_server_killed_and_restarted_on_the_same_port_is_used_again)
{
    char list[160];
    temp_folder_init(&folder);
    start_alone(0);
    start_alone(1);
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    open_with(NULL, list);
    initialise();

    pserver_process_kill(&servers[1]);
    int lost = push_large(200);
    ck_assert(lost == PSCLIENT_UNAVAILABLE || lost == PSCLIENT_UNKNOWN);
    start_alone(1);

    int status = pull_large(LONG_MS);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    ck_assert_int_eq(push_large(LONG_MS), PSCLIENT_OK);
    finish();
}
END_TEST

START_TEST(b10_a_server_killed_and_restarted_on_another_port_is_found_by_the_store)
{
    temp_folder_init(&folder);
    etcd_process_start(&etcd, NULL);
    start_followed(0, "127.0.0.1:0"); /* and has claimed shard 0 when the next one starts */
    start_followed(1, "127.0.0.1:0");
    open_with(etcd.url, NULL);
    initialise();
    ck_assert_int_eq(push_large(LONG_MS), PSCLIENT_OK);

    pserver_process_kill(&servers[1]);
    /* As if its lease had run out. */
    const char *const arguments[] = {"del", "/ps/1", NULL};
    ck_assert_int_eq(etcd_process_ctl(&etcd, arguments), 0);
    start_followed(1, "127.0.0.1:0");

    int status = pull_large(LONG_MS);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    ck_assert_int_eq(push_large(LONG_MS), PSCLIENT_OK);
    int selected = 7;
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 0);
    finish();
}
END_TEST

START_TEST(a_server_that_is_stopped_loses_no_push_that_was_acknowledged)
{
    temp_folder_init(&folder);
    start_alone(0);
    open_with(NULL, servers[0].address);
    initialise();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(push_large(LONG_MS), PSCLIENT_OK);

    ck_assert_int_eq(pserver_process_stop(&servers[0]), 0);
    start_alone(0);

    int status = pull_large(LONG_MS);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    expect_each(i, COUNT, values[i] == (float)i - 3);
    finish();
}
END_TEST

#define MEGABYTES 8
#define WIDE ((size_t)MEGABYTES * 1024 * 1024 / sizeof(float))
#define STOPPED_PUSHES 4

static float wide[WIDE];

/* SIGSTOP: the kernel still takes what its sockets have room for, and nobody answers. The content
 * is more than that, so that gRPC holds it. Each push may have happened, none twice. */
START_TEST(a_large_push_to_a_server_that_stands_still_ends_with_its_timeout)
{
    struct psclient_parameter parameter = {
        .name = "wide", .type = PSCLIENT_FLOAT32, .content = wide, .content_size = sizeof wide};
    struct psclient_gradient gradient = {
        .name = "wide", .type = PSCLIENT_FLOAT32, .content = wide, .content_size = sizeof wide};
    temp_folder_init(&folder);
    start_alone(0);
    const struct psclient_options options = {.servers = servers[0].address,
                                             .open_timeout_ms = LONG_MS,
                                             .shared_memory = PSCLIENT_SHARED_MEMORY_OFF};
    ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_OK);
    int selected = 0;
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_init(client, &parameter, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    for (size_t i = 0; i < WIDE; i++)
        wide[i] = 1;
    ck_assert_int_eq(kill(servers[0].pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(servers[0].pid, NULL, WUNTRACED), servers[0].pid);
    uint64_t start_ms = ps_now_ms(ps_clock_real());

    for (int i = 0; i < STOPPED_PUSHES; i++)
        ck_assert_int_eq(push_in_doubt(client, &gradient, 200, &error), PSCLIENT_UNKNOWN);

    ck_assert_uint_lt(ps_now_ms(ps_clock_real()) - start_ms, LONG_MS);
    ck_assert_int_eq(kill(servers[0].pid, SIGCONT), 0);
    ck_assert_int_eq(psclient_push(client, &gradient, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_pull(client, &parameter, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_uint_ge(parameter.version, 1);
    ck_assert_uint_le(parameter.version, 1 + STOPPED_PUSHES);
    expect_each(i, WIDE, wide[i] == -(float)parameter.version);
    finish();
}
END_TEST

int main(void)
{
    if (!etcd_process_available())
        return 77;
    Suite *suite = suite_create("psclient_live");
    TCase *tests = tcase_create("psclient_live");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_cut_parameter_is_initialised_pushed_and_pulled);
    tcase_add_test(tests, wrong_requests_are_answered_with_the_contracts_texts);
    tcase_add_test(tests, b17_a_pull_before_initialisation_waits_no_longer_than_its_timeout);
    tcase_add_test(tests, b11_a_server_killed_and_restarted_on_the_same_port_is_used_again);
    tcase_add_test(tests, b10_a_server_killed_and_restarted_on_another_port_is_found_by_the_store);
    tcase_add_test(tests, a_large_push_to_a_server_that_stands_still_ends_with_its_timeout);
    tcase_add_test(tests, a_server_that_is_stopped_loses_no_push_that_was_acknowledged);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
