/* SPDX-License-Identifier: Apache-2.0 */
/* The parts from which messages of programs are read: lists, words, and memory that is refused. */
#include "proto/program_read.h"

#include "pieces.h"
#include "program_samples.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

START_TEST(refused_memory_leaves_nothing_behind)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_ask_request read;
    struct ps_decoded decoded;
    struct ps_error error;
    struct ps_bytes cut[256];
    struct ps_buffer message;
    const struct ps_ask_request sent = {.asked = sample_asked(), .payload = sample_payload()};
    ps_buffer_init(&message, ps_allocator_heap(), 1 << 20);
    ps_encode_ask(&sent, &message);
    ps_buffer_append(&message, sample_piece);
    struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    struct ps_view view = pieces_of(bytes, 5, cut);
    enum ps_status status = ps_decode_ask(view, &memory, &read, &decoded, &error);
    ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    ck_assert(status == PS_OK || decoded.message == NULL);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    ps_buffer_fini(&message);
}
END_TEST

START_TEST(a_word_of_nobody_is_a_failure)
{
    const struct ps_bytes piece = ps_bytes_of_text("abortednonsense");
    struct ps_wire_range word = {.begin = {.view = ps_view_of(&piece)}, .size = 0};
    ck_assert_int_eq(ps_program_status_of(&word), PS_OK);
    word.size = 7;
    ck_assert_int_eq(ps_program_status_of(&word), PS_ERR_ABORTED);
    word.size = 15;
    ck_assert_int_eq(ps_program_status_of(&word), PS_ERR_INTERNAL);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("program_read");
    tcase_add_loop_test(tcase, refused_memory_leaves_nothing_behind, 0, 8);
    tcase_add_test(tcase, a_word_of_nobody_is_a_failure);
    Suite *suite = suite_create("program_read");
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
