/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/row_ages.c: never early, and at most a step late. */
#include "server/core/update/row_ages.h"

#include "run_suite.h"

#include <check.h>

/* Version v is made at time v: so a row of version v is v old at time 2 v. */
START_TEST(rows_go_when_they_are_old_enough_and_at_most_one_step_later)
{
    struct ps_row_ages ages = {0};
    const uint64_t span = 160, every = (uint64_t)_i;
    uint64_t gone = 0;
    for (uint64_t now = 1; now < 2000; now += every) {
        uint64_t before = ps_row_ages_look(&ages, span, now, now);
        if (before == 0)
            continue;
        /* The youngest row that goes has version before - 1. */
        ck_assert_uint_ge(now - (before - 1), span);
        ck_assert_uint_gt(before, gone);
        gone = before;
    }
    ck_assert_uint_ge(gone + span + span / PS_ROW_AGE_STEPS + 2 * every, 2000);
}
END_TEST

START_TEST(a_longer_span_keeps_rows_and_a_shorter_one_lets_them_go)
{
    struct ps_row_ages ages = {0};
    for (uint64_t now = 0; now < 100; now++)
        ck_assert_uint_eq(ps_row_ages_look(&ages, 1000, now, now), 0);
    ck_assert_uint_eq(ps_row_ages_look(&ages, 100000, 1050, 100), 0);
    for (uint64_t now = 1051; now < 90000; now += 10)
        ck_assert_uint_eq(ps_row_ages_look(&ages, 100000, now, 100), 0);
    ck_assert_uint_eq(ps_row_ages_look(&ages, 10, 90000, 100), 101);
}
END_TEST

/* As of a job that begins anew behind one that ran for a million iterations. */
START_TEST(behind_clocks_that_fall_all_rows_begin_to_age_anew)
{
    struct ps_row_ages ages = {0};
    ck_assert_uint_eq(ps_row_ages_look(&ages, 4, 1000008, 6), 0);
    ck_assert_uint_eq(ps_row_ages_look(&ages, 4, 1000010, 7), 0);
    ck_assert_uint_eq(ps_row_ages_look(&ages, 4, 2, 8), 0);
    ck_assert_uint_eq(ps_row_ages_look(&ages, 4, 5, 9), 0);
    ck_assert_uint_eq(ps_row_ages_look(&ages, 4, 6, 9), 9);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_ages");
    tcase_add_loop_test(tests, rows_go_when_they_are_old_enough_and_at_most_one_step_later, 1, 40);
    tcase_add_test(tests, a_longer_span_keeps_rows_and_a_shorter_one_lets_them_go);
    tcase_add_test(tests, behind_clocks_that_fall_all_rows_begin_to_age_anew);
    Suite *suite = suite_create("row_ages");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
