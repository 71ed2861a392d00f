/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/history.c: sixteen bytes as text and back, and when two of them differ. */
#include "checkpoint/history.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static const char one[] = "01234567-89ab-7cde-8f01-23456789abcd";

START_TEST(bytes_stand_in_the_order_of_the_digits)
{
    static const uint8_t expected[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x7c, 0xde,
                                       0x8f, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd};
    struct ps_history history;
    char text[PS_UUID_BYTES];
    ck_assert(ps_history_read(one, &history));
    ck_assert_mem_eq(history.bytes, expected, sizeof expected);
    ps_history_write(&history, text);
    ck_assert_str_eq(text, one);
}
END_TEST

START_TEST(one_that_is_not_known_is_no_text)
{
    const struct ps_history none = {{0}};
    char text[PS_UUID_BYTES] = "x";
    ps_history_write(&none, text);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(what_is_no_history_is_not_known)
{
    static const char *const texts[] = {
        NULL,
        "",
        "01234567-89ab-7cde-8f01-23456789abc",
        "01234567-89ab-7cde-8f01-23456789abcde",
        "0123456789ab-7cde-8f01-23456789abcd-",
        "01234567-89ab-7cde-8f01_23456789abcd",
        "01234567-89AB-7cde-8f01-23456789abcd",
        "g1234567-89ab-7cde-8f01-23456789abcd",
        "00000000-0000-0000-0000-000000000000",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct ps_history history = {{7}};
        ck_assert_msg(!ps_history_read(texts[i], &history), "%s", texts[i]);
        ck_assert(!ps_history_known(&history));
    }
}
END_TEST

START_TEST(only_two_known_ones_differ)
{
    const struct ps_history none = {{0}};
    struct ps_history a = {{0}};
    struct ps_history b = {{0}};
    a.bytes[15] = 1;
    b.bytes[0] = 1;
    ck_assert(ps_history_differ(&a, &b));
    ck_assert(!ps_history_differ(&a, &a));
    ck_assert(!ps_history_differ(&a, &none));
    ck_assert(!ps_history_differ(&none, &b));
    ck_assert(!ps_history_differ(&none, &none));
}
END_TEST

START_TEST(each_drawing_is_another)
{
    struct ps_random random;
    struct ps_history drawn[3];
    ps_random_init(&random, 5);
    ps_history_draw(&random, 1000000, &drawn[0]);
    ps_history_draw(&random, 1000000, &drawn[1]);
    ps_history_draw(NULL, 1000000, &drawn[2]);
    ck_assert(ps_history_differ(&drawn[0], &drawn[1]));
    ck_assert(ps_history_differ(&drawn[1], &drawn[2]));
    /* And of one seed the same. */
    struct ps_history again;
    ps_random_init(&random, 5);
    ps_history_draw(&random, 1000000, &again);
    ck_assert_mem_eq(&again, &drawn[0], sizeof again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tests = tcase_create("history");
    tcase_add_test(tests, bytes_stand_in_the_order_of_the_digits);
    tcase_add_test(tests, one_that_is_not_known_is_no_text);
    tcase_add_test(tests, what_is_no_history_is_not_known);
    tcase_add_test(tests, only_two_known_ones_differ);
    tcase_add_test(tests, each_drawing_is_another);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
