/* SPDX-License-Identifier: Apache-2.0 */
/* base/json_writer.c: JSON out. */
#include "base/json_writer.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

static char memory[4096];
static struct ps_buffer buffer;
static struct ps_json_writer writer;

static void begin(void)
{
    ps_buffer_init_fixed(&buffer, memory, sizeof memory);
    ps_json_writer_init(&writer, &buffer);
}

static const char *quoted(struct ps_bytes text)
{
    begin();
    ps_json_append_quoted(&buffer, text);
    return memory;
}

static const char *real(double value)
{
    begin();
    ps_json_real(&writer, NULL, value);
    return memory;
}

START_TEST(object_has_commas_between_members_only)
{
    begin();

    ps_json_begin_object(&writer, NULL);
    ps_json_text(&writer, "name", ps_bytes_of_text("w"));
    ps_json_uint(&writer, "most", UINT64_MAX);
    ps_json_int(&writer, "least", INT64_MIN);
    ps_json_bool(&writer, "yes", true);
    ps_json_bool(&writer, "no", false);
    ps_json_end_object(&writer);

    ck_assert_str_eq(memory, "{\"name\":\"w\",\"most\":18446744073709551615,"
                             "\"least\":-9223372036854775808,\"yes\":true,\"no\":false}");
}
END_TEST

START_TEST(containers_nest)
{
    begin();

    ps_json_begin_array(&writer, NULL);
    ps_json_begin_object(&writer, NULL);
    ps_json_begin_array(&writer, "a");
    ps_json_uint(&writer, NULL, 1);
    ps_json_uint(&writer, NULL, 2);
    ps_json_end_array(&writer);
    ps_json_end_object(&writer);
    ps_json_begin_object(&writer, NULL);
    ps_json_end_object(&writer);
    ps_json_uint(&writer, NULL, 3);
    ps_json_end_array(&writer);

    ck_assert_str_eq(memory, "[{\"a\":[1,2]},{},3]");
}
END_TEST

START_TEST(quotes_and_control_characters_are_escaped)
{
    struct ps_bytes text = {(const uint8_t *)"a\"b\\c\n\r\t\0\x1f\x7f/", 12};

    ck_assert_str_eq(quoted(text), "\"a\\\"b\\\\c\\n\\r\\t\\u0000\\u001f\x7f/\"");
}
END_TEST

START_TEST(utf8_stays_as_it_is)
{
    ck_assert_str_eq(quoted(ps_bytes_of_text("gr\xc3\xbc\xc3\x9f")), "\"gr\xc3\xbc\xc3\x9f\"");
}
END_TEST

START_TEST(other_bytes_become_replacement_characters)
{
    ck_assert_str_eq(quoted(ps_bytes_of_text("a\xff\xc3")), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}
END_TEST

START_TEST(keys_are_escaped_too)
{
    begin();
    ps_json_begin_object(&writer, NULL);
    ps_json_uint(&writer, "a\"b", 1);
    ps_json_end_object(&writer);

    ck_assert_str_eq(memory, "{\"a\\\"b\":1}");
}
END_TEST

START_TEST(reals_read_back_exactly)
{
    static const double values[] = {0.1,      1.0 / 3, 1e300,           5e-324, -2.5,
                                    1e17 + 2, 0.0,     0x1.fffffep+127, 3.0,    123456789.125};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        ck_assert_double_eq(strtod(real(values[i]), NULL), values[i]);
}
END_TEST

START_TEST(short_reals_stay_short)
{
    ck_assert_str_eq(real(0.1), "0.1");
    ck_assert_str_eq(real(3), "3");
}
END_TEST

START_TEST(reals_that_json_cannot_say_are_null)
{
    ck_assert_str_eq(real(NAN), "null");
    ck_assert_str_eq(real(INFINITY), "null");
    ck_assert_str_eq(real(-INFINITY), "null");
}
END_TEST

START_TEST(document_beyond_the_bound_marks_the_buffer)
{
    char small[8];
    ps_buffer_init_fixed(&buffer, small, sizeof small);
    ps_json_writer_init(&writer, &buffer);

    ps_json_begin_object(&writer, NULL);
    ps_json_text(&writer, "name", ps_bytes_of_text("value"));
    ps_json_end_object(&writer);

    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_ERR_NO_MEMORY);
}
END_TEST

START_TEST(sixteen_levels_are_allowed)
{
    begin();
    for (int i = 0; i < PS_JSON_DEPTH_MAX; i++)
        ps_json_begin_array(&writer, NULL);
    for (int i = 0; i < PS_JSON_DEPTH_MAX; i++)
        ps_json_end_array(&writer);

    ck_assert_str_eq(memory, "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]");
}
END_TEST

START_TEST(deeper_nesting_is_a_bug)
{
    begin();
    for (int i = 0; i < PS_JSON_DEPTH_MAX + 1; i++)
        ps_json_begin_array(&writer, NULL);
}
END_TEST

START_TEST(member_without_key_is_a_bug)
{
    begin();
    ps_json_begin_object(&writer, NULL);
    ps_json_uint(&writer, NULL, 1);
}
END_TEST

START_TEST(closing_the_wrong_container_is_a_bug)
{
    begin();
    ps_json_begin_object(&writer, NULL);
    ps_json_end_array(&writer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_writer");
    TCase *tests = tcase_create("json_writer");
    tcase_add_test(tests, object_has_commas_between_members_only);
    tcase_add_test(tests, containers_nest);
    tcase_add_test(tests, quotes_and_control_characters_are_escaped);
    tcase_add_test(tests, utf8_stays_as_it_is);
    tcase_add_test(tests, other_bytes_become_replacement_characters);
    tcase_add_test(tests, keys_are_escaped_too);
    tcase_add_test(tests, reals_read_back_exactly);
    tcase_add_test(tests, short_reals_stay_short);
    tcase_add_test(tests, reals_that_json_cannot_say_are_null);
    tcase_add_test(tests, document_beyond_the_bound_marks_the_buffer);
    tcase_add_test(tests, sixteen_levels_are_allowed);
    tcase_add_test_raise_signal(tests, deeper_nesting_is_a_bug, SIGABRT);
    tcase_add_test_raise_signal(tests, member_without_key_is_a_bug, SIGABRT);
    tcase_add_test_raise_signal(tests, closing_the_wrong_container_is_a_bug, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
