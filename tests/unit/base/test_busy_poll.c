/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked of busy polling, and what it then says. */
#include "base/busy_poll.h"

#include "base/clock.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

static struct ps_busy_poll_wish wish_of(const char *text)
{
    struct ps_busy_poll_wish wish;
    ck_assert_int_eq(ps_busy_poll_parse("--busy-poll", text, &wish, NULL), PS_OK);
    return wish;
}

START_TEST(words_and_times_are_understood)
{
    ck_assert_uint_eq(wish_of("off").spin_ns, 0);
    ck_assert(wish_of("auto").adaptive);
    ck_assert_uint_eq(wish_of("50us").spin_ns, 50000);
    ck_assert_uint_eq(wish_of("2ms").spin_ns, 2000000);
    ck_assert_uint_eq(wish_of("1s").spin_ns, 1000000000);
    ck_assert_uint_eq(wish_of("0us").spin_ns, 0);
    ck_assert(!wish_of("50us").adaptive);
}
END_TEST

START_TEST(everything_else_is_refused)
{
    static const char *const texts[] = {"",       "on",   "5",  "us", "5 us",          "-5us",
                                        "1001ms", "5us ", "2s", "5h", "99999999999us", "5usus"};
    struct ps_error error = {0};
    struct ps_busy_poll_wish wish;
    ck_assert_int_eq(ps_busy_poll_parse("--busy-poll", texts[_i], &wish, &error), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(wish.spin_ns, 0);
}
END_TEST

START_TEST(off_looks_at_nothing)
{
    struct ps_busy_poll poll;
    ps_busy_poll_init(&poll, wish_of("off"));
    ck_assert_uint_eq(ps_busy_poll_begin(&poll), 0);
    ps_busy_poll_end(&poll, false);
}
END_TEST

START_TEST(a_time_is_looked_for_each_time)
{
    struct ps_busy_poll poll;
    ps_busy_poll_init(&poll, wish_of("1ms"));
    for (int i = 0; i < 3; i++) {
        uint64_t now_ns = ps_clock_precise_ns();
        ck_assert_uint_ge(ps_busy_poll_begin(&poll), now_ns + 1000000);
        ps_busy_poll_end(&poll, false);
    }
}
END_TEST

static bool is_adaptive_here(struct ps_busy_poll *poll)
{
    ps_busy_poll_init(poll, wish_of("auto"));
    if (sysconf(_SC_NPROCESSORS_ONLN) >= 2)
        return true;
    ck_assert_uint_eq(ps_busy_poll_begin(poll), 0);
    return false;
}

START_TEST(an_adaptive_poll_rests_when_others_have_used_its_processor)
{
    struct ps_busy_poll poll;
    if (!is_adaptive_here(&poll))
        return;
    uint64_t now_ns = ps_clock_precise_ns();
    ck_assert(!ps_busy_poll_again(&poll, now_ns - 1000000)); /* a look that came back 1 ms late */
    ps_busy_poll_end(&poll, false);
    ck_assert_uint_gt(poll.resume_ns, now_ns + 10 * 1000000);
    ck_assert_uint_eq(ps_busy_poll_begin(&poll), 0);

    poll.resume_ns = now_ns; /* as if it had rested */
    ck_assert_uint_ne(ps_busy_poll_begin(&poll), 0);
}
END_TEST

START_TEST(a_time_that_was_asked_for_does_not_rest)
{
    struct ps_busy_poll poll;
    ps_busy_poll_init(&poll, wish_of("1ms"));
    ck_assert(!ps_busy_poll_again(&poll, ps_clock_precise_ns() - 1000000));
    ps_busy_poll_end(&poll, false);
    ck_assert_uint_ne(ps_busy_poll_begin(&poll), 0);
}
END_TEST

START_TEST(looking_that_does_not_pay_becomes_rare_until_it_does)
{
    struct ps_busy_poll poll;
    if (!is_adaptive_here(&poll))
        return;
    poll.misses = 1000;
    uint32_t looks = 0;
    for (int i = 0; i < 160; i++)
        looks += ps_busy_poll_begin(&poll) != 0;
    ck_assert_uint_eq(looks, 10);

    ps_busy_poll_end(&poll, true);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_ne(ps_busy_poll_begin(&poll), 0);
}
END_TEST

START_TEST(it_does_not_look_beyond_its_time)
{
    struct ps_busy_poll poll;
    ps_busy_poll_init(&poll, wish_of("1ms"));
    ck_assert(ps_busy_poll_again(&poll, UINT64_MAX));
    ck_assert(!ps_busy_poll_again(&poll, ps_clock_precise_ns()));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("busy_poll");
    TCase *tests = tcase_create("busy_poll");
    tcase_add_test(tests, words_and_times_are_understood);
    tcase_add_loop_test(tests, everything_else_is_refused, 0, 12);
    tcase_add_test(tests, off_looks_at_nothing);
    tcase_add_test(tests, a_time_is_looked_for_each_time);
    tcase_add_test(tests, an_adaptive_poll_rests_when_others_have_used_its_processor);
    tcase_add_test(tests, a_time_that_was_asked_for_does_not_rest);
    tcase_add_test(tests, looking_that_does_not_pay_becomes_rare_until_it_does);
    tcase_add_test(tests, it_does_not_look_beyond_its_time);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
