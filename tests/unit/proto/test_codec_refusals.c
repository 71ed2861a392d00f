/* SPDX-License-Identifier: Apache-2.0 */
/* What is not a message is refused, with a text, and nothing is held. */
#include "proto/codec.h"

#include "base/bounds.h"
#include "pieces.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20260102 };

/* Decodes as a push; a refusal must leave nothing behind. */
static enum ps_status decode_push(struct ps_bytes bytes, struct ps_error *error)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_push_request read;
    struct ps_decoded decoded;
    enum ps_status status = ps_decode_push(ps_view_of(&bytes), &memory, &read, &decoded, error);
    if (status != PS_OK)
        ck_assert_int_eq(heap.live, 0);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    return status;
}

#define REFUSED(...)                                                                     \
    do {                                                                                 \
        const uint8_t bytes_[] = {__VA_ARGS__};                                          \
        struct ps_error error_ = {0};                                                    \
        ck_assert_int_eq(decode_push((struct ps_bytes){bytes_, sizeof bytes_}, &error_), \
                         PS_ERR_BAD_INPUT);                                              \
        ck_assert_int_eq(error_.status, PS_ERR_BAD_INPUT);                               \
        ck_assert_uint_gt(strlen(error_.text), 0);                                       \
    } while (0)

START_TEST(tags_without_a_field_are_refused)
{
    REFUSED(0x00, 1);
    REFUSED(0x02, 0);
    REFUSED(0xf8, 0xff, 0xff, 0xff, 0xff, 0x01, 0);
}
END_TEST

START_TEST(groups_and_reserved_wire_types_are_refused)
{
    REFUSED(0x4b, 0x4c);
    REFUSED(0x4e);
    REFUSED(0x4f);
}
END_TEST

START_TEST(numbers_beyond_64_bits_are_refused)
{
    REFUSED(0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02);
    REFUSED(0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01);
}
END_TEST

START_TEST(lengths_beyond_the_message_are_refused)
{
    REFUSED(0x1a, 2, 'x');
    REFUSED(0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f, 'x');
    REFUSED(0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'x');
    REFUSED(0x7a, 3, 0x0a, 5, 'x');
}
END_TEST

START_TEST(wrong_wire_types_are_refused)
{
    REFUSED(0x08, 1);                            /* name as a number */
    REFUSED(0x12, 1, 'x');                       /* element type as bytes */
    REFUSED(0x18, 1);                            /* content as a number */
    REFUSED(0x32, 1, 3);                         /* encoding as bytes */
    REFUSED(0x6a, 1, 'x');                       /* row width as bytes */
    REFUSED(0x72, 1, 'x');                       /* shard as bytes */
    REFUSED(0x70, 0x80, 0x80, 0x80, 0x80, 0x10); /* shard beyond 32 bits */
    REFUSED(0x78, 1);                            /* request as a number */
    REFUSED(0x7a, 2, 0x08, 1);                   /* client id as a number */
    REFUSED(0x15, 1, 0, 0, 0);                   /* element type as fixed32 */
}
END_TEST

START_TEST(unknown_enum_numbers_are_refused)
{
    REFUSED(0x10, 6);
    REFUSED(0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
    REFUSED(0x28, 4);
    REFUSED(0x30, 7); /* encoding */
    REFUSED(0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
}
END_TEST

START_TEST(b24_names_that_are_no_text_are_refused)
{
    REFUSED(0x0a, 1, 0x00);
    REFUSED(0x0a, 3, 'a', 0x00, 'b');
    REFUSED(0x0a, 1, 0x80);
    REFUSED(0x0a, 2, 0xc0, 0x80);
    REFUSED(0x0a, 3, 0xed, 0xa0, 0x80);
    REFUSED(0x0a, 1, 0xc3);
}
END_TEST

/* One field of `size` bytes. */
static enum ps_status decode_one_field(uint32_t tag, size_t size)
{
    struct ps_buffer message;
    ps_buffer_init(&message, ps_allocator_heap(), 1 << 20);
    ps_buffer_append(&message, (struct ps_bytes){(const uint8_t[]){(uint8_t)tag}, 1});
    uint8_t length[3] = {(uint8_t)(size | 0x80), (uint8_t)((size >> 7) | 0x80),
                         (uint8_t)(size >> 14)};
    ps_buffer_append(&message, (struct ps_bytes){length, sizeof length});
    for (size_t i = 0; i < size; i++)
        ps_buffer_append_text(&message, "n");
    struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    struct ps_init_request read;
    struct ps_decoded decoded;
    enum ps_status status =
        ps_decode_init(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL);
    ps_decoded_release(&decoded);
    ps_buffer_fini(&message);
    return status;
}

START_TEST(fields_beyond_their_bound_are_refused)
{
    ck_assert_int_eq(decode_one_field(0x0a, PS_NAME_BYTES_MAX), PS_OK);
    ck_assert_int_eq(decode_one_field(0x0a, PS_NAME_BYTES_MAX + 1), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_one_field(0x22, PS_CONFIG_BYTES_MAX), PS_OK);
    ck_assert_int_eq(decode_one_field(0x22, PS_CONFIG_BYTES_MAX + 1), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_one_field(0x1a, 2 * PS_CONFIG_BYTES_MAX), PS_OK);
}
END_TEST

START_TEST(client_ids_beyond_their_bound_are_refused)
{
    uint8_t bytes[4 + PS_CLIENT_ID_BYTES_MAX + 1] = {0x7a, 2 + PS_CLIENT_ID_BYTES_MAX + 1, 0x0a,
                                                     PS_CLIENT_ID_BYTES_MAX + 1};

    ck_assert_int_eq(decode_push((struct ps_bytes){bytes, sizeof bytes}, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

/* Every cut of a valid message ends in a refusal or, at a field's border, in fewer fields. */
START_TEST(no_prefix_of_a_message_is_misread)
{
    const uint8_t whole[] = {0x0a, 2,    'w', '1',  0x10, 4,    0x28, 1, 0x7a, 7,    0x0a, 1,
                             'c',  0x10, 5,   0x18, 6,    0x1a, 4,    0, 0,    0x80, 0x3f};
    const size_t borders[] = {0, 4, 6, 8, 17, sizeof whole};
    for (size_t size = 0; size <= sizeof whole; size++) {
        bool at_border = false;
        for (size_t i = 0; i < PS_ARRAY_COUNT(borders); i++)
            at_border = at_border || borders[i] == size;

        enum ps_status status = decode_push((struct ps_bytes){whole, size}, NULL);

        ck_assert_int_eq(status, at_border ? PS_OK : PS_ERR_BAD_INPUT);
    }
}
END_TEST

/* Four mebibytes of two-byte unknown fields cost protobuf-c 176 MiB; here they cost nothing. */
START_TEST(unknown_fields_take_no_memory)
{
    size_t size = 4 << 20;
    uint8_t *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < size; i += 2) {
        bytes[i] = 0x48;
        bytes[i + 1] = 1;
    }
    struct ps_bytes piece = {bytes, size};
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_init_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(ps_decode_init(ps_view_of(&piece), &memory, &read, &decoded, NULL), PS_OK);

    ck_assert_int_eq(heap.seen, 0);
    free(bytes);
}
END_TEST

START_TEST(random_bytes_are_read_or_refused_but_never_more)
{
    struct ps_random random;
    ps_random_init(&random, SEED + (uint64_t)_i);
    uint8_t noise[200];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(ps_random_next(&random) & (_i % 2 == 0 ? 0xff : 0x1f));
    struct ps_bytes bytes = {noise, (size_t)ps_random_below(&random, sizeof noise)};
    struct pieces pieces;
    pieces_cut(&pieces, bytes, 5, &random);
    struct ps_init_request read;
    struct ps_decoded decoded;
    struct ps_error error = {0};

    enum ps_status status =
        ps_decode_init(pieces.view, ps_allocator_heap(), &read, &decoded, &error);

    ck_assert(status == PS_OK || status == PS_ERR_BAD_INPUT);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
}
END_TEST

int main(void)
{
    printf("seed %d\n", SEED);
    Suite *suite = suite_create("codec refusals");
    TCase *tests = tcase_create("refusals");
    tcase_add_test(tests, tags_without_a_field_are_refused);
    tcase_add_test(tests, groups_and_reserved_wire_types_are_refused);
    tcase_add_test(tests, numbers_beyond_64_bits_are_refused);
    tcase_add_test(tests, lengths_beyond_the_message_are_refused);
    tcase_add_test(tests, wrong_wire_types_are_refused);
    tcase_add_test(tests, unknown_enum_numbers_are_refused);
    tcase_add_test(tests, b24_names_that_are_no_text_are_refused);
    tcase_add_test(tests, fields_beyond_their_bound_are_refused);
    tcase_add_test(tests, client_ids_beyond_their_bound_are_refused);
    tcase_add_test(tests, no_prefix_of_a_message_is_misread);
    tcase_add_test(tests, unknown_fields_take_no_memory);
    tcase_add_loop_test(tests, random_bytes_are_read_or_refused_but_never_more, 0, 300);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
