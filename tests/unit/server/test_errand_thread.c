/* SPDX-License-Identifier: Apache-2.0 */
/* server/errand_thread.c: when turns come, and that the end does not wait for a pause. */
#include "server/errand_thread.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

#define HOUR_MS 3600000

/* What the errand does: counts its turns, waits at the gate, and wants a pause. */
static struct ps_errand_thread errand;
static struct ps_mutex mutex; /* guards what follows */
static struct ps_condition changed;
static uint32_t turns;
static bool gate_is_shut;
static uint64_t pause_ms; /* 0: the next turn comes with the next wake */

static uint64_t turn(void *self)
{
    (void)self;
    ps_mutex_lock(&mutex);
    turns++;
    ps_condition_signal_all(&changed);
    while (gate_is_shut)
        (void)ps_condition_wait(&changed, &mutex, PS_DEADLINE_NEVER);
    uint64_t due_ms = PS_DEADLINE_NEVER;
    if (pause_ms > 0)
        due_ms = ps_deadline_after(ps_clock_real(), pause_ms);
    ps_mutex_unlock(&mutex);
    return due_ms;
}

static void setup(void)
{
    turns = 0;
    gate_is_shut = false;
    pause_ms = 0;
    ps_mutex_init(&mutex, PS_RANK_LEAF);
    ps_condition_init(&changed);
    ck_assert_int_eq(ps_errand_thread_init(&errand, "errand", ps_clock_real(), turn, NULL, NULL),
                     PS_OK);
}

static void teardown(void)
{
    ps_condition_fini(&changed);
    ps_mutex_fini(&mutex);
}

static void expect_turns(uint32_t count)
{
    ps_mutex_lock(&mutex);
    while (turns < count)
        (void)ps_condition_wait(&changed, &mutex, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&mutex);
}

static void shut_gate(bool shut)
{
    ps_mutex_lock(&mutex);
    gate_is_shut = shut;
    ps_condition_signal_all(&changed);
    ps_mutex_unlock(&mutex);
}

START_TEST(each_wake_brings_a_turn_and_none_comes_before)
{
    for (uint32_t i = 1; i <= 3; i++) {
        ps_errand_thread_wake(&errand);
        expect_turns(i);
    }
    ps_errand_thread_fini(&errand);
    ck_assert_uint_eq(turns, 3);
}
END_TEST

START_TEST(all_wakes_during_one_turn_bring_one_more)
{
    shut_gate(true);
    ps_errand_thread_wake(&errand);
    expect_turns(1);
    for (int i = 0; i < 100; i++)
        ps_errand_thread_wake(&errand);
    shut_gate(false);
    expect_turns(2);
    ps_errand_thread_fini(&errand);
    ck_assert_uint_eq(turns, 2);
}
END_TEST

START_TEST(a_pause_is_ended_by_an_interrupt_and_not_by_a_wake)
{
    pause_ms = HOUR_MS;
    ps_errand_thread_wake(&errand);
    expect_turns(1);
    ps_errand_thread_wake(&errand);
    ps_errand_thread_interrupt(&errand);
    expect_turns(2);
    ps_errand_thread_fini(&errand);
    ck_assert_uint_eq(turns, 2);
}
END_TEST

START_TEST(a_pause_that_is_over_brings_a_turn_without_a_wake)
{
    pause_ms = 1;
    ps_errand_thread_wake(&errand);
    expect_turns(3);
    ps_errand_thread_fini(&errand);
}
END_TEST

START_TEST(the_end_waits_for_no_pause)
{
    pause_ms = HOUR_MS;
    ps_errand_thread_wake(&errand);
    expect_turns(1);
    ps_errand_thread_fini(&errand);
    ck_assert_uint_eq(turns, 1);
}
END_TEST

START_TEST(what_was_never_begun_ends_too)
{
    struct ps_errand_thread nothing = {0};
    ps_errand_thread_fini(&nothing);
    ps_errand_thread_fini(&errand);
    ck_assert_uint_eq(turns, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errand_thread");
    TCase *tests = tcase_create("errand_thread");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_wake_brings_a_turn_and_none_comes_before);
    tcase_add_test(tests, all_wakes_during_one_turn_bring_one_more);
    tcase_add_test(tests, a_pause_is_ended_by_an_interrupt_and_not_by_a_wake);
    tcase_add_test(tests, a_pause_that_is_over_brings_a_turn_without_a_wake);
    tcase_add_test(tests, the_end_waits_for_no_pause);
    tcase_add_test(tests, what_was_never_begun_ends_too);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
