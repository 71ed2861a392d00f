/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/init_param.c: what --memory-bytes counts. */
#include "tests/unit/core/core_world.h"

#include <stdio.h>

static const float two[] = {1, 2};
static const struct ps_bytes no_config = {NULL, 0};

START_TEST(the_memory_limit_counts_values_and_states)
{
    struct core_world world;
    static const float large[8000];
    /* Of large parameters the arrays count alone: 32,000 bytes, and 96,000 under Adam. */
    world_init(&world, false, 100000);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, large, sizeof large, no_config), PS_OK);

    enum ps_status status =
        world_init_param(&world, "v", PS_F32, large, sizeof large, config_of("adam", 0.1));

    ck_assert_int_eq(status, PS_ERR_BUSY);
    ck_assert_str_eq(world.error.text,
                     "memory limit: 96000 bytes needed, 32000 used, limit 100000 (--memory-bytes)");
    ck_assert_int_eq(world.error.refusal, PS_REFUSED_MEMORY);
    ck_assert_int_eq(world_init_param(&world, "v", PS_F32, large, sizeof large, no_config), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(a_tiny_parameter_counts_what_it_takes)
{
    struct core_world world;
    char name[16];
    int taken = 0;
    world_init(&world, false, 1 << 20);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    int64_t before = world.heap.live;

    do
        (void)snprintf(name, sizeof name, "w%d", taken++);
    while (world_init_param(&world, name, PS_F32, two, sizeof two, no_config) == PS_OK);

    ck_assert_int_eq(world.error.refusal, PS_REFUSED_MEMORY);
    ck_assert_int_gt(taken, 500);
    ck_assert_int_lt(taken, 1024);
    ck_assert_int_gt(world.heap.live, before);
    world_fini(&world);
}
END_TEST

START_TEST(replacing_at_the_limit_is_possible)
{
    struct core_world world;
    static const float large[8000], larger[8001];
    world_init(&world, false, sizeof large);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world_init_param(&world, "w", PS_F32, large, sizeof large, no_config),
                         PS_OK);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, larger, sizeof larger, no_config),
                     PS_ERR_BUSY);

    ck_assert_int_eq(world_finish(&world), PS_OK);
    world_expect_f32(&world, "w", large, 8000);
    world_fini(&world);
}
END_TEST

START_TEST(reset_gives_the_counted_bytes_back)
{
    struct core_world world;
    static const float large[8000];
    world_init(&world, false, sizeof large);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, large, sizeof large, no_config), PS_OK);

    ps_service_reset(world.service);
    world_own(&world, 2);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(world_init_param(&world, "v", PS_F32, large, sizeof large, no_config), PS_OK);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("init_param_limit");
    tcase_add_test(tests, the_memory_limit_counts_values_and_states);
    tcase_add_test(tests, a_tiny_parameter_counts_what_it_takes);
    tcase_add_test(tests, replacing_at_the_limit_is_possible);
    tcase_add_test(tests, reset_gives_the_counted_bytes_back);
    return run_tests("init_param_limit", tests);
}
