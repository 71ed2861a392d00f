/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of shared memory in messages, and the two messages that agree on such memory. */
#include "proto/shared_range.h"

#include "proto/bundle_codec.h"

#include "proto/codec.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_shared_range range = {UINT64_MAX - 1, 1 << 20, 4096};
static struct ps_buffer head;
static struct ps_decoded decoded;
static struct ps_error error;

static void set_up(void)
{
    ps_buffer_init(&head, ps_allocator_heap(), 1024);
}

static void tear_down(void)
{
    ps_decoded_release(&decoded);
    ps_buffer_fini(&head);
}

static struct ps_view written(void)
{
    static struct ps_bytes bytes;
    ck_assert(!head.failed);
    bytes = (struct ps_bytes){(const uint8_t *)head.text, head.size};
    return ps_view_of(&bytes);
}

static void expect_range(struct ps_shared_range read)
{
    ck_assert_uint_eq(read.segment, range.segment);
    ck_assert_uint_eq(read.offset, range.offset);
    ck_assert_uint_eq(read.size, range.size);
}

START_TEST(a_push_says_where_its_content_lies)
{
    const struct ps_push_request request = {.name = ps_bytes_of_text("w"), .shared = range};
    struct ps_push_request read;
    ps_encode_push(&request, &head);

    ck_assert_int_eq(ps_decode_push(written(), ps_allocator_heap(), &read, &decoded, &error),
                     PS_OK);

    expect_range(read.shared);
    ck_assert_uint_eq(read.content.size, 0);
}
END_TEST

START_TEST(a_pull_says_where_there_is_room_and_its_reply_how_much_was_used)
{
    const struct ps_pull_request request = {.name = ps_bytes_of_text("w"), .shared = range};
    struct ps_pull_request read;
    ps_encode_pull(&request, &head);
    ck_assert_int_eq(ps_decode_pull(written(), ps_allocator_heap(), &read, &decoded, &error),
                     PS_OK);
    expect_range(read.shared);
    ps_decoded_release(&decoded);

    const struct ps_pull_reply reply = {.name = ps_bytes_of_text("w"), .shared_size = 4000};
    struct ps_pull_reply back;
    ps_buffer_clear(&head);
    ps_encode_pull_reply(&reply, &head);
    ck_assert_int_eq(ps_decode_pull_reply(written(), ps_allocator_heap(), &back, &decoded, &error),
                     PS_OK);
    ck_assert_uint_eq(back.shared_size, 4000);
}
END_TEST

START_TEST(a_message_without_a_range_has_none)
{
    const struct ps_push_request request = {.name = ps_bytes_of_text("w")};
    struct ps_push_request read;
    ps_encode_push(&request, &head);
    size_t size = head.size;

    ck_assert_int_eq(ps_decode_push(written(), ps_allocator_heap(), &read, &decoded, &error),
                     PS_OK);

    ck_assert_uint_eq(read.shared.segment, 0);
    ps_buffer_clear(&head);
    ps_shared_range_put(&head, 12, &read.shared);
    ck_assert_uint_eq(head.size, 0);
    ck_assert_uint_lt(size, 8);
}
END_TEST

START_TEST(what_a_message_names_is_known_without_decoding_it)
{
    struct ps_shared_range mebibyte = {1, 0, 1 << 20};
    const struct ps_push_request push = {.name = ps_bytes_of_text("w"), .shared = mebibyte};
    const struct ps_pull_request pull = {.name = ps_bytes_of_text("w"), .shared = mebibyte};
    const struct ps_push_request plain = {.name = ps_bytes_of_text("w")};
    ps_encode_push(&push, &head);
    ck_assert_uint_eq(ps_shared_range_total(written(), false, 1 << 30), 1 << 20);
    ck_assert_uint_eq(ps_shared_range_total(written(), false, 4096), 4096);
    ps_buffer_clear(&head);
    ps_encode_push(&plain, &head);
    ck_assert_uint_eq(ps_shared_range_total(written(), false, 1 << 30), 0);

    ps_buffer_clear(&head);
    const struct ps_request_id none = {0};
    ps_encode_bundle_push(&push, &none, 0, &head);
    ps_encode_bundle_push(&plain, &none, 1, &head);
    ps_encode_bundle_pull(&pull, &head);
    ck_assert_uint_eq(ps_shared_range_total(written(), true, 1 << 30), 2 << 20);

    /* Cut anywhere it is not a message, and no reason to count more. */
    for (size_t size = head.size; head.size > 0; head.size--)
        ck_assert_uint_le(ps_shared_range_total(written(), true, 1 << 30), size << 20);
}
END_TEST

/* Field 12 of SendGradRequest, with these bytes in it. */
static enum ps_status decode_with(const char *bytes, size_t size)
{
    struct ps_push_request read;
    ps_buffer_clear(&head);
    ps_wire_put_head(&head, 12, size);
    ps_buffer_append(&head, (struct ps_bytes){(const uint8_t *)bytes, size});
    return ps_decode_push(written(), ps_allocator_heap(), &read, &decoded, &error);
}

START_TEST(malformed_ranges_are_refused)
{
    ck_assert_int_eq(decode_with("\x08\x01\x10\x02\x18\x03", 6), PS_OK);
    /* With what older clients say of the elements. */
    ck_assert_int_eq(decode_with("\x08\x01\x10\x02\x18\x03\x20\x01", 8), PS_OK);
    ck_assert_int_eq(decode_with("\x08", 1), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_with("\x0a\x01x", 3), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_with("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12),
                     PS_ERR_BAD_INPUT);
    ps_buffer_clear(&head);
    ps_wire_put_uint(&head, 12, 7);
    struct ps_push_request read;
    ck_assert_int_eq(ps_decode_push(written(), ps_allocator_heap(), &read, &decoded, &error),
                     PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(hello_and_welcome_come_back)
{
    uint8_t message[PS_SHARED_HELLO_BYTES];
    uint64_t number = 0;
    struct ps_bytes bytes = {message, sizeof message};

    ps_shared_hello_write(UINT64_C(0x0123456789abcdef), message);
    ck_assert(ps_shared_hello_read(bytes, &number));
    ck_assert_uint_eq(number, UINT64_C(0x0123456789abcdef));
    ck_assert(!ps_shared_welcome_read(bytes, &number));

    ps_shared_welcome_write(77, message);
    ck_assert(ps_shared_welcome_read(bytes, &number));
    ck_assert_uint_eq(number, 77);
    ck_assert(!ps_shared_hello_read(bytes, &number));
}
END_TEST

START_TEST(a_devices_piece_is_named_byte_by_byte)
{
    struct ps_device_share share = {.bytes = UINT64_C(0x0123456789abcdef), .device = "GPU-1"};
    struct ps_device_share back;
    uint8_t message[PS_DEVICE_HELLO_BYTES + 1] = {0};
    uint64_t number;
    for (size_t i = 0; i < sizeof share.handle; i++)
        share.handle[i] = (uint8_t)(i * 5 + 1);
    ps_device_hello_write(&share, message);
    for (size_t size = 0; size <= sizeof message; size++) {
        bool right = size == PS_DEVICE_HELLO_BYTES;
        ck_assert_int_eq(ps_device_hello_read((struct ps_bytes){message, size}, &back), right);
        ck_assert(!ps_shared_hello_read((struct ps_bytes){message, size}, &number));
    }
    ck_assert(ps_device_hello_read((struct ps_bytes){message, PS_DEVICE_HELLO_BYTES}, &back));
    ck_assert_mem_eq(&back, &share, sizeof back);

    /* A uuid without an end is none; neither is a piece of no bytes. */
    memset(share.device, 'x', sizeof share.device);
    ps_device_hello_write(&share, message);
    ck_assert(!ps_device_hello_read((struct ps_bytes){message, PS_DEVICE_HELLO_BYTES}, &back));
    share = (struct ps_device_share){.device = "GPU-1"};
    ps_device_hello_write(&share, message);
    ck_assert(!ps_device_hello_read((struct ps_bytes){message, PS_DEVICE_HELLO_BYTES}, &back));
}
END_TEST

START_TEST(other_bytes_are_no_hello)
{
    uint8_t message[PS_SHARED_HELLO_BYTES + 1];
    uint64_t number;
    ps_shared_hello_write(5, message);
    for (size_t size = 0; size <= sizeof message; size++) {
        bool right = size == PS_SHARED_HELLO_BYTES;
        ck_assert_int_eq(ps_shared_hello_read((struct ps_bytes){message, size}, &number), right);
    }
    for (size_t i = 0; i < 8; i++) {
        ps_shared_hello_write(5, message);
        message[i] ^= 1;
        ck_assert(
            !ps_shared_hello_read((struct ps_bytes){message, PS_SHARED_HELLO_BYTES}, &number));
    }
    ps_shared_hello_write(0, message);
    ck_assert(!ps_shared_hello_read((struct ps_bytes){message, PS_SHARED_HELLO_BYTES}, &number));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_range");
    TCase *tests = tcase_create("shared_range");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_push_says_where_its_content_lies);
    tcase_add_test(tests, a_pull_says_where_there_is_room_and_its_reply_how_much_was_used);
    tcase_add_test(tests, a_message_without_a_range_has_none);
    tcase_add_test(tests, what_a_message_names_is_known_without_decoding_it);
    tcase_add_test(tests, malformed_ranges_are_refused);
    tcase_add_test(tests, hello_and_welcome_come_back);
    tcase_add_test(tests, a_devices_piece_is_named_byte_by_byte);
    tcase_add_test(tests, other_bytes_are_no_hello);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
