/* SPDX-License-Identifier: Apache-2.0 */
/* What one caller may have, of what all share. */
#include "run_suite.h"
#include "server/rpc/budgets.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct ps_budgets budgets;
static uint32_t entry;
static uint64_t now_ms;

static void setup(void)
{
    ps_budgets_init(&budgets);
    now_ms = 1000;
}

static void teardown(void)
{
    ps_budgets_check(&budgets);
    ps_budgets_fini(&budgets);
}

static struct ps_bytes key_of(const char *text)
{
    return ps_bytes_of_text(text);
}

static bool enter(const char *key, uint64_t bytes)
{
    return ps_budgets_enter(&budgets, key_of(key), PS_SUM_BYTES, bytes, 1000, now_ms, &entry, NULL);
}

static bool take(const char *key)
{
    uint32_t wait_ms;
    return ps_budgets_take(&budgets, key_of(key), PS_PACE_SESSIONS, now_ms, &wait_ms);
}

START_TEST(a_caller_is_refused_beyond_its_limit_until_it_has_less)
{
    uint64_t before = 0;
    ck_assert(enter("a", 600));
    ck_assert(enter("a", 400));
    ck_assert(!ps_budgets_more(&budgets, entry, PS_SUM_BYTES, 1, 1000, &before));
    ck_assert_uint_eq(before, 1000);

    ps_budgets_leave(&budgets, entry, PS_SUM_BYTES, 400);

    ck_assert(!enter("a", 401));
    ck_assert(enter("a", 400));
}
END_TEST

START_TEST(one_callers_bytes_are_not_anothers)
{
    ck_assert(enter("a", 1000));

    ck_assert(enter("b", 1000));

    ck_assert(!enter("a", 1));
    ck_assert(!enter("b", 1));
}
END_TEST

START_TEST(one_message_goes_however_large_it_is)
{
    ck_assert(enter("a", 5000));
    ck_assert(!enter("a", 1));

    ps_budgets_leave(&budgets, entry, PS_SUM_BYTES, 5000);

    ck_assert(enter("a", 1));
}
END_TEST

START_TEST(what_must_be_answered_is_counted_but_not_refused)
{
    ck_assert(enter("a", 1000));

    ck_assert(ps_budgets_more(&budgets, entry, PS_SUM_BYTES, 500, 0, NULL));

    ps_budgets_leave(&budgets, entry, PS_SUM_BYTES, 1000);
    ck_assert(!enter("a", 501));
    ck_assert(enter("a", 500));
}
END_TEST

START_TEST(without_a_limit_nobody_is_refused)
{
    for (int i = 0; i < 100; i++)
        ck_assert(ps_budgets_enter(&budgets, key_of("a"), PS_SUM_BYTES, UINT64_MAX / 200, 0, now_ms,
                                   &entry, NULL));
}
END_TEST

START_TEST(keys_that_fall_together_are_told_apart)
{
    char key[32];
    /* More keys than chains have a good chance of each chain; each has its own sum all the same. */
    for (int i = 0; i < PS_BUDGET_ENTRIES; i++) {
        (void)snprintf(key, sizeof key, "ipv4:10.0.0.1:%d", i);
        ck_assert(enter(key, 1000));
    }
    ps_budgets_check(&budgets);
    for (int i = 0; i < PS_BUDGET_ENTRIES; i++) {
        (void)snprintf(key, sizeof key, "ipv4:10.0.0.1:%d", i);
        ck_assert(!enter(key, 1));
    }
}
END_TEST

START_TEST(callers_beyond_the_table_share_one_entry_until_others_leave)
{
    char key[32];
    uint32_t first = 0;
    for (int i = 0; i < PS_BUDGET_ENTRIES; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        ck_assert(enter(key, 600));
        first = i == 0 ? entry : first;
    }
    ck_assert(enter("late", 600));
    ck_assert(!enter("later", 600));
    ps_budgets_leave(&budgets, entry, PS_SUM_BYTES, 600);

    ps_budgets_leave(&budgets, first, PS_SUM_BYTES, 600);
    /* A search looks at some of the entries, and the next one goes on from there. */
    bool has_own = false;
    for (int i = 0; i < PS_BUDGET_ENTRIES && !has_own; i++) {
        ck_assert(enter("later", 600));
        has_own = entry == first;
        if (!has_own)
            ps_budgets_leave(&budgets, entry, PS_SUM_BYTES, 600);
    }
    ck_assert(has_own);
    ck_assert(enter("last", 600));
    ck_assert_uint_eq(entry, PS_BUDGET_ENTRIES);
}
END_TEST

START_TEST(a_pace_gives_so_many_at_once_and_then_so_many_a_second)
{
    uint32_t wait_ms = 0;
    for (int i = 0; i < 64; i++)
        ck_assert(take("a"));
    ck_assert(!ps_budgets_take(&budgets, key_of("a"), PS_PACE_SESSIONS, now_ms, &wait_ms));
    ck_assert_uint_eq(wait_ms, 250);
    ck_assert(take("b"));

    now_ms += 249;
    ck_assert(!take("a"));
    now_ms += 1;
    ck_assert(take("a"));
    ck_assert(!take("a"));
    now_ms += 3600 * 1000;

    for (int i = 0; i < 64; i++)
        ck_assert(take("a"));
    ck_assert(!take("a"));
}
END_TEST

START_TEST(an_entry_whose_pace_is_used_up_is_not_given_away)
{
    char key[32];
    for (int i = 0; i < 64; i++)
        ck_assert(take("a"));
    /* Each of these comes once, so that its entry is at rest again a quarter of a second later. */
    for (int i = 0; i < 20 * PS_BUDGET_ENTRIES; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        (void)enter(key, 1);
        ps_budgets_leave(&budgets, entry, PS_SUM_BYTES, 1);
    }

    ck_assert(!take("a"));
}
END_TEST

START_TEST(a_clock_that_seems_to_go_back_gives_nothing)
{
    for (int i = 0; i < 64; i++)
        ck_assert(take("a"));

    now_ms -= 500;

    ck_assert(!take("a"));
}
END_TEST

START_TEST(the_largest_sum_is_told)
{
    uint64_t largest = 0;
    ck_assert(enter("a", 300));
    ck_assert(enter("b", 700));

    ck_assert_uint_eq(ps_budgets_count(&budgets, PS_SUM_BYTES, &largest), 2);

    ck_assert_uint_eq(largest, 700);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budgets");
    TCase *tests = tcase_create("budgets");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_caller_is_refused_beyond_its_limit_until_it_has_less);
    tcase_add_test(tests, one_callers_bytes_are_not_anothers);
    tcase_add_test(tests, one_message_goes_however_large_it_is);
    tcase_add_test(tests, what_must_be_answered_is_counted_but_not_refused);
    tcase_add_test(tests, without_a_limit_nobody_is_refused);
    tcase_add_test(tests, keys_that_fall_together_are_told_apart);
    tcase_add_test(tests, callers_beyond_the_table_share_one_entry_until_others_leave);
    tcase_add_test(tests, a_pace_gives_so_many_at_once_and_then_so_many_a_second);
    tcase_add_test(tests, an_entry_whose_pace_is_used_up_is_not_given_away);
    tcase_add_test(tests, a_clock_that_seems_to_go_back_gives_nothing);
    tcase_add_test(tests, the_largest_sum_is_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
