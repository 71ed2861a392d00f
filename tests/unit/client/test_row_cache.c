/* SPDX-License-Identifier: Apache-2.0 */
/* client/row_cache.c: what may be read again, and what must not. */
#include "client/row_cache.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_error error;
static struct ps_row_cache *cache;

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ck_assert_int_eq(ps_row_cache_create(&memory, 3, sizeof(uint64_t), 2, &cache, &error), PS_OK);
}

static void end(void)
{
    ps_row_cache_check(cache);
    ps_row_cache_destroy(cache);
    ck_assert_int_eq(heap.live, 0);
}

static void keep(uint64_t key, uint64_t clock, uint64_t value)
{
    ps_row_cache_keep(cache, ps_row_cache_begin(cache), key, clock, &value);
}

/* 0: not there. */
static uint64_t find(uint64_t key, uint64_t clock)
{
    uint64_t value = 0;
    return ps_row_cache_find(cache, key, clock, &value) ? value : 0;
}

START_TEST(a_row_serves_as_many_clocks_as_it_may_be_stale)
{
    keep(7, 10, 100);

    ck_assert_uint_eq(find(7, 9), 100);
    ck_assert_uint_eq(find(7, 10), 100);
    ck_assert_uint_eq(find(7, 12), 100);
    ck_assert_uint_eq(find(7, 13), 0);
    ck_assert_uint_eq(find(8, 10), 0);
    ck_assert_uint_eq(find(7, UINT64_MAX), 0);
}
END_TEST

START_TEST(a_newer_answer_takes_the_place_of_an_older_one)
{
    keep(7, 10, 100);
    keep(7, 13, 130);
    keep(7, 11, 110);

    ck_assert_uint_eq(find(7, 15), 130);
    ck_assert_uint_eq(ps_row_cache_counts(cache).rows, 1);
}
END_TEST

START_TEST(the_row_that_was_used_longest_ago_goes)
{
    keep(1, 0, 10);
    keep(2, 0, 20);
    keep(3, 0, 30);
    ck_assert_uint_eq(find(1, 0), 10);
    keep(4, 0, 40);

    ck_assert_uint_eq(find(2, 0), 0);
    ck_assert_uint_eq(find(1, 0), 10);
    ck_assert_uint_eq(find(3, 0), 30);
    ck_assert_uint_eq(find(4, 0), 40);
    ck_assert_uint_eq(ps_row_cache_counts(cache).rows, 3);
}
END_TEST

START_TEST(what_is_added_to_is_read_anew)
{
    const uint64_t keys[] = {1, 9, 1};
    keep(1, 0, 10);
    keep(2, 0, 20);

    ps_row_cache_add_begin(cache, keys, 3);
    ps_row_cache_add_end(cache);

    ck_assert_uint_eq(find(1, 0), 0);
    ck_assert_uint_eq(find(2, 0), 20);
}
END_TEST

/* Asked before, while or after: only the last has the addition for certain. */
START_TEST(what_was_asked_beside_an_addition_does_not_come_in)
{
    const uint64_t key = 1, value = 10;
    uint64_t before = ps_row_cache_begin(cache);
    ps_row_cache_add_begin(cache, &key, 1);
    uint64_t beside = ps_row_cache_begin(cache);
    ps_row_cache_keep(cache, before, 1, 0, &value);
    ps_row_cache_keep(cache, beside, 1, 0, &value);
    ps_row_cache_add_end(cache);
    ps_row_cache_keep(cache, before, 1, 0, &value);
    ps_row_cache_keep(cache, beside, 1, 0, &value);
    ck_assert_uint_eq(find(1, 0), 0);

    ps_row_cache_keep(cache, ps_row_cache_begin(cache), 1, 0, &value);
    ck_assert_uint_eq(find(1, 0), 10);
}
END_TEST

START_TEST(two_additions_end_one_after_the_other)
{
    const uint64_t key = 1, value = 10;
    ps_row_cache_add_begin(cache, &key, 1);
    ps_row_cache_add_begin(cache, &key, 1);
    ps_row_cache_add_end(cache);
    ps_row_cache_keep(cache, ps_row_cache_begin(cache), 1, 0, &value);
    ck_assert_uint_eq(find(1, 0), 0);
    ps_row_cache_add_end(cache);
    ps_row_cache_keep(cache, ps_row_cache_begin(cache), 1, 0, &value);
    ck_assert_uint_eq(find(1, 0), 10);
}
END_TEST

/* Against an array that knows for every key what was kept last, and when. */
START_TEST(random_use_never_shows_a_wrong_row)
{
    enum { KEYS = 12 };
    struct {
        uint64_t value, clock;
    } model[KEYS] = {{0, 0}};
    struct ps_random random;
    uint64_t clock = 5, shown = 0;
    ps_random_init(&random, 3);
    for (uint64_t step = 1; step < 20000; step++) {
        uint64_t key = ps_random_below(&random, KEYS);
        uint64_t what = ps_random_below(&random, 10);
        clock += ps_random_below(&random, 4) == 0 ? 1 : 0;
        if (what < 4) {
            keep(key, clock, step);
            model[key].value = step;
            model[key].clock = clock;
        } else if (what == 4) {
            ps_row_cache_add_begin(cache, &key, 1);
            ps_row_cache_add_end(cache);
            model[key].value = 0;
        } else {
            uint64_t value = find(key, clock);
            shown += value != 0 ? 1 : 0;
            ck_assert(value == 0 || (value == model[key].value && clock <= model[key].clock + 2));
        }
        ps_row_cache_check(cache);
    }
    ck_assert_uint_gt(shown, 100);
}
END_TEST

START_TEST(refused_memory_leaves_nothing_behind)
{
    struct ps_row_cache *other = NULL;
    enum ps_status status = PS_ERR_NO_MEMORY;
    int64_t live = heap.live;
    for (int64_t at = 0; status == PS_ERR_NO_MEMORY; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        status = ps_row_cache_create(&memory, 5, 16, 0, &other, &error);
        ck_assert_int_eq(heap.live > live, status == PS_OK);
    }
    ck_assert_int_eq(status, PS_OK);
    ps_row_cache_destroy(other);
    ck_assert_int_eq(ps_row_cache_create(&memory, PS_ROW_CACHE_ROWS_MAX + 1, 16, 0, &other, &error),
                     PS_ERR_BAD_INPUT);
}
END_TEST

/* A job in stages begins each with clocks that stand low again. */
START_TEST(nothing_is_kept_from_a_task_to_one_that_begins_lower)
{
    ps_row_cache_at(cache, "train", 1, 100);
    keep(7, 100, 700);
    ps_row_cache_at(cache, "train", 1, 101);
    ck_assert_uint_eq(find(7, 101), 700);

    ps_row_cache_at(cache, "train", 1, 0);
    ck_assert_uint_eq(find(7, 0), 0);

    keep(7, 0, 71);
    ck_assert_uint_eq(find(7, 0), 71);
}
END_TEST

START_TEST(nothing_is_kept_from_clocks_of_another_name)
{
    ps_row_cache_at(cache, "train", 1, 5);
    keep(7, 5, 700);

    ps_row_cache_at(cache, "trai", 1, 5);

    ck_assert_uint_eq(find(7, 5), 0);
}
END_TEST

/* Of two workers one is behind, and each goes on where it was. */
START_TEST(workers_that_share_a_cache_are_not_new_tasks)
{
    ps_row_cache_at(cache, "train", 1, 5);
    ps_row_cache_at(cache, "train", 2, 5);
    ps_row_cache_at(cache, "train", 1, 6);
    keep(7, 6, 700);

    ps_row_cache_at(cache, "train", 2, 5);
    ck_assert_uint_eq(find(7, 5), 700);
    ps_row_cache_at(cache, "train", 1, 6);
    ck_assert_uint_eq(find(7, 6), 700);

    /* Whom nobody knows may be of another task. */
    ps_row_cache_at(cache, "train", 3, 5);
    ck_assert_uint_eq(find(7, 5), 0);
}
END_TEST

START_TEST(more_workers_than_are_known_cost_rows_and_nothing_else)
{
    for (uint64_t clock = 0; clock < 4; clock++)
        for (uint32_t worker = 1; worker <= 40; worker++) {
            ps_row_cache_at(cache, "train", worker, clock);
            keep(7, clock, 1 + clock);
            ck_assert_uint_eq(find(7, clock), 1 + clock);
        }
}
END_TEST

START_TEST(what_was_asked_by_former_clocks_does_not_come_in)
{
    uint64_t value = 700;
    ps_row_cache_at(cache, "train", 1, 100);
    uint64_t ticket = ps_row_cache_begin(cache);

    ps_row_cache_at(cache, "train", 1, 0);
    ps_row_cache_keep(cache, ticket, 7, 100, &value);
    ck_assert_uint_eq(find(7, 0), 0);

    /* By whoever has its ticket since. */
    ps_row_cache_keep(cache, ps_row_cache_begin(cache), 7, 100, &value);
    ck_assert_uint_eq(find(7, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row cache");
    TCase *tests = tcase_create("cache");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_row_serves_as_many_clocks_as_it_may_be_stale);
    tcase_add_test(tests, a_newer_answer_takes_the_place_of_an_older_one);
    tcase_add_test(tests, the_row_that_was_used_longest_ago_goes);
    tcase_add_test(tests, what_is_added_to_is_read_anew);
    tcase_add_test(tests, what_was_asked_beside_an_addition_does_not_come_in);
    tcase_add_test(tests, two_additions_end_one_after_the_other);
    tcase_add_test(tests, nothing_is_kept_from_a_task_to_one_that_begins_lower);
    tcase_add_test(tests, nothing_is_kept_from_clocks_of_another_name);
    tcase_add_test(tests, workers_that_share_a_cache_are_not_new_tasks);
    tcase_add_test(tests, more_workers_than_are_known_cost_rows_and_nothing_else);
    tcase_add_test(tests, what_was_asked_by_former_clocks_does_not_come_in);
    tcase_add_test(tests, random_use_never_shows_a_wrong_row);
    tcase_add_test(tests, refused_memory_leaves_nothing_behind);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
