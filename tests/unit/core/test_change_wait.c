/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/change_wait.c: for what the answer to a change waits. */
#include "core_change.h"
#include "server/core/requests/change_wait.h"

START_TEST(at_level_memory_nothing_is_waited_for)
{
    struct core_world world;
    struct ps_push_wait wait;
    uint64_t durable = 99;
    world_init_ready(&world);
    ck_assert_int_eq(change_configure(&world, "w", 0.5, 1), PS_OK);
    ps_rwlock_read(&world.service->cut);

    ps_change_begin_wait(world.service, 1, &wait, &durable);

    ps_rwlock_unlock(&world.service->cut);
    ck_assert_uint_eq(wait.position, 0);
    ck_assert_uint_eq(durable, 0);
    world_fini(&world);
}
END_TEST

START_TEST(whose_shard_it_is_comes_before_its_state)
{
    struct core_world world;
    struct ps_error error;
    world_init_empty(&world);

    ck_assert_int_eq(ps_change_check_ready(world.service, 2, &error), PS_ERR_NOT_OWNER);
    ck_assert_int_eq(ps_change_check_ready(world.service, 1, &error), PS_ERR_NOT_READY);

    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("change_wait");
    tcase_add_test(tests, at_level_memory_nothing_is_waited_for);
    tcase_add_test(tests, whose_shard_it_is_comes_before_its_state);
    return run_tests("change_wait", tests);
}
