/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/saver.c: what a save does when there is nothing new. */
#include "checkpoint/catalog.h"
#include "tests/unit/core/core_saver.h"

#include <string.h>

START_TEST(b5_a_save_without_a_change_writes_nothing_and_satisfies_who_waits)
{
    struct ps_checkpoint_place again;
    struct ps_ticket ticket;
    push();
    ck_assert_int_eq(save(), PS_OK);
    again = place;
    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_OK);
    memory_files_knobs(disk)->count[MEMORY_WRITE] = 0;

    ck_assert_int_eq(save(), PS_OK);

    ck_assert(ps_service_satisfied(world.service, ticket));
    ck_assert_str_eq(place.uuid, again.uuid);
    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_WRITE], 0);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 1);
}
END_TEST

START_TEST(b5_a_checkpoint_that_was_damaged_since_is_written_again)
{
    struct ps_checkpoint_place damaged;
    push();
    ck_assert_int_eq(save(), PS_OK);
    push();
    ck_assert_int_eq(save(), PS_OK);
    damaged = place;
    disk_damage(disk, place.path);
    world.fake.now_ms++;

    ck_assert_int_eq(save(), PS_OK);

    ck_assert_str_ne(place.uuid, damaged.uuid);
    ck_assert_int_gt(strcmp(place.path, damaged.path), 0);
    ck_assert_int_eq(
        ps_checkpoint_verify(memory_files_files(disk), place.path, ps_allocator_heap(), NULL),
        PS_OK);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2); /* and the one before */
}
END_TEST

START_TEST(b5_a_pointer_that_was_removed_is_put_back)
{
    struct ps_checkpoint_place pointer;
    const struct ps_kv_change removal = {.kind = PS_KV_DELETE, .key = "/checkpoints/0"};
    const struct ps_kv_transaction transaction = {NULL, 0, &removal, 1};
    int64_t revision = 0;
    bool done = false;
    push();
    ck_assert_int_eq(save(), PS_OK);
    ck_assert_int_eq(
        ps_kv_commit(store.kv, &transaction, PS_DEADLINE_NEVER, &done, &revision, NULL), PS_OK);
    ck_assert(done);

    ck_assert_int_eq(save(), PS_OK);

    read_pointer(&pointer);
    ck_assert_str_eq(pointer.uuid, place.uuid);
}
END_TEST

START_TEST(b5_who_lost_the_shard_satisfies_nobody_with_an_old_checkpoint)
{
    struct ps_ticket ticket;
    push();
    ck_assert_int_eq(save(), PS_OK);
    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_OK);
    disk_store_lose(&store);

    ck_assert_int_eq(save(), PS_ERR_STALE_EPOCH);

    ck_assert(!ps_service_satisfied(world.service, ticket));
}
END_TEST

START_TEST(b5_a_checkpoint_of_a_former_epoch_is_not_the_state_of_this_one)
{
    struct core_world recovered;
    struct ps_recovered loaded;
    push();
    ck_assert_int_eq(save(), PS_OK);
    disk_world_init(&recovered, store.claim.epoch + 1);
    ck_assert_int_eq(disk_load(&recovered, disk, NULL, &loaded), PS_OK);

    ck_assert(!ps_service_has_nothing_new(recovered.service, NULL, NULL));
    disk_save(&recovered, disk, &place);

    ck_assert_uint_eq(place.epoch, store.claim.epoch + 1);
    ck_assert(ps_service_has_nothing_new(recovered.service, NULL, NULL));
    world_fini(&recovered);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("saver_idle");
    tcase_add_checked_fixture(tests, saver_rig_setup, saver_rig_teardown);
    tcase_add_test(tests, b5_a_save_without_a_change_writes_nothing_and_satisfies_who_waits);
    tcase_add_test(tests, b5_a_checkpoint_that_was_damaged_since_is_written_again);
    tcase_add_test(tests, b5_a_pointer_that_was_removed_is_put_back);
    tcase_add_test(tests, b5_who_lost_the_shard_satisfies_nobody_with_an_old_checkpoint);
    tcase_add_test(tests, b5_a_checkpoint_of_a_former_epoch_is_not_the_state_of_this_one);
    return run_tests("saver_idle", tests);
}
