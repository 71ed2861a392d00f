/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient over real sockets, against servers that do as they are told. */
#include "tests/integration/client/in_doubt.h"
#include "tests/integration/client/psclient_rig.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "proto/codec.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fake_answer hold = {.kind = FAKE_HOLD};
static const struct fake_answer break_it = {.kind = FAKE_BREAK};

START_TEST(a_batch_is_spread_over_its_servers)
{
    struct psclient_gradient gradients[] = {gradient("param_a"), gradient("param_b")};
    struct psclient_result results[2];
    open_client(2, "ready");

    ck_assert_int_eq(psclient_push(client, gradients, 2, LONG_MS, results, &error), PSCLIENT_OK);

    ck_assert_uint_eq(psclient_shard_count(client), 2);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 1);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_PUSH), 1);
    ck_assert_int_eq(results[1].status, PSCLIENT_OK);
    close_client();
}
END_TEST

START_TEST(pulls_come_in_request_order_with_their_versions)
{
    float a[4] = {0}, b[4] = {0};
    struct psclient_parameter parameters[] = {parameter("param_b", b), parameter("param_a", a)};
    open_client(2, "ready");

    ck_assert_int_eq(psclient_pull(client, parameters, 2, LONG_MS, NULL, &error), PSCLIENT_OK);

    ck_assert_uint_eq(parameters[0].version, 7);
    ck_assert_uint_eq(parameters[1].version, 6);
    ck_assert(memcmp(a, ones, sizeof ones) == 0 && memcmp(b, ones, sizeof ones) == 0);
    close_client();
}
END_TEST

START_TEST(b17_empty_batches_return_at_once_even_without_servers)
{
    struct fake_server *server = fake_server_start(0);
    const struct psclient_options options = {.servers = fake_server_address(server)};
    ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_OK);
    fake_server_stop(server);

    ck_assert_int_eq(psclient_pull(client, NULL, 0, PSCLIENT_FOREVER, NULL, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_push(client, NULL, 0, PSCLIENT_FOREVER, NULL, NULL), PSCLIENT_OK);
    ck_assert_int_eq(psclient_init(client, NULL, 0, PSCLIENT_FOREVER, NULL, &error), PSCLIENT_OK);
    psclient_close(client);
}
END_TEST

START_TEST(b17_a_server_that_never_answers_costs_no_more_than_the_timeout)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    float content[4];
    struct psclient_parameter parameters[] = {parameter("w", content)};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, hold);
    fake_server_answer(servers[0], PS_METHOD_PULL, hold);
    uint64_t start_ms = ps_now_ms(ps_clock_real());

    int pushed = push_in_doubt(client, gradients, 150, &error);
    int pulled = psclient_pull(client, parameters, 1, 150, NULL, &error);
    uint64_t took_ms = ps_now_ms(ps_clock_real()) - start_ms;

    ck_assert_int_eq(pushed, PSCLIENT_UNKNOWN);
    ck_assert_int_eq(pulled, PSCLIENT_UNAVAILABLE);
    ck_assert_uint_ge(took_ms, 300);
    ck_assert_uint_lt(took_ms, LONG_MS);
    close_client();
}
END_TEST

START_TEST(b18_the_first_failure_in_request_order_is_returned_and_the_rest_is_done)
{
    struct psclient_gradient gradients[] = {gradient("param_a"), gradient(""), gradient("param_b")};
    struct psclient_result results[3];
    open_client(2, "ready");
    fake_server_answer(servers[1], PS_METHOD_PUSH, refuse(PS_ERR_NOT_FOUND));

    int status = psclient_push(client, gradients, 3, LONG_MS, results, &error);

    ck_assert_int_eq(status, PSCLIENT_INVALID);
    ck_assert_int_eq(error.status, PSCLIENT_INVALID);
    ck_assert_int_eq(results[0].status, PSCLIENT_OK);
    ck_assert_int_eq(results[1].status, PSCLIENT_INVALID);
    ck_assert_int_eq(results[2].status, PSCLIENT_NOT_FOUND);
    ck_assert_str_eq(results[2].text, "not_found");
    close_client();
}
END_TEST

/* A pull of 4 MiB, whose ranges a server gets wrong: it says of the parameter what is right. */
enum { LARGE_ELEMENTS = 1 << 20, RANGE_ELEMENTS = 1 << 17 };

static void answer_range(struct ps_buffer *bytes, uint64_t count, const float *content)
{
    const struct ps_bytes piece = {(const uint8_t *)content, count * sizeof *content};
    const struct ps_pull_reply reply = {.dtype = PS_F32,
                                        .range = {0, count},
                                        .total = LARGE_ELEMENTS,
                                        .content = ps_view_of(&piece)};
    ps_buffer_init(bytes, ps_allocator_heap(), sizeof(float) * LARGE_ELEMENTS);
    ps_encode_pull_reply(&reply, bytes);
    ps_buffer_append(bytes, piece);
}

static struct fake_answer answer_of(const struct ps_buffer *bytes)
{
    return (struct fake_answer){.kind = FAKE_REPLY,
                                .bytes = {(const uint8_t *)bytes->text, bytes->size}};
}

/* The first so many ranges are right. */
START_TEST(a_reply_of_another_range_than_was_asked_for_is_refused)
{
    float *values = calloc(LARGE_ELEMENTS, sizeof *values);
    ck_assert_ptr_nonnull(values);
    struct psclient_parameter large = parameter("w", values);
    struct ps_buffer right, wrong;
    large.content_size = LARGE_ELEMENTS * sizeof *values;
    open_client(1, "ready");
    answer_range(&right, RANGE_ELEMENTS, values);
    answer_range(&wrong, 4, ones);
    fake_server_answer(servers[0], PS_METHOD_PULL, answer_of(&wrong));
    fake_server_next(servers[0], PS_METHOD_PULL, (uint32_t)_i, answer_of(&right));

    ck_assert_int_eq(psclient_pull(client, &large, 1, LONG_MS, NULL, &error), PSCLIENT_FAILED);

    ck_assert_ptr_nonnull(strstr(error.text, "another range"));
    ck_assert(values[0] == 0);
    close_client();
    ps_buffer_fini(&right);
    ps_buffer_fini(&wrong);
    free(values);
}
END_TEST

START_TEST(refused_pushes_are_repeated_until_they_are_taken)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    struct psclient_result results[1];
    open_client(1, "ready");
    fake_server_next(servers[0], PS_METHOD_PUSH, 3, refuse(PS_ERR_UNAVAILABLE));

    ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, results, &error), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 4);
    ck_assert_uint_eq(results[0].retries, 3);
    ck_assert_uint_eq(psclient_retries(client), 3);
    close_client();
}
END_TEST

/* The id of the n-th push that a server got; its client id is copied to `client_id`. */
static struct ps_request_id id_of_push(struct fake_server *server, uint32_t n,
                                       uint8_t client_id[16])
{
    uint8_t bytes[FAKE_REQUEST_BYTES];
    struct ps_bytes piece = {bytes, fake_server_request(server, PS_METHOD_PUSH, n, bytes)};
    struct ps_push_request push;
    struct ps_decoded decoded;
    ck_assert_int_eq(ps_decode_push(ps_view_of(&piece), ps_allocator_heap(), &push, &decoded, NULL),
                     PS_OK);
    ck_assert(push.request.present);
    ck_assert_uint_eq(push.request.client_id.size, 16);
    memcpy(client_id, push.request.client_id.data, 16);
    ps_decoded_release(&decoded);
    push.request.client_id.data = client_id;
    return push.request;
}

START_TEST(a_push_whose_reply_was_lost_is_sent_again_under_the_same_id)
{
    /* version 41, a duplicate, position 43 */
    static const uint8_t before[] = {0x08, 41, 0x10, 1, 0x18, 43};
    struct psclient_gradient gradients[] = {gradient("w")};
    struct psclient_result results[1];
    uint8_t first_client[16], client_id[16];
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH,
                       (struct fake_answer){.kind = FAKE_REPLY, .bytes = {before, sizeof before}});
    fake_server_next(servers[0], PS_METHOD_PUSH, 2, break_it);

    int status = psclient_push(client, gradients, 1, LONG_MS, results, &error);

    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    ck_assert_uint_eq(results[0].version, 41);
    ck_assert_int_eq(results[0].duplicate, 1);
    ck_assert_uint_eq(results[0].position, 43);
    ck_assert_uint_eq(results[0].retries, 2);
    struct psclient_counters counters;
    psclient_get_counters(client, &counters);
    ck_assert_uint_eq(counters.retries, 2);
    ck_assert_uint_eq(counters.resends, 2);
    ck_assert_uint_eq(counters.duplicates, 1);
    uint64_t session = id_of_push(servers[0], 0, first_client).session;
    ck_assert_uint_eq(session, 1);
    for (uint32_t i = 0; i < 3; i++) {
        struct ps_request_id id = id_of_push(servers[0], i, i == 0 ? first_client : client_id);
        ck_assert_uint_eq(id.session, session);
        ck_assert_uint_eq(id.sequence, 1);
        ck_assert_int_eq(memcmp(first_client, i == 0 ? first_client : client_id, 16), 0);
    }
    close_client();
}
END_TEST

START_TEST(every_client_has_an_id_of_its_own)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    uint8_t ids[2][16];
    open_client(1, "ready");
    ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    const struct psclient_options options = {.servers = fake_server_address(servers[0])};
    struct psclient *other;
    ck_assert_int_eq(psclient_open(&options, &other, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_push(other, gradients, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    psclient_close(other);

    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(id_of_push(servers[0], i, ids[i]).sequence, 1);
    ck_assert_int_ne(memcmp(ids[0], ids[1], 16), 0);
    close_client();
}
END_TEST

START_TEST(a_push_that_breaks_until_the_timeout_is_unknown)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, break_it);

    ck_assert_int_eq(push_in_doubt(client, gradients, 300, &error), PSCLIENT_UNKNOWN);

    ck_assert_uint_gt(fake_server_calls(servers[0], PS_METHOD_PUSH), 1);
    close_client();
}
END_TEST

START_TEST(a_forgotten_session_is_final_for_a_push_whose_reply_was_lost)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, refuse(PS_ERR_STALE_SESSION));
    fake_server_next(servers[0], PS_METHOD_PUSH, 1, break_it);

    ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, NULL, &error), PSCLIENT_FAILED);

    ck_assert_ptr_nonnull(strstr(error.text, "stale_session"));
    fake_server_answer(servers[0], PS_METHOD_PUSH, (struct fake_answer){.kind = FAKE_REPLY});
    ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
    uint8_t client_id[16];
    ck_assert_uint_eq(id_of_push(servers[0], 2, client_id).session,
                      id_of_push(servers[0], 0, client_id).session + 1);
    close_client();
}
END_TEST

/* An older server says so when it has applied the push and there is no memory for its reply. */
START_TEST(a_push_that_met_no_memory_is_not_sent_under_a_new_number)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH, refuse(PS_ERR_STALE_SESSION));
    fake_server_next(servers[0], PS_METHOD_PUSH, 1, refuse(PS_ERR_NO_MEMORY));

    ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, NULL, &error), PSCLIENT_FAILED);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 2);
    close_client();
}
END_TEST

START_TEST(the_level_of_acknowledgement_goes_with_every_push)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    uint8_t bytes[FAKE_REQUEST_BYTES];
    struct fake_server *server = fake_server_start(0);
    for (uint32_t ack = PSCLIENT_ACK_DEFAULT; ack <= PSCLIENT_ACK_LOGGED; ack++) {
        const struct psclient_options options = {.servers = fake_server_address(server),
                                                 .ack = (enum psclient_ack)ack};
        ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_OK);
        ck_assert_int_eq(psclient_push(client, gradients, 1, LONG_MS, NULL, &error), PSCLIENT_OK);
        psclient_close(client);

        struct ps_bytes piece = {bytes, fake_server_request(server, PS_METHOD_PUSH, ack, bytes)};
        struct ps_push_request push;
        struct ps_decoded decoded;
        ck_assert_int_eq(
            ps_decode_push(ps_view_of(&piece), ps_allocator_heap(), &push, &decoded, NULL), PS_OK);
        ck_assert_uint_eq(push.ack, ack);
        ps_decoded_release(&decoded);
    }
    fake_server_stop(server);
}
END_TEST

START_TEST(a_broken_pull_is_repeated)
{
    float content[4];
    struct psclient_parameter parameters[] = {parameter("w", content)};
    open_client(1, "ready");
    fake_server_next(servers[0], PS_METHOD_PULL, 2, break_it);

    ck_assert_int_eq(psclient_pull(client, parameters, 1, LONG_MS, NULL, &error), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PULL), 3);
    close_client();
}
END_TEST

START_TEST(a_push_to_a_server_that_lost_its_state_says_so_at_once)
{
    struct psclient_gradient gradients[] = {gradient("w")};
    open_client(1, "uninitialized");
    fake_server_answer(servers[0], PS_METHOD_PUSH, refuse(PS_ERR_NOT_READY));

    ck_assert_int_eq(psclient_push(client, gradients, 1, PSCLIENT_FOREVER, NULL, &error),
                     PSCLIENT_NOT_INITIALIZED);
    close_client();
}
END_TEST

static void *push_many(void *argument)
{
    struct psclient_gradient gradients[4] = {gradient("param_a"), gradient("param_b"),
                                             gradient("p_1"), gradient("w")};
    uint32_t *failures = argument;
    for (int i = 0; i < 50; i++)
        *failures += psclient_push(client, gradients, 4, LONG_MS, NULL, NULL) != PSCLIENT_OK;
    return NULL;
}

START_TEST(threads_share_a_client)
{
    pthread_t threads[4];
    uint32_t failures[4] = {0};
    open_client(2, "ready");

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, push_many, &failures[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(failures[i], 0);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH) +
                          fake_server_calls(servers[1], PS_METHOD_PUSH),
                      800);
    close_client();
}
END_TEST

START_TEST(options_that_make_no_sense_are_refused)
{
    static const struct psclient_options wrong[] = {
        {0},
        {.servers = "a:1", .etcd = "http://127.0.0.1:1"},
        {.servers = ""},
        {.servers = "a:1,"},
        {.servers = "a:1,,b:2"},
        {.servers = "noport"},
        {.servers = "a:1", .ack = (enum psclient_ack)3},
        {.servers = "a:1", .ack = (enum psclient_ack) - 1},
        {.etcd = "http://127.0.0.1:1", .job = "a/b", .open_timeout_ms = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(psclient_open(&wrong[i], &client, &error), PSCLIENT_INVALID);
        ck_assert_str_ne(error.text, "");
        ck_assert_int_eq(psclient_open(&wrong[i], &client, NULL), PSCLIENT_INVALID);
    }
}
END_TEST

START_TEST(an_etcd_that_is_not_there_is_waited_for_until_the_timeout)
{
    const struct psclient_options options = {.etcd = "http://127.0.0.1:1", .open_timeout_ms = 200};

    ck_assert_int_eq(psclient_open(&options, &client, &error), PSCLIENT_UNAVAILABLE);
    ck_assert_str_ne(error.text, "");
}
END_TEST

START_TEST(operators_calls_go_to_the_server_they_name)
{
    struct psclient_server_status status;
    open_client(2, "ready");

    ck_assert_int_eq(psclient_server_status(client, 1, LONG_MS, &status, &error), PSCLIENT_OK);
    ck_assert_uint_eq(status.index, 1);
    ck_assert_str_eq(status.state, "ready");
    ck_assert_int_eq(psclient_server_status(client, 2, LONG_MS, &status, &error), PSCLIENT_INVALID);

    fake_server_answer(servers[0], PS_METHOD_SAVE, refuse(PS_ERR_UNSUPPORTED));
    struct psclient_saved saved;
    ck_assert_int_eq(psclient_save(client, 0, LONG_MS, &saved, &error), PSCLIENT_INVALID);
    size_t count;
    int more;
    struct psclient_param_info rows[3];
    ck_assert_int_eq(psclient_list(client, 0, NULL, rows, 3, &count, &more, LONG_MS, &error),
                     PSCLIENT_OK);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(more, 0);
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient");
    TCase *tests = tcase_create("psclient");
    tcase_add_test(tests, a_batch_is_spread_over_its_servers);
    tcase_add_test(tests, pulls_come_in_request_order_with_their_versions);
    tcase_add_test(tests, b17_empty_batches_return_at_once_even_without_servers);
    tcase_add_test(tests, b17_a_server_that_never_answers_costs_no_more_than_the_timeout);
    tcase_add_test(tests, b18_the_first_failure_in_request_order_is_returned_and_the_rest_is_done);
    tcase_add_loop_test(tests, a_reply_of_another_range_than_was_asked_for_is_refused, 0, 2);
    tcase_add_test(tests, refused_pushes_are_repeated_until_they_are_taken);
    tcase_add_test(tests, a_push_whose_reply_was_lost_is_sent_again_under_the_same_id);
    tcase_add_test(tests, every_client_has_an_id_of_its_own);
    tcase_add_test(tests, a_push_that_breaks_until_the_timeout_is_unknown);
    tcase_add_test(tests, a_forgotten_session_is_final_for_a_push_whose_reply_was_lost);
    tcase_add_test(tests, a_push_that_met_no_memory_is_not_sent_under_a_new_number);
    tcase_add_test(tests, the_level_of_acknowledgement_goes_with_every_push);
    tcase_add_test(tests, a_broken_pull_is_repeated);
    tcase_add_test(tests, a_push_to_a_server_that_lost_its_state_says_so_at_once);
    tcase_add_test(tests, threads_share_a_client);
    tcase_add_test(tests, options_that_make_no_sense_are_refused);
    tcase_add_test(tests, an_etcd_that_is_not_there_is_waited_for_until_the_timeout);
    tcase_add_test(tests, operators_calls_go_to_the_server_they_name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
