/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers over real connections: members are let go together, hear who is missing, and cost a
 * server nothing while they wait. */
#include "rig.h"
#include "run_suite.h"

#include "base/assert.h"
#include "proto/status_codes.h"
#include "proto/wire.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 100000, TEXT_BYTES = 64 };

struct member {
    struct raw_pending call;
    uint32_t meeting;
};

/* BarrierRequest, in caller's memory. */
static struct ps_bytes request_of(char text[TEXT_BYTES], uint32_t meeting, uint64_t round,
                                  uint32_t member, uint32_t of, uint64_t wait_ms)
{
    char name[16];
    struct ps_buffer bytes;
    ps_buffer_init_fixed(&bytes, text, TEXT_BYTES);
    (void)snprintf(name, sizeof name, "b%" PRIu32, meeting);
    ps_wire_put_text(&bytes, 1, name);
    ps_wire_put_uint(&bytes, 2, round);
    ps_wire_put_uint(&bytes, 3, member);
    ps_wire_put_uint(&bytes, 4, of);
    ps_wire_put_uint(&bytes, 5, wait_ms);
    return (struct ps_bytes){(const uint8_t *)bytes.text, bytes.size};
}

static void begin(struct raw_client *client, struct member *member, uint32_t meeting,
                  uint64_t round, uint32_t number, uint32_t of, uint64_t wait_ms)
{
    char text[TEXT_BYTES];
    member->meeting = meeting;
    raw_start(client, &member->call, ps_method_path(PS_METHOD_BARRIER),
              request_of(text, meeting, round, number, of, wait_ms), PATIENCE_MS);
}

static void expect_code(struct raw_client *client, struct member *member, int code)
{
    struct raw_answer answer;
    ck_assert(raw_wait(client, &member->call, PATIENCE_MS, &answer));
    ck_assert_int_eq(answer.code, code);
    raw_answer_release(&answer);
}

START_TEST(members_are_let_go_together)
{
    enum { MEMBERS = 50 };
    static struct member members[MEMBERS];
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.lane_count = 2});
    for (uint32_t i = 0; i + 1 < MEMBERS; i++)
        begin(&rig.client, &members[i], 0, 1, i, MEMBERS, 0);
    rig_wait_until_parked(&rig, MEMBERS - 1);

    begin(&rig.client, &members[MEMBERS - 1], 0, 1, MEMBERS - 1, MEMBERS, 0);

    for (uint32_t i = 0; i < MEMBERS; i++)
        expect_code(&rig.client, &members[i], PS_RPC_OK);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_member_whose_time_is_over_hears_who_is_missing)
{
    struct member member;
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});

    begin(&rig.client, &member, 0, 4, 1, 3, 50);

    ck_assert(raw_wait(&rig.client, &member.call, PATIENCE_MS, &answer));
    ck_assert_int_eq(answer.code, PS_RPC_DEADLINE_EXCEEDED);
    ck_assert_str_eq(answer.text, "barrier b0, round 4: 1 of 3 members are there; missing: 0 2");
    ck_assert_str_eq(answer.word, "timeout");
    raw_answer_release(&answer);
    rig_stop(&rig);
}
END_TEST

START_TEST(another_number_of_members_is_refused_and_a_cancelled_member_was_not_there)
{
    struct member first;
    struct member other;
    struct member last;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});
    begin(&rig.client, &first, 0, 1, 0, 2, 0);
    rig_wait_until_parked(&rig, 1);

    begin(&rig.client, &other, 0, 1, 1, 3, 0);
    expect_code(&rig.client, &other, PS_RPC_FAILED_PRECONDITION);
    raw_cancel(&first.call);
    expect_code(&rig.client, &first, PS_RPC_CANCELLED);
    while (rig_figure(&rig, "ps_rpc_parked_calls") > 0)
        continue;
    begin(&rig.client, &last, 0, 1, 1, 2, 0);

    rig_wait_until_parked(&rig, 1);
    begin(&rig.client, &first, 0, 1, 0, 2, 0);
    expect_code(&rig.client, &first, PS_RPC_OK);
    expect_code(&rig.client, &last, PS_RPC_OK);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_server_that_drains_sends_members_away)
{
    struct member member;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});
    begin(&rig.client, &member, 0, 1, 0, 2, 0);
    rig_wait_until_parked(&rig, 1);

    ps_service_drain(rig.service);

    expect_code(&rig.client, &member, PS_RPC_UNAVAILABLE);
    rig_stop(&rig);
}
END_TEST

/* ---- Thousands of them ---- */

enum { CONNECTIONS = 16, MEETINGS = 40, MEMBERS = 101, CALLS = MEETINGS * (MEMBERS - 1) };

static struct raw_client clients[CONNECTIONS];
static struct member waiting[CALLS];

static struct raw_client *client_of(size_t call)
{
    return &clients[call % CONNECTIONS];
}

static void begin_all(struct rig *rig)
{
    for (size_t i = 0; i < CONNECTIONS; i++)
        raw_client_open(&clients[i], ps_rpc_server_port(rig->server));
    for (size_t i = 0; i < CALLS; i++)
        begin(client_of(i), &waiting[i], (uint32_t)(i % MEETINGS), 1, (uint32_t)(i / MEETINGS),
              MEMBERS, 0);
    rig_wait_until_parked(rig, CALLS);
}

/* The last member of one meeting: it and all who wait there are answered, and nobody else. */
static void let_go(struct rig *rig, uint32_t meeting)
{
    struct member last;
    double asked = rig_figure(rig, "ps_rpc_asked_calls_total");
    begin(&rig->client, &last, meeting, 1, MEMBERS - 1, MEMBERS, 0);
    expect_code(&rig->client, &last, PS_RPC_OK);
    for (size_t i = 0; i < CALLS; i++)
        if (waiting[i].meeting == meeting)
            expect_code(client_of(i), &waiting[i], PS_RPC_OK);
    asked = rig_figure(rig, "ps_rpc_asked_calls_total") - asked;
    /* Some other meeting may share the topic, by its name; few do. */
    ck_assert_double_ge(asked, MEMBERS - 1);
    ck_assert_double_le(asked, 4 * (MEMBERS - 1));
}

START_TEST(four_thousand_calls_of_sixteen_connections_wait_and_each_event_asks_its_own)
{
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.client_calls_max = 512});
    begin_all(&rig);

    for (uint32_t meeting = 0; meeting < MEETINGS; meeting++) {
        let_go(&rig, meeting);
        ck_assert_double_eq(rig_figure(&rig, "ps_rpc_parked_calls"),
                            CALLS - (meeting + 1.0) * (MEMBERS - 1));
    }

    for (size_t i = 0; i < CONNECTIONS; i++)
        raw_client_close(&clients[i]);
    rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("barrier calls");
    TCase *tests = tcase_create("calls");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, members_are_let_go_together);
    tcase_add_test(tests, a_member_whose_time_is_over_hears_who_is_missing);
    tcase_add_test(tests,
                   another_number_of_members_is_refused_and_a_cancelled_member_was_not_there);
    tcase_add_test(tests, a_server_that_drains_sends_members_away);
    tcase_add_test(tests,
                   four_thousand_calls_of_sixteen_connections_wait_and_each_event_asks_its_own);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
