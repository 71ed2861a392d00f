/* SPDX-License-Identifier: Apache-2.0 */
/* core/rounds/round.c: who counts, when a round is over, who is evicted. */
#include "server/core/rounds/round.h"

#include "core_world.h"

#include <string.h>

static struct ps_round open_round;
static struct ps_round_settings settings;

static void begin(void)
{
    settings = (struct ps_round_settings){.workers = 4};
    ps_round_init(&open_round, 4);
}

static void check(void)
{
    ps_round_check(&open_round);
}

static void join(const char *ranks, uint64_t now_ms)
{
    for (const char *rank = ranks; *rank != '\0'; rank++)
        ps_round_join(&open_round, (uint32_t)(*rank - '0'), now_ms);
}

static enum ps_round_end look(uint64_t now_ms, uint64_t *again_ms)
{
    uint64_t unused;
    return ps_round_look(&open_round, &settings, now_ms, again_ms != NULL ? again_ms : &unused);
}

/* The open round ends, as it is over at `now_ms`, and the next one is open. */
static void end_round(uint64_t now_ms)
{
    uint8_t evicted[sizeof open_round.evicted];
    ps_round_evicted_by(&open_round, look(now_ms, NULL), evicted);
    ps_round_next(&open_round, evicted);
}

static void expect_missing(const char *expected)
{
    char text[64];
    ps_round_name_missing(&open_round, text, sizeof text);
    ck_assert_str_eq(text, expected);
}

START_TEST(every_contribution_is_judged_by_its_round)
{
    static const struct {
        enum ps_late late;
        uint32_t worker;
        uint64_t wanted;
        enum ps_round_verdict verdict;
    } rows[] = {
        {PS_LATE_DROP, 0, 0, PS_ROUND_COUNTS},      {PS_LATE_DROP, 0, 6, PS_ROUND_COUNTS},
        {PS_LATE_DROP, 0, 7, PS_ROUND_IS_AHEAD},    {PS_LATE_DROP, 0, 5, PS_ROUND_IS_LATE},
        {PS_LATE_DROP, 1, 5, PS_ROUND_IS_LATE},     {PS_LATE_DROP, 1, 0, PS_ROUND_IS_SECOND},
        {PS_LATE_DROP, 1, 6, PS_ROUND_IS_SECOND},   {PS_LATE_DROP, 1, 7, PS_ROUND_IS_AHEAD},
        {PS_LATE_NEXT, 0, 5, PS_ROUND_COUNTS_LATE}, {PS_LATE_NEXT, 0, 1, PS_ROUND_COUNTS_LATE},
        {PS_LATE_NEXT, 1, 5, PS_ROUND_IS_SECOND},   {PS_LATE_NEXT, 0, 6, PS_ROUND_COUNTS},
        {PS_LATE_NEXT, 0, 7, PS_ROUND_IS_AHEAD}};
    begin();
    join("1", 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        settings.late = rows[i].late;
        ck_assert_int_eq(ps_round_judge(&open_round, &settings, 5, rows[i].worker, rows[i].wanted),
                         rows[i].verdict);
    }
}
END_TEST

START_TEST(a_round_is_complete_when_all_have_contributed_in_any_order)
{
    begin();
    ck_assert_int_eq(look(UINT64_MAX, NULL), PS_ROUND_GOES_ON);
    join("203", 0);
    ck_assert_int_eq(look(UINT64_MAX, NULL), PS_ROUND_GOES_ON);
    expect_missing(" 1");
    join("1", 0);
    ck_assert_int_eq(look(0, NULL), PS_ROUND_IS_COMPLETE);
    end_round(0);
    check();
    ck_assert_uint_eq(open_round.counted_count, 0);
    expect_missing(" 0 1 2 3");
}
END_TEST

START_TEST(a_quorum_is_enough_and_evicts_nobody)
{
    begin();
    settings.quorum = 2;
    settings.grace_ms = 10;
    join("3", 0);
    ck_assert_uint_eq(ps_round_needed(&open_round, &settings), 2);
    join("0", 0);
    ck_assert_int_eq(look(1000, NULL), PS_ROUND_IS_COMPLETE);
    end_round(1000);
    ck_assert_uint_eq(open_round.evicted_count, 0);
}
END_TEST

START_TEST(the_grace_time_runs_from_the_first_contribution_on)
{
    uint64_t again_ms;
    begin();
    settings.grace_ms = 10;
    ck_assert_int_eq(look(500, &again_ms), PS_ROUND_GOES_ON);
    ck_assert_uint_eq(again_ms, 0);
    join("1", 100);
    join("2", 105);
    ck_assert_int_eq(look(99, &again_ms), PS_ROUND_GOES_ON);
    ck_assert_uint_eq(again_ms, 10);
    ck_assert_int_eq(look(109, &again_ms), PS_ROUND_GOES_ON);
    ck_assert_uint_eq(again_ms, 1);
    ck_assert_int_eq(look(110, &again_ms), PS_ROUND_IS_OVERDUE);
}
END_TEST

START_TEST(whoever_was_missing_is_evicted_until_the_next_contribution)
{
    begin();
    settings.grace_ms = 10;
    join("12", 0);
    end_round(10);
    check();
    ck_assert_uint_eq(open_round.evicted_count, 2);
    expect_missing(" 1 2");
    join("12", 20);
    ck_assert_int_eq(look(20, NULL), PS_ROUND_IS_COMPLETE);
    end_round(20);
    ck_assert_uint_eq(open_round.evicted_count, 2);
    /* One comes back, and is waited for from then on. */
    join("0", 30);
    check();
    expect_missing(" 1 2");
    join("12", 30);
    end_round(30);
    ck_assert_uint_eq(open_round.evicted_count, 1);
    expect_missing(" 0 1 2");
}
END_TEST

START_TEST(a_quorum_is_never_more_than_the_workers_that_are_left)
{
    begin();
    settings.quorum = 3;
    settings.grace_ms = 10;
    join("0", 0);
    end_round(10);
    ck_assert_uint_eq(ps_round_needed(&open_round, &settings), 1);
    join("0", 0);
    ck_assert_int_eq(look(0, NULL), PS_ROUND_IS_COMPLETE);
}
END_TEST

START_TEST(many_that_are_missing_are_named_in_part)
{
    ps_round_init(&open_round, PS_ROUND_WORKERS_MAX);
    settings = (struct ps_round_settings){.workers = PS_ROUND_WORKERS_MAX};
    join("13", 0);
    expect_missing(" 0 2 4 5 6 7 8 9 ...");
    ps_round_join(&open_round, PS_ROUND_WORKERS_MAX - 1, 0);
    check();
    ck_assert_uint_eq(ps_round_needed(&open_round, &settings), PS_ROUND_WORKERS_MAX);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("round");
    tcase_add_test(tests, every_contribution_is_judged_by_its_round);
    tcase_add_test(tests, a_round_is_complete_when_all_have_contributed_in_any_order);
    tcase_add_test(tests, a_quorum_is_enough_and_evicts_nobody);
    tcase_add_test(tests, the_grace_time_runs_from_the_first_contribution_on);
    tcase_add_test(tests, whoever_was_missing_is_evicted_until_the_next_contribution);
    tcase_add_test(tests, a_quorum_is_never_more_than_the_workers_that_are_left);
    tcase_add_test(tests, many_that_are_missing_are_named_in_part);
    return run_tests("round", tests);
}
