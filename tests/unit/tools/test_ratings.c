/* SPDX-License-Identifier: Apache-2.0 */
/* tools/ratings.c: the formats of the public sets, and what is none of them. */
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tools/ratings.h"

#include <check.h>
#include <string.h>

static enum ps_status parse(const char *text, struct ps_ratings *ratings, struct ps_error *error)
{
    return ps_ratings_parse("text", text, strlen(text), ps_allocator_heap(), ratings, error);
}

/* Tabs, "::", commas with a heading, blanks, lines of Windows. */
START_TEST(every_format_of_the_public_sets_is_read)
{
    static const char *const texts[] = {
        "196\t242\t3\t881250949\n186\t302\t4.5\t891717742\n",
        "196::242::3::978300760\n186::302::4.5::978302109\n",
        "userId,movieId,rating,timestamp\n196,242,3.0,964982703\n186,302,4.5,964981247\n",
        "196 242 3\n\n186  302\t4.5",
        "196, 242, 3\r\n186, 302, 4.5\r\n",
        "\xef\xbb\xbfuserId,movieId,rating\r\n\r\n196,242,3\r\n186,302,4.5\r\n\r\n",
        "\"User-ID\";\"ISBN\";\"Book-Rating\"\n\"196\";\"242\";\"3\"\n186;302;4.5;x\n",
        "# user item rating\n196 242 3\n186 302 4.5\n",
    };
    struct ps_ratings ratings;

    ck_assert_int_eq(parse(texts[_i], &ratings, NULL), PS_OK);

    ck_assert_uint_eq(ratings.count, 2);
    ck_assert_uint_eq(ratings.list[0].user, 196);
    ck_assert_uint_eq(ratings.list[0].item, 242);
    ck_assert_float_eq(ratings.list[0].value, 3.0f);
    ck_assert_uint_eq(ratings.list[1].item, 302);
    ck_assert_float_eq(ratings.list[1].value, 4.5f);
    ck_assert_double_eq(ratings.mean, 3.75);
    ps_ratings_fini(&ratings);
}
END_TEST

START_TEST(what_is_not_a_rating_is_refused_with_its_line)
{
    static const char *const texts[] = {
        "1 2 3\nuser item rating\n", /* a heading in the middle */
        "1 2 3\n1 2\n4\n",           /* the number of the next line is none of this one's */
        "1 2 3\n1,,2,3\n",           /* an empty column */
        "1 2 3\n-1 2 3\n",
        "1 2 3\n1 2 nan\n",
        "1 2 3\n1 2 1e60\n",
        "1 2 3\n1 2 3stars\n",
        "1 2 3\n1.5 2 3\n",
        "1 2 3\n9223372036854775808 2 3\n", /* no bit is left beside it */
        "1 2 3\n99999999999999999999 2 3\n",
        "1 2 3\n1:2:3\n",
        "1 2 3\n1;2;3,5\n", /* 3.5 and not 3 */
        "1 2 3\n1 2 3,5\n",
        "1 2 3\n\"1 2 3\n",
        "1 2 3\n1 2 \"3\n",
    };
    struct ps_ratings ratings;
    struct ps_error error = {0};

    ck_assert_int_eq(parse(texts[_i], &ratings, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "text:2: "));
}
END_TEST

START_TEST(what_stands_in_the_place_of_a_number_is_shown)
{
    static const struct {
        const char *text, *shown;
    } wrong[] = {{"alice,heat,5\nbob,heat,4\n", "text:2: user \"bob\":"},
                 {"1,heat,5\n", "text:1: item \"heat\":"},
                 {"1,2\n", "text:1: rating \"\":"},
                 {"1;2;3,5;x\n", "text:1: rating \"3,5\":"},
                 {"1,2,\n", "text:1: rating \"\":"},
                 {"1 2 3stars\n", "text:1: rating \"3stars\":"},
                 {"9223372036854775808 2 3\n", "text:1: user \"9223372036854775808\":"}};
    struct ps_ratings ratings;
    struct ps_error error = {0};

    ck_assert_int_eq(parse(wrong[_i].text, &ratings, &error), PS_ERR_BAD_INPUT);

    ck_assert_msg(strstr(error.text, wrong[_i].shown) != NULL, "%s", error.text);
}
END_TEST

START_TEST(a_file_without_ratings_is_refused)
{
    struct ps_ratings ratings;

    ck_assert_int_eq(parse("", &ratings, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(parse("user,item,rating\n\n", &ratings, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(parse("9223372036854775807 0 -1\n", &ratings, NULL), PS_OK);
    ps_ratings_fini(&ratings);
}
END_TEST

START_TEST(without_memory_nothing_is_left)
{
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_ratings ratings;

    ck_assert_int_eq(ps_ratings_parse("text", "1 2 3", 5, &memory, &ratings, NULL),
                     PS_ERR_NO_MEMORY);

    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ratings");
    TCase *tests = tcase_create("ratings");
    tcase_add_loop_test(tests, every_format_of_the_public_sets_is_read, 0, 8);
    tcase_add_loop_test(tests, what_is_not_a_rating_is_refused_with_its_line, 0, 15);
    tcase_add_loop_test(tests, what_stands_in_the_place_of_a_number_is_shown, 0, 7);
    tcase_add_test(tests, a_file_without_ratings_is_refused);
    tcase_add_test(tests, without_memory_nothing_is_left);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
