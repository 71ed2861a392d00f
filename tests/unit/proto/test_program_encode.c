/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as they are written: sizes that stand before what they count, whatever that holds. */
#include "program_samples.h"

#include "pieces.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

START_TEST(an_answer_of_many_parts_comes_back)
{
    struct ps_answer_part parts[40];
    struct ps_program_answered answers[3];
    struct ps_answer_request read;
    struct ps_decoded decoded;
    struct ps_error error;
    struct ps_buffer message;
    struct ps_bytes cut[1024];
    ps_buffer_init(&message, ps_allocator_heap(), 1 << 20);
    for (uint32_t i = 0; i < 40; i++)
        parts[i] = (struct ps_answer_part){
            .tensor = i % 2, .row_begin = i % 4 == 0, .rows = i % 4 == 0, .key = i * UINT64_C(777)};
    answers[0] = (struct ps_program_answered){.handle = 300, .parts = parts, .part_count = 40};
    answers[1] = (struct ps_program_answered){
        .handle = UINT64_MAX, .status = PS_ERR_ABORTED, .text = ps_bytes_of_text("it went wrong")};
    answers[2] = (struct ps_program_answered){
        .handle = 1, .body = ps_bytes_of_text("said"), .lens = {sample_lens, sizeof sample_lens}};
    const struct ps_answer_request sent = {.app = 3,
                                           .taker = 4,
                                           .token = 5,
                                           .shard = 6,
                                           .tensors = sample_tensors,
                                           .tensor_count = 2,
                                           .answers = answers,
                                           .answer_count = 3,
                                           .content = ps_view_of(&sample_piece)};
    ps_encode_answer(&sent, &message);
    ps_buffer_append(&message, sample_piece);
    struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    ck_assert_int_eq(ps_decode_answer(pieces_of(bytes, (size_t)_i, cut), ps_allocator_heap(), &read,
                                      &decoded, &error),
                     PS_OK);
    ck_assert_uint_eq(read.app, 3);
    ck_assert_uint_eq(read.taker, 4);
    ck_assert_uint_eq(read.token, 5);
    ck_assert_uint_eq(read.shard, 6);
    ck_assert_uint_eq(read.answer_count, 3);
    ck_assert_uint_eq(read.answers[0].handle, 300);
    ck_assert_uint_eq(read.answers[0].part_count, 40);
    for (size_t i = 0; i < 40; i++) {
        ck_assert_uint_eq(read.answers[0].parts[i].tensor, parts[i].tensor);
        ck_assert_uint_eq(read.answers[0].parts[i].row_begin, parts[i].row_begin);
        ck_assert_uint_eq(read.answers[0].parts[i].rows, parts[i].rows);
        ck_assert_uint_eq(read.answers[0].parts[i].key, parts[i].key);
    }
    ck_assert_int_eq(read.answers[1].status, PS_ERR_ABORTED);
    ck_assert(ps_bytes_equal(read.answers[1].text, answers[1].text));
    ck_assert(ps_bytes_equal(read.answers[2].body, answers[2].body));
    ck_assert(ps_bytes_equal(read.answers[2].lens, answers[2].lens));
    ck_assert_uint_eq(read.content.size, sizeof sample_content);
    ps_decoded_release(&decoded);
    ps_buffer_fini(&message);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("program_encode");
    tcase_add_loop_test(tcase, an_answer_of_many_parts_comes_back, 1, 60);
    Suite *suite = suite_create("program_encode");
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
