/* SPDX-License-Identifier: Apache-2.0 */
/* Workers advance, come and go; the minimum is that of a look at all of them. */
#include "server/core/clocks/worker_progress.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>

static struct ps_progress progress;
static struct ps_error error;

static void begin(void)
{
    ps_progress_init(&progress, ps_allocator_heap());
}

static void end(void)
{
    ps_progress_check(&progress);
    ps_progress_fini(&progress);
}

static void join(uint32_t rank, uint64_t clock)
{
    ck_assert_int_eq(ps_progress_join(&progress, rank, clock, &error), PS_OK);
    ps_progress_check(&progress);
}

/* One more iteration; returns the minimum. */
static uint64_t advance(uint32_t rank)
{
    uint64_t clock = ps_progress_clock(&progress, rank);
    ck_assert_int_eq(ps_progress_advance(&progress, rank, clock + 1, &error), PS_OK);
    ps_progress_check(&progress);
    return ps_progress_minimum(&progress);
}

/* The first three have the names of FlexPS's tests. Workers start at 0, and so does the minimum. */
START_TEST(progress_tracker_basic)
{
    join(2, 0);
    join(7, 0);

    ck_assert_uint_eq(progress.count, 2);
    ck_assert_uint_eq(ps_progress_clock(&progress, 2), 0);
    ck_assert_uint_eq(ps_progress_clock(&progress, 7), 0);
    ck_assert_uint_eq(ps_progress_minimum(&progress), 0);
}
END_TEST

/* Workers 2 and 7: the minimum moves with the last worker that stands at it. */
START_TEST(progress_tracker_advance)
{
    join(2, 0);
    join(7, 0);
    ck_assert_uint_eq(ps_progress_minimum(&progress), 0);

    ck_assert_uint_eq(advance(2), 0);
    ck_assert_uint_eq(advance(7), 1);
    ck_assert_uint_eq(advance(7), 1);
    ck_assert_uint_eq(advance(7), 1);
    ck_assert_uint_eq(advance(2), 2);
    ck_assert_uint_eq(ps_progress_clock(&progress, 2), 2);
    ck_assert_uint_eq(ps_progress_clock(&progress, 7), 3);
}
END_TEST

/* A worker that never came is told so. */
START_TEST(progress_tracker_check_thread_valid)
{
    join(2, 0);

    ck_assert(ps_progress_has(&progress, 2));
    ck_assert(!ps_progress_has(&progress, 3));
    ck_assert(!ps_progress_has(&progress, PS_CLOCK_WORKERS_MAX + 1));
    ck_assert_int_eq(ps_progress_advance(&progress, 3, 1, &error), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_progress_leave(&progress, 3, &error), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(error.text, "worker 3 is not there");
}
END_TEST

START_TEST(a_clock_that_was_reached_changes_nothing)
{
    join(0, 0);
    ck_assert_int_eq(ps_progress_advance(&progress, 0, 5, &error), PS_OK);

    ck_assert_int_eq(ps_progress_advance(&progress, 0, 5, &error), PS_OK);
    ck_assert_int_eq(ps_progress_advance(&progress, 0, 2, &error), PS_OK);

    ck_assert_uint_eq(ps_progress_clock(&progress, 0), 5);
}
END_TEST

START_TEST(without_workers_nobody_is_waited_for)
{
    ck_assert_uint_eq(ps_progress_minimum(&progress), UINT64_MAX);
    ck_assert_uint_eq(ps_progress_slowest(&progress, 0), PS_CLOCK_WORKERS_MAX);
    join(4, 9);
    ck_assert_int_eq(ps_progress_leave(&progress, 4, &error), PS_OK);
    ck_assert_uint_eq(ps_progress_minimum(&progress), UINT64_MAX);
}
END_TEST

START_TEST(the_minimum_rises_when_the_slowest_leaves)
{
    join(0, 7);
    join(1, 3);
    join(2, 5);

    ck_assert_int_eq(ps_progress_leave(&progress, 1, &error), PS_OK);
    ps_progress_check(&progress);

    ck_assert_uint_eq(ps_progress_minimum(&progress), 5);
}
END_TEST

START_TEST(everybody_who_stands_at_the_minimum_is_named)
{
    join(0, 3);
    join(1, 2);
    join(5, 2);

    ck_assert_uint_eq(ps_progress_slowest(&progress, 0), 1);
    ck_assert_uint_eq(ps_progress_slowest(&progress, 2), 5);
    ck_assert_uint_eq(ps_progress_slowest(&progress, 6), PS_CLOCK_WORKERS_MAX);
}
END_TEST

START_TEST(ranks_are_bounded_and_are_there_once)
{
    join(PS_CLOCK_WORKERS_MAX - 1, 0);
    ck_assert_int_eq(ps_progress_join(&progress, PS_CLOCK_WORKERS_MAX, 0, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_progress_join(&progress, PS_CLOCK_WORKERS_MAX - 1, 0, &error),
                     PS_ERR_EXISTS);
    ck_assert_uint_eq(progress.count, 1);
}
END_TEST

/* 256 workers, 20,000 events, against an array that is searched. */
START_TEST(the_minimum_is_that_of_a_look_at_all)
{
    enum { WORKERS = 256, EVENTS = 20000 };
    uint64_t clocks[WORKERS] = {0};
    bool there[WORKERS] = {false};
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i + 1);

    for (int event = 0; event < EVENTS; event++) {
        uint32_t rank = (uint32_t)ps_random_below(&random, WORKERS);
        uint64_t what = ps_random_below(&random, 8);
        if (!there[rank]) {
            clocks[rank] = ps_random_below(&random, 50);
            ck_assert_int_eq(ps_progress_join(&progress, rank, clocks[rank], &error), PS_OK);
            there[rank] = true;
        } else if (what == 0) {
            ck_assert_int_eq(ps_progress_leave(&progress, rank, &error), PS_OK);
            there[rank] = false;
        } else {
            clocks[rank] += what;
            ck_assert_int_eq(ps_progress_advance(&progress, rank, clocks[rank], &error), PS_OK);
        }
        uint64_t minimum = UINT64_MAX;
        for (int i = 0; i < WORKERS; i++)
            if (there[i] && clocks[i] < minimum)
                minimum = clocks[i];
        ck_assert_uint_eq(ps_progress_minimum(&progress), minimum);
    }
}
END_TEST

START_TEST(joining_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_progress one;
    ps_progress_init(&one, &memory);

    enum ps_status status = ps_progress_join(&one, 1, 0, &error);
    if (status == PS_OK)
        status = ps_progress_join(&one, 100, 0, &error);

    ck_assert_int_eq(status, _i < 4 ? PS_ERR_NO_MEMORY : PS_OK);
    ps_progress_check(&one);
    ps_progress_fini(&one);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_progress");
    TCase *tests = tcase_create("worker_progress");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, progress_tracker_basic);
    tcase_add_test(tests, progress_tracker_advance);
    tcase_add_test(tests, progress_tracker_check_thread_valid);
    tcase_add_test(tests, a_clock_that_was_reached_changes_nothing);
    tcase_add_test(tests, without_workers_nobody_is_waited_for);
    tcase_add_test(tests, the_minimum_rises_when_the_slowest_leaves);
    tcase_add_test(tests, everybody_who_stands_at_the_minimum_is_named);
    tcase_add_test(tests, ranks_are_bounded_and_are_there_once);
    tcase_add_loop_test(tests, the_minimum_is_that_of_a_look_at_all, 0, 4);
    tcase_add_loop_test(tests, joining_survives_any_refused_allocation, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
