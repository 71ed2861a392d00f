/* What may be asked of busy polling, and what it then says. */
#include "base/busy_poll.h"

#include "base/clock.h"

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

START_TEST(an_adaptive_poll_rests_where_no_processor_is_free)
{
    struct ps_busy_poll poll;
    ps_busy_poll_init(&poll, wish_of("auto"));
    if (sysconf(_SC_NPROCESSORS_ONLN) < 3) {
        ck_assert_uint_eq(ps_busy_poll_begin(&poll), 0);
        return;
    }
    poll.preempted = -1; /* as if somebody had wanted the processor */
    ps_busy_poll_end(&poll, false);
    ck_assert_uint_eq(ps_busy_poll_begin(&poll), 0);
    ck_assert_uint_gt(poll.resume_ns, 0);
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
    tcase_add_test(tests, an_adaptive_poll_rests_where_no_processor_is_free);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
