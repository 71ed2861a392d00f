/* SPDX-License-Identifier: Apache-2.0 */
/* server/rpc/helpers.c: jobs are done once, a bounded number at a time; work that is shared is done
 * once, whoever is there. */
#include "server/rpc/helpers.h"

#include "base/assert.h"
#include "run_suite.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TASKS 400

static struct ps_helpers helpers;

static void open_helpers(uint32_t jobs, uint32_t update_threads)
{
    ps_helpers_init(&helpers);
    ck_assert_int_eq(ps_helpers_start(&helpers, jobs, update_threads, NULL), PS_OK);
}

static void close_helpers(void)
{
    ps_helpers_stop(&helpers);
    ps_helpers_fini(&helpers);
}

/* ---- Work that is shared ---- */

struct tasks {
    _Atomic int next;
    _Atomic int now; /* threads at it */
    _Atomic int most;
    _Atomic int done[TASKS];
};

static void note_most(_Atomic int *most, int now)
{
    int before = atomic_load(most);
    while (before < now && !atomic_compare_exchange_weak(most, &before, now))
        continue;
}

static void take_all(void *argument)
{
    struct tasks *tasks = argument;
    note_most(&tasks->most, atomic_fetch_add(&tasks->now, 1) + 1);
    for (int i = atomic_fetch_add(&tasks->next, 1); i < TASKS;
         i = atomic_fetch_add(&tasks->next, 1))
        atomic_fetch_add(&tasks->done[i], 1);
    atomic_fetch_sub(&tasks->now, 1);
}

/* Returns with nobody at it, and each task done once. */
static void share(struct tasks *tasks)
{
    struct ps_crew crew = ps_helpers_crew(&helpers);
    for (int i = 0; i < TASKS; i++)
        atomic_store(&tasks->done[i], 0);
    atomic_store(&tasks->next, 0);
    crew.run(crew.self, take_all, tasks);
    PS_ASSERT(atomic_load(&tasks->now) == 0);
    for (int i = 0; i < TASKS; i++)
        PS_ASSERT(atomic_load(&tasks->done[i]) == 1);
}

START_TEST(shared_work_is_done_once_by_no_more_threads_than_asked_for)
{
    static struct tasks tasks;
    open_helpers(2, (uint32_t)_i);

    for (int round = 0; round < 200; round++)
        share(&tasks);

    ck_assert_int_ge(atomic_load(&tasks.most), 1);
    ck_assert_int_le(atomic_load(&tasks.most), _i);
    close_helpers();
}
END_TEST

static void share_often(void *argument)
{
    for (int round = 0; round < 100; round++)
        share(argument);
}

START_TEST(several_share_at_the_same_time)
{
    static struct tasks tasks[4];
    struct ps_thread threads[4] = {0};
    open_helpers(1, 3);

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "sharer", share_often, &tasks[i], NULL),
                         PS_OK);
    for (int i = 0; i < 4; i++)
        ps_thread_join(&threads[i]);

    close_helpers();
}
END_TEST

START_TEST(without_threads_whoever_has_the_work_does_it)
{
    static struct tasks tasks;
    ps_helpers_init(&helpers);

    share(&tasks);

    ck_assert_int_eq(atomic_load(&tasks.most), 1);
    close_helpers();
}
END_TEST

/* ---- Jobs ---- */

struct job {
    struct ps_helper_job job;
    _Atomic int *now;
    _Atomic int *most;
    _Atomic int done;
    struct tasks tasks;
};

static void do_job(void *owner)
{
    struct job *job = owner;
    note_most(job->most, atomic_fetch_add(job->now, 1) + 1);
    share(&job->tasks);
    atomic_fetch_sub(job->now, 1);
    atomic_fetch_add(&job->done, 1);
}

START_TEST(every_job_is_done_once_and_a_bounded_number_at_a_time)
{
    enum { JOBS = 60 };
    static struct job jobs[JOBS];
    static _Atomic int now, most;
    open_helpers((uint32_t)_i, 4);

    for (int i = 0; i < JOBS; i++) {
        jobs[i].job = (struct ps_helper_job){.work = do_job, .owner = &jobs[i]};
        jobs[i].now = &now;
        jobs[i].most = &most;
        ps_helpers_submit(&helpers, &jobs[i].job);
    }
    close_helpers();

    for (int i = 0; i < JOBS; i++)
        ck_assert_int_eq(atomic_load(&jobs[i].done), 1);
    ck_assert_int_le(atomic_load(&most), _i);
}
END_TEST

START_TEST(helpers_that_were_never_asked_end)
{
    open_helpers(PS_HELPER_JOBS_MAX, PS_UPDATE_THREADS_MAX);
    close_helpers();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("helpers");
    TCase *tests = tcase_create("helpers");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, shared_work_is_done_once_by_no_more_threads_than_asked_for, 1, 5);
    tcase_add_test(tests, several_share_at_the_same_time);
    tcase_add_test(tests, without_threads_whoever_has_the_work_does_it);
    tcase_add_loop_test(tests, every_job_is_done_once_and_a_bounded_number_at_a_time, 1, 3);
    tcase_add_test(tests, helpers_that_were_never_asked_end);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
