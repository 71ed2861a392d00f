/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/snapshot.c: the shard is lost while memory for a snapshot is reserved already and
 * the instant has not come. Nobody sees a snapshot of what is gone, nor one of another life. */
#include "server/core/recovery/snapshot.h"
#include "server/core/values/block_pool.h"
#include "tests/unit/core/core_device.h"

#define COUNT 30011

/* Has room for the parameter and not for its copy. */
#define TIGHT (640u << 10)

static struct core_device device;
static struct core_world world;
static struct ps_block_pool *pool;
static struct ps_block_source source; /* the pool's, which tells us of the moment in between */
static bool comes_again;              /* the shard, with a parameter of another size */
static bool in_between;

static void init(size_t count)
{
    static const float zeros[2 * COUNT];
    ck_assert_int_eq(
        world_init_param(&world, "p", PS_F32, zeros, count * sizeof zeros[0], config_of("adam", 1)),
        PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
}

static void lose(void *self, uint64_t bytes)
{
    (void)self;
    (void)bytes;
    if (!in_between)
        return;
    ps_service_reset(world.service);
    if (!comes_again)
        return;
    world_own(&world, 2);
    ps_service_begin_empty(world.service);
    init(COUNT / 2);
}

/* _i: the parameter lives on the host; on a device with room for a copy; without. */
static void begin(int i)
{
    pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    ck_assert_ptr_nonnull(pool);
    source = *ps_block_pool_source(pool);
    source.expect_copies = lose;
    core_device_open(&device, i == 2 ? TIGHT : 0, NULL);
    struct ps_service_options options = {
        .block_source = &source, .device_store = i > 0 ? &device.store : NULL, .saves = true};
    world_init_with(&world, &options);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    init(COUNT);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, i > 0 ? 1 : 0);
}

static void end(void)
{
    world_fini(&world);
    core_device_close(&device);
    ps_block_pool_destroy(pool);
}

static enum ps_status snapshot_now(struct ps_snapshot *snapshot)
{
    in_between = true;
    enum ps_status status = ps_snapshot_take(world.service, snapshot, &world.error);
    in_between = false;
    return status;
}

START_TEST(a_shard_that_is_lost_in_between_has_no_snapshot)
{
    struct ps_snapshot snapshot;
    comes_again = false;
    begin(_i);

    ck_assert_int_eq(snapshot_now(&snapshot), PS_ERR_NOT_READY);

    ck_assert_ptr_null(snapshot.held);
    ck_assert_uint_eq(core_device_stats(&device).snapshot_count, 0);
    ck_assert_uint_eq(core_device_stats(&device).used_bytes, 0);
    end();
}
END_TEST

START_TEST(a_shard_that_is_lost_and_comes_again_in_between_has_none_before_the_next)
{
    struct ps_snapshot snapshot;
    comes_again = true;
    begin(_i);

    ck_assert_int_eq(snapshot_now(&snapshot), PS_ERR_NOT_READY);

    ck_assert_str_eq(world.error.text, "the shard was lost meanwhile");
    ck_assert_uint_eq(core_device_stats(&device).snapshot_count, 0);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, &world.error), PS_OK);
    ck_assert_uint_eq(snapshot.parameter_count, 1);
    ck_assert_uint_eq(snapshot.parameters[0].count, COUNT / 2);
    ps_snapshot_release(&snapshot);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("snapshot_lost");
    tcase_add_loop_test(tests, a_shard_that_is_lost_in_between_has_no_snapshot, 0, 3);
    tcase_add_loop_test(
        tests, a_shard_that_is_lost_and_comes_again_in_between_has_none_before_the_next, 0, 3);
    return run_tests("snapshot_lost", tests);
}
