/* SPDX-License-Identifier: Apache-2.0 */
/* base/let_by.c: who waits for the mutex has it before the next piece of work. */
#include "base/let_by.h"

#include "base/clock.h"
#include "run_suite.h"

#include <check.h>

#define PASSERS 4

struct world {
    struct ps_mutex mutex;
    struct ps_let_by let_by;
    int passed; /* guarded by the mutex */
    struct ps_thread threads[PASSERS];
};

static void begin(struct world *world)
{
    *world = (struct world){.passed = 0};
    ps_mutex_init(&world->mutex, PS_RANK_PARAMETER);
    ps_let_by_init(&world->let_by);
}

static void end(struct world *world)
{
    ps_let_by_fini(&world->let_by);
    ps_mutex_fini(&world->mutex);
}

static void pass(void *argument)
{
    struct world *world = argument;
    ps_let_by_lock(&world->let_by, &world->mutex);
    world->passed++;
    ps_mutex_unlock(&world->mutex);
}

/* Returns when all of them wait for the mutex, which the caller has. */
static void start(struct world *world)
{
    for (int i = 0; i < PASSERS; i++)
        ck_assert_int_eq(ps_thread_start(&world->threads[i], "passer", pass, world, NULL), PS_OK);
    while (atomic_load(&world->let_by.waiting) < PASSERS) {
    }
}

START_TEST(everyone_who_waits_goes_first)
{
    struct world world;
    begin(&world);
    ps_mutex_lock(&world.mutex);
    start(&world);
    ck_assert_int_eq(world.passed, 0);

    ps_let_by_wait(&world.let_by, &world.mutex, 60000);

    ck_assert_int_eq(world.passed, PASSERS);
    ps_mutex_unlock(&world.mutex);
    for (int i = 0; i < PASSERS; i++)
        ps_thread_join(&world.threads[i]);
    end(&world);
}
END_TEST

START_TEST(where_nobody_waits_nothing_is_waited_for)
{
    struct world world;
    begin(&world);
    pass(&world);
    ps_mutex_lock(&world.mutex);

    /* It would be for ever, but for the test's own limit. */
    ps_let_by_wait(&world.let_by, &world.mutex, PS_DEADLINE_NEVER - 1);

    ps_mutex_unlock(&world.mutex);
    ck_assert_int_eq(world.passed, 1);
    ck_assert_uint_eq(world.let_by.passed, 0);
    end(&world);
}
END_TEST

static void count_in_pieces(void *argument)
{
    struct world *world = argument;
    for (int i = 0; i < 1000; i++)
        pass(world);
}

/* All of them at once, with a worker that stands aside with every piece: nobody is lost. */
START_TEST(workers_and_passers_go_on_together)
{
    struct world world;
    begin(&world);
    for (int i = 0; i < PASSERS; i++)
        ck_assert_int_eq(
            ps_thread_start(&world.threads[i], "passer", count_in_pieces, &world, NULL), PS_OK);
    for (int piece = 0; piece < 1000; piece++) {
        ps_mutex_lock(&world.mutex);
        ps_let_by_wait(&world.let_by, &world.mutex, 60000);
        world.passed++;
        ps_mutex_unlock(&world.mutex);
    }
    for (int i = 0; i < PASSERS; i++)
        ps_thread_join(&world.threads[i]);
    ck_assert_int_eq(world.passed, 1000 * (PASSERS + 1));
    end(&world);
}
END_TEST

/* A passer that is stopped by something else must not stop the work. */
START_TEST(a_wait_in_vain_ends)
{
    struct world world;
    begin(&world);
    ps_mutex_lock(&world.mutex);
    atomic_store(&world.let_by.waiting, 1);

    ps_let_by_wait(&world.let_by, &world.mutex, 1);

    atomic_store(&world.let_by.waiting, 0);
    ps_mutex_unlock(&world.mutex);
    end(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("let_by");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, everyone_who_waits_goes_first);
    tcase_add_test(tests, where_nobody_waits_nothing_is_waited_for);
    tcase_add_test(tests, workers_and_passers_go_on_together);
    tcase_add_test(tests, a_wait_in_vain_ends);
    Suite *suite = suite_create("let_by");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
