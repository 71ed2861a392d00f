/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of FlexPS's models under their names, and a table of one number that lives by them. */
#include "server/core/clocks/consistency.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct ps_progress progress;
static struct ps_error error;
static uint64_t awaited;

static const struct ps_consistency asp = {.model = PS_CONSISTENCY_ASP};
static const struct ps_consistency bsp = {.model = PS_CONSISTENCY_BSP};

static struct ps_consistency ssp(uint64_t staleness)
{
    return (struct ps_consistency){PS_CONSISTENCY_SSP, staleness};
}

static void begin(void)
{
    ps_progress_init(&progress, ps_allocator_heap());
    ck_assert_int_eq(ps_progress_join(&progress, 2, 0, &error), PS_OK);
    ck_assert_int_eq(ps_progress_join(&progress, 3, 0, &error), PS_OK);
    awaited = 0;
}

static void end(void)
{
    ps_progress_check(&progress);
    ps_progress_fini(&progress);
}

static enum ps_status read_of(const struct ps_consistency *model, uint32_t rank)
{
    return ps_consistency_read(model, &progress, rank, ps_progress_clock(&progress, rank), &awaited,
                               &error);
}

static void clock_of(uint32_t rank)
{
    uint64_t clock = ps_progress_clock(&progress, rank) + 1;
    ck_assert_int_eq(ps_progress_advance(&progress, rank, clock, &error), PS_OK);
}

/* CheckConstructor of the three: workers 2 and 3 begin at 0, and may read at once. */
static void check_constructor(const struct ps_consistency *model)
{
    ck_assert_uint_eq(progress.count, 2);
    ck_assert_uint_eq(ps_progress_minimum(&progress), 0);
    ck_assert_int_eq(read_of(model, 2), PS_OK);
    ck_assert_int_eq(read_of(model, 3), PS_OK);
}

/* ---- ASP ---- */

START_TEST(asp_check_constructor)
{
    check_constructor(&asp);
}
END_TEST

START_TEST(asp_check_get_and_add)
{
    for (int i = 0; i < 10; i++)
        clock_of(2);

    ck_assert_int_eq(read_of(&asp, 2), PS_OK);
    ck_assert_int_eq(read_of(&asp, 3), PS_OK);
    ck_assert_int_eq(ps_consistency_read(&asp, &progress, 9, 0, &awaited, &error),
                     PS_ERR_NOT_FOUND);
}
END_TEST

/* ---- BSP ---- */

START_TEST(bsp_check_constructor)
{
    check_constructor(&bsp);
}
END_TEST

START_TEST(bsp_check_get_and_add)
{
    ck_assert_int_eq(read_of(&bsp, 2), PS_OK);
    clock_of(2);

    ck_assert_int_eq(read_of(&bsp, 3), PS_OK); /* of the beginning of the iteration */
    ck_assert_int_eq(read_of(&bsp, 2), PS_ERR_NOT_READY);
    ck_assert_uint_eq(awaited, 1);
    ck_assert_str_eq(error.text, "worker 2 at clock 1 waits for clock 1; worker 3 is at 0");

    clock_of(3);
    ck_assert_int_eq(read_of(&bsp, 2), PS_OK);
    ck_assert_int_eq(read_of(&bsp, 3), PS_OK);
}
END_TEST

/* Where FlexPS ends the process. */
START_TEST(bsp_a_read_of_an_iteration_that_is_over_is_refused)
{
    clock_of(2);

    ck_assert_int_eq(ps_consistency_read(&bsp, &progress, 2, 0, &awaited, &error), PS_ERR_MISMATCH);
}
END_TEST

/* ---- SSP ---- */

START_TEST(ssp_check_constructor)
{
    struct ps_consistency model = ssp(1);
    check_constructor(&model);
}
END_TEST

START_TEST(ssp_check_get_and_add)
{
    struct ps_consistency model = ssp(1);

    ck_assert_int_eq(read_of(&model, 2), PS_OK);
    ck_assert_int_eq(read_of(&model, 3), PS_OK);
}
END_TEST

START_TEST(ssp_check_clock)
{
    clock_of(2);
    clock_of(3);
    clock_of(2);

    ck_assert_uint_eq(ps_progress_clock(&progress, 2), 2);
    ck_assert_uint_eq(ps_progress_clock(&progress, 3), 1);
}
END_TEST

START_TEST(ssp_check_staleness)
{
    struct ps_consistency model = ssp(2);
    for (int i = 0; i < 3; i++)
        clock_of(2);

    ck_assert_int_eq(read_of(&model, 2), PS_ERR_NOT_READY);
    ck_assert_uint_eq(awaited, 1);

    clock_of(3);
    ck_assert_int_eq(read_of(&model, 2), PS_OK);
    ck_assert_int_eq(read_of(&model, 2), PS_OK);
}
END_TEST

START_TEST(ssp_of_staleness_0_waits_before_every_read)
{
    struct ps_consistency model = ssp(0);
    clock_of(2);

    ck_assert_int_eq(read_of(&model, 2), PS_ERR_NOT_READY);
    ck_assert_uint_eq(awaited, 1);
}
END_TEST

START_TEST(ssp_the_largest_staleness_never_waits)
{
    struct ps_consistency model = ssp(UINT64_MAX);
    for (int i = 0; i < 1000; i++)
        clock_of(2);

    ck_assert_int_eq(read_of(&model, 2), PS_OK);
    ck_assert_uint_eq(ps_consistency_staleness(&progress, 1000), 1000);
}
END_TEST

/* ---- All of them ---- */

START_TEST(a_read_ahead_of_its_own_worker_would_wait_for_itself)
{
    struct ps_consistency model = ssp(3);

    ck_assert_int_eq(ps_consistency_read(&model, &progress, 2, 1, &awaited, &error),
                     PS_ERR_MISMATCH);
    ck_assert_str_eq(error.text, "worker 2 reads at clock 1, and has ended 0 iterations");
}
END_TEST

START_TEST(who_leaves_is_not_waited_for)
{
    struct ps_consistency model = ssp(0);
    clock_of(2);
    ck_assert_int_eq(read_of(&model, 2), PS_ERR_NOT_READY);

    ck_assert_int_eq(ps_progress_leave(&progress, 3, &error), PS_OK);

    ck_assert_int_eq(read_of(&model, 2), PS_OK);
    ck_assert_uint_eq(ps_consistency_staleness(&progress, 1), 0);
}
END_TEST

/* FlexPS, paper version, BSP Consistency: in any order of the workers, the pull of iteration i is
 * workers * i. The number stands for the parameter; updates are kept until the minimum moves, as
 * rounds keep them. */
START_TEST(bsp_the_pull_of_iteration_i_is_workers_times_i)
{
    static const uint32_t sizes[] = {2, 8, 32};
    enum { ITERATIONS = 100 };
    uint32_t workers = sizes[_i];
    uint64_t value = 0;
    uint64_t held = 0;
    struct ps_random random;
    ps_random_init(&random, 17);
    ps_progress_fini(&progress);
    for (uint32_t rank = 0; rank < workers; rank++)
        ck_assert_int_eq(ps_progress_join(&progress, rank, 0, &error), PS_OK);

    while (ps_progress_minimum(&progress) < ITERATIONS) {
        uint32_t rank = (uint32_t)ps_random_below(&random, workers);
        uint64_t clock = ps_progress_clock(&progress, rank);
        uint64_t minimum = ps_progress_minimum(&progress);
        if (clock == ITERATIONS || read_of(&bsp, rank) == PS_ERR_NOT_READY)
            continue;
        ck_assert_uint_eq(value, workers * clock);
        held++;
        clock_of(rank);
        if (ps_progress_minimum(&progress) > minimum) {
            value += held;
            held = 0;
        }
    }
    ck_assert_uint_eq(value, (uint64_t)workers * ITERATIONS);
}
END_TEST

/* Whatever the order, no read is answered that misses more than it may, and the slowest worker is
 * never the one that waits: so somebody can always go on. */
START_TEST(ssp_no_read_is_staler_than_it_may_be_and_the_slowest_never_waits)
{
    enum { WORKERS = 16, STEPS = 20000 };
    struct ps_consistency model = ssp((uint64_t)_i);
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i + 1);
    for (uint32_t rank = 4; rank < WORKERS; rank++)
        ck_assert_int_eq(ps_progress_join(&progress, rank, 0, &error), PS_OK);

    for (int step = 0; step < STEPS; step++) {
        uint32_t rank = (uint32_t)ps_random_below(&random, WORKERS);
        if (!ps_progress_has(&progress, rank))
            continue;
        uint64_t clock = ps_progress_clock(&progress, rank);
        uint64_t minimum = ps_progress_minimum(&progress);
        enum ps_status status = read_of(&model, rank);
        ck_assert_int_eq(status == PS_OK, clock - minimum <= model.staleness);
        ck_assert(status == PS_OK || awaited > minimum);
        if (status == PS_OK)
            clock_of(rank);
        else
            ck_assert(clock > minimum);
    }
    ck_assert_uint_gt(ps_progress_minimum(&progress), 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("consistency");
    TCase *tests = tcase_create("consistency");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, asp_check_constructor);
    tcase_add_test(tests, asp_check_get_and_add);
    tcase_add_test(tests, bsp_check_constructor);
    tcase_add_test(tests, bsp_check_get_and_add);
    tcase_add_test(tests, bsp_a_read_of_an_iteration_that_is_over_is_refused);
    tcase_add_test(tests, ssp_check_constructor);
    tcase_add_test(tests, ssp_check_get_and_add);
    tcase_add_test(tests, ssp_check_clock);
    tcase_add_test(tests, ssp_check_staleness);
    tcase_add_test(tests, ssp_of_staleness_0_waits_before_every_read);
    tcase_add_test(tests, ssp_the_largest_staleness_never_waits);
    tcase_add_test(tests, a_read_ahead_of_its_own_worker_would_wait_for_itself);
    tcase_add_test(tests, who_leaves_is_not_waited_for);
    tcase_add_loop_test(tests, bsp_the_pull_of_iteration_i_is_workers_times_i, 0, 3);
    tcase_add_loop_test(tests, ssp_no_read_is_staler_than_it_may_be_and_the_slowest_never_waits, 0,
                        4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
