/* SPDX-License-Identifier: Apache-2.0 */
/* base/thread.c: locks in order, conditions with deadlines, threads with names. */
#include "base/thread.h"

#include "base/clock.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

struct shared {
    struct ps_mutex mutex;
    struct ps_condition changed;
    int count;
    bool go;
    char name[32];
};

static void begin(struct shared *shared)
{
    *shared = (struct shared){.count = 0};
    ps_mutex_init(&shared->mutex, PS_RANK_QUEUE);
    ps_condition_init(&shared->changed);
}

static void end(struct shared *shared)
{
    ps_condition_fini(&shared->changed);
    ps_mutex_fini(&shared->mutex);
}

static void count_many(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < 1000; i++) {
        ps_mutex_lock(&shared->mutex);
        shared->count++;
        ps_mutex_unlock(&shared->mutex);
    }
}

START_TEST(mutex_keeps_threads_apart)
{
    struct shared shared;
    struct ps_thread threads[4] = {0};
    begin(&shared);

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "counter", count_many, &shared, NULL), PS_OK);
    for (int i = 0; i < 4; i++)
        ps_thread_join(&threads[i]);

    ck_assert_int_eq(shared.count, 4000);
    end(&shared);
}
END_TEST

static void wait_and_tell_name(void *argument)
{
    struct shared *shared = argument;
    ps_mutex_lock(&shared->mutex);
    while (!shared->go)
        (void)ps_condition_wait(&shared->changed, &shared->mutex, PS_DEADLINE_NEVER);
    (void)pthread_getname_np(pthread_self(), shared->name, sizeof shared->name);
    shared->count = 1;
    ps_condition_signal_all(&shared->changed);
    ps_mutex_unlock(&shared->mutex);
}

START_TEST(signals_wake_both_sides_and_names_are_cut)
{
    struct shared shared;
    struct ps_thread thread = {0};
    begin(&shared);
    ck_assert_int_eq(
        ps_thread_start(&thread, "a name that is too long", wait_and_tell_name, &shared, NULL),
        PS_OK);

    ps_mutex_lock(&shared.mutex);
    shared.go = true;
    ps_condition_signal_all(&shared.changed);
    while (shared.count == 0)
        (void)ps_condition_wait(&shared.changed, &shared.mutex, 60000);
    ps_mutex_unlock(&shared.mutex);
    ps_thread_join(&thread);

    ck_assert_str_eq(shared.name, "a name that is ");
    end(&shared);
}
END_TEST

START_TEST(wait_without_a_signal_ends_at_its_deadline)
{
    struct shared shared;
    begin(&shared);
    ps_mutex_lock(&shared.mutex);

    /* A condition may wake by itself now and then, but not for ever. */
    while (ps_condition_wait(&shared.changed, &shared.mutex, 1))
        continue;
    while (ps_condition_wait(&shared.changed, &shared.mutex, 0))
        continue;

    ps_mutex_unlock(&shared.mutex);
    end(&shared);
}
END_TEST

START_TEST(join_of_a_thread_never_started_returns)
{
    struct ps_thread thread = {0};

    ps_thread_join(&thread);
}
END_TEST

START_TEST(locks_in_rising_rank_are_fine)
{
    struct ps_mutex table;
    struct ps_rwlock parameter;
    ps_mutex_init(&table, PS_RANK_TABLE);
    ps_rwlock_init(&parameter, PS_RANK_PARAMETER);

    ps_mutex_lock(&table);
    ps_rwlock_write(&parameter);
    ps_mutex_unlock(&table);
    ps_rwlock_unlock(&parameter);
    ps_rwlock_read(&parameter);
    ps_rwlock_unlock(&parameter);

    ps_rwlock_fini(&parameter);
    ps_mutex_fini(&table);
}
END_TEST

START_TEST(locks_in_falling_rank_are_a_bug)
{
    struct ps_mutex table;
    struct ps_mutex parameter;
    ps_mutex_init(&table, PS_RANK_TABLE);
    ps_mutex_init(&parameter, PS_RANK_PARAMETER);

    ps_mutex_lock(&parameter);
    ps_mutex_lock(&table);
}
END_TEST

START_TEST(two_locks_of_one_rank_are_a_bug)
{
    struct ps_mutex first;
    struct ps_rwlock second;
    ps_mutex_init(&first, PS_RANK_PARAMETER);
    ps_rwlock_init(&second, PS_RANK_PARAMETER);

    ps_mutex_lock(&first);
    ps_rwlock_read(&second);
}
END_TEST

START_TEST(unlocking_what_is_not_held_is_a_bug)
{
    struct ps_mutex mutex;
    ps_mutex_init(&mutex, PS_RANK_LEAF);

    ps_mutex_unlock(&mutex);
}
END_TEST

struct readers {
    struct ps_rwlock lock;
    pthread_barrier_t both_inside;
};

static void read_together(void *argument)
{
    struct readers *readers = argument;
    ps_rwlock_read(&readers->lock);
    (void)pthread_barrier_wait(&readers->both_inside);
    ps_rwlock_unlock(&readers->lock);
}

START_TEST(readers_hold_a_lock_together)
{
    struct readers readers;
    struct ps_thread threads[2] = {0};
    ps_rwlock_init(&readers.lock, PS_RANK_TABLE);
    ck_assert_int_eq(pthread_barrier_init(&readers.both_inside, NULL, 2), 0);

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "reader", read_together, &readers, NULL),
                         PS_OK);
    for (int i = 0; i < 2; i++)
        ps_thread_join(&threads[i]);

    (void)pthread_barrier_destroy(&readers.both_inside);
    ps_rwlock_fini(&readers.lock);
}
END_TEST

static void try(void *argument)
{
    struct shared *shared = argument;
    shared->go = ps_mutex_try_lock(&shared->mutex);
    if (shared->go)
        ps_mutex_unlock(&shared->mutex);
}

static bool tries_in_vain(struct shared *shared)
{
    struct ps_thread thread = {0};
    ck_assert_int_eq(ps_thread_start(&thread, "trier", try, shared, NULL), PS_OK);
    ps_thread_join(&thread);
    return !shared->go;
}

START_TEST(a_try_takes_what_is_free_and_waits_for_nothing)
{
    struct shared shared;
    struct ps_mutex lower;
    begin(&shared);
    ps_mutex_init(&lower, PS_RANK_TABLE);
    ck_assert(!tries_in_vain(&shared));

    ck_assert(ps_mutex_try_lock(&shared.mutex));
    ck_assert(tries_in_vain(&shared));
    ps_mutex_unlock(&shared.mutex);

    /* A try in vain has left no rank behind, here or there. */
    ck_assert(!tries_in_vain(&shared));
    ps_mutex_lock(&lower);
    ck_assert(ps_mutex_try_lock(&shared.mutex));
    ps_mutex_unlock(&shared.mutex);
    ps_mutex_unlock(&lower);
    ps_mutex_fini(&lower);
    end(&shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread");
    TCase *tests = tcase_create("thread");
    tcase_add_test(tests, mutex_keeps_threads_apart);
    tcase_add_test(tests, signals_wake_both_sides_and_names_are_cut);
    tcase_add_test(tests, wait_without_a_signal_ends_at_its_deadline);
    tcase_add_test(tests, join_of_a_thread_never_started_returns);
    tcase_add_test(tests, locks_in_rising_rank_are_fine);
    tcase_add_test_raise_signal(tests, locks_in_falling_rank_are_a_bug, SIGABRT);
    tcase_add_test_raise_signal(tests, two_locks_of_one_rank_are_a_bug, SIGABRT);
    tcase_add_test_raise_signal(tests, unlocking_what_is_not_held_is_a_bug, SIGABRT);
    tcase_add_test(tests, readers_hold_a_lock_together);
    tcase_add_test(tests, a_try_takes_what_is_free_and_waits_for_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
