/* SPDX-License-Identifier: Apache-2.0 */
/* server/thread_crew.c: work is done once, by whoever is there. */
#include "run_suite.h"
#include "server/thread_crew.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TASKS 1000

struct work {
    _Atomic int next;
    _Atomic int calls;
    int done[TASKS];
};

static void take_all(void *argument)
{
    struct work *work = argument;
    atomic_fetch_add(&work->calls, 1);
    for (int i = atomic_fetch_add(&work->next, 1); i < TASKS; i = atomic_fetch_add(&work->next, 1))
        work->done[i]++;
}

START_TEST(every_call_has_ended_when_run_returns)
{
    static struct work work;
    uint32_t thread_count = (uint32_t)_i;
    struct ps_crew crew = ps_thread_crew(&thread_count);
    atomic_store(&work.next, 0);
    atomic_store(&work.calls, 0);

    crew.run(crew.self, take_all, &work);

    ck_assert_int_ge(atomic_load(&work.calls), 1);
    ck_assert_int_le(atomic_load(&work.calls), _i);
    for (int i = 0; i < TASKS; i++)
        ck_assert_int_eq(work.done[i], 1);
}
END_TEST

START_TEST(a_machine_runs_at_least_one_thread)
{
    ck_assert_uint_ge(ps_crew_thread_count(), 1);
    ck_assert_uint_le(ps_crew_thread_count(), PS_CREW_THREADS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread_crew");
    TCase *tests = tcase_create("thread_crew");
    tcase_add_loop_test(tests, every_call_has_ended_when_run_returns, 1, PS_CREW_THREADS_MAX + 1);
    tcase_add_test(tests, a_machine_runs_at_least_one_thread);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
