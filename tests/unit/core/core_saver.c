/* SPDX-License-Identifier: Apache-2.0 */
/* The rig of the tests of saving. */
#include "tests/unit/core/core_saver.h"

#include "checkpoint/catalog.h"

const float saver_ones[4] = {1, 1, 1, 1};

struct core_world world;
struct memory_files *disk;
struct disk_store store;
struct ps_saver saver;
struct ps_checkpoint_place place;

void saver_rig_setup(void)
{
    disk = memory_files_create(1);
    world_init(&world, true, 0);
    disk_store_init(&store, &world);
    world_own(&world, store.claim.epoch);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, saver_ones, sizeof saver_ones,
                                      (struct ps_bytes){NULL, 0}),
                     PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    saver = disk_saver(&world, disk);
    saver.registry = &store.registry;
    saver.claim = &store.claim;
}

void saver_rig_teardown(void)
{
    world_fini(&world);
    disk_store_fini(&store);
    memory_files_destroy(disk);
}

void push(void)
{
    ck_assert_int_eq(world_push(&world, "w", PS_F32, saver_ones, sizeof saver_ones, NULL), PS_OK);
}

enum ps_status save(void)
{
    return ps_saver_save(&saver, PS_DEADLINE_NEVER, &place, &world.error);
}

void read_pointer(struct ps_checkpoint_place *pointer)
{
    struct ps_kv_entries entries = {0};
    ck_assert_int_eq(
        ps_registry_read_checkpoint(&store.registry, 0, PS_DEADLINE_NEVER, &entries, NULL), PS_OK);
    ck_assert_int_eq(ps_catalog_pointer_read(
                         (struct ps_bytes){entries.entries[0].value, entries.entries[0].value_size},
                         ps_allocator_heap(), pointer, NULL),
                     PS_OK);
    ps_kv_entries_release(&entries);
}
