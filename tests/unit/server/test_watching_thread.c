/* SPDX-License-Identifier: Apache-2.0 */
/* server/watching_thread.c: what ends a wait, and what the thread is told by it. */
#include "server/watching_thread.h"

#include "run_suite.h"
#include "tests/support/fake_clock.h"

#include <check.h>
#include <stdlib.h>

static struct fake_clock fake;
static struct ps_clock ticking;
static struct ps_kv_hub *hub;
static struct ps_kv *watcher;
static struct ps_kv *writer;
static struct ps_watching_thread thread;

static void set_up(void)
{
    fake = (struct fake_clock){.now_ms = 1000};
    ticking = fake_clock_clock(&fake);
    ck_assert_int_eq(ps_kv_hub_create(&ticking, ps_allocator_heap(), &hub), PS_OK);
    ck_assert_int_eq(ps_kv_memory_open(hub, &watcher), PS_OK);
    ck_assert_int_eq(ps_kv_memory_open(hub, &writer), PS_OK);
}

static void tear_down(void)
{
    ps_watching_thread_fini(&thread);
    ps_kv_destroy(writer);
    ps_kv_destroy(watcher);
    ps_kv_hub_destroy(hub);
}

/* A thread that counts its turns, and ends when it is told to. */
static struct {
    struct ps_mutex mutex;
    struct ps_condition one_more;
    int count;
} turns;

static void turn(void *argument)
{
    do {
        ps_mutex_lock(&turns.mutex);
        turns.count++;
        ps_condition_signal_all(&turns.one_more);
        ps_mutex_unlock(&turns.mutex);
    } while (ps_watching_thread_wait(argument));
}

static void await_turn(int count)
{
    ps_mutex_lock(&turns.mutex);
    while (turns.count < count)
        (void)ps_condition_wait(&turns.one_more, &turns.mutex, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&turns.mutex);
}

/* It waits for ever, and nothing but these wakes it. */
START_TEST(a_thread_without_a_watch_is_woken_by_questions_and_by_the_end)
{
    ps_mutex_init(&turns.mutex, PS_RANK_LEAF);
    ps_condition_init(&turns.one_more);
    ps_watching_thread_init(&thread, NULL, ps_clock_real(), PS_DEADLINE_NEVER);
    ck_assert_int_eq(ps_watching_thread_start(&thread, "test", turn, &thread, NULL), PS_OK);

    for (int asked = 1; asked < 5; asked++) {
        await_turn(asked);
        ps_watching_thread_ask(&thread);
    }
    await_turn(5);
    ps_watching_thread_stop(&thread);
    ps_watching_thread_stop(&thread);

    ck_assert_int_eq(turns.count, 5);
    ps_condition_fini(&turns.one_more);
    ps_mutex_fini(&turns.mutex);
}
END_TEST

/* In one thread: each of these waits would not return if it were not for what was said before. */
START_TEST(what_was_said_before_the_wait_ends_it)
{
    ps_watching_thread_init(&thread, NULL, &ticking, PS_DEADLINE_NEVER);

    ps_watching_thread_ask(&thread);
    ck_assert(ps_watching_thread_wait(&thread));
    ck_assert_uint_eq(thread.look_ms, PS_DEADLINE_NEVER);

    ps_watching_thread_look_again(&thread);
    ck_assert(ps_watching_thread_wait(&thread));
    ck_assert_uint_eq(thread.look_ms, 0);

    ps_watching_thread_stop(&thread);
    ck_assert(!ps_watching_thread_wait(&thread));
}
END_TEST

START_TEST(the_time_to_look_ends_it)
{
    ps_watching_thread_init(&thread, NULL, &ticking, 0);
    ck_assert(ps_watching_thread_wait(&thread));

    ps_watching_thread_looked(&thread, true, 700);
    ck_assert_uint_eq(thread.look_ms, 1700);
    fake.now_ms = 1700;
    ck_assert(ps_watching_thread_wait(&thread));

    ps_watching_thread_looked(&thread, false, 700);
    ck_assert_uint_eq(thread.look_ms, 1700 + PS_WATCHING_PAUSE_MS);
}
END_TEST

static void put(const char *key)
{
    const struct ps_kv_change change = {
        .kind = PS_KV_PUT, .key = key, .value = ps_bytes_of_text("v")};
    const struct ps_kv_transaction transaction = {.changes = &change, .change_count = 1};
    bool done = false;
    int64_t revision = 0;
    ck_assert_int_eq(ps_kv_commit(writer, &transaction, PS_DEADLINE_NEVER, &done, &revision, NULL),
                     PS_OK);
    ck_assert(done);
}

/* The store in memory never waits: a watch without a change comes back at once. */
START_TEST(a_change_in_the_store_is_looked_at_at_once)
{
    ps_watching_thread_init(&thread, watcher, &ticking, 9000);
    ck_assert_int_eq(ps_kv_watch_open(watcher, "/a", 2, PS_DEADLINE_NEVER, NULL), PS_OK);
    thread.has_watch = true;
    ck_assert(ps_watching_thread_wait(&thread));
    ck_assert_uint_eq(thread.look_ms, 9000);

    put("/a/b");

    ck_assert(ps_watching_thread_wait(&thread));
    ck_assert(thread.has_watch);
    ck_assert_uint_eq(thread.look_ms, 0);
}
END_TEST

/* None is open: that is what a broken one says, too. */
START_TEST(a_watch_that_broke_is_missed_after_a_pause)
{
    ps_watching_thread_init(&thread, watcher, &ticking, 9000);
    thread.has_watch = true;

    ck_assert(ps_watching_thread_wait(&thread));

    ck_assert(!thread.has_watch);
    ck_assert_uint_eq(thread.look_ms, 1000 + PS_WATCHING_PAUSE_MS);
}
END_TEST

START_TEST(after_a_failed_look_the_watch_is_opened_anew)
{
    ps_watching_thread_init(&thread, watcher, &ticking, 0);
    thread.has_watch = true;

    ps_watching_thread_looked(&thread, true, PS_WATCHING_REFRESH_MS);
    ck_assert(thread.has_watch);
    ps_watching_thread_looked(&thread, false, PS_WATCHING_REFRESH_MS);
    ck_assert(!thread.has_watch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watching_thread");
    TCase *tests = tcase_create("watching_thread");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_thread_without_a_watch_is_woken_by_questions_and_by_the_end);
    tcase_add_test(tests, what_was_said_before_the_wait_ends_it);
    tcase_add_test(tests, the_time_to_look_ends_it);
    tcase_add_test(tests, a_change_in_the_store_is_looked_at_at_once);
    tcase_add_test(tests, a_watch_that_broke_is_missed_after_a_pause);
    tcase_add_test(tests, after_a_failed_look_the_watch_is_opened_anew);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
