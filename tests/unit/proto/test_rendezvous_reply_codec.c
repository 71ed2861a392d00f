/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of the rendezvous, there and back, whole and in pieces. */
#include "proto/rendezvous_codec.h"

#include "run_suite.h"
#include "written_message.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const struct ps_value_facts facts = {
    .dtype = 9, .element_size = 4, .rank = 3, .extents = {1, 300, 0}, .dead = true};

static int taken;

static enum ps_status take(void *self, const struct ps_received_tensor *received,
                           struct ps_error *why)
{
    uint8_t copy[5];
    (void)why;
    ck_assert_ptr_eq(self, &taken);
    if (taken++ == 1) {
        ck_assert_uint_eq(received->id, 8);
        ck_assert_int_eq(received->status, PS_ERR_CANCELLED);
        return PS_OK;
    }
    ck_assert_uint_eq(received->id, 7);
    ck_assert_int_eq(received->status, PS_OK);
    ck_assert_mem_eq(&received->facts, &facts, sizeof facts);
    ck_assert_uint_eq(received->content.size, 5);
    ck_assert_uint_eq(received->total, UINT64_C(3) << 30);
    ck_assert_uint_eq(received->offset, UINT64_C(2) << 30);
    ps_view_copy(received->content, 0, copy, 5);
    ck_assert_mem_eq(copy, "hello", 5);
    return PS_OK;
}

START_TEST(answers_come_back_one_by_one)
{
    const struct ps_bytes hello = ps_bytes_of_text("hello");
    const struct ps_received_taker taker = {take, &taken};
    uint64_t epoch = 0;
    taken = 0;
    ps_buffer_append(&message, (struct ps_bytes){(const uint8_t[]){8, 9}, 2});
    ps_encode_received_tensor(&(struct ps_received_tensor){.id = 7,
                                                           .facts = facts,
                                                           .content = ps_view_of(&hello),
                                                           .total = UINT64_C(3) << 30,
                                                           .offset = UINT64_C(2) << 30},
                              &message);
    ps_buffer_append(&message, hello);
    ps_encode_received_tensor(&(struct ps_received_tensor){.id = 8, .status = PS_ERR_CANCELLED},
                              &message);

    struct ps_bytes bytes = message_bytes();
    ck_assert_int_eq(ps_decode_recv_tensors_reply(ps_view_of(&bytes), ps_allocator_heap(), &taker,
                                                  &epoch, &error),
                     PS_OK);
    ck_assert_uint_eq(epoch, 9);
    ck_assert_int_eq(taken, 2);
}
END_TEST

static enum ps_status take_shared(void *self, const struct ps_received_tensor *received,
                                  struct ps_error *why)
{
    (void)why;
    *(bool *)self = true;
    ck_assert_uint_eq(received->shared_offset, 64);
    ck_assert_uint_eq(received->shared_size, 4096);
    ck_assert_uint_eq(received->content.size, 0);
    return PS_OK;
}

START_TEST(content_may_be_in_shared_memory)
{
    bool was_taken = false;
    const struct ps_received_taker taker = {take_shared, &was_taken};
    uint64_t epoch = 0;
    ps_encode_received_tensor(
        &(struct ps_received_tensor){.id = 1, .shared_offset = 64, .shared_size = 4096}, &message);
    struct ps_bytes bytes = message_bytes();
    ck_assert_int_eq(ps_decode_recv_tensors_reply(ps_view_of(&bytes), ps_allocator_heap(), &taker,
                                                  &epoch, &error),
                     PS_OK);
    ck_assert(was_taken);
}
END_TEST

START_TEST(a_send_is_told_whether_its_value_is_whole)
{
    struct ps_send_tensor_reply read;
    const struct ps_send_tensor_reply reply = {.epoch = UINT64_MAX, .is_whole = _i != 0};
    ps_encode_send_tensor_reply(&reply, &message);
    struct ps_bytes bytes = message_bytes();
    ck_assert_int_eq(ps_decode_send_tensor_reply(ps_view_of(&bytes), &read, &error), PS_OK);
    ck_assert_uint_eq(read.epoch, UINT64_MAX);
    ck_assert_int_eq(read.is_whole, _i != 0);
    bytes.size--;
    ck_assert_int_eq(ps_decode_send_tensor_reply(ps_view_of(&bytes), &read, &error),
                     PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_reply_codec");
    TCase *tests = tcase_create("rendezvous_reply_codec");
    tcase_add_checked_fixture(tests, message_begin, message_end);
    tcase_add_test(tests, answers_come_back_one_by_one);
    tcase_add_test(tests, content_may_be_in_shared_memory);
    tcase_add_loop_test(tests, a_send_is_told_whether_its_value_is_whole, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
