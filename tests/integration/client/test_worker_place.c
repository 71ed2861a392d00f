/* SPDX-License-Identifier: Apache-2.0 */
/* client/worker_place.c, against a server that does as it is told. */
#include "run_suite.h"
#include "tests/integration/client/psclient_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct psclient_place place;

START_TEST(servers_that_are_older_say_what_to_do)
{
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_JOIN, refuse(PS_ERR_UNSUPPORTED));
    ck_assert_int_eq(psclient_join_workers(client, NULL, LONG_MS, &place, &error),
                     PSCLIENT_INVALID);
    ck_assert_str_eq(error.text, "the servers are older than workers: update them, or give each "
                                 "worker its rank by other means");
    ck_assert_int_eq(psclient_worker_rank(client, NULL, &place, &error), PSCLIENT_NOT_FOUND);
    close_client();
}
END_TEST

/* An answer without any field is turn 0. */
START_TEST(a_group_that_is_full_is_exhausted)
{
    open_client(1, "ready");
    ck_assert_int_eq(psclient_join_workers(client, NULL, 0, &place, &error), PSCLIENT_EXHAUSTED);
    ck_assert_str_eq(error.text, "every rank of group workers is taken");
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_JOIN), 1);
    close_client();
}
END_TEST

START_TEST(a_place_is_taken_shown_and_given_up)
{
    static const uint8_t third_of_8[] = {0x08, 1, 0x10, 2, 0x18, 8, 0x20, 77};
    const struct fake_answer taken = {.kind = FAKE_REPLY, .bytes = {third_of_8, sizeof third_of_8}};
    const struct psclient_worker_options options = {.name = "a", .ttl_ms = 3600000};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_JOIN, taken);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(psclient_join_workers(client, &options, LONG_MS, &place, &error),
                         PSCLIENT_OK);
        ck_assert_uint_eq(place.rank, 2);
        ck_assert_uint_eq(place.size, 8);
        ck_assert_uint_eq(place.incarnation, 77);
    }
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_JOIN), 1);
    /* The end of the client is the end of its places. */
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_LEAVE), 0);
    psclient_close(client);
    client = NULL;
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_LEAVE), 1);
    close_client();
}
END_TEST

START_TEST(options_that_make_no_sense_are_refused_here)
{
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const struct psclient_worker_options wrong[] = {
        {.group = text}, {.name = text}, {.role = text}, {.reserved = {0, 1}}};
    open_client(1, "ready");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(psclient_join_workers(client, &wrong[i], LONG_MS, &place, &error),
                         PSCLIENT_INVALID);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_JOIN), 0);
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker place");
    TCase *tests = tcase_create("place");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, servers_that_are_older_say_what_to_do);
    tcase_add_test(tests, a_group_that_is_full_is_exhausted);
    tcase_add_test(tests, a_place_is_taken_shown_and_given_up);
    tcase_add_test(tests, options_that_make_no_sense_are_refused_here);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
