/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/change_param.c: what of a parameter is left when it goes, and what a configuration
 * changes. */
#include "core_change.h"
#include "core_early.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/sessions/push_counts.h"

static const float two[] = {1, 2};
static const struct ps_bytes no_config = {NULL, 0};

START_TEST(what_is_dropped_is_not_found_and_its_bytes_are_free)
{
    struct core_world shard;
    world_init_ready(&shard);
    uint64_t used = shard.service->bytes_used;
    ck_assert_int_eq(change_define(&shard, "x", two, 2, no_config, 1), PS_OK);

    ck_assert_int_eq(change_drop(&shard, "x", 2), PS_OK);

    ck_assert(!answers.changed.duplicate);
    ck_assert_uint_eq(shard.service->bytes_used, used);
    ck_assert_int_eq(world_push(&shard, "x", PS_F32, two, sizeof two, NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(change_drop(&shard, "x", 2), PS_OK);
    ck_assert(answers.changed.duplicate);
    ck_assert_int_eq(change_drop(&shard, "x", 3), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(change_configure(&shard, "x", 1, 4), PS_ERR_NOT_FOUND);
    ps_service_check(shard.service);
    world_fini(&shard);
}
END_TEST

START_TEST(a_snapshot_and_a_pull_keep_what_was_dropped)
{
    struct core_world shard;
    struct ps_snapshot snapshot;
    struct ps_pull pull = {0};
    const struct ps_pull_request request = {.name = text("x")};
    world_init(&shard, true, 0);
    world_own(&shard, 1);
    ps_service_begin_empty(shard.service);
    ck_assert_int_eq(world_init_param(&shard, "w", PS_F32, two, sizeof two, no_config), PS_OK);
    ck_assert_int_eq(world_finish(&shard), PS_OK);
    ck_assert_int_eq(change_define(&shard, "x", two, 2, no_config, 1), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(shard.service, &snapshot, NULL), PS_OK);
    ck_assert_int_eq(ps_service_pull(shard.service, &request, &pull, NULL), PS_OK);

    ck_assert_int_eq(change_drop(&shard, "x", 2), PS_OK);

    ck_assert_uint_eq(snapshot.parameter_count, 2);
    ck_assert_mem_eq(snapshot.parameters[1].values.pieces[0].data, two, sizeof two);
    ck_assert_mem_eq(pull.reply.content.pieces[0].data, two, sizeof two);
    ps_pull_release(&pull);
    ps_snapshot_release(&snapshot);
    world_fini(&shard);
}
END_TEST

START_TEST(a_reader_of_the_former_parameter_gets_the_whole_of_the_next)
{
    struct core_world shard;
    struct ps_pull pull = {0};
    struct ps_pull_request request = {.name = text("x"), .held = {.present = true}};
    world_init_ready(&shard);
    ck_assert_int_eq(change_define(&shard, "x", two, 2, no_config, 1), PS_OK);
    ck_assert_int_eq(ps_service_pull(shard.service, &request, &pull, NULL), PS_OK);
    request.held.version = 1 + pull.reply.version;
    request.held.chain = pull.reply.delta.chain;
    ps_pull_release(&pull);
    ck_assert_int_eq(change_drop(&shard, "x", 2), PS_OK);
    ck_assert_int_eq(change_define(&shard, "x", two, 2, no_config, 3), PS_OK);

    ck_assert_int_eq(ps_service_pull(shard.service, &request, &pull, NULL), PS_OK);

    ck_assert_int_eq(pull.reply.delta.whole, PS_WHOLE_OTHER_CHAIN);
    ck_assert(pull.reply.delta.chain.life != request.held.chain.life);
    ps_pull_release(&pull);
    world_fini(&shard);
}
END_TEST

START_TEST(counts_of_a_client_go_with_the_parameter)
{
    struct core_world shard;
    const struct ps_request_id id = {.present = true, .client_id = text("@t#0")};
    struct ps_push_request push = {
        .name = text("x"),
        .dtype = PS_F32,
        .request = {.present = true, .client_id = text("@t#0"), .session = 1, .sequence = 1}};
    struct ps_bytes piece = {(const uint8_t *)two, sizeof two};
    struct ps_session_applied applied;
    struct ps_push_reply reply;
    push.content = ps_view_of(&piece);
    world_init_ready(&shard);
    ck_assert_int_eq(change_define(&shard, "x", two, 2, no_config, 1), PS_OK);
    ck_assert_int_eq(ps_service_push(shard.service, &push, &reply, NULL, NULL), PS_OK);

    ck_assert_int_eq(change_drop(&shard, "x", 2), PS_OK);

    ck_assert_int_eq(
        ps_sessions_applied(&shard.service->sessions, &id, false, 0, &shard.memory, &applied, NULL),
        PS_OK);
    ck_assert_uint_eq(ps_push_counts_known(&applied.counts), 0);
    ps_session_applied_release(&applied, &shard.memory);
    world_fini(&shard);
}
END_TEST

START_TEST(a_configuration_changes_the_next_step_and_nothing_else)
{
    static const float pushed[] = {0.5F, 1.5F};
    static const float ones[] = {1, 1};
    struct core_world shard;
    world_init_ready(&shard);
    ck_assert_int_eq(change_define(&shard, "x", two, 2, no_config, 1), PS_OK);

    ck_assert_int_eq(change_configure(&shard, "x", 0.5, 2), PS_OK);

    ck_assert_uint_eq(answers.changed.version, 0);
    world_expect_f32(&shard, "x", two, 2);
    ck_assert_int_eq(world_push(&shard, "x", PS_F32, ones, sizeof ones, NULL), PS_OK);
    world_expect_f32(&shard, "x", pushed, 2);
    ck_assert_int_eq(change_configure(&shard, "x", 0.5, 2), PS_OK);
    ck_assert(answers.changed.duplicate);
    ck_assert_uint_eq(answers.changed.step, 1);
    ps_service_check(shard.service);
    world_fini(&shard);
}
END_TEST

START_TEST(what_shapes_the_states_cannot_change)
{
    struct core_world shard;
    world_init_ready(&shard);

    ck_assert_int_eq(change_configure_to(&shard, "w", config_of("adam", 1), 1), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(shard.error.text, "its rule is sgd and cannot become adam"));
    ck_assert_int_eq(change_configure_to(&shard, "w", no_config, 2), PS_ERR_BAD_INPUT);

    ps_service_check(shard.service);
    world_fini(&shard);
}
END_TEST

START_TEST(what_was_applied_early_under_another_configuration_is_applied_anew)
{
    early_begin(true);
    ck_assert_int_eq(change_configure_to(&twin, "w", config_of("adam", 0.5), 0), PS_OK);
    early_push_ranges(1, 0, RANGES - 1);
    ck_assert_int_eq(early_way_of("a", 1), PS_STAGING_EARLY);

    ck_assert_int_eq(change_configure_to(&world, "w", config_of("adam", 0.5), 0), PS_OK);

    ck_assert_int_eq(early_push_range(1, RANGES - 1), PS_OK);
    early_push_whole(&twin, "a", 1);
    early_expect_same(1);
    early_end();
}
END_TEST

START_TEST(pushes_in_ranges_go_with_their_parameter)
{
    early_begin(true);
    early_push_ranges(1, 0, RANGES - 1);

    ck_assert_int_eq(change_drop(&world, "w", 0), PS_OK);

    ck_assert_uint_eq(world.service->staging.bytes, 0);
    ck_assert_int_eq(early_push_range(1, RANGES - 1), PS_ERR_NOT_FOUND);
    early_end();
}
END_TEST

START_TEST(a_change_survives_any_refused_allocation)
{
    struct core_world shard;
    world_init_journal(&shard);
    struct ps_bytes change = config_of("sgd", 0.5);
    shard.heap.seen = 0;
    shard.heap.refuse_at = _i;

    enum ps_status status = change_configure_to(&shard, "w", change, 1);
    if (status == PS_OK)
        status = change_drop(&shard, "w", 2);

    shard.heap.refuse_at = -1;
    ck_assert_int_eq(status, shard.heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_service_check(shard.service);
    (void)world_write_journal(&shard);
    world_fini(&shard);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("change_param");
    tcase_add_test(tests, what_is_dropped_is_not_found_and_its_bytes_are_free);
    tcase_add_test(tests, a_snapshot_and_a_pull_keep_what_was_dropped);
    tcase_add_test(tests, a_reader_of_the_former_parameter_gets_the_whole_of_the_next);
    tcase_add_test(tests, counts_of_a_client_go_with_the_parameter);
    tcase_add_test(tests, a_configuration_changes_the_next_step_and_nothing_else);
    tcase_add_test(tests, what_shapes_the_states_cannot_change);
    tcase_add_test(tests, what_was_applied_early_under_another_configuration_is_applied_anew);
    tcase_add_test(tests, pushes_in_ranges_go_with_their_parameter);
    tcase_add_loop_test(tests, a_change_survives_any_refused_allocation, 0, 24);
    return run_tests("change_param", tests);
}
