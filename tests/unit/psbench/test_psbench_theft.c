/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psbench/psbench_theft.c: time that nobody in the machine had. */
#include "tools/psbench/psbench_theft.h"

#include "base/clock.h"
#include "base/thread.h"
#include "run_suite.h"

#include <check.h>

static const struct {
    struct ps_bench_account end; /* from nothing */
    uint64_t stolen_ns;
} accounts[] = {
    {{.wall_ns = 100, .ran_ns = 100}, 0},
    {{.wall_ns = 100, .ran_ns = 60, .waited_ns = 40}, 0},
    {{.wall_ns = 100, .ran_ns = 60, .waited_ns = 10}, 30},
    /* Clocks that are read one after the other may have more in them than the wall. */
    {{.wall_ns = 100, .ran_ns = 101}, 0},
    /* A sleep may be all of the rest. */
    {{.wall_ns = 100, .ran_ns = 60, .sleeps = 1}, 0},
};

START_TEST(what_neither_ran_nor_waited_nor_slept_was_stolen)
{
    const struct ps_bench_account nothing = {0};
    ck_assert_uint_eq(ps_bench_stolen_ns(&nothing, &accounts[_i].end), accounts[_i].stolen_ns);
}
END_TEST

/* Nobody signals: the thread sleeps until the time is over. */
static void sleep_for_a_moment(void)
{
    struct ps_mutex mutex;
    struct ps_condition never;
    ps_mutex_init(&mutex, PS_RANK_LEAF);
    ps_condition_init(&never);
    ps_mutex_lock(&mutex);
    (void)ps_condition_wait(&never, &mutex, 3);
    ps_mutex_unlock(&mutex);
    ps_condition_fini(&never);
    ps_mutex_fini(&mutex);
}

START_TEST(a_thread_that_runs_or_sleeps_has_no_more_stolen_than_time_went_by)
{
    struct ps_bench_theft theft;
    ps_bench_theft_open(&theft);
    uint64_t start_ns = ps_clock_precise_ns();
    ps_bench_theft_begin(&theft);
    uint64_t until_ns = ps_clock_thread_ns() + 2000000;
    while (ps_clock_thread_ns() < until_ns) {
    }
    uint64_t stolen_ns = ps_bench_theft_end(&theft);
    uint64_t wall_ns = ps_clock_precise_ns() - start_ns;
    ck_assert_uint_le(stolen_ns, wall_ns - 2000000);

    ps_bench_theft_begin(&theft);
    sleep_for_a_moment();
    ck_assert_uint_eq(ps_bench_theft_end(&theft), 0);
    ps_bench_theft_close(&theft);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("theft");
    tcase_add_loop_test(tests, what_neither_ran_nor_waited_nor_slept_was_stolen, 0,
                        (int)(sizeof accounts / sizeof accounts[0]));
    tcase_add_test(tests, a_thread_that_runs_or_sleeps_has_no_more_stolen_than_time_went_by);
    Suite *suite = suite_create("psbench_theft");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
