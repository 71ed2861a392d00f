/* SPDX-License-Identifier: Apache-2.0 */
/* The calls over a real connection: what they answer, in which words, and that they wait. */
#include "rig.h"

#include "proto/codec.h"
#include "proto/status_codes.h"
#include "run_suite.h"
#include "server/core/recovery/snapshot.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct rig_options plain = {0};
static const struct ps_bytes none = {NULL, 0};

static struct ps_buffer nothing(void)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 16);
    return buffer;
}

static struct ps_bytes floats(const float *values, size_t count)
{
    return (struct ps_bytes){(const uint8_t *)values, count * sizeof *values};
}

/* Checks and ends an answer. */
static void expect(struct raw_answer answer, int code, const char *word, const char *text)
{
    ck_assert_str_eq(answer.text, text);
    ck_assert_int_eq(answer.code, code);
    ck_assert_str_eq(answer.word, word);
    raw_answer_release(&answer);
}

static void expect_ok(struct raw_answer answer)
{
    expect(answer, PS_RPC_OK, "", "");
}

START_TEST(a_parameter_is_initialised_pushed_to_and_pulled)
{
    const float values[] = {1, 2, 3, 4};
    const float gradient[] = {0.5F, 0, -1, 2};
    const float expected[] = {0.5F, 2, 4, 2};
    struct rig rig;
    rig_start(&rig, &plain);
    expect_ok(rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, floats(values, 4), none)));
    expect_ok(rig_call(&rig, PS_METHOD_FINISH, nothing()));

    struct raw_answer pushed =
        rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, floats(gradient, 4)));
    struct raw_answer pulled = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));

    struct ps_bytes bytes = {pushed.bytes, pushed.size};
    struct ps_push_reply push_reply;
    ck_assert_int_eq(
        ps_decode_push_reply(ps_view_of(&bytes), ps_allocator_heap(), &push_reply, NULL), PS_OK);
    ck_assert_uint_eq(push_reply.version, 1);
    struct ps_pull_reply reply;
    struct ps_decoded decoded;
    bytes = (struct ps_bytes){pulled.bytes, pulled.size};
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, &decoded, NULL),
        PS_OK);
    ck_assert_uint_eq(reply.version, 1);
    ck_assert_uint_eq(reply.content.size, sizeof expected);
    ck_assert_mem_eq(reply.content.pieces[0].data, expected, sizeof expected);
    ps_decoded_release(&decoded);
    raw_answer_release(&pushed);
    raw_answer_release(&pulled);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_large_parameter_comes_back_whole)
{
    size_t count = 3 * 1000 * 1000 + 1;
    float *values = malloc(count * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 1000003);
    struct rig rig;
    rig_start(&rig, &plain);
    expect_ok(rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, floats(values, count), none)));
    expect_ok(rig_call(&rig, PS_METHOD_FINISH, nothing()));

    struct raw_answer pulled = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));

    struct ps_pull_reply reply;
    struct ps_decoded decoded;
    struct ps_bytes bytes = {pulled.bytes, pulled.size};
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, &decoded, NULL),
        PS_OK);
    ck_assert_uint_eq(reply.content.size, count * sizeof *values);
    ck_assert(memcmp(reply.content.pieces[0].data, values, reply.content.size) == 0);
    ps_decoded_release(&decoded);
    raw_answer_release(&pulled);
    free(values);
    rig_stop(&rig);
}
END_TEST

START_TEST(errors_carry_code_text_and_word)
{
    const float values[] = {1, 2};
    struct rig rig;
    rig_start(&rig, &plain);

    expect(rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, floats(values, 2))),
           PS_RPC_FAILED_PRECONDITION, "not_ready", "pserver not fully initialized");
    rig_make_ready(&rig, 2);
    expect(rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, floats(values, 2), none)),
           PS_RPC_ALREADY_EXISTS, "exists", "pserver already initialized");
    expect(rig_call(&rig, PS_METHOD_FINISH, nothing()), PS_RPC_ALREADY_EXISTS, "exists",
           "pserver already initialized");
    expect(rig_call(&rig, PS_METHOD_PULL, rig_pull("v")), PS_RPC_NOT_FOUND, "not_found",
           "parameter: v does not exist");
    expect(rig_call(&rig, PS_METHOD_PUSH, rig_push("v", PS_F32, floats(values, 2))),
           PS_RPC_NOT_FOUND, "not_found", "parameter: v does not exist");
    expect(rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F64, floats(values, 2))),
           PS_RPC_INVALID_ARGUMENT, "bad_input",
           "Name: w, parameter and gradient element type not match, parameter: 4, gradient: 5 "
           "(f32, f64)");
    rig_stop(&rig);
}
END_TEST

START_TEST(b15_empty_content_is_refused)
{
    struct rig rig;
    rig_start(&rig, &plain);

    struct raw_answer init = rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, none, none));

    ck_assert_int_eq(init.code, PS_RPC_INVALID_ARGUMENT);
    ck_assert_str_eq(init.word, "bad_input");
    raw_answer_release(&init);
    rig_make_ready(&rig, 2);
    struct raw_answer push = rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, none));
    ck_assert_int_eq(push.code, PS_RPC_INVALID_ARGUMENT);
    raw_answer_release(&push);
    expect_ok(rig_call(&rig, PS_METHOD_PULL, rig_pull("w")));
    rig_stop(&rig);
}
END_TEST

START_TEST(b15_a_bad_config_is_refused)
{
    const float values[] = {1};
    const uint8_t config[] = {0x1a, 10, 0xa9};
    struct rig rig;
    rig_start(&rig, &plain);

    struct raw_answer answer =
        rig_call(&rig, PS_METHOD_INIT,
                 rig_init("w", PS_F32, floats(values, 1), (struct ps_bytes){config, 3}));

    ck_assert_int_eq(answer.code, PS_RPC_INVALID_ARGUMENT);
    raw_answer_release(&answer);
    rig_stop(&rig);
}
END_TEST

START_TEST(b15_finishes_at_the_same_time_are_answered_once_each)
{
    enum { CALLS = 16 };
    struct raw_pending pending[CALLS];
    struct rig rig;
    int finished = 0;
    rig_start(&rig, &(struct rig_options){.lane_count = 2});

    for (int i = 0; i < CALLS; i++)
        raw_start(&rig.client, &pending[i], ps_method_path(PS_METHOD_FINISH), none, 20000);

    for (int i = 0; i < CALLS; i++) {
        struct raw_answer answer;
        ck_assert(raw_wait(&rig.client, &pending[i], 20000, &answer));
        ck_assert(answer.code == PS_RPC_OK || answer.code == PS_RPC_ALREADY_EXISTS);
        finished += answer.code == PS_RPC_OK ? 1 : 0;
        raw_answer_release(&answer);
    }
    ck_assert_int_eq(finished, 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(b24_bytes_that_are_no_message_are_refused)
{
    const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const enum ps_method methods[] = {PS_METHOD_INIT, PS_METHOD_FINISH, PS_METHOD_PUSH,
                                      PS_METHOD_PULL, PS_METHOD_LIST};
    struct rig rig;
    rig_start(&rig, &plain);
    for (size_t i = 0; i < PS_ARRAY_COUNT(methods); i++) {
        struct raw_answer answer;

        raw_call(&rig.client, ps_method_path(methods[i]),
                 (struct ps_bytes){garbage, sizeof garbage}, 20000, &answer);

        ck_assert_int_eq(answer.code, PS_RPC_INVALID_ARGUMENT);
        ck_assert_str_eq(answer.word, "bad_input");
        raw_answer_release(&answer);
    }
    rig_stop(&rig);
}
END_TEST

START_TEST(a_message_beyond_the_limit_is_refused_by_grpc)
{
    uint8_t *bytes = calloc(1, 70 * 1024);
    ck_assert_ptr_nonnull(bytes);
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.message_bytes_max = 64 * 1024});
    struct raw_answer answer;

    raw_call(&rig.client, ps_method_path(PS_METHOD_PUSH), (struct ps_bytes){bytes, 70 * 1024},
             20000, &answer);

    ck_assert_int_eq(answer.code, PS_RPC_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(answer.word, "");
    raw_answer_release(&answer);
    free(bytes);
    rig_stop(&rig);
}
END_TEST

START_TEST(unknown_methods_are_unimplemented_at_once)
{
    struct rig rig;
    rig_start(&rig, &plain);
    for (int i = 0; i < 20; i++) {
        struct raw_answer answer;

        raw_call(&rig.client, "/pserver.v1.ParameterServer/NoSuch", none, 20000, &answer);

        expect(answer, PS_RPC_UNIMPLEMENTED, "unsupported",
               "no such method: /pserver.v1.ParameterServer/NoSuch");
    }
    rig_stop(&rig);
}
END_TEST

START_TEST(a_pull_waits_for_the_end_of_initialisation)
{
    struct raw_pending pull;
    struct raw_answer answer;
    struct ps_buffer request = rig_pull("w");
    struct rig rig;
    rig_start(&rig, &plain);
    raw_start(&rig.client, &pull, ps_method_path(PS_METHOD_PULL),
              (struct ps_bytes){(const uint8_t *)request.text, request.size}, 20000);
    ck_assert(!raw_wait(&rig.client, &pull, 200, &answer));

    rig_make_ready(&rig, 2);

    ck_assert(raw_wait(&rig.client, &pull, 20000, &answer));
    expect_ok(answer);
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

START_TEST(b17_a_pull_that_waits_ends_at_its_deadline)
{
    struct raw_answer answer;
    struct ps_buffer request = rig_pull("w");
    struct rig rig;
    rig_start(&rig, &plain);

    raw_call(&rig.client, ps_method_path(PS_METHOD_PULL),
             (struct ps_bytes){(const uint8_t *)request.text, request.size}, 100, &answer);

    ck_assert_int_eq(answer.code, PS_RPC_DEADLINE_EXCEEDED);
    raw_answer_release(&answer);
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

START_TEST(pulls_that_were_given_up_leave_their_slots)
{
    enum { CALLS = 300 }; /* far more than slots, and than may wait */
    struct ps_buffer request = rig_pull("w");
    struct rig rig;
    rig_start(&rig, &plain);
    for (int i = 0; i < CALLS; i++) {
        struct raw_pending pull;
        struct raw_answer answer;
        raw_start(&rig.client, &pull, ps_method_path(PS_METHOD_PULL),
                  (struct ps_bytes){(const uint8_t *)request.text, request.size}, 20000);
        raw_cancel(&pull);
        ck_assert(raw_wait(&rig.client, &pull, 20000, &answer));
        ck_assert_int_eq(answer.code, PS_RPC_CANCELLED);
        raw_answer_release(&answer);
    }

    rig_make_ready(&rig, 2);

    expect_ok(rig_call(&rig, PS_METHOD_PULL, rig_pull("w")));
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_finish_waits_for_its_checkpoint)
{
    const float values[] = {1};
    struct raw_pending finish;
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.saves = true});
    expect_ok(rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, floats(values, 1), none)));
    raw_start(&rig.client, &finish, ps_method_path(PS_METHOD_FINISH), none, 20000);
    ck_assert(!raw_wait(&rig.client, &finish, 200, &answer));
    struct ps_snapshot snapshot;
    ck_assert_int_eq(ps_snapshot_take(rig.service, &snapshot, NULL), PS_OK);
    const struct ps_checkpoint_place place = {.uuid = "u", .path = "/p", .bytes = 2};

    ps_service_saved(rig.service, snapshot.ticket, &place);

    ck_assert(raw_wait(&rig.client, &finish, 20000, &answer));
    expect_ok(answer);
    ps_snapshot_release(&snapshot);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_finish_whose_shard_is_lost_is_told_so)
{
    const float values[] = {1};
    struct raw_pending finish;
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.saves = true});
    expect_ok(rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, floats(values, 1), none)));
    raw_start(&rig.client, &finish, ps_method_path(PS_METHOD_FINISH), none, 20000);
    ck_assert(!raw_wait(&rig.client, &finish, 200, &answer));

    ps_service_reset(rig.service);

    ck_assert(raw_wait(&rig.client, &finish, 20000, &answer));
    expect(answer, PS_RPC_UNAVAILABLE, "unavailable",
           "the shard was lost before its checkpoint was saved");
    rig_stop(&rig);
}
END_TEST

START_TEST(a_save_says_which_checkpoint_it_was)
{
    const float values[] = {1};
    struct raw_pending finish;
    struct raw_pending save;
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.saves = true});
    expect_ok(rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, floats(values, 1), none)));
    raw_start(&rig.client, &finish, ps_method_path(PS_METHOD_FINISH), none, 20000);
    ck_assert(!raw_wait(&rig.client, &finish, 200, &answer));
    raw_start(&rig.client, &save, ps_method_path(PS_METHOD_SAVE), none, 20000);
    ck_assert(!raw_wait(&rig.client, &save, 200, &answer));
    struct ps_snapshot snapshot;
    ck_assert_int_eq(ps_snapshot_take(rig.service, &snapshot, NULL), PS_OK);
    const struct ps_checkpoint_place place = {.uuid = "u", .path = "/p", .bytes = 2};

    ps_service_saved(rig.service, snapshot.ticket, &place);

    ck_assert(raw_wait(&rig.client, &finish, 20000, &answer));
    raw_answer_release(&answer);
    ck_assert(raw_wait(&rig.client, &save, 20000, &answer));
    struct ps_save_reply reply;
    struct ps_decoded decoded;
    struct ps_bytes bytes = {answer.bytes, answer.size};
    ck_assert_int_eq(
        ps_decode_save_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, &decoded, NULL),
        PS_OK);
    ck_assert_str_eq(reply.uuid, "u");
    ck_assert_str_eq(reply.path, "/p");
    ps_decoded_release(&decoded);
    raw_answer_release(&answer);
    ps_snapshot_release(&snapshot);
    rig_stop(&rig);
}
END_TEST

START_TEST(operators_see_status_and_parameters)
{
    struct rig rig;
    struct ps_status_reply status;
    struct ps_list_reply list;
    struct ps_decoded decoded;
    rig_start(&rig, &plain);
    rig_make_ready(&rig, 5);

    struct raw_answer answer = rig_call(&rig, PS_METHOD_STATUS, nothing());
    struct ps_bytes bytes = {answer.bytes, answer.size};
    ck_assert_int_eq(
        ps_decode_status_reply(ps_view_of(&bytes), ps_allocator_heap(), &status, &decoded, NULL),
        PS_OK);
    ck_assert_str_eq(status.state, "ready");
    ck_assert_uint_eq(status.parameter_count, 1);
    ck_assert_uint_eq(status.epoch, 7);
    ps_decoded_release(&decoded);
    raw_answer_release(&answer);

    answer = rig_call(&rig, PS_METHOD_LIST, nothing());
    bytes = (struct ps_bytes){answer.bytes, answer.size};
    ck_assert_int_eq(
        ps_decode_list_reply(ps_view_of(&bytes), ps_allocator_heap(), &list, &decoded, NULL),
        PS_OK);
    ck_assert_uint_eq(list.param_count, 1);
    ck_assert(ps_bytes_equal(list.params[0].name, ps_bytes_of_text("w")));
    ck_assert_uint_eq(list.params[0].element_count, 5);
    ps_decoded_release(&decoded);
    raw_answer_release(&answer);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_thousand_calls_leave_nothing_behind)
{
    const float gradient[64] = {1};
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.lane_count = 2});
    rig_make_ready(&rig, 64);
    for (int i = 0; i < 500; i++) {
        expect_ok(rig_call(&rig, PS_METHOD_PULL, rig_pull("w")));

        struct raw_answer answer =
            rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, floats(gradient, 64)));

        ck_assert_int_eq(answer.code, PS_RPC_OK);
        raw_answer_release(&answer);
    }
    struct ps_buffer page;
    ps_buffer_init(&page, ps_allocator_heap(), 1 << 20);
    ps_metrics_render(rig.metrics, &page);
    ck_assert_ptr_nonnull(strstr(page.text, "grpc_server_handled_total{grpc_service="
                                            "\"pserver.v1.ParameterServer\",grpc_method="
                                            "\"GetParam\",grpc_code=\"OK\"} 500"));
    ps_buffer_fini(&page);
    rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rpc calls");
    TCase *tests = tcase_create("calls");
    tcase_add_test(tests, a_parameter_is_initialised_pushed_to_and_pulled);
    tcase_add_test(tests, a_large_parameter_comes_back_whole);
    tcase_add_test(tests, errors_carry_code_text_and_word);
    tcase_add_test(tests, b15_empty_content_is_refused);
    tcase_add_test(tests, b15_a_bad_config_is_refused);
    tcase_add_test(tests, b15_finishes_at_the_same_time_are_answered_once_each);
    tcase_add_test(tests, b24_bytes_that_are_no_message_are_refused);
    tcase_add_test(tests, a_message_beyond_the_limit_is_refused_by_grpc);
    tcase_add_test(tests, unknown_methods_are_unimplemented_at_once);
    tcase_add_test(tests, a_pull_waits_for_the_end_of_initialisation);
    tcase_add_test(tests, b17_a_pull_that_waits_ends_at_its_deadline);
    tcase_add_test(tests, pulls_that_were_given_up_leave_their_slots);
    tcase_add_test(tests, a_finish_waits_for_its_checkpoint);
    tcase_add_test(tests, a_finish_whose_shard_is_lost_is_told_so);
    tcase_add_test(tests, a_save_says_which_checkpoint_it_was);
    tcase_add_test(tests, operators_see_status_and_parameters);
    tcase_add_test(tests, a_thousand_calls_leave_nothing_behind);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
