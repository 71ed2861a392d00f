/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of programs, there and back. */
#include "program_samples.h"

#include "pieces.h"
#include "run_suite.h"
#include "written_message.h"

#include <check.h>
#include <string.h>

static struct ps_bytes cut[1024];

static struct ps_view message_in(int size)
{
    return pieces_of(message_bytes(), (size_t)size, cut);
}

START_TEST(an_answer_comes_back)
{
    struct ps_ask_reply read;
    struct ps_ask_reply sent = {.handle = 1,
                                .epoch = 2,
                                .kept = true,
                                .stamps = {.host = 3, .ns = {4, 5, 6, 7}},
                                .payload = sample_payload()};
    sent.payload.keys = (struct ps_bytes){0};
    ps_encode_ask_reply(&sent, &message);
    ps_buffer_append(&message, sample_piece);
    ck_assert_int_eq(
        ps_decode_ask_reply(message_in(_i), ps_allocator_heap(), &read, &decoded, &error), PS_OK);
    ck_assert_uint_eq(read.handle, 1);
    ck_assert_uint_eq(read.epoch, 2);
    ck_assert(read.kept);
    ck_assert_mem_eq(&read.stamps, &sent.stamps, sizeof read.stamps);
    ck_assert_uint_eq(read.payload.tensor_count, 2);
    ck_assert_mem_eq(&read.payload.tensors[0], &sample_tensors[0], sizeof sample_tensors[0]);
    ck_assert_uint_eq(read.payload.content.size, sizeof sample_content);
}
END_TEST

START_TEST(an_answer_in_shared_memory_has_no_content)
{
    struct ps_ask_reply read;
    struct ps_ask_reply sent = {.payload = sample_payload(), .shared_size = 12};
    sent.payload.content = (struct ps_view){0};
    ps_encode_ask_reply(&sent, &message);
    ck_assert_int_eq(
        ps_decode_ask_reply(message_in(64), ps_allocator_heap(), &read, &decoded, &error), PS_OK);
    ck_assert_uint_eq(read.shared_size, 12);
    ck_assert_uint_eq(read.payload.content.size, 0);
    ps_decoded_release(&decoded);
    sent.shared_size = 13;
    ps_buffer_clear(&message);
    ps_encode_ask_reply(&sent, &message);
    ck_assert_int_eq(
        ps_decode_ask_reply(message_in(64), ps_allocator_heap(), &read, &decoded, &error),
        PS_ERR_BAD_INPUT);
}
END_TEST

/* Three requests: the second without content of its own. */
START_TEST(each_that_was_taken_has_its_own_content)
{
    struct ps_take_reply read;
    uint8_t copy[sizeof sample_content];
    struct ps_program_taken taken = {
        .handle = 21, .again = true, .asked = sample_asked(), .payload = sample_payload()};
    const struct ps_program_taken empty = {.handle = 22};
    ps_encode_taken(&taken, &message);
    ps_encode_taken(&empty, &message);
    taken.handle = 23;
    ps_encode_taken(&taken, &message);
    ps_encode_take_content(0, 2 * sizeof sample_content, &message);
    ps_buffer_append(&message, sample_piece);
    ps_buffer_append(&message, sample_piece);
    ck_assert_int_eq(
        ps_decode_take_reply(message_in(_i), ps_allocator_heap(), &read, &decoded, &error), PS_OK);
    ck_assert_uint_eq(read.taken_count, 3);
    ck_assert_uint_eq(read.taken[0].handle, 21);
    ck_assert(read.taken[0].again && !read.taken[1].again);
    ck_assert_int_eq(read.taken[0].asked.command, -7);
    ck_assert_int_eq(read.taken[0].asked.priority, INT32_MIN);
    ck_assert_uint_eq(read.taken[0].payload.output_count, 2);
    ck_assert_uint_eq(read.taken[0].payload.keys.size, 16);
    ck_assert_uint_eq(read.taken[1].payload.content.size, 0);
    ck_assert_uint_eq(read.taken[2].handle, 23);
    ck_assert_uint_eq(read.taken[2].payload.content.size, sizeof copy);
    ps_view_copy(read.taken[2].payload.content, 0, copy, sizeof copy);
    ck_assert_mem_eq(copy, sample_content, sizeof copy);
}
END_TEST

START_TEST(content_of_nobody_is_refused)
{
    struct ps_take_reply read;
    const struct ps_program_taken taken = {.handle = 21, .payload = sample_payload()};
    ps_encode_taken(&taken, &message);
    ps_encode_take_content(0, (size_t)_i, &message);
    ps_buffer_append(&message, (struct ps_bytes){sample_content, (size_t)(_i < 12 ? _i : 12)});
    for (int i = 12; i < _i; i++)
        ps_buffer_append(&message, (struct ps_bytes){sample_content, 1});
    ck_assert_int_eq(
        ps_decode_take_reply(message_in(64), ps_allocator_heap(), &read, &decoded, &error),
        _i == 12 ? PS_OK : PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(statuses_of_answers_come_back)
{
    static const enum ps_status sent[] = {PS_OK, PS_ERR_EXISTS, PS_ERR_NOT_FOUND, PS_OK};
    enum ps_status read[4];
    ps_encode_answer_reply(sent, 4, &message);
    ck_assert_int_eq(ps_decode_answer_reply(message_in(3), read, 4, &error), PS_OK);
    ck_assert_mem_eq(read, sent, sizeof sent);
    ck_assert_int_eq(ps_decode_answer_reply(message_in(3), read, 3, &error), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(apps_come_back)
{
    const struct ps_app_taker takers[] = {
        {.taker = 5, .name = ps_bytes_of_text("a"), .heard_ms = 6, .taken = 7, .again = true},
        {.taker = 0}};
    const struct ps_app_state sent = {.app = 1,
                                      .waiting = 2,
                                      .taken = 3,
                                      .bytes = UINT64_MAX,
                                      .answered = 5,
                                      .failed = 6,
                                      .takers = takers,
                                      .taker_count = 2};
    const struct ps_app_state none = {.app = 0};
    const struct ps_app_state *read;
    size_t count;
    uint64_t epoch;
    ps_encode_app_state(&sent, &message);
    ps_encode_app_state(&none, &message);
    ps_encode_apps_epoch(88, &message);
    ck_assert_int_eq(ps_decode_app_states(message_in(_i), ps_allocator_heap(), &read, &count,
                                          &epoch, &decoded, &error),
                     PS_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(epoch, 88);
    ck_assert_uint_eq(read[0].bytes, UINT64_MAX);
    ck_assert_uint_eq(read[0].failed, 6);
    ck_assert_uint_eq(read[0].taker_count, 2);
    ck_assert_uint_eq(read[0].takers[0].heard_ms, 6);
    ck_assert(read[0].takers[0].again);
    ck_assert(ps_bytes_equal(read[0].takers[0].name, takers[0].name));
    ck_assert_uint_eq(read[1].taker_count, 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("program_replies");
    tcase_add_checked_fixture(tcase, message_begin, message_end);
    tcase_add_loop_test(tcase, an_answer_comes_back, 1, 40);
    tcase_add_test(tcase, an_answer_in_shared_memory_has_no_content);
    tcase_add_loop_test(tcase, each_that_was_taken_has_its_own_content, 1, 40);
    tcase_add_loop_test(tcase, content_of_nobody_is_refused, 0, 15);
    tcase_add_test(tcase, statuses_of_answers_come_back);
    tcase_add_loop_test(tcase, apps_come_back, 1, 20);
    Suite *suite = suite_create("program_replies");
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
