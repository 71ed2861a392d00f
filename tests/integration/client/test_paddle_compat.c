/* SPDX-License-Identifier: Apache-2.0 */
/* The old client interface under its own names, against a real server. */
#include "client/paddle_compat.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct temp_folder folder;
static struct pserver_process servers[2];
static paddle_pserver_client client;
static float values[4] = {1, 2, 3, 4}, ones[4] = {1, 1, 1, 1};
static char name_a[] = "param_a", name_b[] = "param_b";

static void start_server(int i, const char *listen)
{
    char data[600], name[16];
    snprintf(name, sizeof name, "s%d", i);
    const char *const arguments[] = {"--data-dir",
                                     temp_folder_path(&folder, name, data, sizeof data),
                                     "--etcd-ttl", "60s", NULL};
    pserver_process_start(&servers[i], PSERVER_PROGRAM, listen, arguments);
}

/* Kills it, and starts it at the same address. */
static void restart(int i)
{
    char address[sizeof servers[i].address];
    memcpy(address, servers[i].address, sizeof address);
    pserver_process_kill(&servers[i]);
    start_server(i, address);
}

static void start(long long selected)
{
    char list[160];
    temp_folder_init(&folder);
    for (int i = 0; i < 2; i++)
        start_server(i, "127.0.0.1:0");
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    client = paddle_new_pserver_client(list, selected);
    ck_assert_int_ge(client, 0);
}

static void finish(void)
{
    paddle_pserver_client_release(client);
    for (int i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static paddle_parameter entry(char *name, float *content)
{
    return (paddle_parameter){name, PADDLE_ELEMENT_TYPE_FLOAT32, (unsigned char *)content,
                              4 * (int)sizeof(float)};
}

static void initialise(void)
{
    ck_assert_int_eq(paddle_begin_init_params(client), 1);
    ck_assert_int_eq(paddle_init_param(client, entry(name_a, values), NULL, 0), PSERVER_OK);
    ck_assert_int_eq(paddle_init_param(client, entry(name_b, values), NULL, 0), PSERVER_OK);
    ck_assert_int_eq(paddle_finish_init_params(client), PSERVER_OK);
}

START_TEST(a_training_loop_of_the_old_kind_works)
{
    float got_a[4], got_b[4];
    start(1);
    initialise();
    paddle_gradient gradient_a = entry(name_a, ones), gradient_b = entry(name_b, ones);
    paddle_gradient *gradients[] = {&gradient_a, &gradient_b};
    paddle_parameter parameter_b = entry(name_b, got_b), parameter_a = entry(name_a, got_a);
    paddle_parameter *parameters[] = {&parameter_b, &parameter_a};
    parameter_a.element_type = PADDLE_ELEMENT_TYPE_INT64; /* filled in by the call */

    for (int i = 1; i <= 3; i++) {
        ck_assert_int_eq(paddle_send_grads(client, gradients, 2), PSERVER_OK);
        ck_assert_int_eq(paddle_get_params(client, parameters, 2), PSERVER_OK);
        for (int k = 0; k < 4; k++)
            ck_assert(got_a[k] == values[k] - (float)i && got_b[k] == got_a[k]);
    }
    ck_assert_int_eq(parameter_a.element_type, PADDLE_ELEMENT_TYPE_FLOAT32);
    ck_assert_int_eq(parameter_a.content_len, 16);
    finish();
}
END_TEST

START_TEST(b30_a_selected_trainer_that_restarts_is_told_to_get_the_parameters)
{
    start(1);
    initialise();

    ck_assert_int_eq(paddle_begin_init_params(client), 0);
    ck_assert_int_eq(paddle_init_param(client, entry(name_a, ones), NULL, 0), PSERVER_OK);
    ck_assert_int_eq(paddle_finish_init_params(client), PSERVER_OK);

    float got[4];
    paddle_parameter parameter = entry(name_a, got), *parameters[] = {&parameter};
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_OK);
    ck_assert(got[1] == values[1]);
    finish();
}
END_TEST

START_TEST(a_server_lost_between_init_and_finish_is_an_error_and_beginning_again_helps)
{
    float got[4];
    paddle_parameter parameter = entry(name_a, got), *parameters[] = {&parameter};
    start(1);
    ck_assert_int_eq(paddle_begin_init_params(client), 1);
    ck_assert_int_eq(paddle_init_param(client, entry(name_a, values), NULL, 0), PSERVER_OK);
    ck_assert_int_eq(paddle_init_param(client, entry(name_b, values), NULL, 0), PSERVER_OK);
    restart(0);
    restart(1);

    ck_assert_int_eq(paddle_finish_init_params(client), PSERVER_ERROR);

    initialise();
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_OK);
    ck_assert(got[3] == values[3]);
    finish();
}
END_TEST

START_TEST(a_trainer_that_is_not_selected_does_not_initialise)
{
    start(0);
    ck_assert_int_eq(paddle_begin_init_params(client), 0);
    finish();
}
END_TEST

START_TEST(b17_getting_nothing_returns_and_sending_nothing_is_an_error)
{
    start(1);
    ck_assert_int_eq(paddle_get_params(client, NULL, 0), PSERVER_OK);
    ck_assert_int_eq(paddle_send_grads(client, NULL, 0), PSERVER_ERROR);
    finish();
}
END_TEST

START_TEST(b18_errors_are_returned)
{
    char unknown[] = "unknown";
    float got[4];
    start(1);
    initialise();
    paddle_gradient fine = entry(name_a, ones), missing = entry(unknown, ones);
    paddle_gradient *gradients[] = {&missing, &fine};

    ck_assert_int_eq(paddle_send_grads(client, gradients, 2), PSERVER_ERROR);

    paddle_parameter parameter = entry(name_a, got), *parameters[] = {&parameter};
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_OK);
    ck_assert(got[0] == values[0] - 1); /* the good one was applied all the same */
    parameter.content_len = 8;
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_ERROR);
    parameter.content = NULL;
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_ERROR);
    parameter = entry(name_a, got);
    parameter.content_len = -1;
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_ERROR);
    parameters[0] = NULL;
    ck_assert_int_eq(paddle_get_params(client, parameters, 1), PSERVER_ERROR);
    ck_assert_int_eq(paddle_get_params(client, parameters, -1), PSERVER_ERROR);
    finish();
}
END_TEST

START_TEST(calls_with_a_timeout_keep_it)
{
    float got[4];
    start(1);
    paddle_parameter parameter = entry(name_a, got), *parameters[] = {&parameter};
    paddle_gradient gradient = entry(name_a, ones), *gradients[] = {&gradient};

    ck_assert_int_eq(paddle_get_params_ex(client, parameters, 1, 100), PSERVER_ERROR);
    ck_assert_int_eq(paddle_send_grads_ex(client, gradients, 1, 100), PSERVER_ERROR);
    finish();
}
END_TEST

START_TEST(handles_that_are_none_are_refused)
{
    static const paddle_pserver_client wrong[] = {-1, 0, 17, PADDLE_CLIENTS_MAX, 1 << 30};
    paddle_parameter parameter = entry(name_a, values), *parameters[] = {&parameter};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(paddle_begin_init_params(wrong[i]), PSERVER_ERROR);
        ck_assert_int_eq(paddle_init_param(wrong[i], parameter, NULL, 0), PSERVER_ERROR);
        ck_assert_int_eq(paddle_finish_init_params(wrong[i]), PSERVER_ERROR);
        ck_assert_int_eq(paddle_send_grads(wrong[i], parameters, 1), PSERVER_ERROR);
        ck_assert_int_eq(paddle_get_params(wrong[i], parameters, 1), PSERVER_ERROR);
        paddle_pserver_client_release(wrong[i]);
    }
}
END_TEST

START_TEST(a_released_handle_is_none)
{
    start(1);
    paddle_pserver_client released = client;
    paddle_pserver_client_release(client);
    ck_assert_int_eq(paddle_begin_init_params(released), PSERVER_ERROR);
    finish(); /* releases it once more */
}
END_TEST

START_TEST(a_list_without_addresses_gives_no_handle)
{
    char none[] = "", wrong[] = "host";
    ck_assert_int_eq(paddle_new_pserver_client(none, 1), PSERVER_ERROR);
    ck_assert_int_eq(paddle_new_pserver_client(wrong, 1), PSERVER_ERROR);
    ck_assert_int_eq(paddle_new_pserver_client(NULL, 1), PSERVER_ERROR);
    ck_assert_int_eq(paddle_new_etcd_pserver_client(NULL), PSERVER_ERROR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paddle_compat");
    TCase *tests = tcase_create("paddle_compat");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_training_loop_of_the_old_kind_works);
    tcase_add_test(tests, b30_a_selected_trainer_that_restarts_is_told_to_get_the_parameters);
    tcase_add_test(tests,
                   a_server_lost_between_init_and_finish_is_an_error_and_beginning_again_helps);
    tcase_add_test(tests, a_trainer_that_is_not_selected_does_not_initialise);
    tcase_add_test(tests, b17_getting_nothing_returns_and_sending_nothing_is_an_error);
    tcase_add_test(tests, b18_errors_are_returned);
    tcase_add_test(tests, calls_with_a_timeout_keep_it);
    tcase_add_test(tests, handles_that_are_none_are_refused);
    tcase_add_test(tests, a_released_handle_is_none);
    tcase_add_test(tests, a_list_without_addresses_gives_no_handle);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
