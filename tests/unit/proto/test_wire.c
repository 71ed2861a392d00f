/* SPDX-License-Identifier: Apache-2.0 */
/* proto/wire.c: fields one by one, and text. */
#include "proto/wire.h"

#include "pieces.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(fields_are_read_in_order)
{
    const uint8_t bytes[] = {0x08, 0x96, 0x01, 0x11, 1,   2,    3, 4, 5, 6,   7,
                             8,    0x1a, 2,    'h',  'i', 0x25, 1, 0, 0, 0x80};
    struct ps_bytes piece = {bytes, sizeof bytes};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    struct ps_bytes run;
    ps_wire_reader_init(&reader, ps_view_of(&piece), NULL);

    ck_assert(ps_wire_next(&reader, &field));
    ck_assert_uint_eq(field.number, 1);
    ck_assert_uint_eq(field.value, 150);
    ck_assert(ps_wire_next(&reader, &field));
    ck_assert_uint_eq(field.number, 2);
    ck_assert_uint_eq(field.value, 0x0807060504030201);
    ck_assert(ps_wire_next(&reader, &field));
    ck_assert(ps_wire_range_in_one(&field.bytes, &run));
    ck_assert(ps_bytes_equal(run, ps_bytes_of_text("hi")));
    ck_assert(ps_wire_next(&reader, &field));
    ck_assert_uint_eq(field.value, 0x80000001);
    ck_assert(!ps_wire_next(&reader, &field));
    ck_assert_int_eq(reader.status, PS_OK);
}
END_TEST

START_TEST(an_error_stops_the_reader_for_good)
{
    const uint8_t bytes[] = {0x0f, 0x08, 1};
    struct ps_bytes piece = {bytes, sizeof bytes};
    struct ps_error error = {0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&piece), &error);

    ck_assert(!ps_wire_next(&reader, &field));
    ck_assert(!ps_wire_next(&reader, &field));

    ck_assert_int_eq(reader.status, PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "malformed message: field 1 has wire type 7");
}
END_TEST

START_TEST(varints_of_every_length_come_back)
{
    uint64_t value = _i == 0 ? 0 : UINT64_MAX >> (64 - _i);
    char memory[32];
    struct ps_buffer buffer;
    ps_buffer_init_fixed(&buffer, memory, sizeof memory);
    if (value == 0) /* which is not left out here */
        ps_buffer_append(&buffer, (struct ps_bytes){(const uint8_t *)"\x08\0", 2});
    ps_wire_put_uint(&buffer, 1, value);
    struct ps_bytes bytes = {(const uint8_t *)memory, buffer.size};
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i);
    struct pieces pieces;
    pieces_cut(&pieces, bytes, 1, &random);
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, pieces.view, NULL);

    ck_assert(ps_wire_next(&reader, &field));

    ck_assert_uint_eq(field.value, value);
    ck_assert_uint_eq(ps_wire_varint_size(value), bytes.size - 1);
    ck_assert(!ps_wire_next(&reader, &field));
    pieces_release(&pieces);
}
END_TEST

START_TEST(zero_and_empty_fields_are_left_out)
{
    char memory[32];
    struct ps_buffer buffer;
    ps_buffer_init_fixed(&buffer, memory, sizeof memory);

    ps_wire_put_uint(&buffer, 1, 0);
    ps_wire_put_double(&buffer, 2, 0.0);
    ps_wire_put_text(&buffer, 3, "");
    ps_wire_put_text(&buffer, 4, NULL);

    ck_assert_uint_eq(buffer.size, 0);
}
END_TEST

START_TEST(a_negative_zero_is_written)
{
    const uint8_t expected[] = {0x09, 0, 0, 0, 0, 0, 0, 0, 0x80};
    char memory[32];
    struct ps_buffer buffer;
    ps_buffer_init_fixed(&buffer, memory, sizeof memory);

    ps_wire_put_double(&buffer, 1, -0.0);

    ck_assert_uint_eq(buffer.size, sizeof expected);
    ck_assert_mem_eq(memory, expected, sizeof expected);
}
END_TEST

START_TEST(text_is_utf8_without_nul)
{
    ck_assert(ps_wire_is_text((struct ps_bytes){NULL, 0}));
    ck_assert(ps_wire_is_text(ps_bytes_of_text("layer/\xf0\x9f\x98\x80")));
    ck_assert(!ps_wire_is_text((struct ps_bytes){(const uint8_t *)"a\0b", 3}));
    ck_assert(!ps_wire_is_text(ps_bytes_of_text("\xff")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tests = tcase_create("wire");
    tcase_add_test(tests, fields_are_read_in_order);
    tcase_add_test(tests, an_error_stops_the_reader_for_good);
    tcase_add_loop_test(tests, varints_of_every_length_come_back, 0, 65);
    tcase_add_test(tests, zero_and_empty_fields_are_left_out);
    tcase_add_test(tests, a_negative_zero_is_written);
    tcase_add_test(tests, text_is_utf8_without_nul);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
