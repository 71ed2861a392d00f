/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of programs: what was written is read again, however the network cuts it, and what does
 * not agree with itself is refused whole. */
#include "program_samples.h"

#include "pieces.h"
#include "run_suite.h"
#include "written_message.h"

#include <check.h>
#include <string.h>

static void check_payload(const struct ps_program_payload *read)
{
    uint8_t copy[sizeof sample_content];
    ck_assert_uint_eq(read->tensor_count, 2);
    ck_assert_mem_eq(&read->tensors[0], &sample_tensors[0], sizeof sample_tensors[0]);
    ck_assert_uint_eq(read->tensors[1].key, UINT64_MAX);
    ck_assert_uint_eq(read->output_count, 2);
    ck_assert_uint_eq(read->outputs[0].size, 64);
    ck_assert_uint_eq(read->outputs[1].key, 0);
    ck_assert(ps_bytes_equal(read->body, ps_bytes_of_text("body")));
    ck_assert_uint_eq(read->keys.size, 16);
    ck_assert_uint_eq(ps_program_key_at(read->keys, 0), 1);
    ck_assert_uint_eq(ps_program_key_at(read->keys, 1), UINT64_MAX);
    ck_assert_uint_eq(read->lens.size, 8);
    ck_assert_uint_eq(ps_program_len_at(read->lens, 1), 256);
    ck_assert_uint_eq(read->content.size, sizeof copy);
    ps_view_copy(read->content, 0, copy, sizeof copy);
    ck_assert_mem_eq(copy, sample_content, sizeof copy);
}

START_TEST(an_ask_comes_back_from_pieces_of_any_size)
{
    struct ps_bytes cut[512];
    struct ps_ask_request read;
    const struct ps_ask_request sent = {.asked = sample_asked(),
                                        .payload = sample_payload(),
                                        .token = 71,
                                        .sender = 72,
                                        .order = 73,
                                        .order_from = 74,
                                        .epoch = 75,
                                        .wait_ms = 76,
                                        .shard = 77,
                                        .room = {.segment = 1, .offset = 2, .size = 3}};
    ps_encode_ask(&sent, &message);
    ps_buffer_append(&message, sample_piece);
    struct ps_view view = pieces_of(message_bytes(), (size_t)_i, cut);
    ck_assert_int_eq(ps_decode_ask(view, ps_allocator_heap(), &read, &decoded, &error), PS_OK);
    ck_assert_mem_eq(&read.asked.stamps, &sent.asked.stamps, sizeof read.asked.stamps);
    ck_assert_uint_eq(read.asked.app, 3);
    ck_assert_uint_eq(read.asked.worker, 70000);
    ck_assert_uint_eq(read.asked.customer, 2);
    ck_assert_int_eq(read.asked.kind, PS_ASK_BATCH);
    ck_assert_int_eq(read.asked.command, -7);
    ck_assert_int_eq(read.asked.priority, INT32_MIN);
    ck_assert_uint_eq(read.asked.timestamp, 12);
    ck_assert_uint_eq(read.token, 71);
    ck_assert_uint_eq(read.sender, 72);
    ck_assert_uint_eq(read.order, 73);
    ck_assert_uint_eq(read.order_from, 74);
    ck_assert_uint_eq(read.epoch, 75);
    ck_assert_uint_eq(read.wait_ms, 76);
    ck_assert_uint_eq(read.shard, 77);
    ck_assert_uint_eq(read.room.size, 3);
    check_payload(&read.payload);
}
END_TEST

static enum ps_status decode_ask(const struct ps_ask_request *sent, size_t content_size)
{
    static const uint8_t zeros[64];
    struct ps_ask_request read;
    ps_buffer_clear(&message);
    ps_encode_ask(sent, &message);
    ps_buffer_append(&message, (struct ps_bytes){zeros, content_size});
    struct ps_bytes bytes = message_bytes();
    enum ps_status status =
        ps_decode_ask(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error);
    ps_decoded_release(&decoded);
    return status;
}

START_TEST(tensors_and_content_agree)
{
    struct ps_program_tensor tensor = {.size = 12};
    struct ps_ask_request sent = {.payload = {.tensors = &tensor, .tensor_count = 1}};
    sent.payload.content = ps_view_of(&sample_piece);
    ck_assert_int_eq(decode_ask(&sent, 12), PS_OK);
    tensor.size = 11;
    ck_assert_int_eq(decode_ask(&sent, 12), PS_ERR_BAD_INPUT);
    tensor = (struct ps_program_tensor){.size = 12,
                                        .facts = {.element_size = 4, .rank = 1, .extents = {2}}};
    ck_assert_int_eq(decode_ask(&sent, 12), PS_ERR_BAD_INPUT);
    tensor.facts.extents[0] = 3;
    ck_assert_int_eq(decode_ask(&sent, 12), PS_OK);
    /* A product that wraps is not twelve. */
    tensor.facts =
        (struct ps_value_facts){.element_size = 4, .rank = 2, .extents = {UINT64_C(1) << 62, 4}};
    ck_assert_int_eq(decode_ask(&sent, 12), PS_ERR_BAD_INPUT);
    /* In shared memory the range says how long it is, and two answers are one too many. */
    tensor.facts = (struct ps_value_facts){.dtype = 1};
    sent.shared = (struct ps_shared_range){.segment = 4, .size = 12};
    ck_assert_int_eq(decode_ask(&sent, 12), PS_ERR_BAD_INPUT);
    sent.payload.content = (struct ps_view){0};
    ck_assert_int_eq(decode_ask(&sent, 0), PS_OK);
    sent.shared.size = 13;
    ck_assert_int_eq(decode_ask(&sent, 0), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(keys_are_whole_numbers_of_one_list)
{
    struct ps_ask_request sent = {.payload = {.keys = {sample_keys, 16}}};
    ck_assert_int_eq(decode_ask(&sent, 0), PS_OK);
    sent.payload.keys.size = 15;
    ck_assert_int_eq(decode_ask(&sent, 0), PS_ERR_BAD_INPUT);
    sent = (struct ps_ask_request){.payload = {.lens = {sample_lens, 7}}};
    ck_assert_int_eq(decode_ask(&sent, 0), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_take_comes_back)
{
    static const uint32_t workers[] = {0, 300, UINT32_MAX};
    struct ps_bytes cut[128];
    struct ps_take_request read;
    const struct ps_take_request sent = {.app = 1,
                                         .taker = UINT64_MAX,
                                         .turn = 2,
                                         .workers = workers,
                                         .worker_count = 3,
                                         .max = 1024,
                                         .partial = true,
                                         .again = true,
                                         .touch = true,
                                         .leave = true,
                                         .wait_ms = 4,
                                         .lease_ms = 5,
                                         .shard = 6,
                                         .room = {.segment = 7, .size = 8},
                                         .name = ps_bytes_of_text("taker")};
    ps_encode_take(&sent, &message);
    struct ps_view view = pieces_of(message_bytes(), (size_t)_i, cut);
    ck_assert_int_eq(ps_decode_take(view, ps_allocator_heap(), &read, &decoded, &error), PS_OK);
    ck_assert_uint_eq(read.app, 1);
    ck_assert_uint_eq(read.taker, UINT64_MAX);
    ck_assert_uint_eq(read.turn, 2);
    ck_assert_uint_eq(read.worker_count, 3);
    ck_assert_mem_eq(read.workers, workers, sizeof workers);
    ck_assert_uint_eq(read.max, 1024);
    ck_assert(read.partial && read.again && read.touch && read.leave);
    ck_assert_uint_eq(read.wait_ms, 4);
    ck_assert_uint_eq(read.lease_ms, 5);
    ck_assert_uint_eq(read.shard, 6);
    ck_assert_uint_eq(read.room.segment, 7);
    ck_assert(ps_bytes_equal(read.name, sent.name));
}
END_TEST

static enum ps_status decode_answer(const struct ps_answer_part *part)
{
    const struct ps_program_answered answered = {.handle = 8, .parts = part, .part_count = 1};
    const struct ps_answer_request sent = {.tensors = sample_tensors,
                                           .tensor_count = 2,
                                           .answers = &answered,
                                           .answer_count = 1,
                                           .content = ps_view_of(&sample_piece)};
    struct ps_answer_request read;
    ps_buffer_clear(&message);
    ps_encode_answer(&sent, &message);
    ps_buffer_append(&message, sample_piece);
    struct ps_bytes bytes = message_bytes();
    enum ps_status status =
        ps_decode_answer(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error);
    if (status == PS_OK)
        ck_assert_uint_eq(read.answers[0].parts[0].row_begin, part->row_begin);
    ps_decoded_release(&decoded);
    return status;
}

START_TEST(parts_are_of_tensors_that_there_are)
{
    struct ps_answer_part part = {.tensor = 0, .row_begin = 1, .rows = 1, .key = 3};
    ck_assert_int_eq(decode_answer(&part), PS_OK);
    part.rows = 2;
    ck_assert_int_eq(decode_answer(&part), PS_ERR_BAD_INPUT);
    part.rows = UINT64_MAX;
    ck_assert_int_eq(decode_answer(&part), PS_ERR_BAD_INPUT);
    /* A tensor without a shape has no rows; it may go as a whole. */
    part = (struct ps_answer_part){.tensor = 1, .rows = 1};
    ck_assert_int_eq(decode_answer(&part), PS_ERR_BAD_INPUT);
    part.rows = 0;
    ck_assert_int_eq(decode_answer(&part), PS_OK);
    part.tensor = 2;
    ck_assert_int_eq(decode_answer(&part), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(more_than_the_bounds_is_refused)
{
    static uint8_t many[3 * (PS_PROGRAM_TENSORS_MAX + 1)];
    struct ps_ask_request read;
    /* The tag of field 18, and an empty message. */
    for (size_t i = 0; i < sizeof many; i += 3) {
        many[i] = 0x92;
        many[i + 1] = 0x01;
    }
    struct ps_bytes bytes = {many, sizeof many};
    ck_assert_int_eq(
        ps_decode_ask(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error),
        PS_ERR_BAD_INPUT);
    bytes.size -= 3;
    ck_assert_int_eq(
        ps_decode_ask(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error), PS_OK);
    ck_assert_uint_eq(read.payload.tensor_count, PS_PROGRAM_TENSORS_MAX);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("program_codec");
    tcase_add_checked_fixture(tcase, message_begin, message_end);
    tcase_add_loop_test(tcase, an_ask_comes_back_from_pieces_of_any_size, 1, 60);
    tcase_add_test(tcase, tensors_and_content_agree);
    tcase_add_test(tcase, keys_are_whole_numbers_of_one_list);
    tcase_add_loop_test(tcase, a_take_comes_back, 1, 20);
    tcase_add_test(tcase, parts_are_of_tensors_that_there_are);
    tcase_add_test(tcase, more_than_the_bounds_is_refused);
    Suite *suite = suite_create("program_codec");
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
