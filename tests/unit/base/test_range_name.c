/* SPDX-License-Identifier: Apache-2.0 */
/* base/range_name.c: only names that a client makes for ranges are taken apart. */
#include "base/range_name.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct ps_bytes base;
static uint32_t k, n;

START_TEST(a_range_says_of_what_it_is_and_which)
{
    ck_assert(ps_range_name_split(ps_bytes_of_text("w#1/3"), &base, &k, &n));
    ck_assert(ps_bytes_equal(base, ps_bytes_of_text("w")));
    ck_assert_uint_eq(k, 1);
    ck_assert_uint_eq(n, 3);
}
END_TEST

START_TEST(names_that_only_look_like_ranges_are_whole)
{
    static const char *const names[] = {"#0/2",   "w#2/2", "w#0/1", "w#00/2", "w#0/02",
                                        "w#/2",   "w#0/",  "w#a/2", "w0/2",   "w#0/4097",
                                        "w#0/2 ", "",      "/",     "#",      "w#1/99999"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(!ps_range_name_split(ps_bytes_of_text(names[i]), &base, &k, &n), "%s",
                      names[i]);
}
END_TEST

START_TEST(the_last_suffix_counts)
{
    ck_assert(ps_range_name_split(ps_bytes_of_text("a#1/2#3/4"), &base, &k, &n));
    ck_assert(ps_bytes_equal(base, ps_bytes_of_text("a#1/2")));
    ck_assert_uint_eq(k, 3);
    ck_assert_uint_eq(n, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("range_name");
    TCase *tests = tcase_create("range_name");
    tcase_add_test(tests, a_range_says_of_what_it_is_and_which);
    tcase_add_test(tests, names_that_only_look_like_ranges_are_whole);
    tcase_add_test(tests, the_last_suffix_counts);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
