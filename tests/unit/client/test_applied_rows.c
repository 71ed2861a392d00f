/* SPDX-License-Identifier: Apache-2.0 */
/* client/applied_rows.c: rows of several servers become one row for each parameter. */
#include "client/applied_rows.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_applied_rows rows;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    rows = (struct ps_applied_rows){.memory = &memory};
}

static void end_test(void)
{
    ps_applied_rows_fini(&rows);
    ck_assert_int_eq(heap.live, 0);
}

static void take(const char *name, uint64_t pushes, uint64_t version)
{
    const struct ps_applied_row row = {ps_bytes_of_text(name), pushes, version};
    ck_assert_int_eq(ps_applied_rows_take(&rows, &row, NULL), PS_OK);
}

static void expect(size_t i, const char *name, uint64_t pushes, uint64_t of_any, uint64_t version)
{
    const struct psclient_applied *row = &rows.parts[i].row;
    ck_assert_str_eq(row->name, name);
    ck_assert_uint_eq(row->pushes, pushes);
    ck_assert_uint_eq(row->pushes_of_any, of_any);
    ck_assert_uint_eq(row->version, version);
}

START_TEST(ranges_are_joined_and_rows_sorted)
{
    take("b#1/2", 3, 13);
    take("a", 7, 17);
    take("b#0/2", 4, 14);

    ps_applied_rows_join(&rows);

    ck_assert_uint_eq(rows.count, 2);
    expect(0, "a", 7, 7, 17);
    expect(1, "b", 3, 4, 13);
}
END_TEST

START_TEST(a_range_that_nothing_was_pushed_to_counts)
{
    take("b#1/2", 1, 1);

    ps_applied_rows_join(&rows);

    ck_assert_uint_eq(rows.count, 1);
    expect(0, "b", 0, 1, 0);
}
END_TEST

START_TEST(names_that_only_look_like_ranges_stay)
{
    static const char *const names[] = {"#1/2", "a#/2", "a#1/", "a#1/2x", "a#x/2", "a/2"};
    for (size_t i = 0; i < 6; i++)
        take(names[i], i + 1, 1);

    ps_applied_rows_join(&rows);

    ck_assert_uint_eq(rows.count, 6);
    for (size_t i = 0; i < 6; i++)
        expect(i, names[i], i + 1, i + 1, 1);
}
END_TEST

START_TEST(there_is_room_for_many)
{
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%04d", i);
        take(name, 1, 1);
    }
    ps_applied_rows_join(&rows);

    ck_assert_uint_eq(rows.count, 1000);
    ck_assert_str_eq(rows.parts[999].row.name, "0999");
}
END_TEST

START_TEST(no_rows_are_no_rows)
{
    ps_applied_rows_join(&rows);
    ck_assert_uint_eq(rows.count, 0);
}
END_TEST

START_TEST(without_memory_nothing_is_taken)
{
    const struct ps_applied_row row = {ps_bytes_of_text("a"), 1, 1};
    heap.refuse_at = heap.seen;

    ck_assert_int_eq(ps_applied_rows_take(&rows, &row, NULL), PS_ERR_NO_MEMORY);

    ck_assert_uint_eq(rows.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("applied_rows");
    TCase *tests = tcase_create("applied_rows");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, ranges_are_joined_and_rows_sorted);
    tcase_add_test(tests, a_range_that_nothing_was_pushed_to_counts);
    tcase_add_test(tests, names_that_only_look_like_ranges_stay);
    tcase_add_test(tests, there_is_room_for_many);
    tcase_add_test(tests, no_rows_are_no_rows);
    tcase_add_test(tests, without_memory_nothing_is_taken);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
