/* SPDX-License-Identifier: Apache-2.0 */
/* Content in shared memory: named rightly, and in every wrong way. */
#include "sharer.h"

#include "base/local_socket.h"
#include "expect_each.h"
#include "proto/codec.h"
#include "proto/shared_range.h"
#include "proto/status_codes.h"
#include "run_suite.h"
#include "server/core/requests/staging.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Right ones ---- */

START_TEST(the_name_is_told_to_who_asks_and_to_nobody_else)
{
    ck_assert_uint_gt(strlen(name), 20);
    struct raw_answer answer = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));
    ck_assert_str_eq(answer.name, "");
    raw_answer_release(&answer);
    rig.client.asks = true;
    answer = rig_call(&rig, PS_METHOD_PULL, rig_pull("nothing"));
    ck_assert_str_eq(answer.word, "not_found");
    ck_assert_str_eq(answer.name, name);
    raw_answer_release(&answer);
}
END_TEST

START_TEST(a_push_in_shared_memory_is_applied_like_any_other)
{
    fill(4, -1);
    call_expect(PS_METHOD_PUSH, push_of(range_at(4), 0), "");
    expect_values(1, 1);
    fill(SEGMENT_BYTES - CONTENT_BYTES, -2);
    call_expect(PS_METHOD_PUSH, push_of(range_at(SEGMENT_BYTES - CONTENT_BYTES), 0), "");
    expect_values(2, 3);
}
END_TEST

START_TEST(a_repeat_is_not_applied_again_whatever_the_range_holds_by_then)
{
    fill(0, -1);
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 1), "");
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 1), "");
    fill(0, -8);
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 1), "request_id_reused");
    expect_values(1, 1);
}
END_TEST

static struct ps_pull_reply pull_shared(struct ps_shared_range range, struct raw_answer *answer,
                                        struct ps_decoded *decoded)
{
    struct ps_pull_reply reply;
    *answer = rig_call(&rig, PS_METHOD_PULL, pull_into(range));
    ck_assert_msg(answer->code == PS_RPC_OK, "%s", answer->text);
    struct ps_bytes bytes = {answer->bytes, answer->size};
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, decoded, NULL),
        PS_OK);
    return reply;
}

START_TEST(a_pull_comes_into_the_range_that_was_offered)
{
    struct raw_answer answer;
    struct ps_decoded decoded;
    fill(0, -1);
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "");

    struct ps_pull_reply reply = pull_shared(range_at(300000), &answer, &decoded);

    ck_assert_uint_eq(reply.shared_size, CONTENT_BYTES);
    ck_assert_uint_eq(reply.content.size, 0);
    ck_assert_uint_eq(reply.version, 1);
    const float *values = (const float *)(const void *)(mine.segment.bytes + 300000);
    expect_each(i, COUNT, values[i] == (float)i);
    ck_assert_uint_eq(mine.segment.bytes[300000 + CONTENT_BYTES], 0);
    ps_decoded_release(&decoded);
    raw_answer_release(&answer);
}
END_TEST

START_TEST(a_pull_that_finds_no_room_comes_in_the_message)
{
    const struct ps_shared_range ranges[] = {{mine.number, 0, CONTENT_BYTES - 1},
                                             {mine.number + 1, 0, CONTENT_BYTES},
                                             {0, 0, CONTENT_BYTES}};
    for (size_t i = 0; i < 3; i++) {
        struct raw_answer answer;
        struct ps_decoded decoded;
        struct ps_pull_reply reply = pull_shared(ranges[i], &answer, &decoded);
        ck_assert_uint_eq(reply.shared_size, 0);
        ck_assert_uint_eq(reply.content.size, CONTENT_BYTES);
        ps_decoded_release(&decoded);
        raw_answer_release(&answer);
    }
}
END_TEST

/* The content of a range, as large as it may be but for the last. */
static void push_range(uint64_t sequence, uint64_t first, uint64_t count)
{
    struct ps_buffer request;
    ps_buffer_init(&request, ps_allocator_heap(), 4096);
    const struct ps_push_request fields = {
        .name = ps_bytes_of_text("w"),
        .dtype = PS_F32,
        .shared = {mine.number, first * sizeof(float), count * sizeof(float)},
        .range = {first, count},
        .request = {.present = true,
                    .client_id = ps_bytes_of_text("shared"),
                    .session = 1,
                    .sequence = sequence}};
    ps_encode_push(&fields, &request);
    call_expect(PS_METHOD_PUSH, request, "");
}

/* The range is free when its call was answered: what is written there then is not the push's. */
static void push_in_ranges(uint64_t sequence)
{
    enum { FIRST = PS_STAGING_PART_BYTES / sizeof(float) };
    fill(0, -1);
    push_range(sequence, 0, FIRST);
    memset(mine.segment.bytes, 0xff, FIRST * sizeof(float));
    push_range(sequence, FIRST, COUNT - FIRST);
    memset(mine.segment.bytes, 0xff, CONTENT_BYTES);
}

START_TEST(a_range_is_read_while_its_call_lasts_and_not_afterwards)
{
    push_in_ranges(1); /* applied as they come */
    expect_values(1, 1);

    fill(0, -1);
    push_range(2, 0, PS_STAGING_PART_BYTES / sizeof(float));
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 3), "");
    push_range(2, PS_STAGING_PART_BYTES / sizeof(float),
               COUNT - PS_STAGING_PART_BYTES / sizeof(float));
    expect_values(2, 2); /* the whole push came first */

    push_in_ranges(4); /* kept until all are there */
    expect_values(3, 3);
}
END_TEST

/* ---- Wrong ones ---- */

START_TEST(ranges_that_leave_the_memory_are_refused)
{
    const struct ps_shared_range wrong[] = {
        {mine.number, SEGMENT_BYTES - CONTENT_BYTES + 1, CONTENT_BYTES},
        {mine.number, SEGMENT_BYTES, CONTENT_BYTES},
        {mine.number, UINT64_MAX, CONTENT_BYTES},
        {mine.number, UINT64_MAX - CONTENT_BYTES + 1, CONTENT_BYTES},
        {mine.number, UINT64_MAX / 2 + 1, UINT64_MAX / 2 + 1},
    };
    for (size_t i = 0; i < 5; i++) {
        bool large = wrong[i].size > CONTENT_BYTES;
        call_expect(PS_METHOD_PUSH, push_of(wrong[i], 0), large ? "out_of_range" : "bad_input");
        call_expect(PS_METHOD_PULL, pull_into(wrong[i]), "bad_input");
    }
    expect_values(0, 0);
}
END_TEST

START_TEST(ranges_of_the_wrong_length_are_refused_like_content_of_it)
{
    call_expect(PS_METHOD_PUSH, push_of((struct ps_shared_range){mine.number, 0, 0}, 0),
                "bad_input");
    call_expect(PS_METHOD_PUSH, push_of((struct ps_shared_range){mine.number, 0, 4}, 0),
                "bad_input");
    call_expect(PS_METHOD_PUSH,
                push_of((struct ps_shared_range){mine.number, 0, CONTENT_BYTES + 4}, 0),
                "bad_input");
    call_expect(PS_METHOD_PUSH,
                push_of((struct ps_shared_range){mine.number, 0, SEGMENT_BYTES + 1}, 0),
                "bad_input");
    expect_values(0, 0);
}
END_TEST

START_TEST(memory_that_nobody_shares_is_unavailable)
{
    call_expect(PS_METHOD_PUSH,
                push_of((struct ps_shared_range){mine.number ^ 1, 0, CONTENT_BYTES}, 0),
                "unavailable");
    call_expect(PS_METHOD_PUSH, push_of((struct ps_shared_range){0, 0, CONTENT_BYTES}, 0),
                "unavailable");
    call_expect(PS_METHOD_PUSH, push_of((struct ps_shared_range){0, 8, 0}, 0), "unavailable");
    expect_values(0, 0);
}
END_TEST

START_TEST(content_in_both_places_is_refused)
{
    static const float content[COUNT];
    struct ps_bytes bytes = {(const uint8_t *)content, sizeof content};
    struct ps_buffer request;
    ps_buffer_init(&request, ps_allocator_heap(), 1 << 20);
    const struct ps_push_request fields = {.name = ps_bytes_of_text("w"),
                                           .dtype = PS_F32,
                                           .shared = range_at(0),
                                           .content = ps_view_of(&bytes)};
    ps_encode_push(&fields, &request);
    ps_buffer_append(&request, bytes);
    call_expect(PS_METHOD_PUSH, request, "bad_input");
    expect_values(0, 0);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_is_refused_there_too)
{
    fill(0, 1);
    ((float *)(void *)mine.segment.bytes)[COUNT - 1] = 1.0f / 0.0f;
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "bad_input");
    expect_values(0, 0);
}
END_TEST

/* Numbers are random, each client is told its own, and it dies with the client's connection. */
START_TEST(one_clients_memory_is_not_anothers)
{
    struct sharer other;
    share(&other, SEGMENT_BYTES);
    ck_assert_uint_ne(other.number, 0);
    ck_assert_uint_ne(other.number, mine.number);
    ck_assert_uint_gt(
        other.number > mine.number ? other.number - mine.number : mine.number - other.number, 1000);
    fill(0, -1);
    call_expect(PS_METHOD_PUSH,
                push_of((struct ps_shared_range){other.number, 0, CONTENT_BYTES}, 0), "");
    expect_values(1, 0);

    leave(&other);
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), SHARER_WAIT_MS);
    struct raw_answer answer = {0};
    do {
        raw_answer_release(&answer);
        answer = rig_call(&rig, PS_METHOD_PUSH,
                          push_of((struct ps_shared_range){other.number, 0, CONTENT_BYTES}, 0));
    } while (answer.code == PS_RPC_OK && ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
    ck_assert_str_eq(answer.word, "unavailable");
    raw_answer_release(&answer);
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "");
}
END_TEST

START_TEST(a_server_that_shares_none_says_so)
{
    rig_stop(&rig);
    rig_start(&rig, &(struct rig_options){.saves = false});
    rig_make_ready(&rig, COUNT);
    rig.client.asks = true;
    struct raw_answer answer = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));
    ck_assert_str_eq(answer.name, "");
    raw_answer_release(&answer);
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "unavailable");
}
END_TEST

/* With a descriptor it is no such hello either. */
START_TEST(a_devices_memory_is_refused_where_there_is_no_device)
{
    const struct ps_device_share piece = {.bytes = 4096, .device = "EMU-0"};
    uint8_t hello[PS_DEVICE_HELLO_BYTES];
    ps_device_hello_write(&piece, hello);
    int passed[] = {PS_NO_DESCRIPTOR, STDIN_FILENO};
    for (size_t i = 0; i < 2; i++) {
        int socket = connect_socket();
        ck_assert_int_eq(
            ps_local_socket_send(socket, (struct ps_bytes){hello, sizeof hello}, passed[i], NULL),
            PS_OK);
        ck_assert_uint_eq(await_answer(socket), 0);
        close(socket);
    }
    fill(0, -1); /* the server lives */
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_memory");
    TCase *tests = tcase_create("tests");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_name_is_told_to_who_asks_and_to_nobody_else);
    tcase_add_test(tests, a_push_in_shared_memory_is_applied_like_any_other);
    tcase_add_test(tests, a_repeat_is_not_applied_again_whatever_the_range_holds_by_then);
    tcase_add_test(tests, a_pull_comes_into_the_range_that_was_offered);
    tcase_add_test(tests, a_range_is_read_while_its_call_lasts_and_not_afterwards);
    tcase_add_test(tests, a_devices_memory_is_refused_where_there_is_no_device);
    tcase_add_test(tests, a_pull_that_finds_no_room_comes_in_the_message);
    tcase_add_test(tests, ranges_that_leave_the_memory_are_refused);
    tcase_add_test(tests, ranges_of_the_wrong_length_are_refused_like_content_of_it);
    tcase_add_test(tests, memory_that_nobody_shares_is_unavailable);
    tcase_add_test(tests, content_in_both_places_is_refused);
    tcase_add_test(tests, a_gradient_that_is_not_finite_is_refused_there_too);
    tcase_add_test(tests, one_clients_memory_is_not_anothers);
    tcase_add_test(tests, a_server_that_shares_none_says_so);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
