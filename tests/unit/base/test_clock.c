/* SPDX-License-Identifier: Apache-2.0 */
/* base/clock.c: deadlines on a clock. */
#include "base/clock.h"

#include "run_suite.h"
#include "tests/support/fake_clock.h"

#include <check.h>
#include <stdlib.h>

START_TEST(real_clock_never_goes_back)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t last = ps_now_ms(clock);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = ps_now_ms(clock);
        ck_assert_uint_ge(now, last);
        last = now;
    }
}
END_TEST

START_TEST(real_clock_knows_the_century)
{
    uint64_t seconds = ps_unix_ns(ps_clock_real()) / 1000000000;

    ck_assert_uint_gt(seconds, 1700000000);
    ck_assert_uint_lt(seconds, 7000000000);
}
END_TEST

START_TEST(precise_time_goes_forward_with_the_clock)
{
    uint64_t start_ns = ps_clock_precise_ns();
    uint64_t last_ns = start_ns;
    for (int i = 0; i < 1000; i++) {
        uint64_t now_ns = ps_clock_precise_ns();
        ck_assert_uint_ge(now_ns, last_ns);
        last_ns = now_ns;
    }

    ck_assert_uint_gt(last_ns, start_ns);
}
END_TEST

START_TEST(time_of_a_thread_goes_forward_with_its_work)
{
    uint64_t start_ns = ps_clock_thread_ns();
    uint64_t last_ns = start_ns;
    while (last_ns == start_ns)
        last_ns = ps_clock_thread_ns();

    ck_assert_uint_gt(last_ns, start_ns);
}
END_TEST

START_TEST(deadline_is_now_and_the_timeout)
{
    struct fake_clock fake = {.now_ms = 1000};
    struct ps_clock clock = fake_clock_clock(&fake);

    ck_assert_uint_eq(ps_deadline_after(&clock, 500), 1500);
}
END_TEST

START_TEST(endless_timeouts_never_wrap)
{
    struct fake_clock fake = {.now_ms = 1000};
    struct ps_clock clock = fake_clock_clock(&fake);

    ck_assert_uint_eq(ps_deadline_after(&clock, PS_DEADLINE_NEVER), PS_DEADLINE_NEVER);
    ck_assert_uint_eq(ps_deadline_after(&clock, PS_DEADLINE_NEVER - 1000), PS_DEADLINE_NEVER);
    ck_assert_uint_eq(ps_deadline_after(&clock, PS_DEADLINE_NEVER - 1001), PS_DEADLINE_NEVER - 1);
}
END_TEST

START_TEST(time_left_ends_at_nothing)
{
    struct fake_clock fake = {.now_ms = 1000};
    struct ps_clock clock = fake_clock_clock(&fake);

    ck_assert_uint_eq(ps_time_left_ms(&clock, 1001), 1);
    ck_assert_uint_eq(ps_time_left_ms(&clock, 1000), 0);
    ck_assert_uint_eq(ps_time_left_ms(&clock, 10), 0);
    ck_assert_uint_eq(ps_time_left_ms(&clock, PS_DEADLINE_NEVER), PS_DEADLINE_NEVER - 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tests = tcase_create("clock");
    tcase_add_test(tests, real_clock_never_goes_back);
    tcase_add_test(tests, real_clock_knows_the_century);
    tcase_add_test(tests, time_of_a_thread_goes_forward_with_its_work);
    tcase_add_test(tests, precise_time_goes_forward_with_the_clock);
    tcase_add_test(tests, deadline_is_now_and_the_timeout);
    tcase_add_test(tests, endless_timeouts_never_wrap);
    tcase_add_test(tests, time_left_ends_at_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
