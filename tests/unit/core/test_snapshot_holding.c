/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/snapshot_holding.c: what is held while training goes on, and let go as it is
 * written. */
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

static const float ones[] = {1, 1, 1, 1};
static const float start[] = {1, 2, 3, 4};

START_TEST(p3_a_snapshot_keeps_its_bits_while_pushes_go_on)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    float kept[4];
    world_init_ready(&world);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_uint_eq(snapshot.facts.position, 0);
    ps_view_copy(snapshot.parameters[0].values, 0, kept, sizeof kept);
    ck_assert_mem_eq(kept, start, sizeof start);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(what_is_written_is_let_go)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_ready(&world);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    int64_t held = world.heap.live;
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_gt(world.heap.live, held); /* a copy: the old one is held */

    snapshot.watcher.written(snapshot.watcher.self, 0, 0, sizeof start);

    ck_assert_int_eq(world.heap.live, held);
    ck_assert(ps_bytes_equal(snapshot.parameters[0].name, text("w")));
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(world.heap.live, held);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(a_snapshot_outlives_reset)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_ready(&world);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);

    ps_service_reset(world.service);

    ck_assert(ps_bytes_equal(snapshot.parameters[0].name, text("w")));
    ck_assert_uint_eq(snapshot.parameters[0].values.size, 16);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

/* By name, whatever the order in which they came; the same as pulls would give. */
START_TEST(rows_are_sorted_and_have_what_is_held)
{
    static const char *const names[] = {"m", "z", "a"};
    struct core_world world;
    struct ps_snapshot snapshot;
    float kept[4];
    world_init_empty(&world);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(world_init_param(&world, names[i], PS_F32, start, sizeof start,
                                          config_of("adagrad", 0.5)),
                         PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(world_push(&world, "m", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);

    for (size_t i = 0; i < 3; i++) {
        const struct ps_checkpoint_parameter *row = &snapshot.parameters[i];
        ck_assert(ps_bytes_equal(row->name, text(&"a\0m\0z"[2 * i])));
        ck_assert_uint_eq(row->version, i == 1);
        ck_assert_uint_eq(row->states[0].size, sizeof start);
        ck_assert_ptr_eq(ps_snapshot_version(&snapshot, i)->values->spec->name.data,
                         row->name.data);
        ps_view_copy(row->values, 0, kept, sizeof kept);
        ck_assert(i == 1 ? kept[0] < 1 : kept[0] == 1);
    }
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

/* Of two arrays the first is written: it goes, and the other is held on. */
START_TEST(an_array_that_is_not_written_is_held_on)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_empty(&world);
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, start, sizeof start, config_of("adagrad", 0.5)),
        PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    const struct ps_parameter_version *held = ps_snapshot_version(&snapshot, 0);

    snapshot.watcher.written(snapshot.watcher.self, 0, 0, sizeof start);

    ck_assert_ptr_null(held->values);
    ck_assert_ptr_nonnull(held->states[0]);
    snapshot.watcher.written(snapshot.watcher.self, 0, 1, sizeof start);
    ck_assert_ptr_null(held->states[0]);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("snapshot_holding");
    tcase_add_test(tests, p3_a_snapshot_keeps_its_bits_while_pushes_go_on);
    tcase_add_test(tests, what_is_written_is_let_go);
    tcase_add_test(tests, a_snapshot_outlives_reset);
    tcase_add_test(tests, rows_are_sorted_and_have_what_is_held);
    tcase_add_test(tests, an_array_that_is_not_written_is_held_on);
    return run_tests("snapshot_holding", tests);
}
