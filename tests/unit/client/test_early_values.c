/* SPDX-License-Identifier: Apache-2.0 */
/* client/ranges/early_values.c: when what the ranges of a push have brought back may be
 * believed. */
#include "client/ranges/early_values.h"

#include "run_suite.h"

#include <check.h>

#define LIFE 77

/* What is known when `count` ranges have asked, and these have brought something. */
static struct ps_early_values after(const struct ps_pull_reply *replies, size_t count)
{
    struct ps_early_values made = {.asks = true, .asked = true};
    for (size_t i = 0; i < count; i++)
        (void)ps_early_values_note(&made, &replies[i], true);
    return made;
}

static bool holds(const struct ps_early_values *made, uint64_t version)
{
    const struct ps_push_reply push = {.version = version};
    return ps_early_values_holds(made, &push);
}

START_TEST(ranges_of_the_version_that_the_push_got_hold)
{
    const struct ps_pull_reply replies[] = {{.version = 4, .life = LIFE},
                                            {.version = 4, .life = LIFE}};
    struct ps_early_values made = after(replies, 2);

    ck_assert(made.asks);
    ck_assert(holds(&made, 4));
}
END_TEST

START_TEST(version_zero_is_a_version)
{
    const struct ps_pull_reply replies[] = {{.version = 0, .life = LIFE},
                                            {.version = 1, .life = LIFE}};
    struct ps_early_values made = after(replies, 1);
    ck_assert(holds(&made, 0));

    made = after(replies, 2);
    ck_assert(!holds(&made, 0));
    ck_assert(!holds(&made, 1));
}
END_TEST

START_TEST(ranges_of_another_version_than_the_push_got_hold_nothing)
{
    const struct ps_pull_reply replies[] = {{.version = 4, .life = LIFE},
                                            {.version = 4, .life = LIFE}};
    struct ps_early_values made = after(replies, 2);

    ck_assert(!holds(&made, 3));
    ck_assert(!holds(&made, 5));
}
END_TEST

START_TEST(ranges_of_different_versions_hold_nothing)
{
    const struct ps_pull_reply replies[] = {
        {.version = 4, .life = LIFE}, {.version = 5, .life = LIFE}, {.version = 4, .life = LIFE}};
    struct ps_early_values made = after(replies, 3);

    ck_assert(!holds(&made, 4));
    ck_assert(!holds(&made, 5));
}
END_TEST

START_TEST(one_version_of_two_lives_holds_nothing)
{
    const struct ps_pull_reply replies[] = {{.version = 4, .life = LIFE},
                                            {.version = 4, .life = LIFE + 1}};
    struct ps_early_values made = after(replies, 2);

    ck_assert(!holds(&made, 4));
}
END_TEST

START_TEST(content_is_kept_only_as_long_as_all_fits_together)
{
    const struct ps_pull_reply right = {.version = 4, .life = LIFE};
    const struct ps_pull_reply other = {.version = 4, .life = LIFE + 1};
    struct ps_early_values made = {.asks = true, .asked = true};

    ck_assert(ps_early_values_note(&made, &right, true));
    ck_assert(!ps_early_values_note(&made, &other, true));
    ck_assert(!ps_early_values_note(&made, &right, true));
}
END_TEST

START_TEST(a_range_that_is_not_what_was_asked_for_spoils_all)
{
    const struct ps_pull_reply reply = {.version = 4, .life = LIFE};
    struct ps_early_values made = {.asks = true, .asked = true};

    ck_assert(!ps_early_values_note(&made, &reply, false));
    ck_assert(!ps_early_values_note(&made, &reply, true));
    ck_assert(!holds(&made, 4));
}
END_TEST

START_TEST(a_range_that_brings_nothing_spoils_all_and_ends_the_asking)
{
    const struct ps_pull_reply reply = {.version = 4, .life = LIFE};
    struct ps_early_values made = after(&reply, 1);

    ps_early_values_miss(&made);

    ck_assert(!made.asks);
    ck_assert(!ps_early_values_note(&made, &reply, true));
    ck_assert(!holds(&made, 4));
}
END_TEST

START_TEST(what_nobody_asked_for_holds_nothing)
{
    const struct ps_early_values made = {0};

    ck_assert(!holds(&made, 0));
    ck_assert(!holds(&made, UINT64_MAX));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("made");
    TCase *tests = tcase_create("made");
    tcase_add_test(tests, ranges_of_the_version_that_the_push_got_hold);
    tcase_add_test(tests, version_zero_is_a_version);
    tcase_add_test(tests, ranges_of_another_version_than_the_push_got_hold_nothing);
    tcase_add_test(tests, ranges_of_different_versions_hold_nothing);
    tcase_add_test(tests, one_version_of_two_lives_holds_nothing);
    tcase_add_test(tests, content_is_kept_only_as_long_as_all_fits_together);
    tcase_add_test(tests, a_range_that_is_not_what_was_asked_for_spoils_all);
    tcase_add_test(tests, a_range_that_brings_nothing_spoils_all_and_ends_the_asking);
    tcase_add_test(tests, what_nobody_asked_for_holds_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
