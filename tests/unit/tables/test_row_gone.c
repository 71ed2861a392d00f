/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_gone.c: the keys that went last, for who has a mark. */
#include "server/core/tables/row_gone.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_row_gone gone;
static uint64_t told[PS_ROW_GONE_MAX];

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    gone = (struct ps_row_gone){0};
    ps_row_gone_init(&gone);
}

static void end(void)
{
    ps_row_gone_fini(&gone, &memory);
    ck_assert_int_eq(heap.live, 0);
}

static void follow(bool expect_new)
{
    bool is_new;
    ck_assert(ps_row_gone_begin(&gone, &memory, &is_new));
    ck_assert(is_new == expect_new);
}

START_TEST(nothing_is_noted_before_somebody_follows)
{
    size_t count;
    uint64_t mark = 1;
    ps_row_gone_note(&gone, 7);
    ck_assert_uint_eq(ps_row_gone_mark(&gone), 1);
    ck_assert_int_eq(heap.live, 0);
    follow(true);
    follow(false);
    ck_assert(ps_row_gone_since(&gone, &mark, 10, told, &count));
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(mark, 1);
}
END_TEST

START_TEST(keys_are_told_in_order_and_once)
{
    size_t count;
    uint64_t left;
    follow(true);
    for (uint64_t key = 100; key < 110; key++)
        ps_row_gone_note(&gone, key);
    uint64_t mark = 1;
    ck_assert(ps_row_gone_count(&gone, mark, &left));
    ck_assert_uint_eq(left, 10);
    ck_assert(ps_row_gone_since(&gone, &mark, 4, told, &count));
    ck_assert_uint_eq(count, 4);
    ck_assert(ps_row_gone_since(&gone, &mark, 100, told + 4, &count));
    ck_assert_uint_eq(count, 6);
    for (uint64_t i = 0; i < 10; i++)
        ck_assert_uint_eq(told[i], 100 + i);
    ck_assert_uint_eq(mark, ps_row_gone_mark(&gone));
    ck_assert(ps_row_gone_since(&gone, &mark, 100, told, &count));
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(who_is_too_far_behind_is_told_so)
{
    size_t count;
    uint64_t left, mark = 1;
    follow(true);
    for (uint64_t key = 0; key < PS_ROW_GONE_MAX; key++)
        ps_row_gone_note(&gone, key);
    ck_assert(ps_row_gone_count(&gone, 1, &left));
    ck_assert_uint_eq(left, PS_ROW_GONE_MAX);
    ps_row_gone_note(&gone, 1000000);
    ck_assert(!ps_row_gone_count(&gone, 1, &left));
    ck_assert(!ps_row_gone_since(&gone, &mark, PS_ROW_GONE_MAX, told, &count));
    ck_assert_uint_eq(mark, 1);
    mark = 2;
    ck_assert(ps_row_gone_since(&gone, &mark, PS_ROW_GONE_MAX, told, &count));
    ck_assert_uint_eq(count, PS_ROW_GONE_MAX);
    ck_assert_uint_eq(told[0], 1);
    ck_assert_uint_eq(told[PS_ROW_GONE_MAX - 1], 1000000);
}
END_TEST

START_TEST(marks_of_nobody_are_refused)
{
    uint64_t left;
    follow(true);
    ps_row_gone_note(&gone, 7);
    ck_assert(!ps_row_gone_count(&gone, 0, &left));
    ck_assert(!ps_row_gone_count(&gone, 3, &left));
    ck_assert(!ps_row_gone_count(&gone, UINT64_MAX, &left));
    ck_assert(ps_row_gone_count(&gone, 2, &left));
}
END_TEST

START_TEST(memory_that_is_refused_changes_nothing)
{
    bool is_new;
    heap.refuse_at = heap.seen;
    ck_assert(!ps_row_gone_begin(&gone, &memory, &is_new));
    heap.refuse_at = -1;
    ps_row_gone_note(&gone, 7);
    ck_assert_uint_eq(ps_row_gone_mark(&gone), 1);
    follow(true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_gone");
    TCase *tests = tcase_create("row_gone");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, nothing_is_noted_before_somebody_follows);
    tcase_add_test(tests, keys_are_told_in_order_and_once);
    tcase_add_test(tests, who_is_too_far_behind_is_told_so);
    tcase_add_test(tests, marks_of_nobody_are_refused);
    tcase_add_test(tests, memory_that_is_refused_changes_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
