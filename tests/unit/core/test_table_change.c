/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/table_change.c: sums follow the table, and each birth has a chain of its own. */
#include "core_change.h"
#include "server/core/requests/table_change.h"

static const float two[] = {1, 2};

START_TEST(parameters_of_one_name_have_different_chains)
{
    struct core_world world;
    uint64_t lives[4];
    world_init_ready(&world);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(change_define(&world, "x", two, 2, (struct ps_bytes){0}, 0), PS_OK);
        const struct ps_parameter *parameter =
            ps_parameter_table_find(&world.service->table, text("x"));
        struct ps_chain chain = ps_service_chain_of(world.service, parameter->spec);
        ck_assert_uint_eq(chain.epoch, world.service->chain.epoch);
        ck_assert(chain.life != 0 && chain.life != world.service->chain.life);
        lives[i] = chain.life;
        for (uint64_t j = 0; j < i; j++)
            ck_assert(lives[j] != chain.life);
        ck_assert_int_eq(change_drop(&world, "x", 0), PS_OK);
    }
    world_fini(&world);
}
END_TEST

START_TEST(a_parameter_of_the_initialisation_has_the_chain_of_the_shard)
{
    struct core_world world;
    world_init_ready(&world);
    const struct ps_parameter *w = ps_parameter_table_find(&world.service->table, text("w"));

    ck_assert_uint_eq(ps_service_chain_of(world.service, w->spec).life, world.service->chain.life);

    world_fini(&world);
}
END_TEST

START_TEST(sums_are_as_before_when_all_that_came_has_gone)
{
    struct core_world world;
    world_init_ready(&world);
    int64_t live = world.heap.live;
    uint64_t used = world.service->bytes_used;
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(change_define(&world, "x", two, 2, (struct ps_bytes){0}, 0), PS_OK);
        ck_assert_int_eq(change_configure(&world, "x", 0.5, 0), PS_OK);
        ck_assert_int_eq(change_configure(&world, "x", 0.25, 0), PS_OK);
        ps_service_check(world.service);
        ck_assert_int_eq(change_drop(&world, "x", 0), PS_OK);
    }
    ck_assert_int_eq(world.heap.live, live);
    ck_assert_uint_eq(world.service->bytes_used, used);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("table_change");
    tcase_add_test(tests, parameters_of_one_name_have_different_chains);
    tcase_add_test(tests, a_parameter_of_the_initialisation_has_the_chain_of_the_shard);
    tcase_add_test(tests, sums_are_as_before_when_all_that_came_has_gone);
    return run_tests("table_change", tests);
}
