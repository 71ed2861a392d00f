/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_define, _drop and _configure against servers that do as they are told: what is asked of
 * whom, and what is put together of ranges. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "proto/change_codec.h"
#include "run_suite.h"
#include "tests/integration/client/psclient_rig.h"

#include <check.h>
#include <string.h>

static struct ps_buffer lists[2], changes[2];
static struct psclient_result results[4];
static const uint8_t change[] = {0x62, 0}; /* const_lr {} */

static void answer(uint32_t server, enum ps_method method, const struct ps_buffer *bytes)
{
    fake_server_answer(servers[server], method,
                       (struct fake_answer){.kind = FAKE_REPLY,
                                            .bytes = {(const uint8_t *)bytes->text, bytes->size}});
}

/* The server lists these names, and changes whatever it is asked to. */
static void have(uint32_t server, const char *first, const char *second)
{
    struct ps_param_info rows[] = {{.name = ps_bytes_of_text(first), .rule = "sgd"},
                                   {.name = ps_bytes_of_text(second), .rule = "sgd"}};
    const struct ps_list_reply list = {.params = rows,
                                       .param_count = (first != NULL) + (size_t)(second != NULL)};
    const struct ps_change_reply reply = {.version = 7 + server,
                                          .position = 40,
                                          .step = 9 - server,
                                          .config = ps_bytes_of_text("config")};
    ps_buffer_init(&lists[server], ps_allocator_heap(), 4096);
    ps_encode_list_reply(&list, &lists[server]);
    answer(server, PS_METHOD_LIST, &lists[server]);
    ps_buffer_init(&changes[server], ps_allocator_heap(), 4096);
    ps_encode_change_reply(&reply, &changes[server]);
    answer(server, PS_METHOD_DROP, &changes[server]);
    answer(server, PS_METHOD_CONFIGURE, &changes[server]);
}

static void begin(void)
{
    open_client(2, "ready");
    have(0, "other", "w#0/2");
    have(1, "v", "w#1/2");
}

static void end(void)
{
    close_client();
    for (size_t i = 0; i < 2; i++) {
        ps_buffer_fini(&lists[i]);
        ps_buffer_fini(&changes[i]);
    }
}

static int drop(const char *first, const char *second)
{
    const char *names[] = {first, second};
    return psclient_drop(client, names, second != NULL ? 2 : 1, LONG_MS, results, &error);
}

static int configure(const char *first, const char *second, struct psclient_config *configs)
{
    const char *names[] = {first, second};
    return psclient_configure(client, names, second != NULL ? 2 : 1, change, sizeof change, LONG_MS,
                              results, configs, &error);
}

START_TEST(each_range_is_dropped_where_it_is)
{
    ck_assert_int_eq(drop("w", "v"), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_DROP), 1);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_DROP), 2);
    ck_assert_uint_eq(results[0].version, 7);
    ck_assert_uint_eq(results[0].position, 0);
    ck_assert_uint_eq(results[1].version, 8);
    ck_assert_uint_eq(results[1].position, 40);
}
END_TEST

START_TEST(what_is_not_there_is_not_found_and_the_rest_is_dropped)
{
    ck_assert_int_eq(drop("nothing", "v"), PSCLIENT_NOT_FOUND);

    ck_assert_str_eq(error.text, "nothing: no such parameter");
    ck_assert_int_eq(results[0].status, PSCLIENT_NOT_FOUND);
    ck_assert_int_eq(results[1].status, PSCLIENT_OK);
}
END_TEST

START_TEST(a_half_dropped_parameter_is_dropped_by_the_same_call)
{
    fake_server_answer(servers[0], PS_METHOD_LIST, (struct fake_answer){.kind = FAKE_REPLY});

    ck_assert_int_eq(drop("w", NULL), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_DROP), 0);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_DROP), 1);
}
END_TEST

START_TEST(a_range_that_went_meanwhile_is_dropped_too)
{
    fake_server_answer(servers[0], PS_METHOD_DROP, refuse(PS_ERR_NOT_FOUND));

    ck_assert_int_eq(drop("w", NULL), PSCLIENT_OK);

    fake_server_answer(servers[1], PS_METHOD_DROP, refuse(PS_ERR_NOT_FOUND));
    ck_assert_int_eq(drop("w", NULL), PSCLIENT_NOT_FOUND);
}
END_TEST

START_TEST(a_half_there_parameter_is_not_configured_silently)
{
    fake_server_answer(servers[0], PS_METHOD_LIST, (struct fake_answer){.kind = FAKE_REPLY});

    ck_assert_int_eq(configure("w", "v", NULL), PSCLIENT_NOT_FOUND);

    ck_assert_ptr_nonnull(strstr(error.text, "w: not all of its ranges"));
    ck_assert_int_eq(results[1].status, PSCLIENT_OK);
}
END_TEST

START_TEST(a_change_tells_the_configuration_and_from_when_on)
{
    struct psclient_config configs[2];
    memset(configs, 0xff, sizeof configs);

    ck_assert_int_eq(configure("w", "other", configs), PSCLIENT_OK);

    ck_assert_uint_eq(configs[0].step, 8);
    ck_assert_uint_eq(configs[1].step, 9);
    ck_assert_uint_eq(configs[0].size, 6);
    ck_assert_int_eq(memcmp(configs[1].bytes, "config", 6), 0);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_CONFIGURE), 2);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_CONFIGURE), 1);
}
END_TEST

START_TEST(a_prefix_stands_for_all_that_begin_so)
{
    size_t found = 0;

    ck_assert_int_eq(
        psclient_configure_prefix(client, "w", change, sizeof change, LONG_MS, &found, &error),
        PSCLIENT_OK);
    ck_assert_uint_eq(found, 1);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_CONFIGURE), 1);
    ck_assert_int_eq(
        psclient_configure_prefix(client, "", change, sizeof change, LONG_MS, &found, &error),
        PSCLIENT_OK);
    ck_assert_uint_eq(found, 3);
    ck_assert_int_eq(
        psclient_configure_prefix(client, "x", change, sizeof change, LONG_MS, &found, &error),
        PSCLIENT_OK);
    ck_assert_uint_eq(found, 0);
}
END_TEST

START_TEST(a_lost_answer_is_asked_for_under_the_same_number)
{
    uint8_t first[FAKE_REQUEST_BYTES], second[FAKE_REQUEST_BYTES];
    fake_server_next(servers[1], PS_METHOD_DROP, 1, (struct fake_answer){.kind = FAKE_BREAK});

    ck_assert_int_eq(drop("v", NULL), PSCLIENT_OK);

    size_t size = fake_server_request(servers[1], PS_METHOD_DROP, 0, first);
    ck_assert_uint_eq(fake_server_request(servers[1], PS_METHOD_DROP, 1, second), size);
    ck_assert_mem_eq(first, second, size);
    ck_assert_uint_eq(results[0].retries, 1);
}
END_TEST

START_TEST(an_open_change_is_unknown_when_its_session_is_forgotten)
{
    fake_server_next(servers[1], PS_METHOD_CONFIGURE, 1, (struct fake_answer){.kind = FAKE_BREAK});
    fake_server_answer(servers[1], PS_METHOD_CONFIGURE, refuse(PS_ERR_STALE_SESSION));

    ck_assert_int_eq(configure("v", NULL, NULL), PSCLIENT_FAILED);

    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_CONFIGURE), 2);
}
END_TEST

START_TEST(wrong_calls_ask_nobody)
{
    const char *none[] = {NULL};
    ck_assert_int_eq(drop("v", "v"), PSCLIENT_INVALID);
    ck_assert_str_eq(error.text, "parameter v is named twice");
    ck_assert_int_eq(results[1].status, PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_drop(client, none, 1, LONG_MS, NULL, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_drop(client, NULL, 0, LONG_MS, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_configure(client, none, 1, change, 0, LONG_MS, results, NULL, &error),
                     PSCLIENT_INVALID);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_LIST), 0);
}
END_TEST

START_TEST(a_server_that_knows_no_such_call_says_so)
{
    fake_server_answer(servers[1], PS_METHOD_DROP, refuse(PS_ERR_UNSUPPORTED));

    ck_assert_int_eq(drop("v", NULL), PSCLIENT_INVALID);
}
END_TEST

/* The answer has only `existed`: field 3. */
static const uint8_t existed[] = {0x18, 1};

START_TEST(an_equal_parameter_is_told_and_another_one_is_a_failure)
{
    float content[4] = {0};
    struct psclient_parameter both[] = {parameter("w", content), parameter("u", content)};
    for (size_t i = 0; i < 2; i++)
        fake_server_answer(servers[i], PS_METHOD_DEFINE,
                           (struct fake_answer){FAKE_REPLY, PS_OK, {existed, sizeof existed}});
    ck_assert_int_eq(psclient_define(client, both, 2, LONG_MS, results, &error), PSCLIENT_OK);
    ck_assert_int_eq(results[0].existed, 1);
    ck_assert_int_eq(results[1].existed, 1);

    for (size_t i = 0; i < 2; i++)
        fake_server_answer(servers[i], PS_METHOD_DEFINE, refuse(PS_ERR_EXISTS));
    ck_assert_int_eq(psclient_define(client, both, 2, LONG_MS, results, &error), PSCLIENT_ALREADY);
    ck_assert_int_eq(results[0].status, PSCLIENT_ALREADY);
    ck_assert_int_eq(results[0].existed, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient change");
    TCase *tests = tcase_create("change");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, each_range_is_dropped_where_it_is);
    tcase_add_test(tests, what_is_not_there_is_not_found_and_the_rest_is_dropped);
    tcase_add_test(tests, a_half_dropped_parameter_is_dropped_by_the_same_call);
    tcase_add_test(tests, a_range_that_went_meanwhile_is_dropped_too);
    tcase_add_test(tests, a_half_there_parameter_is_not_configured_silently);
    tcase_add_test(tests, a_change_tells_the_configuration_and_from_when_on);
    tcase_add_test(tests, a_prefix_stands_for_all_that_begin_so);
    tcase_add_test(tests, a_lost_answer_is_asked_for_under_the_same_number);
    tcase_add_test(tests, an_open_change_is_unknown_when_its_session_is_forgotten);
    tcase_add_test(tests, wrong_calls_ask_nobody);
    tcase_add_test(tests, a_server_that_knows_no_such_call_says_so);
    tcase_add_test(tests, an_equal_parameter_is_told_and_another_one_is_a_failure);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
