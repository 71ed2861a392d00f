/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/table_rows.c: rows in the order of their keys. */
#include "tools/psckpt/table_rows.h"

#include "rows_fixture.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct rows_fixture table;
static struct ps_error error;

static void set_up(void)
{
    rows_fixture_init(&table, "t");
}

static enum ps_status sort(void)
{
    return table_rows_sort(&table.row, table.arrays, ps_allocator_heap(), &error);
}

/* Every order of a few rows, the highest keys of 64 bits among them. */
START_TEST(rows_of_any_order_come_into_that_of_their_keys)
{
    static const uint64_t keys[] = {0, 7, UINT64_C(1) << 63, UINT64_MAX};
    size_t order[4];
    for (size_t i = 0, left = (size_t)_i; i < 4; left /= 4 - i, i++) {
        size_t nth = left % (4 - i);
        for (order[i] = 0;; order[i]++) {
            bool taken = false;
            for (size_t k = 0; k < i; k++)
                taken = taken || order[k] == order[i];
            if (!taken && nth-- == 0)
                break;
        }
        rows_fixture_put(&table, keys[order[i]], (float)order[i], (uint32_t)order[i]);
    }

    ck_assert_int_eq(sort(), PS_OK);

    for (size_t i = 0; i < 4; i++) {
        rows_fixture_expect(&table.row, i, keys[i], (float)i, (uint32_t)i);
        ck_assert_uint_eq(table_key(&table.row, i), keys[i]);
    }
}
END_TEST

START_TEST(many_rows_are_moved_along_every_cycle)
{
    for (uint64_t i = 0; i < ROWS_FIXTURE_ROWS; i++)
        rows_fixture_put(&table, i * 37 % ROWS_FIXTURE_ROWS, (float)(i * 37 % ROWS_FIXTURE_ROWS),
                         (uint32_t)i);

    ck_assert_int_eq(sort(), PS_OK);

    for (uint64_t key = 0; key < ROWS_FIXTURE_ROWS; key++) {
        uint32_t put = 0;
        while (put * 37 % ROWS_FIXTURE_ROWS != key)
            put++;
        rows_fixture_expect(&table.row, key, key, (float)key, put);
    }
}
END_TEST

START_TEST(a_key_that_is_there_twice_is_corrupt)
{
    rows_fixture_put(&table, 5, 1, 1);
    rows_fixture_put(&table, 6, 1, 1);
    rows_fixture_put(&table, 5, 2, 2);

    ck_assert_int_eq(sort(), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(error.text, "table t has the key 5 twice"));
}
END_TEST

START_TEST(a_table_without_rows_is_sorted)
{
    ck_assert_int_eq(sort(), PS_OK);
    ck_assert_uint_eq(table_row_bytes(&table.row, 0), 8);
    ck_assert_uint_eq(table_row_bytes(&table.row, 1), 4);
}
END_TEST

START_TEST(a_refused_allocation_leaves_the_rows_as_they_were)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    rows_fixture_put(&table, 6, 6, 1);
    rows_fixture_put(&table, 5, 5, 2);
    for (int refused = 0; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        status = table_rows_sort(&table.row, table.arrays, &memory, &error);
        ck_assert_int_eq(heap.live, 0);
        rows_fixture_expect(&table.row, status == PS_OK ? 1 : 0, 6, 6, 1);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table_rows");
    TCase *tests = tcase_create("table_rows");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_loop_test(tests, rows_of_any_order_come_into_that_of_their_keys, 0, 24);
    tcase_add_test(tests, many_rows_are_moved_along_every_cycle);
    tcase_add_test(tests, a_key_that_is_there_twice_is_corrupt);
    tcase_add_test(tests, a_table_without_rows_is_sorted);
    tcase_add_test(tests, a_refused_allocation_leaves_the_rows_as_they_were);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
