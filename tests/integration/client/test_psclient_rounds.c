/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous steps against servers that answer as they are told: which calls a step takes, and
 * what it makes of late and repeated contributions. */
#include "client/round_step.h"
#include "tests/integration/client/psclient_rig.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "proto/bundle_codec.h"
#include "proto/codec.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static float content[4];
static struct psclient_result result;

static struct psclient_gradient contribution(uint32_t worker, uint64_t round)
{
    struct psclient_gradient made = gradient("w");
    made.worker = worker;
    made.round = round;
    return made;
}

static struct fake_answer bytes_of(const struct ps_buffer *reply)
{
    return (struct fake_answer){.kind = FAKE_REPLY,
                                .bytes = {(const uint8_t *)reply->text, reply->size}};
}

/* What a server says of a contribution, alone. */
static void answer_push(struct ps_buffer *reply, const struct ps_push_reply *push)
{
    ps_buffer_init(reply, ps_allocator_heap(), 1000);
    ps_encode_push_reply(push, reply);
    fake_server_answer(servers[0], PS_METHOD_PUSH, bytes_of(reply));
}

/* The same with the values of that version behind it. */
static void answer_step(struct ps_buffer *reply, const struct ps_push_reply *push, uint64_t version)
{
    const struct ps_bytes values = {(const uint8_t *)ones, sizeof ones};
    const struct ps_push_result pushed = {.status = {.status = PS_OK}, .reply = *push};
    const struct ps_pull_result pulled = {
        .status = {.status = PS_OK},
        .reply = {.dtype = PS_F32, .version = version, .content = ps_view_of(&values)}};
    ps_buffer_init(reply, ps_allocator_heap(), 1000);
    ps_encode_push_result(&pushed, reply);
    ps_encode_pull_result(&pulled, reply);
    ps_buffer_append(reply, values);
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL, bytes_of(reply));
}

static int step(uint32_t worker, uint64_t round)
{
    const struct psclient_gradient gradients[] = {contribution(worker, round)};
    struct psclient_parameter parameters[] = {parameter("w", content)};
    int status = psclient_push_pull(client, gradients, parameters, 1, LONG_MS, &result, &error);
    if (status == PSCLIENT_OK)
        ck_assert_uint_ge(parameters[0].version, round);
    return status;
}

static uint32_t calls(enum ps_method method)
{
    return fake_server_calls(servers[0], method);
}

START_TEST(a_step_is_one_round_trip)
{
    struct ps_buffer reply;
    open_client(1, "ready");
    answer_step(&reply, &(struct ps_push_reply){.version = 8, .held = true}, 8);

    ck_assert_int_eq(step(1, 8), PSCLIENT_OK);
    ck_assert_int_eq(step(1, 8), PSCLIENT_OK);

    ck_assert_uint_eq(calls(PS_METHOD_PUSH_PULL), 2);
    ck_assert_uint_eq(calls(PS_METHOD_PUSH) + calls(PS_METHOD_PULL), 0);
    ck_assert_int_eq(result.held, 1);
    ck_assert_int_eq(result.late, 0);
    ck_assert_uint_eq(result.version, 8);
    ck_assert(content[3] == 1);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

/* Under numbers that both of them wait with, two workers of one client could wait for ever. */
START_TEST(a_second_worker_of_one_client_pushes_first_and_then_pulls)
{
    struct ps_buffer together, apart;
    open_client(1, "ready");
    answer_step(&together, &(struct ps_push_reply){.version = 6, .held = true}, 6);
    answer_push(&apart, &(struct ps_push_reply){.version = 6});

    ck_assert_int_eq(step(1, 6), PSCLIENT_OK);
    ck_assert_int_eq(step(2, 6), PSCLIENT_OK);
    ck_assert_int_eq(result.held, 0);
    ck_assert_int_eq(step(1, 6), PSCLIENT_OK);

    ck_assert_uint_eq(calls(PS_METHOD_PUSH_PULL), 2);
    ck_assert_uint_eq(calls(PS_METHOD_PUSH), 1);
    ck_assert_uint_eq(calls(PS_METHOD_PULL), 1);
    close_client();
    ps_buffer_fini(&together);
    ps_buffer_fini(&apart);
}
END_TEST

/* Which round that is, only the server knows: the pull has to wait for what its answer says. */
START_TEST(a_contribution_to_the_open_round_waits_for_the_one_that_took_it)
{
    struct ps_buffer reply;
    struct ps_pull_request wish;
    struct ps_decoded decoded;
    uint8_t bytes[FAKE_REQUEST_BYTES];
    open_client(1, "ready");
    answer_push(&reply, &(struct ps_push_reply){.version = 5, .held = true});

    ck_assert_int_eq(step(1, 0), PSCLIENT_OK);

    struct ps_bytes request = {bytes, fake_server_request(servers[0], PS_METHOD_PULL, 0, bytes)};
    ck_assert_int_eq(
        ps_decode_pull(ps_view_of(&request), ps_allocator_heap(), &wish, &decoded, NULL), PS_OK);
    ck_assert_uint_eq(wish.at_least_version, 5);
    ck_assert_uint_eq(calls(PS_METHOD_PUSH_PULL), 0);
    ps_decoded_release(&decoded);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

/* It counts in round 6, which makes what its worker goes on from. */
START_TEST(a_late_contribution_waits_for_the_round_that_it_counts_in)
{
    struct ps_buffer reply;
    open_client(1, "ready");
    answer_step(&reply, &(struct ps_push_reply){.version = 6, .held = true, .late = true}, 5);

    ck_assert_int_eq(step(1, 4), PSCLIENT_OK);

    ck_assert_int_eq(result.late, 1);
    ck_assert_uint_eq(result.version, 6);
    ck_assert_uint_eq(calls(PS_METHOD_PULL), 1);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

/* Of a worker that was killed behind its contribution, and has begun anew. */
START_TEST(a_contribution_that_was_made_before_brings_the_values_of_its_round)
{
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, refuse(PS_ERR_EXISTS));
    /* Now its steps go as two calls. */
    struct ps_buffer reply;
    answer_step(&reply, &(struct ps_push_reply){.version = 6}, 6);
    ck_assert_int_eq(step(1, 6), PSCLIENT_OK);

    ck_assert_int_eq(step(2, 6), PSCLIENT_OK);

    ck_assert_int_eq(result.duplicate, 1);
    ck_assert_uint_eq(result.version, 6);
    ck_assert_uint_eq(calls(PS_METHOD_PULL), 1);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

/* By itself a push has nothing to bring. */
START_TEST(a_second_contribution_to_one_round_is_told)
{
    const struct psclient_gradient gradients[] = {contribution(1, 6)};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, refuse(PS_ERR_EXISTS));

    ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, &result, &error),
                     PSCLIENT_ALREADY);

    close_client();
}
END_TEST

START_TEST(a_refused_contribution_is_not_pulled)
{
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, refuse(PS_ERR_BAD_INPUT));

    ck_assert_int_eq(step(1, 0), PSCLIENT_INVALID);

    ck_assert_uint_eq(calls(PS_METHOD_PULL), 0);
    close_client();
}
END_TEST

/* The servers of before ignore what a step says of rounds: its second half shows that. */
START_TEST(a_server_without_rounds_is_told_from_one_that_has_them)
{
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL, refuse(PS_ERR_UNSUPPORTED));
    struct ps_buffer reply;
    answer_push(&reply, &(struct ps_push_reply){.version = 9});

    ck_assert_int_eq(step(1, 9), PSCLIENT_INVALID);

    ck_assert_ptr_nonnull(strstr(error.text, "too old for rounds"));
    ck_assert_uint_eq(calls(PS_METHOD_PUSH), 1);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

START_TEST(operations_that_would_wait_with_too_many_numbers_are_refused)
{
    struct psclient_operation *held[PS_STEP_WAITING_MAX], *more = NULL;
    struct psclient_gradient one = contribution(1, 8);
    struct psclient_parameter into = parameter("w", content);
    struct psclient_gradient open = contribution(1, 0);
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL, (struct fake_answer){.kind = FAKE_HOLD});

    ck_assert_int_eq(
        psclient_push_pull_begin(client, &open, &into, 1, LONG_MS, NULL, &more, &error),
        PSCLIENT_INVALID);
    for (size_t i = 0; i < PS_STEP_WAITING_MAX; i++)
        ck_assert_int_eq(
            psclient_push_pull_begin(client, &one, &into, 1, LONG_MS, NULL, &held[i], &error),
            PSCLIENT_OK);
    ck_assert_int_eq(psclient_push_pull_begin(client, &one, &into, 1, LONG_MS, NULL, &more, &error),
                     PSCLIENT_EXHAUSTED);

    for (size_t i = 0; i < PS_STEP_WAITING_MAX; i++) {
        psclient_cancel(held[i]);
        (void)psclient_end(held[i], NULL, &error);
    }
    ck_assert_int_eq(psclient_push_pull_begin(client, &one, &into, 1, LONG_MS, NULL, &more, &error),
                     PSCLIENT_OK);
    psclient_cancel(more);
    (void)psclient_end(more, NULL, &error);
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient rounds");
    TCase *tests = tcase_create("rounds");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_step_is_one_round_trip);
    tcase_add_test(tests, a_second_worker_of_one_client_pushes_first_and_then_pulls);
    tcase_add_test(tests, a_contribution_to_the_open_round_waits_for_the_one_that_took_it);
    tcase_add_test(tests, a_late_contribution_waits_for_the_round_that_it_counts_in);
    tcase_add_test(tests, a_contribution_that_was_made_before_brings_the_values_of_its_round);
    tcase_add_test(tests, a_second_contribution_to_one_round_is_told);
    tcase_add_test(tests, a_refused_contribution_is_not_pulled);
    tcase_add_test(tests, a_server_without_rounds_is_told_from_one_that_has_them);
    tcase_add_test(tests, operations_that_would_wait_with_too_many_numbers_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
