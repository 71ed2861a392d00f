/* SPDX-License-Identifier: Apache-2.0 */
/* base/nearest.c: how far words lie apart. */
#include "base/nearest.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

START_TEST(equal_words_have_no_distance)
{
    ck_assert_uint_eq(ps_text_distance("listen", "listen"), 0);
    ck_assert_uint_eq(ps_text_distance("", ""), 0);
}
END_TEST

START_TEST(each_slip_of_the_finger_counts_one)
{
    ck_assert_uint_eq(ps_text_distance("lsten", "listen"), 1);
    ck_assert_uint_eq(ps_text_distance("lissten", "listen"), 1);
    ck_assert_uint_eq(ps_text_distance("lasten", "listen"), 1);
    ck_assert_uint_eq(ps_text_distance("lsiten", "listen"), 1);
}
END_TEST

START_TEST(distance_is_the_same_both_ways)
{
    ck_assert_uint_eq(ps_text_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(ps_text_distance("sitting", "kitten"), 3);
    ck_assert_uint_eq(ps_text_distance("", "abc"), 3);
    ck_assert_uint_eq(ps_text_distance("abc", ""), 3);
}
END_TEST

START_TEST(very_long_words_are_compared_by_their_beginning)
{
    char a[500];
    char b[500];
    for (size_t i = 0; i < sizeof a; i++)
        a[i] = b[i] = (char)('a' + i % 26);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    b[400] = '!';
    b[0] = '!';

    ck_assert_uint_eq(ps_text_distance(a, b), 1);
}
END_TEST

START_TEST(only_small_distances_are_near)
{
    ck_assert(ps_text_is_near("ab", 1));
    ck_assert(!ps_text_is_near("ab", 2));
    ck_assert(ps_text_is_near("listen", 3));
    ck_assert(!ps_text_is_near("listen", 4));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nearest");
    TCase *tests = tcase_create("nearest");
    tcase_add_test(tests, equal_words_have_no_distance);
    tcase_add_test(tests, each_slip_of_the_finger_counts_one);
    tcase_add_test(tests, distance_is_the_same_both_ways);
    tcase_add_test(tests, very_long_words_are_compared_by_their_beginning);
    tcase_add_test(tests, only_small_distances_are_near);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
