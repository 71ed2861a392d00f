/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/table_diff.c: tables are compared by key. */
#include "tools/psckpt/table_diff.h"

#include "rows_fixture.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct rows_fixture a;
static struct rows_fixture b;

static void set_up(void)
{
    rows_fixture_init(&a, "t");
    rows_fixture_init(&b, "t");
}

static void put(struct rows_fixture *table, uint64_t from, uint64_t below)
{
    for (uint64_t key = from; key < below; key++)
        rows_fixture_put(table, key, (float)key, 1);
}

START_TEST(equal_tables_do_not_differ)
{
    put(&a, 3, 20);
    put(&b, 3, 20);
    for (uint32_t array = 0; array < 4; array++) {
        struct table_diff diff = table_diff_of(&a.row, &b.row, array);
        ck_assert_uint_eq(diff.added + diff.removed + diff.changed, 0);
        ck_assert(!diff.distance.differs);
    }
}
END_TEST

START_TEST(keys_of_one_side_are_counted_and_the_first_is_named)
{
    put(&a, 3, 10);
    put(&b, 5, 14);

    struct table_diff diff = table_diff_of(&a.row, &b.row, 0);

    ck_assert_uint_eq(diff.removed, 2);
    ck_assert_uint_eq(diff.added, 4);
    ck_assert_uint_eq(diff.changed, 0);
    ck_assert_uint_eq(diff.first_key, 3);
}
END_TEST

START_TEST(a_table_without_rows_lacks_them_all)
{
    put(&b, 8, 10);
    struct table_diff diff = table_diff_of(&a.row, &b.row, 0);
    ck_assert_uint_eq(diff.added, 2);
    ck_assert_uint_eq(diff.first_key, 8);
    diff = table_diff_of(&b.row, &a.row, 0);
    ck_assert_uint_eq(diff.removed, 2);
}
END_TEST

START_TEST(changed_rows_are_found_though_others_stand_between)
{
    put(&a, 0, 10);
    put(&b, 2, 12);
    b.values[3][1] += 4;
    b.values[4][0] += 0.25f;
    b.clocks[7] = 9;

    struct table_diff values = table_diff_of(&a.row, &b.row, 0);
    struct table_diff clocks = table_diff_of(&a.row, &b.row, 3);

    ck_assert_uint_eq(values.changed, 2);
    ck_assert_uint_eq(values.first_key, 0);
    ck_assert_uint_eq(values.first_changed, 5);
    ck_assert(values.distance.largest == 4);
    ck_assert_uint_eq(clocks.changed, 1);
    ck_assert(clocks.distance.largest == 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table_diff");
    TCase *tests = tcase_create("table_diff");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, equal_tables_do_not_differ);
    tcase_add_test(tests, keys_of_one_side_are_counted_and_the_first_is_named);
    tcase_add_test(tests, a_table_without_rows_lacks_them_all);
    tcase_add_test(tests, changed_rows_are_found_though_others_stand_between);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
