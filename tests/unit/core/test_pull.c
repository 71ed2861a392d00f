/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/pull.c: who is answered, and of which version. */
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

static const float ones[] = {1, 1, 1, 1};

START_TEST(pull_before_finish_says_not_yet)
{
    struct core_world world;
    float values[4];
    size_t size;
    world_init_empty(&world);
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}),
        PS_OK);

    ck_assert_int_eq(world_pull(&world, "w", values, sizeof values, &size, NULL), PS_ERR_NOT_READY);
    int told = world.changed_count;
    ck_assert_int_eq(world_finish(&world), PS_OK);

    ck_assert_int_gt(world.changed_count, told);
    ck_assert_int_eq(world_pull(&world, "w", values, sizeof values, &size, NULL), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(b17_pull_of_nothing_is_answered_at_once)
{
    struct core_world world;
    struct ps_pull_request request = {.name = {NULL, 0}};
    struct ps_pull pull = {0};
    world_init_ready(&world);

    enum ps_status status = ps_service_pull(world.service, &request, &pull, &world.error);

    ck_assert_int_eq(status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(world.error.text, "parameter:  does not exist");
    world_fini(&world);
}
END_TEST

START_TEST(pull_of_an_unknown_parameter_names_it)
{
    struct core_world world;
    float values[4];
    size_t size;
    world_init_ready(&world);

    ck_assert_int_eq(world_pull(&world, "v", values, sizeof values, &size, NULL), PS_ERR_NOT_FOUND);

    ck_assert_str_eq(world.error.text, "parameter: v does not exist");
    world_fini(&world);
}
END_TEST

START_TEST(pull_gives_type_values_and_version)
{
    struct core_world world;
    struct ps_pull_request request = {.name = text("w")};
    struct ps_pull pull = {0};
    world_init_ready(&world);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_OK);

    ck_assert_int_eq(pull.reply.dtype, PS_F32);
    ck_assert_uint_eq(pull.reply.version, 1);
    ck_assert_uint_eq(pull.reply.content.size, 16);
    ps_pull_release(&pull);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

START_TEST(a_pull_allocates_nothing)
{
    struct core_world world;
    float values[4];
    size_t size;
    world_init_ready(&world);
    int64_t seen = world.heap.seen;

    ck_assert_int_eq(world_pull(&world, "w", values, sizeof values, &size, NULL), PS_OK);

    ck_assert_int_eq(world.heap.seen, seen);
    world_fini(&world);
}
END_TEST

START_TEST(a_pull_knows_of_an_update_that_it_would_wait_for)
{
    struct core_world world;
    const struct ps_pull_request request = {.name = text("w")};
    const struct ps_pull_request other = {.name = text("nobody")};
    world_init_ready(&world);
    struct ps_parameter *parameter = ps_parameter_table_find(&world.service->table, request.name);
    ck_assert_uint_eq(ps_service_pull_work(world.service, &request), 0);

    atomic_store(&parameter->updating, 64 << 20);
    ck_assert_uint_eq(ps_service_pull_work(world.service, &request), 64 << 20);
    ck_assert_uint_eq(ps_service_pull_work(world.service, &other), 0);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_uint_eq(ps_service_pull_work(world.service, &request), 0);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pull");
    tcase_add_test(tests, pull_before_finish_says_not_yet);
    tcase_add_test(tests, b17_pull_of_nothing_is_answered_at_once);
    tcase_add_test(tests, pull_of_an_unknown_parameter_names_it);
    tcase_add_test(tests, pull_gives_type_values_and_version);
    tcase_add_test(tests, a_pull_allocates_nothing);
    tcase_add_test(tests, a_pull_knows_of_an_update_that_it_would_wait_for);
    return run_tests("pull", tests);
}
