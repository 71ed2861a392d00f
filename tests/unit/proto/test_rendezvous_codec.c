/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the rendezvous, there and back, whole and in pieces. */
#include "proto/rendezvous_codec.h"

#include "pieces.h"
#include "run_suite.h"
#include "written_message.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

START_TEST(a_send_comes_back_from_pieces_of_any_size)
{
    static const uint8_t content[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct ps_bytes piece = {content, sizeof content};
    const struct ps_send_tensor_request sent = {
        .step = 1,
        .epoch = UINT64_MAX,
        .token = 77,
        .key = ps_bytes_of_text("a;b"),
        .facts = {.dtype = 5, .element_size = 4, .rank = 2, .extents = {1, 32770}},
        .content = ps_view_of(&piece),
        .offset = 131072,
        .total = 131072 + sizeof content,
        .shard = 3};
    struct ps_send_tensor_request read;
    ps_encode_send_tensor(&sent, &message);
    ps_encode_sent_content(piece.size, &(struct ps_shared_range){0}, &message);
    ps_buffer_append(&message, piece);

    struct ps_bytes bytes = message_bytes();
    struct ps_bytes cut[256];
    struct ps_view view = pieces_of(bytes, (size_t)_i, cut);
    ck_assert_int_eq(ps_decode_send_tensor(view, ps_allocator_heap(), &read, &decoded, &error),
                     PS_OK);
    ck_assert_uint_eq(read.step, 1);
    ck_assert_uint_eq(read.epoch, UINT64_MAX);
    ck_assert_uint_eq(read.token, 77);
    ck_assert_uint_eq(read.shard, 3);
    ck_assert_uint_eq(read.offset, 131072);
    ck_assert_uint_eq(read.total, 131080);
    ck_assert(ps_bytes_equal(read.key, sent.key));
    ck_assert_mem_eq(&read.facts, &sent.facts, sizeof read.facts);
    uint8_t copy[sizeof content];
    ck_assert_uint_eq(read.content.size, sizeof content);
    ps_view_copy(read.content, 0, copy, sizeof copy);
    ck_assert_mem_eq(copy, content, sizeof content);
}
END_TEST

static enum ps_status decode_value(const struct ps_value_facts *value, size_t size)
{
    static const uint8_t zeros[64];
    const struct ps_bytes piece = {zeros, size};
    struct ps_send_tensor_request sent = {.key = ps_bytes_of_text("k"), .facts = *value};
    struct ps_send_tensor_request read;
    sent.content = ps_view_of(&piece);
    ps_buffer_clear(&message);
    ps_encode_send_tensor(&sent, &message);
    ps_encode_sent_content(piece.size, &(struct ps_shared_range){0}, &message);
    ps_buffer_append(&message, piece);
    struct ps_bytes bytes = message_bytes();
    enum ps_status status =
        ps_decode_send_tensor(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error);
    ps_decoded_release(&decoded);
    return status;
}

START_TEST(a_shape_says_how_much_content_there_is)
{
    struct ps_value_facts value = {.element_size = 4, .rank = 2, .extents = {2, 3}};
    ck_assert_int_eq(decode_value(&value, 24), PS_OK);
    ck_assert_int_eq(decode_value(&value, 23), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_value(&value, 0), PS_ERR_BAD_INPUT);
    value.dead = true;
    ck_assert_int_eq(decode_value(&value, 0), PS_OK);
    value.extents[1] = 0;
    ck_assert_int_eq(decode_value(&value, 0), PS_OK);
    value.rank = 0;
    ck_assert_int_eq(decode_value(&value, 4), PS_OK);
    value = (struct ps_value_facts){.element_size = 0, .rank = 1, .extents = {7}};
    ck_assert_int_eq(decode_value(&value, 5), PS_OK);
    value = (struct ps_value_facts){
        .element_size = 8, .rank = 2, .extents = {UINT64_C(1) << 32, UINT64_C(1) << 30}};
    ck_assert_int_eq(decode_value(&value, 0), PS_ERR_BAD_INPUT);
}
END_TEST

/* Whether a part of so many bytes in shared memory is one of its value. */
static enum ps_status decode_part(uint64_t offset, uint64_t size, uint64_t total)
{
    struct ps_send_tensor_request read;
    const struct ps_send_tensor_request sent = {
        .key = ps_bytes_of_text("k"), .offset = offset, .total = total};
    ps_buffer_clear(&message);
    ps_encode_send_tensor(&sent, &message);
    ps_encode_sent_content(0, &(struct ps_shared_range){.segment = 1, .size = size}, &message);
    struct ps_bytes bytes = message_bytes();
    enum ps_status status =
        ps_decode_send_tensor(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error);
    ps_decoded_release(&decoded);
    return status;
}

START_TEST(a_part_is_within_its_value_and_not_tiny)
{
    const uint64_t least = PS_TENSOR_PART_BYTES_MIN;
    ck_assert_int_eq(decode_part(0, least, 2 * least), PS_OK);
    ck_assert_int_eq(decode_part(0, least - 1, 2 * least), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_part(2 * least - 1, 1, 2 * least), PS_OK);
    ck_assert_int_eq(decode_part(2 * least, 1, 2 * least), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_part(UINT64_MAX, least, UINT64_MAX), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_part(0, 3 * least, 2 * least), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(receives_come_back)
{
    char texts[20][16];
    struct ps_rendezvous_wish wishes[20];
    const uint64_t done[] = {1, 0, UINT64_MAX};
    const uint64_t given[] = {5};
    for (int i = 0; i < 20; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "key %d", i);
        wishes[i] = (struct ps_rendezvous_wish){.id = (uint64_t)i * 1000 + 1,
                                                .key = ps_bytes_of_text(texts[i]),
                                                .offset = i % 3 == 0 ? 0 : (uint64_t)i << 40,
                                                .count = (uint64_t)i * 1000};
    }
    const struct ps_recv_tensors_request sent = {.step = 4,
                                                 .epoch = 5,
                                                 .wanted = 6,
                                                 .wait_ms = 7,
                                                 .wishes = wishes,
                                                 .wish_count = 20,
                                                 .done_with = done,
                                                 .done_count = 3,
                                                 .give_back = given,
                                                 .give_back_count = 1,
                                                 .cancel = done,
                                                 .cancel_count = 2,
                                                 .range_bytes = 1 << 21,
                                                 .shard = 2};
    struct ps_recv_tensors_request read;
    ps_encode_recv_tensors(&sent, &message);
    ps_encode_receive_room(&(struct ps_shared_range){.segment = 7, .offset = 8, .size = 9},
                           &message);
    struct ps_bytes bytes = message_bytes();
    struct ps_bytes cut[1024];
    struct ps_view view = pieces_of(bytes, (size_t)_i, cut);

    ck_assert_int_eq(ps_decode_recv_tensors(view, ps_allocator_heap(), &read, &decoded, &error),
                     PS_OK);
    ck_assert_uint_eq(read.step, 4);
    ck_assert_uint_eq(read.epoch, 5);
    ck_assert_uint_eq(read.wanted, 6);
    ck_assert_uint_eq(read.wait_ms, 7);
    ck_assert_uint_eq(read.shard, 2);
    ck_assert_uint_eq(read.range_bytes, 1 << 21);
    ck_assert_uint_eq(read.shared.segment, 7);
    ck_assert_uint_eq(read.shared.offset, 8);
    ck_assert_uint_eq(read.shared.size, 9);
    ck_assert_uint_eq(read.wish_count, 20);
    for (int i = 0; i < 20; i++) {
        ck_assert_uint_eq(read.wishes[i].id, wishes[i].id);
        ck_assert(ps_bytes_equal(read.wishes[i].key, wishes[i].key));
        ck_assert_uint_eq(read.wishes[i].offset, wishes[i].offset);
        ck_assert_uint_eq(read.wishes[i].count, wishes[i].count);
    }
    ck_assert_uint_eq(read.done_count, 3);
    ck_assert_mem_eq(read.done_with, done, sizeof done);
    ck_assert_uint_eq(read.cancel_count, 2);
    ck_assert_mem_eq(read.cancel, done, 2 * sizeof done[0]);
    ck_assert_uint_eq(read.give_back_count, 1);
    ck_assert_uint_eq(read.give_back[0], 5);
}
END_TEST

START_TEST(what_is_beyond_its_bound_is_refused)
{
    char longest[PS_RENDEZVOUS_KEY_BYTES_MAX + 2];
    struct ps_send_tensor_request read;
    struct ps_recv_tensors_request receives;
    memset(longest, 'k', sizeof longest);
    const struct ps_bytes key = {(const uint8_t *)longest, sizeof longest - 1};
    ps_encode_send_tensor(&(struct ps_send_tensor_request){.key = key}, &message);
    struct ps_bytes bytes = message_bytes();
    ck_assert_int_eq(
        ps_decode_send_tensor(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error),
        PS_ERR_BAD_INPUT);

    struct ps_rendezvous_wish wishes[2] = {{.id = 1, .key = ps_bytes_of_text("k")},
                                           {.id = 2, .key = ps_bytes_of_text("k")}};
    ps_buffer_clear(&message);
    for (int i = 0; i < PS_RENDEZVOUS_WISHES_MAX / 2 + 1; i++)
        ps_encode_recv_tensors(&(struct ps_recv_tensors_request){.wishes = wishes, .wish_count = 2},
                               &message);
    bytes = message_bytes();
    ck_assert_int_eq(ps_decode_recv_tensors(ps_view_of(&bytes), ps_allocator_heap(), &receives,
                                            &decoded, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "more than 4096 receives");
}
END_TEST

START_TEST(every_cut_of_a_message_is_refused_or_read)
{
    const struct ps_rendezvous_wish wish = {.id = 300, .key = ps_bytes_of_text("some key")};
    const uint64_t done[] = {1, 2};
    struct ps_recv_tensors_request read;
    ps_encode_recv_tensors(
        &(struct ps_recv_tensors_request){
            .step = 1, .wishes = &wish, .wish_count = 1, .done_with = done, .done_count = 2},
        &message);
    for (size_t size = 0; size < message.size; size++) {
        struct ps_bytes bytes = {(const uint8_t *)message.text, size};
        enum ps_status status = ps_decode_recv_tensors(ps_view_of(&bytes), ps_allocator_heap(),
                                                       &read, &decoded, &error);
        ck_assert(status == PS_OK || status == PS_ERR_BAD_INPUT);
        ck_assert(status != PS_OK || read.wish_count == 0);
        ps_decoded_release(&decoded);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_codec");
    TCase *tests = tcase_create("rendezvous_codec");
    tcase_add_checked_fixture(tests, message_begin, message_end);
    tcase_add_loop_test(tests, a_send_comes_back_from_pieces_of_any_size, 1, 80);
    tcase_add_test(tests, a_shape_says_how_much_content_there_is);
    tcase_add_test(tests, a_part_is_within_its_value_and_not_tiny);
    tcase_add_loop_test(tests, receives_come_back, 1, 40);
    tcase_add_test(tests, what_is_beyond_its_bound_is_refused);
    tcase_add_test(tests, every_cut_of_a_message_is_refused_or_read);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
