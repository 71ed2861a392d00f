/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation through libpsclient, against servers that do as they are told. */
#include "run_suite.h"
#include "tests/integration/client/psclient_rig.h"

#include <check.h>
#include <stdlib.h>

/* Of the request id in a FinishInitParams: 16 random bytes, and numbers below 128. */
#define REQUEST_ID_BYTES 24

START_TEST(b30_a_trainer_of_initialised_servers_is_not_selected)
{
    int selected = 7;
    open_client(2, "ready");

    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);

    ck_assert_int_eq(selected, 0);
    close_client();
}
END_TEST

START_TEST(b7_the_next_trainer_completes_a_half_finished_initialisation)
{
    int selected = 0;
    float content[4] = {0};
    struct psclient_parameter parameters[] = {parameter("param_a", content),
                                              parameter("param_b", content)};
    struct psclient_result results[2];
    open_client(2, "uninitialized");
    fake_server_answer(servers[0], PS_METHOD_INIT, refuse(PS_ERR_EXISTS));
    fake_server_answer(servers[0], PS_METHOD_FINISH, refuse(PS_ERR_EXISTS));

    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    ck_assert_int_eq(psclient_init(client, parameters, 2, LONG_MS, results, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);

    ck_assert_int_eq(results[0].status, PSCLIENT_ALREADY);
    ck_assert_int_eq(results[1].status, PSCLIENT_OK);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_FINISH), 1);
    close_client();
}
END_TEST

START_TEST(a_finish_refused_for_lost_parameters_says_initialise_again)
{
    static const uint8_t epoch_7[] = {0x08, 7};
    const struct fake_answer taken = {.kind = FAKE_REPLY, .bytes = {epoch_7, sizeof epoch_7}};
    float content[4] = {0};
    struct psclient_parameter parameters[] = {parameter("w", content)};
    open_client(1, "uninitialized");
    fake_server_answer(servers[0], PS_METHOD_INIT, taken);
    fake_server_next(servers[0], PS_METHOD_FINISH, 1, refuse(PS_ERR_STALE_EPOCH));
    ck_assert_int_eq(psclient_init(client, parameters, 1, LONG_MS, NULL, &error), PSCLIENT_OK);

    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_NOT_INITIALIZED);

    ck_assert_str_eq(error.text, "shard 0 has lost what it was given: call psclient_init for every "
                                 "parameter again, then psclient_finish_init");
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_FINISH), 1);
    ck_assert_uint_eq(fake_server_last_size(servers[0], PS_METHOD_FINISH),
                      sizeof epoch_7 + REQUEST_ID_BYTES);
    close_client();
}
END_TEST

START_TEST(after_a_loss_a_finish_is_refused_until_the_parameters_are_sent_again)
{
    static const uint8_t epoch_7[] = {0x08, 7}, epoch_8[] = {0x08, 8};
    const struct fake_answer before = {.kind = FAKE_REPLY, .bytes = {epoch_7, sizeof epoch_7}};
    const struct fake_answer later = {.kind = FAKE_REPLY, .bytes = {epoch_8, sizeof epoch_8}};
    float content[4] = {0};
    struct psclient_parameter parameters[] = {parameter("w", content)};
    open_client(1, "uninitialized");
    fake_server_answer(servers[0], PS_METHOD_INIT, before);
    fake_server_next(servers[0], PS_METHOD_FINISH, 2, refuse(PS_ERR_STALE_EPOCH));
    ck_assert_int_eq(psclient_init(client, parameters, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_NOT_INITIALIZED);

    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_NOT_INITIALIZED);

    /* An epoch that is not any server's, in 10 bytes: not "unchecked". */
    ck_assert_uint_eq(fake_server_last_size(servers[0], PS_METHOD_FINISH), 11 + REQUEST_ID_BYTES);
    fake_server_answer(servers[0], PS_METHOD_INIT, later);
    ck_assert_int_eq(psclient_init(client, parameters, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    ck_assert_uint_eq(fake_server_last_size(servers[0], PS_METHOD_FINISH),
                      sizeof epoch_8 + REQUEST_ID_BYTES);
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_init");
    TCase *tests = tcase_create("psclient_init");
    tcase_add_test(tests, b30_a_trainer_of_initialised_servers_is_not_selected);
    tcase_add_test(tests, b7_the_next_trainer_completes_a_half_finished_initialisation);
    tcase_add_test(tests, a_finish_refused_for_lost_parameters_says_initialise_again);
    tcase_add_test(tests, after_a_loss_a_finish_is_refused_until_the_parameters_are_sent_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
