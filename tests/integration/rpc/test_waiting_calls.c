/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait, or whose replies nobody reads, keep nobody else from the server. */
#include "held_calls.h"
#include "rig.h"
#include "run_suite.h"

#include "proto/codec.h"
#include "proto/health_codec.h"
#include "proto/reflection_codec.h"
#include "proto/status_codes.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* More than one connection may have (--client-calls). */
enum { CALLS = 300, PATIENCE_MS = 60000 };

static struct ps_bytes bytes_of(const struct ps_buffer *buffer)
{
    return (struct ps_bytes){(const uint8_t *)buffer->text, buffer->size};
}

/* Someone who behaves well: pulls on a connection of its own, and is answered. */
static void expect_pulls(struct rig *rig, int count)
{
    struct raw_client client;
    struct ps_buffer request = rig_pull("w");
    raw_client_open(&client, ps_rpc_server_port(rig->server));
    for (int i = 0; i < count; i++) {
        struct raw_answer answer;
        raw_call(&client, ps_method_path(PS_METHOD_PULL), bytes_of(&request), PATIENCE_MS, &answer);
        ck_assert_int_eq(answer.code, PS_RPC_OK);
        raw_answer_release(&answer);
    }
    raw_client_close(&client);
    ps_buffer_fini(&request);
}

/* A server whose patience with replies is longer than the test. */
static void start_patient(struct rig *rig, size_t count)
{
    rig_start(rig, &(struct rig_options){.reply_ms_max = 10 * PATIENCE_MS});
    rig_make_ready(rig, count);
}

/* Until so many calls of a method have come to the server. */
static void wait_until_started(const struct rig *rig, const char *method, unsigned calls)
{
    char name[128];
    (void)snprintf(name, sizeof name,
                   "grpc_server_started_total{grpc_service=\"pserver.v1.ParameterServer\","
                   "grpc_method=\"%s\"}",
                   method);
    while (rig_figure(rig, name) < calls)
        continue;
}

START_TEST(replies_that_connections_leave_unread_keep_no_pull_waiting)
{
    enum { CONNECTIONS = 4 };
    static struct held_calls held[CONNECTIONS];
    struct ps_buffer request = rig_pull("w");
    struct rig rig;
    start_patient(&rig, 1 << 18); /* 1 MiB: beyond the window of a call */
    for (int i = 0; i < CONNECTIONS; i++)
        held_calls_open(&held[i], ps_rpc_server_port(rig.server), ps_method_path(PS_METHOD_PULL),
                        bytes_of(&request), HELD_UNREAD, CALLS);
    wait_until_started(&rig, "GetParam", CONNECTIONS * 256);

    expect_pulls(&rig, 3);

    for (int i = 0; i < CONNECTIONS; i++)
        held_calls_close(&held[i]);
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

START_TEST(more_pulls_than_slots_are_all_answered)
{
    /* Each connection has as many as may wait, and together they are ten times the slots. */
    enum { CONNECTIONS = 4, PULLS = 120 };
    static struct raw_pending pulls[CONNECTIONS][PULLS];
    struct raw_client clients[CONNECTIONS];
    struct ps_buffer request = rig_pull("w");
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});
    for (int i = 0; i < CONNECTIONS; i++) {
        raw_client_open(&clients[i], ps_rpc_server_port(rig.server));
        for (int k = 0; k < PULLS; k++)
            raw_start(&clients[i], &pulls[i][k], ps_method_path(PS_METHOD_PULL), bytes_of(&request),
                      PATIENCE_MS);
    }
    rig_wait_until_parked(&rig, CONNECTIONS * PULLS);

    rig_make_ready(&rig, 2);

    for (int i = 0; i < CONNECTIONS; i++) {
        for (int k = 0; k < PULLS; k++) {
            struct raw_answer answer;
            ck_assert(raw_wait(&clients[i], &pulls[i][k], PATIENCE_MS, &answer));
            ck_assert_int_eq(answer.code, PS_RPC_OK);
            raw_answer_release(&answer);
        }
        raw_client_close(&clients[i]);
    }
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

/* The stream gets a first message on a connection of its own, although another one has more open
 * than it may. */
static void expect_stream_beside_many(const char *path, struct ps_bytes request)
{
    static struct held_calls many;
    static struct held_calls one;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});
    held_calls_open(&many, ps_rpc_server_port(rig.server), path, request, HELD_UNREAD, CALLS);

    held_calls_open(&one, ps_rpc_server_port(rig.server), path, request, HELD_READS, 1);

    ck_assert(held_calls_read(&one, 0, PATIENCE_MS));
    held_calls_close(&one);
    held_calls_close(&many);
    rig_stop(&rig);
}

START_TEST(streams_of_one_connection_keep_nobody_from_reflection)
{
    const uint8_t list_services[] = {0x3a, 0}; /* field 7, empty */

    expect_stream_beside_many(PS_REFLECTION_V1_PATH,
                              (struct ps_bytes){list_services, sizeof list_services});
}
END_TEST

START_TEST(watches_of_one_connection_keep_nobody_from_health)
{
    expect_stream_beside_many(PS_HEALTH_WATCH_PATH, (struct ps_bytes){NULL, 0});
}
END_TEST

START_TEST(saves_that_wait_keep_nobody_from_saving)
{
    static struct held_calls many;
    struct raw_pending finish;
    struct raw_pending save;
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.saves = true});
    raw_start(&rig.client, &finish, ps_method_path(PS_METHOD_FINISH), (struct ps_bytes){NULL, 0},
              PATIENCE_MS);
    rig_wait_until_parked(&rig, 1);
    held_calls_open(&many, ps_rpc_server_port(rig.server), ps_method_path(PS_METHOD_SAVE),
                    (struct ps_bytes){NULL, 0}, HELD_UNREAD, 50);
    rig_wait_until_parked(&rig, 51);

    raw_start(&rig.client, &save, ps_method_path(PS_METHOD_SAVE), (struct ps_bytes){NULL, 0},
              PATIENCE_MS);

    rig_wait_until_parked(&rig, 52);
    held_calls_close(&many);
    raw_cancel(&save);
    ck_assert(raw_wait(&rig.client, &save, PATIENCE_MS, &answer));
    raw_answer_release(&answer);
    raw_cancel(&finish);
    ck_assert(raw_wait(&rig.client, &finish, PATIENCE_MS, &answer));
    raw_answer_release(&answer);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_connection_waits_with_half_of_its_calls_and_is_told_which_bound_it_is)
{
    static struct raw_pending pulls[128];
    struct ps_buffer request = rig_pull("w");
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});
    for (int i = 0; i < 128; i++)
        raw_start(&rig.client, &pulls[i], ps_method_path(PS_METHOD_PULL), bytes_of(&request),
                  PATIENCE_MS);
    rig_wait_until_parked(&rig, 128);

    raw_call(&rig.client, ps_method_path(PS_METHOD_PULL), bytes_of(&request), PATIENCE_MS, &answer);

    ck_assert_int_eq(answer.code, PS_RPC_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(answer.word, "busy");
    ck_assert_ptr_nonnull(strstr(answer.text, "--client-calls"));
    raw_answer_release(&answer);
    rig_make_ready(&rig, 2); /* on the same connection */
    for (int i = 0; i < 128; i++) {
        ck_assert(raw_wait(&rig.client, &pulls[i], PATIENCE_MS, &answer));
        ck_assert_int_eq(answer.code, PS_RPC_OK);
        raw_answer_release(&answer);
    }
    expect_pulls(&rig, 1);
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_server_has_a_bound_for_all_calls_that_wait)
{
    enum { MAX = 5 };
    static struct held_calls waiting;
    struct ps_buffer request = rig_pull("w");
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.waiting_calls_max = MAX});
    held_calls_open(&waiting, ps_rpc_server_port(rig.server), ps_method_path(PS_METHOD_PULL),
                    bytes_of(&request), HELD_READS, MAX);
    rig_wait_until_parked(&rig, MAX);

    raw_call(&rig.client, ps_method_path(PS_METHOD_PULL), bytes_of(&request), PATIENCE_MS, &answer);

    ck_assert_int_eq(answer.code, PS_RPC_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(answer.text, "--waiting-calls"));
    raw_answer_release(&answer);
    held_calls_close(&waiting);
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

/* A push that is answered when its record is written. */
static struct ps_buffer logged_push(void)
{
    static const float gradient[] = {1, 2};
    const struct ps_bytes content = {(const uint8_t *)gradient, sizeof gradient};
    const struct ps_push_request fields = {.name = ps_bytes_of_text("w"),
                                           .dtype = PS_F32,
                                           .ack = PS_ACK_LOGGED,
                                           .content = ps_view_of(&content)};
    struct ps_buffer request;
    ps_buffer_init(&request, ps_allocator_heap(), 1024);
    ps_encode_push(&fields, &request);
    ps_buffer_append(&request, content);
    return request;
}

/* What waits for something else costs a write of the journal nothing. */
START_TEST(a_write_of_the_journal_asks_only_the_pushes_that_wait_for_it)
{
    enum { WATCHES = 100, PUSHES = 50 };
    static struct held_calls watches;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.saves = true, .journals = true});
    rig_make_ready(&rig, 2);
    held_calls_open(&watches, ps_rpc_server_port(rig.server), PS_HEALTH_WATCH_PATH,
                    (struct ps_bytes){NULL, 0}, HELD_READS, WATCHES);
    for (int i = 0; i < WATCHES; i++)
        ck_assert(held_calls_read(&watches, i, PATIENCE_MS));
    double before = rig_figure(&rig, "ps_rpc_asked_calls_total");
    for (int i = 0; i < PUSHES; i++) {
        struct raw_pending push;
        struct raw_answer answer;
        struct ps_record record;
        struct ps_buffer request = logged_push();
        raw_start(&rig.client, &push, ps_method_path(PS_METHOD_PUSH), bytes_of(&request),
                  PATIENCE_MS);
        rig_wait_until_parked(&rig, 1);
        ck_assert_uint_eq(ps_service_journal_take(rig.service, &record, 1), 1);

        ps_service_journal_written(rig.service, record.position, PS_OK, NULL);

        ck_assert(raw_wait(&rig.client, &push, PATIENCE_MS, &answer));
        ck_assert_int_eq(answer.code, PS_RPC_OK);
        raw_answer_release(&answer);
        ps_buffer_fini(&request);
    }

    ck_assert_double_eq(rig_figure(&rig, "ps_rpc_asked_calls_total") - before, PUSHES);

    held_calls_close(&watches);
    rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waiting calls");
    TCase *tests = tcase_create("calls");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, replies_that_connections_leave_unread_keep_no_pull_waiting);
    tcase_add_test(tests, more_pulls_than_slots_are_all_answered);
    tcase_add_test(tests, streams_of_one_connection_keep_nobody_from_reflection);
    tcase_add_test(tests, watches_of_one_connection_keep_nobody_from_health);
    tcase_add_test(tests, saves_that_wait_keep_nobody_from_saving);
    tcase_add_test(tests, a_connection_waits_with_half_of_its_calls_and_is_told_which_bound_it_is);
    tcase_add_test(tests, a_server_has_a_bound_for_all_calls_that_wait);
    tcase_add_test(tests, a_write_of_the_journal_asks_only_the_pushes_that_wait_for_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
