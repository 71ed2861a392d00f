/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes.c: borrowed bytes in one or in many pieces. */
#include "base/bytes.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_bytes three_pieces[] = {
    {(const uint8_t *)"ab", 2}, {NULL, 0}, {(const uint8_t *)"cdef", 4}};
static const struct ps_view letters = {three_pieces, 3, 6};

START_TEST(copying_crosses_pieces)
{
    char copy[4] = {0};

    ps_view_copy(letters, 1, copy, 3);

    ck_assert_str_eq(copy, "bcd");
}
END_TEST

START_TEST(cursor_passes_over_empty_pieces)
{
    struct ps_view_cursor cursor = {.view = letters};

    ck_assert_uint_eq(ps_view_next(&cursor, 10).size, 2);
    ck_assert_uint_eq(ps_view_next(&cursor, 3).size, 3);
    ck_assert_uint_eq(ps_view_next(&cursor, 3).size, 1);
    ck_assert_uint_eq(ps_view_next(&cursor, 3).size, 0);
}
END_TEST

START_TEST(shorter_bytes_sort_first)
{
    struct ps_bytes a = ps_bytes_of_text("ab");
    struct ps_bytes b = ps_bytes_of_text("abc");

    ck_assert_int_lt(ps_bytes_compare(a, b), 0);
    ck_assert_int_gt(ps_bytes_compare(b, a), 0);
    ck_assert(ps_bytes_equal(a, a));
    ck_assert(!ps_bytes_equal(a, b));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bytes");
    TCase *tests = tcase_create("bytes");
    tcase_add_test(tests, copying_crosses_pieces);
    tcase_add_test(tests, cursor_passes_over_empty_pieces);
    tcase_add_test(tests, shorter_bytes_sort_first);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
