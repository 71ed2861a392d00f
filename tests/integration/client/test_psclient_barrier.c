/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_barrier with a real server: members in threads of their own. */
#include "client/psclient.h"

#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 4, ROUNDS = 5, LONG_MS = 120000 };

static struct pserver_process server;

struct member {
    struct ps_thread thread;
    uint32_t number;
    int failures;
};

static void open_client(struct psclient **client)
{
    struct psclient_error error;
    const struct psclient_options options = {.servers = server.address, .open_timeout_ms = LONG_MS};
    ck_assert_msg(psclient_open(&options, client, &error) == PSCLIENT_OK, "%s", error.text);
}

static void run_member(void *argument)
{
    struct member *member = argument;
    struct psclient *client;
    struct psclient_error error;
    open_client(&client);
    for (uint64_t round = 1; round <= ROUNDS; round++)
        member->failures += psclient_barrier(client, "epoch", round, member->number, MEMBERS,
                                             LONG_MS, &error) == PSCLIENT_OK
                                ? 0
                                : 1;
    psclient_close(client);
}

static void begin(void)
{
    const char *const nothing[] = {NULL};
    pserver_process_start(&server, PSERVER_PROGRAM, "127.0.0.1:0", nothing);
}

static void end(void)
{
    ck_assert_int_eq(pserver_process_stop(&server), 0);
}

START_TEST(members_go_from_round_to_round_together)
{
    static struct member members[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){.number = i};
        ck_assert_int_eq(
            ps_thread_start(&members[i].thread, "member", run_member, &members[i], NULL), PS_OK);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        ps_thread_join(&members[i].thread);
        ck_assert_int_eq(members[i].failures, 0);
    }
}
END_TEST

START_TEST(a_member_alone_hears_who_is_missing)
{
    struct psclient *client;
    struct psclient_error error;
    open_client(&client);

    /* A server answers an eighth of the time before its end; a busy machine needs more. */
    int status = PSCLIENT_OK;
    for (uint64_t timeout_ms = 100; timeout_ms < LONG_MS; timeout_ms *= 16) {
        status = psclient_barrier(client, "start", 1, 0, 3, timeout_ms, &error);
        if (strstr(error.text, "missing") != NULL)
            break;
    }

    ck_assert_int_eq(status, PSCLIENT_UNKNOWN);
    ck_assert_str_eq(error.text, "barrier start, round 1: 1 of 3 members are there; missing: 1 2");
    ck_assert_int_eq(psclient_barrier(client, "start", 1, 3, 3, 100, &error), PSCLIENT_INVALID);
    psclient_close(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient barrier");
    TCase *tests = tcase_create("barrier");
    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, begin, end);
    tcase_add_test(tests, members_go_from_round_to_round_together);
    tcase_add_test(tests, a_member_alone_hears_who_is_missing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
