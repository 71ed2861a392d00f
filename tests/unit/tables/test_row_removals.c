/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_removals.c: keys between two marks, while others come and go. */
#include "server/core/tables/row_removals.h"

#include "tests/support/fault_heap.h"

#include "run_suite.h"

#include <check.h>

/* More than a chunk. */
#define MANY 10000

/* A table so large that the list is never given up. */
#define LARGE ((uint64_t)1 << 32)

static struct ps_row_removals *removals;

static void begin(void)
{
    removals = ps_row_removals_create(ps_allocator_heap());
}

static void end(void)
{
    ps_row_removals_release(removals);
}

static void remove_keys(uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        ps_row_removals_add(removals, first + i, LARGE);
}

/* Between the marks are exactly `count` keys from `first` on. */
static void expect(const struct ps_row_mark *from, const struct ps_row_mark *to, uint64_t first,
                   uint64_t count)
{
    uint64_t *keys = NULL;
    size_t found = 0;
    ck_assert_int_eq(ps_row_marks_between(from, to, &keys, &found), PS_OK);
    ck_assert_uint_eq(found, count);
    for (uint64_t i = 0; i < count; i++)
        ck_assert_uint_eq(keys[i], first + i);
    ps_release(ps_allocator_heap(), keys);
}

START_TEST(keys_between_two_marks_are_known)
{
    remove_keys(1, 50);
    struct ps_row_mark *one = ps_row_mark_create(removals);
    remove_keys(100, MANY);
    struct ps_row_mark *two = ps_row_mark_create(removals);
    remove_keys(MANY + 100, MANY);
    struct ps_row_mark *three = ps_row_mark_create(removals);

    expect(one, one, 0, 0);
    expect(one, two, 100, MANY);
    expect(two, three, MANY + 100, MANY);
    expect(one, three, 100, 2 * MANY);

    ps_row_mark_destroy(one);
    expect(two, three, MANY + 100, MANY);
    ps_row_mark_destroy(three);
    ps_row_mark_destroy(two);
}
END_TEST

START_TEST(a_key_that_went_twice_is_there_once)
{
    struct ps_row_mark *one = ps_row_mark_create(removals);
    remove_keys(8, 8);
    remove_keys(0, 12);
    struct ps_row_mark *two = ps_row_mark_create(removals);

    expect(one, two, 0, 16);

    ps_row_mark_destroy(one);
    ps_row_mark_destroy(two);
}
END_TEST

START_TEST(without_a_mark_nothing_is_kept)
{
    uint64_t empty = ps_row_removals_bytes(removals);
    remove_keys(0, MANY);
    ck_assert_uint_eq(ps_row_removals_bytes(removals), empty);
    struct ps_row_mark *one = ps_row_mark_create(removals);
    remove_keys(0, MANY);
    ck_assert_uint_ge(ps_row_removals_bytes(removals), empty + (uint64_t)MANY * 8);

    ps_row_mark_destroy(one);

    ck_assert_uint_eq(ps_row_removals_bytes(removals), empty);
}
END_TEST

START_TEST(what_only_an_older_mark_needs_goes_with_it)
{
    struct ps_row_mark *one = ps_row_mark_create(removals);
    remove_keys(0, MANY);
    uint64_t full = ps_row_removals_bytes(removals);
    struct ps_row_mark *two = ps_row_mark_create(removals);
    remove_keys(MANY, 10);

    ps_row_mark_destroy(one);

    ck_assert_uint_lt(ps_row_removals_bytes(removals), full);
    struct ps_row_mark *three = ps_row_mark_create(removals);
    expect(two, three, MANY, 10);
    ps_row_mark_destroy(two);
    ps_row_mark_destroy(three);
}
END_TEST

START_TEST(a_list_of_more_than_a_quarter_of_the_rows_is_given_up)
{
    uint64_t *keys = NULL;
    size_t count = 0;
    uint64_t empty = ps_row_removals_bytes(removals);
    struct ps_row_mark *one = ps_row_mark_create(removals);
    for (uint64_t i = 0; i < MANY; i++)
        ps_row_removals_add(removals, i, MANY);
    struct ps_row_mark *two = ps_row_mark_create(removals);

    ck_assert_int_eq(ps_row_marks_between(one, two, &keys, &count), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(ps_row_removals_bytes(removals), empty);

    /* The one that was made behind it is good. */
    ps_row_removals_add(removals, 7, MANY);
    struct ps_row_mark *three = ps_row_mark_create(removals);
    expect(two, three, 7, 1);
    ps_row_mark_destroy(one);
    expect(two, three, 7, 1);
    ps_row_mark_destroy(two);
    /* The one that was lost is not counted as gone once more: the last is still there. */
    ps_row_removals_add(removals, 8, MANY);
    struct ps_row_mark *four = ps_row_mark_create(removals);
    expect(three, four, 8, 1);
    ps_row_mark_destroy(three);
    ps_row_mark_destroy(four);
}
END_TEST

START_TEST(marks_of_two_tables_have_nothing_between_them)
{
    uint64_t *keys = NULL;
    size_t count = 0;
    struct ps_row_removals *other = ps_row_removals_create(ps_allocator_heap());
    struct ps_row_mark *here = ps_row_mark_create(removals);
    struct ps_row_mark *there = ps_row_mark_create(other);

    ck_assert_int_eq(ps_row_marks_between(here, there, &keys, &count), PS_ERR_NOT_FOUND);

    ps_row_mark_destroy(here);
    ps_row_mark_destroy(there);
    ps_row_removals_release(other);
}
END_TEST

START_TEST(a_mark_outlives_its_table)
{
    struct ps_row_removals *other = ps_row_removals_create(ps_allocator_heap());
    struct ps_row_mark *one = ps_row_mark_create(other);
    for (uint64_t i = 0; i < MANY; i++)
        ps_row_removals_add(other, i, LARGE);
    struct ps_row_mark *two = ps_row_mark_create(other);

    ps_row_removals_release(other);

    expect(one, two, 0, MANY);
    ps_row_mark_destroy(one);
    ps_row_mark_destroy(two);
}
END_TEST

/* Refuses the first allocation, the second, and so on: a removal never fails, the list does. */
START_TEST(refused_memory_gives_the_list_up_and_fails_nothing)
{
    bool refused = true;
    for (int64_t refuse = 0; refused; refuse++) {
        struct fault_heap heap = {.refuse_at = refuse};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        uint64_t *keys = NULL;
        size_t count = 0;
        struct ps_row_removals *list = ps_row_removals_create(&memory);
        struct ps_row_mark *one = list != NULL ? ps_row_mark_create(list) : NULL;
        for (uint64_t i = 0; list != NULL && i < MANY; i++)
            ps_row_removals_add(list, i, LARGE);
        struct ps_row_mark *two = one != NULL ? ps_row_mark_create(list) : NULL;
        enum ps_status status =
            two != NULL ? ps_row_marks_between(one, two, &keys, &count) : PS_ERR_NO_MEMORY;
        refused = heap.seen > refuse;
        ck_assert(refused || status == PS_OK);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY || status == PS_ERR_NOT_FOUND);
        ck_assert(status != PS_OK || count == MANY);
        ps_release(&memory, keys);
        ps_row_mark_destroy(one);
        ps_row_mark_destroy(two);
        ps_row_removals_release(list);
        ck_assert_int_eq(heap.live, 0);
        ck_assert_int_lt(refuse, 20);
    }
}
END_TEST

/* ---- Followers ---- */

static uint64_t told[PS_ROW_FOLLOWED_MAX];

START_TEST(nobody_is_told_of_what_went_before_somebody_followed)
{
    size_t count;
    uint64_t left;
    struct ps_row_mark *mark = ps_row_mark_create(removals);
    remove_keys(0, 10);
    ps_row_removals_follow(removals);
    uint64_t number = ps_row_removals_number(removals);
    ps_row_removals_follow(removals);
    ck_assert(ps_row_removals_since(removals, &number, 10, told, &count));
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(number, ps_row_removals_number(removals));
    /* Those keys are here, for the mark; but of other rows nobody knows. */
    ck_assert(!ps_row_removals_count(removals, number - 1, &left));
    ps_row_mark_destroy(mark);
}
END_TEST

START_TEST(keys_are_told_in_order_and_once)
{
    size_t count;
    uint64_t left, number = 1;
    ps_row_removals_follow(removals);
    remove_keys(100, MANY);
    ck_assert(ps_row_removals_count(removals, number, &left));
    ck_assert_uint_eq(left, MANY);
    ck_assert(ps_row_removals_since(removals, &number, 4, told, &count));
    ck_assert_uint_eq(count, 4);
    ck_assert(ps_row_removals_since(removals, &number, 2 * MANY, told + 4, &count));
    ck_assert_uint_eq(count, MANY - 4);
    for (uint64_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(told[i], 100 + i);
    ck_assert_uint_eq(number, ps_row_removals_number(removals));
    ck_assert(ps_row_removals_since(removals, &number, 100, told, &count));
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(who_is_too_far_behind_is_told_so)
{
    size_t count;
    uint64_t left, number = 1;
    ps_row_removals_follow(removals);
    remove_keys(0, PS_ROW_FOLLOWED_MAX);
    ck_assert(ps_row_removals_count(removals, 1, &left));
    ck_assert_uint_eq(left, PS_ROW_FOLLOWED_MAX);
    remove_keys(1000000, 1);
    ck_assert(!ps_row_removals_count(removals, 1, &left));
    ck_assert(!ps_row_removals_since(removals, &number, PS_ROW_FOLLOWED_MAX, told, &count));
    ck_assert_uint_eq(number, 1);
    number = 2;
    ck_assert(ps_row_removals_since(removals, &number, PS_ROW_FOLLOWED_MAX, told, &count));
    ck_assert_uint_eq(count, PS_ROW_FOLLOWED_MAX);
    ck_assert_uint_eq(told[0], 1);
    ck_assert_uint_eq(told[PS_ROW_FOLLOWED_MAX - 1], 1000000);
    /* A list of any length takes no more than that. */
    uint64_t bytes = ps_row_removals_bytes(removals);
    remove_keys(0, 3 * PS_ROW_FOLLOWED_MAX);
    ck_assert_uint_le(ps_row_removals_bytes(removals), bytes + 2 * 8 * 4096);
}
END_TEST

START_TEST(numbers_of_nobody_are_refused)
{
    uint64_t left;
    ps_row_removals_follow(removals);
    remove_keys(7, 1);
    ck_assert(!ps_row_removals_count(removals, 0, &left));
    ck_assert(!ps_row_removals_count(removals, 3, &left));
    ck_assert(!ps_row_removals_count(removals, UINT64_MAX, &left));
    ck_assert(ps_row_removals_count(removals, 2, &left));
}
END_TEST

/* What becomes too much for a mark takes nothing from a follower, and the other way round. */
START_TEST(marks_and_followers_do_not_depend_on_each_other)
{
    size_t count = 0;
    uint64_t *keys = NULL;
    uint64_t number = 1;
    ps_row_removals_follow(removals);
    struct ps_row_mark *small = ps_row_mark_create(removals);
    for (uint64_t i = 0; i < MANY; i++)
        ps_row_removals_add(removals, i, MANY);
    struct ps_row_mark *large = ps_row_mark_create(removals);
    ck_assert_int_eq(ps_row_marks_between(small, large, &keys, &count), PS_ERR_NOT_FOUND);
    ck_assert(ps_row_removals_since(removals, &number, MANY, told, &count));
    ck_assert_uint_eq(count, MANY);
    for (uint64_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(told[i], i);
    remove_keys(0, 2 * PS_ROW_FOLLOWED_MAX);
    struct ps_row_mark *last = ps_row_mark_create(removals);
    ck_assert(!ps_row_removals_since(removals, &number, MANY, told, &count));
    expect(large, last, 0, 2 * PS_ROW_FOLLOWED_MAX);
    ps_row_mark_destroy(small);
    ps_row_mark_destroy(large);
    ps_row_mark_destroy(last);
}
END_TEST

/* A key that could not be noted is one that nobody must believe to have been told of. */
START_TEST(who_was_not_told_of_a_key_begins_again)
{
    for (int64_t refuse = 1; refuse < 5; refuse++) {
        struct fault_heap heap = {.refuse_at = refuse};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_row_removals *list = ps_row_removals_create(&memory);
        uint64_t left, number;
        ps_row_removals_follow(list);
        number = ps_row_removals_number(list);
        for (uint64_t i = 0; i < MANY; i++)
            ps_row_removals_add(list, i, LARGE);
        bool is_refused = heap.seen > refuse;
        ck_assert(ps_row_removals_count(list, number, &left) == !is_refused);
        heap.refuse_at = -1;
        number = ps_row_removals_number(list);
        ps_row_removals_add(list, 7, LARGE);
        ck_assert(ps_row_removals_count(list, number, &left) && left == 1);
        ps_row_removals_release(list);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_removals");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, keys_between_two_marks_are_known);
    tcase_add_test(tests, a_key_that_went_twice_is_there_once);
    tcase_add_test(tests, without_a_mark_nothing_is_kept);
    tcase_add_test(tests, what_only_an_older_mark_needs_goes_with_it);
    tcase_add_test(tests, a_list_of_more_than_a_quarter_of_the_rows_is_given_up);
    tcase_add_test(tests, marks_of_two_tables_have_nothing_between_them);
    tcase_add_test(tests, a_mark_outlives_its_table);
    tcase_add_test(tests, refused_memory_gives_the_list_up_and_fails_nothing);
    tcase_add_test(tests, nobody_is_told_of_what_went_before_somebody_followed);
    tcase_add_test(tests, keys_are_told_in_order_and_once);
    tcase_add_test(tests, who_is_too_far_behind_is_told_so);
    tcase_add_test(tests, numbers_of_nobody_are_refused);
    tcase_add_test(tests, marks_and_followers_do_not_depend_on_each_other);
    tcase_add_test(tests, who_was_not_told_of_a_key_begins_again);
    Suite *suite = suite_create("row_removals");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
