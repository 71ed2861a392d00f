/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/snapshot.c: everything of one instant, held while training goes on. */
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static const float ones[] = {1, 1, 1, 1};
static const float start[] = {1, 2, 3, 4};

START_TEST(there_is_nothing_to_save_before_finish)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_empty(&world);

    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_ERR_NOT_READY);

    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(a_snapshot_has_facts_and_parameters_sorted_by_name)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    struct ps_bytes config;
    world_init(&world, true, 0);
    ps_service_own(world.service, 2, 5, 77, "localhost:1");
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(world.service);
    config = config_of("adam", 0.5);
    ck_assert_int_eq(world_init_param(&world, "z", PS_F32, start, sizeof start, config), PS_OK);
    ck_assert_int_eq(
        world_init_param(&world, "a", PS_F32, start, sizeof start, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(world_push(&world, "z", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);

    ck_assert_uint_eq(snapshot.facts.index, 2);
    ck_assert_uint_eq(snapshot.facts.shard_count, 5);
    ck_assert_uint_eq(snapshot.facts.epoch, 77);
    ck_assert_uint_eq(snapshot.facts.position, 1);
    ck_assert_uint_eq(strlen(snapshot.facts.uuid), 36);
    ck_assert_str_eq(snapshot.facts.job, "test");
    ck_assert_uint_eq(snapshot.parameter_count, 2);
    ck_assert(ps_bytes_equal(snapshot.parameters[0].name, text("a")));
    ck_assert_uint_eq(snapshot.parameters[0].state_count, 0);
    ck_assert_uint_eq(snapshot.parameters[1].state_count, 2);
    ck_assert_uint_eq(snapshot.parameters[1].states[1].size, 16);
    ck_assert_uint_eq(snapshot.parameters[1].version, 1);
    ck_assert_uint_eq(snapshot.parameters[1].step, 1);
    ck_assert(ps_bytes_equal(snapshot.parameters[1].config, config));
    ps_snapshot_release(&snapshot);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

/* Takes a snapshot of an empty shard whose uuids come from `seed`. */
static void take_seeded_uuid(uint64_t seed, uint64_t now_ms, char uuid[37])
{
    struct ps_random random;
    struct fake_clock fake = {now_ms};
    struct ps_clock clock = fake_clock_clock(&fake);
    struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = &clock, .random = &random};
    struct ps_service *service;
    struct ps_snapshot snapshot;
    struct ps_ticket ticket;
    ps_random_init(&random, seed);
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    ps_service_own(service, 0, 1, 1, "");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(service, &snapshot, NULL), PS_OK);
    memcpy(uuid, snapshot.facts.uuid, 37);
    ps_snapshot_release(&snapshot);
    ps_service_destroy(service);
}

START_TEST(a_seed_repeats_its_uuids)
{
    char first[37];
    char again[37];
    char other[37];

    take_seeded_uuid(1, 1000, first);
    take_seeded_uuid(1, 1000, again);
    take_seeded_uuid(2, 1000, other);

    ck_assert_str_eq(first, again);
    ck_assert_str_ne(first, other);
    ck_assert_uint_eq(strlen(first), 36);
    ck_assert_int_eq(first[14], '7');
    ck_assert_ptr_nonnull(strchr("89ab", first[19]));
}
END_TEST

START_TEST(a_fenced_server_still_takes_snapshots)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_ready(&world);
    ps_service_prove(world.service, 0);

    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);

    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(a_snapshot_survives_any_refused_allocation)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_ready(&world);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    int64_t live = world.heap.live;
    world.heap.refuse_at = world.heap.seen + _i;

    enum ps_status status = ps_snapshot_take(world.service, &snapshot, NULL);

    /* The references, their rows, the bytes of the sessions. */
    ck_assert_int_eq(status, _i < 3 ? PS_ERR_NO_MEMORY : PS_OK);
    ps_snapshot_release(&snapshot);
    ck_assert_int_eq(world.heap.live, live);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("snapshot");
    tcase_add_test(tests, there_is_nothing_to_save_before_finish);
    tcase_add_test(tests, a_snapshot_has_facts_and_parameters_sorted_by_name);
    tcase_add_test(tests, a_seed_repeats_its_uuids);
    tcase_add_test(tests, a_fenced_server_still_takes_snapshots);
    tcase_add_loop_test(tests, a_snapshot_survives_any_refused_allocation, 0, 5);
    return run_tests("snapshot", tests);
}
