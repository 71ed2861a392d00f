/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes that are applied as they come and are overtaken, or refused in the end: nothing of them
 * was applied. What a range makes is told while the others are missing. */
#include "core_early.h"
#include "server/core/requests/change.h"

#include <math.h>
#include <string.h>

START_TEST(a_range_brings_what_it_makes_before_the_push_is_whole)
{
    struct ps_pull made[RANGES];
    early_begin(_i == 1);
    for (size_t i = 0; i < RANGES; i++)
        early_push_asking(1, i, &made[i]);
    ck_assert_uint_eq(world.reply.version, 1);
    early_push_whole(&world, "b", 1);

    early_push_whole(&twin, "a", 1);
    size_t size;
    uint64_t version;
    ck_assert_int_eq(world_pull(&twin, "w", got[0], COUNT * 8, &size, &version), PS_OK);
    for (size_t i = 0; i < RANGES; i++) {
        const struct ps_pull_reply *reply = &made[i].reply;
        ck_assert_uint_eq(reply->version, 1);
        ck_assert_uint_eq(reply->life, world.service->chain.life);
        ck_assert_uint_eq(reply->range.first, ranges[i].first);
        ck_assert_uint_eq(reply->range.count, ranges[i].count);
        ck_assert_uint_eq(reply->total, COUNT);
        ps_view_copy(reply->content, 0, got[1], reply->content.size);
        ck_assert(
            memcmp(got[0] + reply->range.first * sizeof(float), got[1], reply->content.size) == 0);
        ps_pull_release(&made[i]);
    }
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    early_end();
}
END_TEST

START_TEST(what_is_not_known_or_came_to_nothing_is_not_brought)
{
    struct ps_pull made, again, last;
    early_begin(false);
    early_push_asking(1, 0, &made);
    ck_assert_ptr_nonnull(made.held);
    early_push_asking(1, 0, &again);
    ck_assert_ptr_null(again.held);
    early_push_ranges(1, 1, RANGES - 1);
    early_push_whole(&world, "b", 1);
    early_push_asking(1, RANGES - 1, &last);
    ck_assert(world.reply.staged);

    /* What it would have become is readable, but no version of the parameter. */
    ck_assert_uint_eq(made.reply.version, 1);
    ps_pull_release(&made);
    ps_pull_release(&last);
    early_push_asking(1, 0, &made);
    ck_assert_ptr_null(made.held);
    early_push_ranges(1, 1, RANGES - 1);
    early_push_asking(1, RANGES - 1, &last);
    ck_assert_ptr_null(last.held);
    ck_assert_uint_eq(world.reply.version, 2);
    early_end();
}
END_TEST

/* Another's push comes between; nothing of the ranges was kept. */
START_TEST(who_is_overtaken_sends_all_again_and_is_applied_once)
{
    early_begin(false);
    early_push_ranges(1, 0, RANGES - 1);
    early_push_whole(&world, "b", 1);
    early_push_ranges(1, RANGES - 1, RANGES);
    ck_assert(world.reply.staged);
    ck_assert_int_eq(early_way_of("a", 1), PS_STAGING_UNKNOWN);

    early_push_ranges(1, 0, RANGES);
    ck_assert(!world.reply.staged && !world.reply.duplicate);
    ck_assert_uint_eq(world.reply.version, 2);
    early_push_ranges(1, 0, RANGES);
    ck_assert(world.reply.duplicate);

    early_push_whole(&twin, "b", 1);
    early_push_whole(&twin, "a", 1);
    early_expect_same(2);
    early_end();
}
END_TEST

START_TEST(who_is_overtaken_is_applied_from_what_the_journal_keeps)
{
    early_begin(true);
    early_push_ranges(1, 0, RANGES - 1);
    early_push_whole(&world, "b", 1);
    early_push_ranges(1, RANGES - 1, RANGES);
    ck_assert(!world.reply.staged);
    ck_assert_uint_eq(world.reply.version, 2);

    early_push_whole(&twin, "b", 1);
    early_push_whole(&twin, "a", 1);
    early_expect_same(2);
    ck_assert_uint_eq(world_write_journal(&world), 2);
    ck_assert_uint_eq(world_write_journal(&twin), 2);
    early_end();
}
END_TEST

START_TEST(a_parameter_rests_after_an_attempt_that_came_to_nothing)
{
    early_begin(false);
    early_push_ranges(1, 0, 1);
    early_push_whole(&world, "b", 1);
    early_push_ranges(1, 1, RANGES);
    ck_assert(world.reply.staged);

    for (uint64_t sequence = 1; sequence <= PS_UPDATE_EARLY_PAUSE; sequence++) {
        early_push_ranges(sequence, 0, 1);
        ck_assert_int_eq(early_way_of("a", sequence), PS_STAGING_PARTS);
        early_push_ranges(sequence, 1, RANGES);
        ck_assert(!world.reply.staged);
    }
    early_push_ranges(PS_UPDATE_EARLY_PAUSE + 1, 0, 1);
    ck_assert_int_eq(early_way_of("a", PS_UPDATE_EARLY_PAUSE + 1), PS_STAGING_EARLY);
    early_push_ranges(PS_UPDATE_EARLY_PAUSE + 1, 1, RANGES);
    ck_assert(!world.reply.staged);
    early_end();
}
END_TEST

START_TEST(only_one_push_of_a_parameter_is_early)
{
    early_begin(false);
    early_push_ranges(1, 0, 1);
    ck_assert_int_eq(early_push(&world, "b", 1, PS_F32, ranges[0]), PS_OK);
    ck_assert_int_eq(early_way_of("a", 1), PS_STAGING_EARLY);
    ck_assert_int_eq(early_way_of("b", 1), PS_STAGING_PARTS);

    early_push_ranges(1, 1, RANGES);
    for (size_t i = 1; i < RANGES; i++)
        ck_assert_int_eq(early_push(&world, "b", 1, PS_F32, ranges[i]), PS_OK);
    ck_assert_uint_eq(world.reply.version, 2);
    early_push_whole(&twin, "a", 1);
    early_push_whole(&twin, "b", 1);
    early_expect_same(2);
    early_end();
}
END_TEST

/* The client began it and gave it up; nobody else is kept from being ahead for it. */
START_TEST(an_attempt_that_was_given_up_gives_way_to_the_next_of_its_client)
{
    const uint64_t pauses_ms[] = {PS_STAGING_YIELD_MS - 1, PS_STAGING_YIELD_MS};
    early_begin(_i % 2 == 1);
    bool is_given_up = _i / 2 == 1;
    early_push_ranges(1, 0, RANGES - 1);
    world.fake.now_ms += pauses_ms[_i / 2];
    ck_assert_int_eq(early_push(&world, "b", 9, PS_F32, ranges[0]), PS_OK);
    ck_assert_int_eq(early_way_of("b", 9), PS_STAGING_PARTS);

    early_push_ranges(2, 0, 1);
    ck_assert_int_eq(early_way_of("a", 2), is_given_up ? PS_STAGING_EARLY : PS_STAGING_PARTS);
    early_push_ranges(2, 1, RANGES);
    ck_assert(!world.reply.staged);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_int_eq(early_way_of("a", 1), is_given_up ? PS_STAGING_UNKNOWN : PS_STAGING_EARLY);
    ck_assert_uint_eq(world.service->staging.expired_count, is_given_up ? 1 : 0);

    ps_staging_clear(&world.service->staging);
    early_push_whole(&twin, "a", 2);
    early_expect_same(1);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    early_end();
}
END_TEST

START_TEST(an_element_that_is_not_finite_refuses_all_of_it)
{
    bool journals = _i == 1;
    early_begin(journals);
    float *elements = (float *)content;
    elements[COUNT - 1] = INFINITY;
    elements[ranges[3].first] = NAN;
    early_push_ranges(1, 0, RANGES - 1);
    enum ps_status last = early_push_range(1, RANGES - 1);
    if (!journals) {
        /* The range that showed it forgot the others: they come again. */
        ck_assert_int_eq(last, PS_OK);
        ck_assert(world.reply.staged);
        early_push_ranges(1, 0, 3);
        last = early_push_range(1, 3);
    }
    ck_assert_int_eq(last, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(early_push(&twin, "a", 1, PS_F32, (struct ps_elements){0, 0}),
                     PS_ERR_BAD_INPUT);
    ck_assert_str_eq(world.error.text, twin.error.text);
    early_expect_same(0);
    early_end();
}
END_TEST

/* Ranges that were applied as they came are no contribution: they come again, and then the push is
 * judged as one. */
START_TEST(a_push_that_a_configuration_for_rounds_overtakes_comes_again)
{
    /* OptimizerConfig{rounds{workers: 2}} */
    static const uint8_t rounds[] = {0x92, 0x0d, 2, 0x08, 2};
    const struct ps_change_request change = {.name = text("w"), .change = {rounds, sizeof rounds}};
    struct ps_changed changed;
    early_begin(false);
    early_push_ranges(1, 0, RANGES - 1);
    ck_assert_int_eq(ps_service_configure(world.service, &change, &changed, NULL, &world.error),
                     PS_OK);
    ps_changed_release(&changed);

    early_push_ranges(1, RANGES - 1, RANGES);

    ck_assert(world.reply.staged);
    early_push_ranges(1, 0, RANGES - 1);
    ck_assert_int_eq(early_push_range(1, RANGES - 1), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "say worker"));
    early_end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("update_overtaken");
    tcase_add_test(t, a_push_that_a_configuration_for_rounds_overtakes_comes_again);
    tcase_add_loop_test(t, a_range_brings_what_it_makes_before_the_push_is_whole, 0, 2);
    tcase_add_test(t, what_is_not_known_or_came_to_nothing_is_not_brought);
    tcase_add_test(t, who_is_overtaken_sends_all_again_and_is_applied_once);
    tcase_add_test(t, who_is_overtaken_is_applied_from_what_the_journal_keeps);
    tcase_add_test(t, a_parameter_rests_after_an_attempt_that_came_to_nothing);
    tcase_add_test(t, only_one_push_of_a_parameter_is_early);
    tcase_add_loop_test(t, an_attempt_that_was_given_up_gives_way_to_the_next_of_its_client, 0, 4);
    tcase_add_loop_test(t, an_element_that_is_not_finite_refuses_all_of_it, 0, 2);
    return run_tests("update_overtaken", t);
}
