/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psbench/psbench_stills.c: which turns are standstills, and whom they meet. */
#include "tools/psbench/psbench_stills.h"

#include "run_suite.h"

#include <check.h>

/* Too large for a stack, as in the shared memory that it is made for. */
static struct ps_bench_stills stills;

START_TEST(only_a_turn_of_more_than_ten_usual_ones_is_a_standstill)
{
    ps_bench_stills_clear(&stills);
    ps_bench_stills_note(&stills, 40, 400, 1000, 1400);
    ck_assert_uint_eq(atomic_load(&stills.count), 0);
    ck_assert_uint_eq(atomic_load(&stills.longest_ns), 400);
    ps_bench_stills_note(&stills, 40, 401, 1400, 1900);
    ck_assert_uint_eq(atomic_load(&stills.count), 1);
    ps_bench_stills_note(&stills, 40, 40, 1900, 1950);
    ck_assert_uint_eq(atomic_load(&stills.longest_ns), 401);
    ps_bench_stills_clear(&stills);
    ck_assert_uint_eq(atomic_load(&stills.count), 0);
    ck_assert_uint_eq(atomic_load(&stills.longest_ns), 0);
}
END_TEST

START_TEST(a_time_meets_a_standstill_that_has_a_moment_in_common_with_it)
{
    static const struct {
        uint64_t from_ns, to_ns;
        bool meets;
    } times[] = {{0, 99, false},   {0, 100, true},    {120, 130, true}, {50, 500, true},
                 {200, 210, true}, {201, 299, false}, {300, 300, true}, {401, 500, false}};
    ps_bench_stills_clear(&stills);
    ps_bench_stills_note(&stills, 1, 50, 100, 200);
    ps_bench_stills_note(&stills, 1, 1, 200, 300);
    ps_bench_stills_note(&stills, 1, 50, 300, 400);
    ck_assert_int_eq(ps_bench_stills_meet(&stills, times[_i].from_ns, times[_i].to_ns),
                     times[_i].meets);
}
END_TEST

START_TEST(what_finds_no_room_meets_nobody)
{
    ps_bench_stills_clear(&stills);
    for (uint64_t i = 0; i < PS_BENCH_STILLS_MAX + 5; i++)
        ps_bench_stills_note(&stills, 1, 100, 10 * i, 10 * i + 1);
    ck_assert_uint_eq(atomic_load(&stills.count), PS_BENCH_STILLS_MAX);
    ck_assert(ps_bench_stills_meet(&stills, 10 * (PS_BENCH_STILLS_MAX - 1), UINT64_MAX));
    ck_assert(!ps_bench_stills_meet(&stills, 10 * PS_BENCH_STILLS_MAX, UINT64_MAX));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("stills");
    tcase_add_test(tests, only_a_turn_of_more_than_ten_usual_ones_is_a_standstill);
    tcase_add_loop_test(tests, a_time_meets_a_standstill_that_has_a_moment_in_common_with_it, 0, 8);
    tcase_add_test(tests, what_finds_no_room_meets_nobody);
    Suite *suite = suite_create("psbench_stills");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
