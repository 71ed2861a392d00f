/* SPDX-License-Identifier: Apache-2.0 */
/* FinishInitParams over the wire says under which epoch the parameters were taken. */
#include "rig.h"

#include "proto/codec.h"
#include "proto/status_codes.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct rig rig;

/* InitParam of one parameter; the epoch in its reply. */
static uint64_t initialise(void)
{
    static const float values[] = {1, 2};
    const struct ps_bytes content = {(const uint8_t *)values, sizeof values};
    const struct ps_bytes no_config = {NULL, 0};
    struct raw_answer answer =
        rig_call(&rig, PS_METHOD_INIT, rig_init("w", PS_F32, content, no_config));
    ck_assert_int_eq(answer.code, PS_RPC_OK);
    struct ps_bytes bytes = {answer.bytes, answer.size};
    struct ps_init_reply reply;
    ck_assert_int_eq(ps_decode_init_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, NULL),
                     PS_OK);
    raw_answer_release(&answer);
    return reply.epoch;
}

static struct raw_answer finish_under(uint64_t epoch)
{
    const struct ps_finish_request request = {.epoch = epoch};
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 1000);
    ps_encode_finish(&request, &buffer);
    return rig_call(&rig, PS_METHOD_FINISH, buffer);
}

static void expect(struct raw_answer answer, int code, const char *word, const char *text)
{
    ck_assert_int_eq(answer.code, code);
    ck_assert_str_eq(answer.word, word);
    ck_assert_msg(strstr(answer.text, text) != NULL, "%s", answer.text);
    raw_answer_release(&answer);
}

static void setup(void)
{
    rig_start(&rig, &(struct rig_options){.saves = false});
}

static void teardown(void)
{
    rig_stop(&rig);
}

START_TEST(a_finish_under_the_epoch_of_the_parameters_is_fine)
{
    uint64_t epoch = initialise();

    ck_assert_uint_ne(epoch, 0);
    expect(finish_under(epoch), PS_RPC_OK, "", "");
}
END_TEST

START_TEST(a_finish_under_an_epoch_that_is_gone_is_refused_and_changes_nothing)
{
    uint64_t epoch = initialise();

    for (int i = 0; i < 2; i++)
        expect(finish_under(epoch + 1), PS_RPC_FAILED_PRECONDITION, "stale_epoch",
               "the server has lost what it was given, initialise again; nothing changed");

    expect(finish_under(epoch), PS_RPC_OK, "", "");
}
END_TEST

START_TEST(a_finish_of_an_initialised_server_has_one_answer_under_any_epoch)
{
    uint64_t epoch = initialise();
    expect(finish_under(0), PS_RPC_OK, "", "");

    const uint64_t epochs[] = {0, epoch, epoch + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof epochs / sizeof epochs[0]; i++)
        expect(finish_under(epochs[i]), PS_RPC_ALREADY_EXISTS, "exists",
               "pserver already initialized");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rpc initialise");
    TCase *tests = tcase_create("rpc initialise");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_finish_under_the_epoch_of_the_parameters_is_fine);
    tcase_add_test(tests, a_finish_under_an_epoch_that_is_gone_is_refused_and_changes_nothing);
    tcase_add_test(tests, a_finish_of_an_initialised_server_has_one_answer_under_any_epoch);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
