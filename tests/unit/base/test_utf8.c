/* SPDX-License-Identifier: Apache-2.0 */
/* base/utf8.c: which bytes are characters. */
#include "base/utf8.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static size_t first(const char *text)
{
    return ps_utf8_first(ps_bytes_of_text(text));
}

START_TEST(characters_of_one_to_four_bytes_are_told)
{
    ck_assert_uint_eq(first("a"), 1);
    ck_assert_uint_eq(first("\xc3\xa9"), 2);
    ck_assert_uint_eq(first("\xe2\x82\xac"), 3);
    ck_assert_uint_eq(first("\xf0\x9f\x98\x80"), 4);
}
END_TEST

START_TEST(limits_of_each_length_are_characters)
{
    ck_assert_uint_eq(first("\x7f"), 1);
    ck_assert_uint_eq(first("\xc2\x80"), 2);
    ck_assert_uint_eq(first("\xe0\xa0\x80"), 3);
    ck_assert_uint_eq(first("\xed\x9f\xbf"), 3);
    ck_assert_uint_eq(first("\xee\x80\x80"), 3);
    ck_assert_uint_eq(first("\xf0\x90\x80\x80"), 4);
    ck_assert_uint_eq(first("\xf4\x8f\xbf\xbf"), 4);
}
END_TEST

START_TEST(nul_is_a_character)
{
    struct ps_bytes nul = {(const uint8_t *)"\0", 1};

    ck_assert_uint_eq(ps_utf8_first(nul), 1);
}
END_TEST

static const char *const malformed[] = {
    "\x80",         "\xbf",          "\xc0\x80",         "\xc1\xbf",
    "\xc3",         "\xc3(",         "\xe0\x9f\xbf",     "\xe2\x82",
    "\xe2(\xac",    "\xed\xa0\x80",  "\xed\xbf\xbf",     "\xf0\x8f\xbf\xbf",
    "\xf0\x9f\x98", "\xf0\x9f(\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
    "\xff",         "\xfe"};

START_TEST(malformed_bytes_begin_no_character)
{
    ck_assert_uint_eq(first(malformed[_i]), 0);
    ck_assert(!ps_utf8_valid(ps_bytes_of_text(malformed[_i])));
}
END_TEST

START_TEST(nothing_begins_no_character_but_is_valid)
{
    ck_assert_uint_eq(first(""), 0);
    ck_assert(ps_utf8_valid(ps_bytes_of_text("")));
}
END_TEST

START_TEST(text_is_valid_up_to_its_last_byte)
{
    ck_assert(ps_utf8_valid(ps_bytes_of_text("gr\xc3\xbc\xc3\x9f \xe2\x82\xac")));
    ck_assert(!ps_utf8_valid(ps_bytes_of_text("gr\xc3\xbc\xc3")));
}
END_TEST

START_TEST(cut_falls_between_characters)
{
    struct ps_bytes text = ps_bytes_of_text("a\xe2\x82\xac"
                                            "b");

    ck_assert_uint_eq(ps_utf8_cut(text, 9), 5);
    ck_assert_uint_eq(ps_utf8_cut(text, 5), 5);
    ck_assert_uint_eq(ps_utf8_cut(text, 4), 4);
    ck_assert_uint_eq(ps_utf8_cut(text, 3), 1);
    ck_assert_uint_eq(ps_utf8_cut(text, 2), 1);
    ck_assert_uint_eq(ps_utf8_cut(text, 0), 0);
}
END_TEST

START_TEST(a_text_that_does_not_fit_loses_its_middle)
{
    char to[21];

    ps_utf8_shorten(to, sizeof to, "");
    ck_assert_str_eq(to, "");
    ps_utf8_shorten(to, sizeof to, "01234567890123456789");
    ck_assert_str_eq(to, "01234567890123456789");
    ps_utf8_shorten(to, sizeof to, "012345678901234567890");
    ck_assert_str_eq(to, "0123...8901234567890");
}
END_TEST

/* Whatever stands where the cuts fall: no character is split, and bytes that are none of UTF-8
 * still fit. */
START_TEST(a_shortened_text_splits_no_character)
{
    static const char *const characters[] = {"\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    char from[256];
    char to[32];
    for (size_t before = 0; before < 8; before++) {
        size_t length = before;
        memset(from, 'a', before);
        while (length < 200) {
            memcpy(from + length, characters[_i], strlen(characters[_i]) + 1);
            length += strlen(characters[_i]);
        }
        for (size_t size = 16; size <= sizeof to; size++) {
            ps_utf8_shorten(to, size, from);
            ck_assert(ps_utf8_valid(ps_bytes_of_text(to)));
            ck_assert_uint_lt(strlen(to), size);
            ck_assert_uint_gt(strlen(to), size - 8);
            ck_assert_ptr_nonnull(strstr(to, "..."));
        }
    }
    memset(from, 0x80, 200);
    from[200] = '\0';
    ps_utf8_shorten(to, sizeof to, from);
    ck_assert_str_eq(to, "...");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tests = tcase_create("utf8");
    tcase_add_test(tests, characters_of_one_to_four_bytes_are_told);
    tcase_add_test(tests, limits_of_each_length_are_characters);
    tcase_add_test(tests, nul_is_a_character);
    tcase_add_loop_test(tests, malformed_bytes_begin_no_character, 0,
                        (int)(sizeof(malformed) / sizeof(malformed[0])));
    tcase_add_test(tests, nothing_begins_no_character_but_is_valid);
    tcase_add_test(tests, text_is_valid_up_to_its_last_byte);
    tcase_add_test(tests, cut_falls_between_characters);
    tcase_add_test(tests, a_text_that_does_not_fit_loses_its_middle);
    tcase_add_loop_test(tests, a_shortened_text_splits_no_character, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
