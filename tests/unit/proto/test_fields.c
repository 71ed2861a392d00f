/* SPDX-License-Identifier: Apache-2.0 */
/* proto/fields.c: flat messages, and what is not one. */
#include "proto/fields.h"

#include "base/attributes.h"
#include "base/buffer.h"
#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static enum ps_status read_bytes(const void *bytes, size_t size, struct ps_fields *fields)
{
    const struct ps_bytes piece = {bytes, size};
    return ps_fields_read(ps_view_of(&piece), fields, NULL);
}

START_TEST(numbers_and_texts_come_back_by_their_field)
{
    char room[256];
    struct ps_buffer message;
    struct ps_fields fields;
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_wire_put_uint(&message, 1, UINT64_MAX);
    ps_wire_put_text(&message, 2, "ready");
    ps_wire_put_uint(&message, 11, 7);

    ck_assert_int_eq(read_bytes(message.text, message.size, &fields), PS_OK);

    ck_assert_uint_eq(fields.number[1], UINT64_MAX);
    ck_assert_str_eq(fields.text[2], "ready");
    ck_assert_uint_eq(fields.number[11], 7);
    ck_assert_uint_eq(fields.number[3], 0);
    ck_assert_str_eq(fields.text[1], "");
}
END_TEST

START_TEST(no_bytes_are_a_message_of_zeros)
{
    struct ps_fields fields;
    memset(&fields, 0xff, sizeof fields);

    ck_assert_int_eq(read_bytes("", 0, &fields), PS_OK);

    ck_assert_uint_eq(fields.number[1], 0);
    ck_assert_str_eq(fields.text[PS_FIELDS_MAX - 1], "");
}
END_TEST

START_TEST(fields_of_a_newer_program_are_passed_over)
{
    char room[512];
    struct ps_buffer message;
    struct ps_fields fields;
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_wire_put_uint(&message, PS_FIELDS_MAX, 1);
    ps_wire_put_text(&message, 900, "later");
    ps_wire_put_uint(&message, 1, 5);

    ck_assert_int_eq(read_bytes(message.text, message.size, &fields), PS_OK);

    ck_assert_uint_eq(fields.number[1], 5);
}
END_TEST

static const struct {
    const char *bytes;
    size_t size;
} refused[] = {
    {"\x08", 1}, /* a number without its value */
    {"\x12\x05"
     "ab",
     4},                     /* a text that is cut off */
    {"\x12\x02\xff\xfe", 4}, /* not UTF-8 */
    {"\x00\x01", 2},         /* field 0 */
};

START_TEST(what_is_no_message_is_refused_and_changes_nothing)
{
    struct ps_fields fields = {.number = {[1] = 3}};

    ck_assert_int_eq(read_bytes(refused[_i].bytes, refused[_i].size, &fields), PS_ERR_BAD_INPUT);

    ck_assert_uint_eq(fields.number[1], 3);
}
END_TEST

START_TEST(a_text_fits_or_is_refused)
{
    char text[PS_FIELD_TEXT_BYTES_MAX + 1];
    char room[512];
    struct ps_buffer message;
    struct ps_fields fields;
    memset(text, 'a', sizeof text);
    text[PS_FIELD_TEXT_BYTES_MAX - 1 + _i] = '\0';
    ps_buffer_init_fixed(&message, room, sizeof room);
    ps_wire_put_text(&message, 3, text);

    enum ps_status status = read_bytes(message.text, message.size, &fields);

    ck_assert_int_eq(status, _i == 0 ? PS_OK : PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fields");
    TCase *tests = tcase_create("fields");
    tcase_add_test(tests, numbers_and_texts_come_back_by_their_field);
    tcase_add_test(tests, no_bytes_are_a_message_of_zeros);
    tcase_add_test(tests, fields_of_a_newer_program_are_passed_over);
    tcase_add_loop_test(tests, what_is_no_message_is_refused_and_changes_nothing, 0,
                        PS_ARRAY_COUNT(refused));
    tcase_add_loop_test(tests, a_text_fits_or_is_refused, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
