/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes in ranges that are applied as they come: the bits of a push in one piece, all of it or
 * nothing, once, and within the room that is stated. */
#include "server/core/update/update.h"

#include "core_early.h"
#include "core_kinds.h"

#include <stdlib.h>
#include <string.h>

START_TEST(every_rule_gives_the_bits_of_a_push_in_one_piece)
{
    static const size_t order[RANGES] = {3, 0, 4, 2, 1};
    const struct kind *kind = &kinds[_i % KIND_COUNT];
    enum ps_dtype gradient = gradient_of(kind);
    early_begin_with(_i >= KIND_COUNT, 0, kind->dtype, kind_config(kind));
    early_fill(gradient, 2);
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        for (size_t i = 0; i < RANGES; i++) {
            ck_assert_int_eq(early_push(&world, "a", sequence, gradient, ranges[order[i]]), PS_OK);
            ck_assert(world.reply.staged == (i + 1 < RANGES));
            ck_assert(i + 1 == RANGES || early_way_of("a", sequence) == PS_STAGING_EARLY);
        }
        ck_assert_uint_eq(world.reply.version, sequence);
        ck_assert_int_eq(early_push(&twin, "a", sequence, gradient, (struct ps_elements){0, 0}),
                         PS_OK);
        early_fill(gradient, 3);
    }

    early_expect_same(2);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    early_end();
}
END_TEST

START_TEST(what_reads_during_an_attempt_sees_the_version_before)
{
    early_begin(false);
    early_push_ranges(1, 0, RANGES - 1);
    ck_assert(world.reply.staged);

    early_expect_same(0);
    early_push_ranges(1, RANGES - 1, RANGES);
    early_push_whole(&twin, "a", 1);
    early_expect_same(1);
    early_end();
}
END_TEST

START_TEST(a_reader_of_the_version_before_keeps_it)
{
    early_begin(false);
    const struct ps_pull_request request = {.name = text("w")};
    struct ps_pull before;
    ck_assert_int_eq(ps_service_pull(world.service, &request, &before, NULL), PS_OK);
    ps_view_copy(before.reply.content, 0, got[0], COUNT * sizeof(float));

    early_push_ranges(1, 0, RANGES);

    ps_view_copy(before.reply.content, 0, got[1], COUNT * sizeof(float));
    ck_assert(memcmp(got[0], got[1], COUNT * sizeof(float)) == 0);
    ps_pull_release(&before);
    early_end();
}
END_TEST

START_TEST(ranges_that_come_again_change_nothing)
{
    early_begin(_i == 1);
    for (size_t i = 0; i < RANGES; i++) {
        ck_assert_int_eq(early_push_range(1, i), PS_OK);
        ck_assert_int_eq(early_push_range(1, i), PS_OK);
    }
    ck_assert(world.reply.duplicate);
    early_push_ranges(1, 0, RANGES);
    ck_assert(world.reply.duplicate);

    early_push_whole(&twin, "a", 1);
    early_expect_same(1);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    early_end();
}
END_TEST

START_TEST(settings_that_must_see_the_whole_first_have_no_attempt)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.learning_rate = 0.5;
    if (_i == 0)
        config.clip_norm = 1;
    else
        (void)ps_optimizer_config_choose(&config, "add");
    if (_i == 1)
        config.add_overflow = 2;
    enum ps_dtype dtype = _i == 0 ? PS_F32 : PS_I32;
    early_begin_with(false, 0, dtype, config_bytes(&config));
    ck_assert_int_eq(early_push(&world, "a", 1, dtype, ranges[0]), PS_OK);
    ck_assert_int_eq(early_way_of("a", 1), _i == 2 ? PS_STAGING_EARLY : PS_STAGING_PARTS);
    for (size_t i = 1; i < RANGES; i++)
        ck_assert_int_eq(early_push(&world, "a", 1, dtype, ranges[i]), PS_OK);
    ck_assert_int_eq(early_push(&twin, "a", 1, dtype, (struct ps_elements){0, 0}), PS_OK);
    early_expect_same(1);
    early_end();
}
END_TEST

START_TEST(new_blocks_count_as_staged_and_are_given_back)
{
    const uint64_t bytes = COUNT * sizeof(float);
    early_begin(_i == 1);
    early_push_ranges(1, 0, 1);
    ck_assert_uint_eq(world.service->staging.bytes, bytes * (_i == 1 ? 4 : 3));
    world.fake.now_ms += PS_STAGING_IDLE_MS;
    ck_assert_int_eq(early_push(&world, "b", 1, PS_F32, ranges[0]), PS_OK);
    ck_assert_uint_eq(world.service->staging.expired_count, 1);
    ck_assert_int_eq(early_way_of("b", 1), PS_STAGING_EARLY);
    for (size_t i = 1; i < RANGES; i++)
        ck_assert_int_eq(early_push(&world, "b", 1, PS_F32, ranges[i]), PS_OK);
    (void)world_write_journal(&world);
    early_end();
}
END_TEST

START_TEST(what_was_replaced_goes_at_once_whoever_keeps_the_attempt)
{
    const struct ps_optimizer_settings settings = {.rule = PS_RULE_SGD, .learning_rate.rate = 1};
    static float ones[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1;
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    const struct ps_gradient gradient = {.content = ps_view_of(&piece)};
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        &memory, ps_bytes_of_text("w"), PS_F32, COUNT, (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    ck_assert_int_eq(ps_parameter_set(parameter, gradient.content, NULL), PS_OK);
    struct ps_update *early = ps_update_create_early(parameter);
    uint64_t version = 0;
    ck_assert_int_eq(ps_update_apply(early, (struct ps_elements){0, COUNT}, gradient, NULL), PS_OK);
    int64_t before = heap.live;

    ck_assert_int_eq(ps_update_commit(early, NULL, &version, NULL), PS_OK);

    ck_assert_int_eq(heap.live, before - 4); /* a list and three blocks */
    ck_assert_ptr_eq(ps_update_early_spec(early), spec);
    ps_parameter_check(parameter);
    ps_update_destroy(early);
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(what_does_not_fit_is_put_together_first)
{
    early_begin_with(false, 2 * COUNT * sizeof(float) * 3 - (uint64_t)_i, PS_F32,
                     config_of("adam", 0.1));
    early_push_ranges(1, 0, 1);
    ck_assert_int_eq(early_way_of("a", 1), _i == 0 ? PS_STAGING_EARLY : PS_STAGING_PARTS);
    early_push_ranges(1, 1, RANGES);
    early_push_whole(&twin, "a", 1);
    early_expect_same(1);
    early_end();
}
END_TEST

START_TEST(an_attempt_goes_with_its_shard)
{
    early_begin(false);
    early_push_ranges(1, 0, RANGES - 1);
    ps_service_reset(world.service);
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    early_end();
}
END_TEST

START_TEST(a_server_that_cannot_prove_its_lease_makes_no_version)
{
    early_begin(false);
    early_push_ranges(1, 0, RANGES - 1);
    ps_service_prove(world.service, 0);
    ck_assert_int_eq(early_push_range(1, RANGES - 1), PS_ERR_UNAVAILABLE);
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    early_push_ranges(1, RANGES - 1, RANGES);
    ck_assert_uint_eq(world.reply.version, 1);

    early_push_whole(&twin, "a", 1);
    early_expect_same(1);
    early_end();
}
END_TEST

START_TEST(pushes_early_survive_any_refused_allocation)
{
    early_begin(_i % 2 == 1);
    world.heap.seen = 0;
    world.heap.refuse_at = _i / 2;
    for (int tries = 0; tries < 3; tries++) {
        for (size_t i = 0; i < RANGES; i++) {
            enum ps_status status = early_push_range(1, i);
            ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
            if (status != PS_OK)
                ck_assert_int_eq(early_push_range(1, i), PS_OK);
        }
        if (!world.reply.staged)
            break;
    }
    ck_assert(!world.reply.staged);
    world.heap.refuse_at = -1;
    early_push_whole(&twin, "a", 1);
    early_expect_same(1);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    early_end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("update_early");
    tcase_add_loop_test(t, every_rule_gives_the_bits_of_a_push_in_one_piece, 0, 2 * KIND_COUNT);
    tcase_add_test(t, what_reads_during_an_attempt_sees_the_version_before);
    tcase_add_test(t, a_reader_of_the_version_before_keeps_it);
    tcase_add_loop_test(t, ranges_that_come_again_change_nothing, 0, 2);
    tcase_add_loop_test(t, settings_that_must_see_the_whole_first_have_no_attempt, 0, 3);
    tcase_add_loop_test(t, new_blocks_count_as_staged_and_are_given_back, 0, 2);
    tcase_add_test(t, what_was_replaced_goes_at_once_whoever_keeps_the_attempt);
    tcase_add_loop_test(t, what_does_not_fit_is_put_together_first, 0, 2);
    tcase_add_test(t, an_attempt_goes_with_its_shard);
    tcase_add_test(t, a_server_that_cannot_prove_its_lease_makes_no_version);
    tcase_add_loop_test(t, pushes_early_survive_any_refused_allocation, 0, 2 * 40);
    return run_tests("update_early", t);
}
