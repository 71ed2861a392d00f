/* SPDX-License-Identifier: Apache-2.0 */
/* tools/train_curve.c: pictures of any curve are whole and within their frame. */
#include "run_suite.h"
#include "tests/support/temp_folder.h"
#include "tools/train_curve.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static size_t draw(const struct ps_curve_point *points, size_t count, char *text, size_t room)
{
    struct temp_folder folder;
    char path[600];
    temp_folder_init(&folder);
    const struct ps_curve curve = {"model", "rmse", points, count};
    (void)temp_folder_path(&folder, "curve.svg", path, sizeof path);
    ck_assert_int_eq(ps_curve_write(path, &curve, NULL), PS_OK);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(text, 1, room - 1, file);
    text[size] = '\0';
    (void)fclose(file);
    temp_folder_fini(&folder);
    ck_assert_ptr_nonnull(strstr(text, "</svg>"));
    return size;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        count++;
    return count;
}

START_TEST(a_point_for_each_epoch_and_set)
{
    const struct ps_curve_point points[] = {{1, 1.0, 1.2}, {2, 0.8, 1.1}, {3, 0.7, 1.0}};
    char text[8192];

    (void)draw(points, 3, text, sizeof text);

    ck_assert_uint_eq(count_of(text, "<circle"), 6);
    /* The highest value is at the top, the lowest at the bottom. */
    ck_assert_ptr_nonnull(strstr(text, "cx=\"70.0\" cy=\"60.0\""));
    ck_assert_ptr_nonnull(strstr(text, "cx=\"610.0\" cy=\"350.0\""));
}
END_TEST

START_TEST(curves_with_nothing_to_divide_by_are_drawn_without_nan)
{
    static const struct ps_curve_point flat[] = {{5, 0.5, NAN}, {6, 0.5, NAN}};
    static const struct ps_curve_point lost[] = {{1, NAN, INFINITY}};
    static const struct {
        const struct ps_curve_point *points;
        size_t count, dots;
    } cases[] = {{flat, 0, 0}, {flat, 1, 1}, {flat, 2, 2}, {lost, 1, 0}};
    char text[8192];

    (void)draw(cases[_i].points, cases[_i].count, text, sizeof text);

    ck_assert_uint_eq(count_of(text, "<circle"), cases[_i].dots);
    ck_assert_uint_eq(count_of(text, "nan") + count_of(text, "inf"), 0);
}
END_TEST

START_TEST(a_file_that_cannot_be_made_is_named)
{
    const struct ps_curve curve = {"model", "rmse", NULL, 0};
    struct ps_error error = {0};

    ck_assert_int_eq(ps_curve_write("/nowhere/curve.svg", &curve, &error), PS_ERR_IO);

    ck_assert_ptr_nonnull(strstr(error.text, "/nowhere/curve.svg"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("train_curve");
    TCase *tests = tcase_create("train_curve");
    tcase_add_test(tests, a_point_for_each_epoch_and_set);
    tcase_add_loop_test(tests, curves_with_nothing_to_divide_by_are_drawn_without_nan, 0, 4);
    tcase_add_test(tests, a_file_that_cannot_be_made_is_named);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
