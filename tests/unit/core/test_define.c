/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/define.c: a parameter more while the shard trains; once, whole, or not at all. */
#include "base/bounds.h"
#include "core_change.h"
#include "server/core/requests/service_state.h"

static const float two[] = {1, 2};
static const float ones[] = {1, 1};
static const struct ps_bytes no_config = {NULL, 0};

START_TEST(a_defined_parameter_is_pulled_and_pushed_as_any)
{
    static const float pushed[] = {0, 1};
    struct core_world world;
    world_init_ready(&world);

    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_OK);

    ck_assert(!answers.defined.existed && answers.defined.epoch > 0);
    world_expect_f32(&world, "x", two, 2);
    ck_assert_int_eq(world_push(&world, "x", PS_F32, ones, sizeof ones, NULL), PS_OK);
    world_expect_f32(&world, "x", pushed, 2);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(a_repeat_changes_nothing_and_an_equal_one_existed)
{
    struct core_world world;
    world_init_ready(&world);
    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_OK);
    uint64_t position = 0, durable = 0;
    ps_service_positions(world.service, &position, &durable);

    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_OK);
    ck_assert(!answers.defined.existed);
    ck_assert_int_eq(change_define(&world, "x", ones, 2, no_config, 2), PS_OK);
    ck_assert(answers.defined.existed);

    uint64_t later = 0;
    ps_service_positions(world.service, &later, &durable);
    ck_assert_uint_eq(later, position);
    world_expect_f32(&world, "x", two, 2);
    world_fini(&world);
}
END_TEST

START_TEST(what_differs_from_the_parameter_that_is_there_is_named)
{
    static const float three[] = {1, 2, 3};
    struct core_world world;
    world_init_ready(&world);
    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_OK);

    ck_assert_int_eq(change_define(&world, "x", three, 3, no_config, 2), PS_ERR_EXISTS);
    ck_assert_str_eq(world.error.text, "Name: x exists, with shape [2] and not [3]");
    ck_assert_int_eq(change_define(&world, "x", two, 2, config_of("sgd", 0.5), 2), PS_ERR_EXISTS);
    ck_assert_str_eq(world.error.text, "Name: x exists, with lr=1 and not 0.5");
    ck_assert_int_eq(change_define(&world, "x", two, 0, config_of("sgd", 1), 2), PS_ERR_EXISTS);
    ck_assert_str_eq(world.error.text, "Name: x exists, and is no table");

    world_fini(&world);
}
END_TEST

START_TEST(the_configuration_may_be_the_present_one_or_that_of_the_definition)
{
    struct core_world world;
    world_init_ready(&world);
    ck_assert_int_eq(change_define(&world, "x", two, 2, config_of("sgd", 0.5), 1), PS_OK);
    ck_assert_int_eq(change_configure(&world, "x", 0.25, 2), PS_OK);
    ck_assert_int_eq(change_configure(&world, "x", 0.125, 3), PS_OK);

    ck_assert_int_eq(change_define(&world, "x", two, 2, config_of("sgd", 0.5), 4), PS_OK);
    ck_assert_int_eq(change_define(&world, "x", two, 2, config_of("sgd", 0.125), 5), PS_OK);
    ck_assert_int_eq(change_define(&world, "x", two, 2, config_of("sgd", 0.25), 6), PS_ERR_EXISTS);

    world_fini(&world);
}
END_TEST

START_TEST(before_the_initialisation_has_ended_it_is_not_ready)
{
    struct core_world world;
    world_init_empty(&world);

    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_ERR_NOT_READY);
    ck_assert_int_eq(change_drop(&world, "x", 2), PS_ERR_NOT_READY);
    ck_assert_int_eq(change_configure(&world, "x", 1, 3), PS_ERR_NOT_READY);

    world_fini(&world);
}
END_TEST

START_TEST(the_answer_waits_for_the_journal_and_so_does_one_of_what_existed)
{
    struct core_world world;
    world_init_journal(&world);

    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 1), PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 2), PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);

    world_fini(&world);
}
END_TEST

START_TEST(where_the_journal_has_failed_nothing_is_defined)
{
    struct core_world world;
    world_init_journal(&world);
    ck_assert_int_eq(world_push_with(&world, PS_ACK_DEFAULT, 1), PS_OK);
    world_fail_journal(&world);

    ck_assert_int_eq(change_define(&world, "x", two, 2, no_config, 2), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(change_drop(&world, "w", 3), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(change_configure(&world, "w", 0.5, 4), PS_ERR_UNAVAILABLE);

    ck_assert_uint_eq(world.service->table.count, 1);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(a_definition_beyond_the_memory_limit_is_refused_and_counts_nothing)
{
    static const float many[1024] = {0};
    struct core_world world;
    world_init(&world, false, 4096);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, two, sizeof two, no_config), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    uint64_t used = world.service->bytes_used;

    ck_assert_int_eq(change_define(&world, "x", many, 1024, no_config, 1), PS_ERR_BUSY);

    ck_assert_uint_eq(world.service->bytes_used, used);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

/* Refuses the first allocation, then the second, and so on: each failure must leave nothing. */
START_TEST(a_definition_survives_any_refused_allocation)
{
    struct core_world world;
    world_init_journal(&world);
    uint64_t used = world.service->bytes_used;
    world.heap.seen = 0;
    world.heap.refuse_at = _i;

    enum ps_status status = change_define(&world, "x", two, 2, config_of("adam", 1), 1);

    bool was_refused = world.heap.seen > _i;
    world.heap.refuse_at = -1;
    ck_assert_int_eq(status, was_refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(world.service->table.count, was_refused ? 1 : 2);
    ck_assert(!was_refused || world.service->bytes_used == used);
    ps_service_check(world.service);
    ck_assert_int_eq(change_define(&world, "x", two, 2, config_of("adam", 1), 1), PS_OK);
    (void)world_write_journal(&world);
    world_fini(&world);
}
END_TEST

START_TEST(a_definition_in_ranges_is_one_parameter)
{
    enum { COUNT = 2 * PS_STAGING_PART_BYTES / sizeof(float) };
    static float values[COUNT];
    struct core_world world;
    struct ps_init_reply reply;
    world_init_journal(&world);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)i;
    for (size_t i = 0; i < 2; i++) {
        struct ps_bytes piece = {(const uint8_t *)(values + i * COUNT / 2), sizeof values / 2};
        const struct ps_init_request request = {
            .name = text("x"),
            .dtype = PS_F32,
            .content = ps_view_of(&piece),
            .range = {i * COUNT / 2, COUNT / 2},
            .total = COUNT,
            .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = 1}};

        ck_assert_int_eq(
            ps_service_define(world.service, &request, &reply, &world.wait, &world.error), PS_OK);

        ck_assert_int_eq(reply.staged, i == 0);
        ck_assert_int_eq(world_acknowledge(&world), i == 0 ? PS_OK : PS_ERR_NOT_READY);
    }
    world_expect_f32(&world, "x", values, COUNT);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("define");
    tcase_add_test(tests, a_defined_parameter_is_pulled_and_pushed_as_any);
    tcase_add_test(tests, a_repeat_changes_nothing_and_an_equal_one_existed);
    tcase_add_test(tests, what_differs_from_the_parameter_that_is_there_is_named);
    tcase_add_test(tests, the_configuration_may_be_the_present_one_or_that_of_the_definition);
    tcase_add_test(tests, before_the_initialisation_has_ended_it_is_not_ready);
    tcase_add_test(tests, the_answer_waits_for_the_journal_and_so_does_one_of_what_existed);
    tcase_add_test(tests, where_the_journal_has_failed_nothing_is_defined);
    tcase_add_test(tests, a_definition_beyond_the_memory_limit_is_refused_and_counts_nothing);
    tcase_add_loop_test(tests, a_definition_survives_any_refused_allocation, 0, 24);
    tcase_add_test(tests, a_definition_in_ranges_is_one_parameter);
    return run_tests("define", tests);
}
